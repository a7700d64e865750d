"""Fine-tuning: a file per task, with its documents, head, loss, metrics and settings."""
