"""What checkpoints hold, and pages with pictures about fine-tuned models."""

from keras_posenc.analysis.checkpoint import heads_in, inspect_checkpoint, open_model
from keras_posenc.analysis.plot import require_matplotlib
from keras_posenc.analysis.report import write_report

__all__ = ["heads_in", "inspect_checkpoint", "open_model", "require_matplotlib", "write_report"]
