"""Late interaction (ColBERT): a vector per token of a text."""
