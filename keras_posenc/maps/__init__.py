"""The attention map seen as a grid, and what is laid on it."""
