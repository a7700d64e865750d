"""Pretrained weights: reading of all common formats, loading with an account, export."""

from typing import TYPE_CHECKING

from keras_posenc.keras_support.lazy import names_on_request

if TYPE_CHECKING:
    from keras_posenc.checkpoints.account import Account
    from keras_posenc.checkpoints.checkpoint import Checkpoint
    from keras_posenc.checkpoints.export import save_checkpoint
    from keras_posenc.checkpoints.load import compare_checkpoint, load_checkpoint, variables_of
    from keras_posenc.checkpoints.names import BERT, ROBERTA, TABLES, Table
    from keras_posenc.checkpoints.reader import open_checkpoint

__all__ = [
    "BERT", "ROBERTA", "TABLES", "Account", "Checkpoint", "Table", "compare_checkpoint",
    "load_checkpoint", "open_checkpoint", "save_checkpoint", "variables_of",
]  # fmt: skip

names_on_request(__name__)
