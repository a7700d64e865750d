"""One attention layer that composes position encodings, and how it says what they ask."""
