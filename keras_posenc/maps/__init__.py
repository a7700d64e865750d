"""The attention map as a grid of query rows and key columns, and operations on it."""
