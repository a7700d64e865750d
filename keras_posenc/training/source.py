"""Where a run starts: the weights, the config and the tokenizer of a pretrained encoder."""

import dataclasses
import functools
import os

from keras_posenc.checkpoints import open_checkpoint
from keras_posenc.folders.folder import Folder
from keras_posenc.models.config_file import read_config
from keras_posenc.text import Tokenizer
from keras_posenc.training.settings import Former, Settings
from keras_posenc.training.vocabulary_check import check_table


@dataclasses.dataclass(frozen=True, repr=False)
class Source(Settings):
    """A checkpoint whose config, tokenizer or family is not in its directory.

    Functions take the path of a directory in its place, if that has all of them.

    Args:
        checkpoint: str or `Folder`. Path of the weights, or of a directory. For `stretch`, a model
            of `build_transformer_model`, too, with `tokenizer`.
        config: str. Path of the config; by default in the directory of `checkpoint`.
        tokenizer: str. Path of the tokenizer; by default in the directory of `checkpoint`.
        model: str. Family of the checkpoint; by default the one its config names.
        ignore: list of str. Patterns of tensors to leave out, such as cls.chain.*

    Example:

    >>> source = Source("bert", ignore=["cls.chain.*"])
    >>> source.read_config().hidden_size > 0
    True
    """

    checkpoint: object
    config: object = None
    tokenizer: object = None
    model: str | None = None
    ignore: object = None

    def __post_init__(self):
        for name in ("config", "tokenizer"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, str(getattr(self, name)))
        if isinstance(self.checkpoint, Folder):
            vars(self)["folder"] = self.checkpoint
        if isinstance(self.checkpoint, os.PathLike):
            object.__setattr__(self, "checkpoint", str(self.checkpoint))

    @classmethod
    def of(cls, given):
        """Returns the source that a value describes: a `Source`, or what has everything in it."""
        return given if isinstance(given, cls) else cls(given)

    def record(self):
        """Returns the fields, as the record of a run has them."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def fingerprint(self):
        """Returns a hash of the weights; None of a model in memory."""
        return self.folder.fingerprint if isinstance(self.checkpoint, str) else None

    @functools.cached_property
    def folder(self):
        """The `Folder` of the checkpoint."""
        return Folder.of(self.checkpoint)

    def read_config(self):
        """Returns the `Config`."""
        return read_config(self.config or self.folder, self.model)

    def open_weights(self):
        """Returns the weights, as `open_checkpoint` does."""
        return open_checkpoint(self.folder)

    def read_tokenizer(self, config):
        """Returns the `Tokenizer`, whose tokens must all have a row in the table of `config`."""
        tokenizer = Tokenizer(self.tokenizer or self.folder)
        check_table(tokenizer, config.vocab_size)
        return tokenizer


def _former(current, given):
    """The source of the arguments that functions had until version 0.4."""
    return dataclasses.replace(Source.of(current), **given)


# What `Source` replaced in version 0.5.
FORMER_SOURCE = Former(("config", "tokenizer", "model", "ignore"), _former)
