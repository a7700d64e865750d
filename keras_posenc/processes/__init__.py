"""Work that several devices or processes share: batches, lists of texts, one run."""
