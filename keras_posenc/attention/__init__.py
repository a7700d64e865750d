"""One attention layer that composes position encodings, and the paths that compute it."""
