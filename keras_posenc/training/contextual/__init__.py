"""Contextual training: passages learn, without labels, what their document states far away."""
