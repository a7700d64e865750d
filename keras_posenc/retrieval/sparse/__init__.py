"""SPLADE: a weight per token of the vocabulary."""
