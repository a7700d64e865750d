"""Structured outputs: chains of tags, and spans scored as a whole."""
