"""What several subpackages use: pretrained models and texts, rows of results, intervals."""
