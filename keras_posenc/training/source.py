"""Where a run starts: the weights, the config and the tokenizer of a pretrained encoder."""

import dataclasses
import functools
import os

from keras_posenc.checkpoints import open_checkpoint
from keras_posenc.folders.folder import Folder
from keras_posenc.folders.sentence_transformers import is_contextual
from keras_posenc.models.config_file import read_config
from keras_posenc.models.inputs import id_inputs
from keras_posenc.text import Tokenizer
from keras_posenc.text.shapes import max_position_of
from keras_posenc.training.settings import Former, Settings


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


def check_table(tokenizer, table):
    """Refuses a tokenizer with tokens that a model's table, or so many rows, have no row for."""
    if not isinstance(table, int):
        bounds = {ids.name: ids.bound for ids in id_inputs(table)}
        table = next((bounds[name] for name in bounds if name.endswith("token_ids")), None)
    most = max(tokenizer.vocab_size, tokenizer.pad_id + 1)
    if table is not None and most > table:
        raise ValueError(
            f"The tokenizer has {most} tokens, and the model's table {table} rows: the ids from "
            f"{table} on have none. Give the tokenizer of this model; if tokens were added to it, "
            "resize the table by as many rows (`resize_token_embeddings` in transformers)."
        )


def check_max_length(model, name, length):
    """Refuses a length for which a model has no positions, before a text is read."""
    served = max_position_of(model)
    if served is not None and isinstance(length, int) and length > served:
        raise ValueError(
            f"{name}={length}: the model has {served} positions. Give at most that many: chunks= "
            "reads texts of any length, and `stretch` or a training with a longer stage makes more "
            "positions."
        )


def separator_id(tokenizer, config):
    """The token between the passages of a document, of a model that reads them so; else None."""
    if not is_contextual(config.source or {}):
        return None
    if tokenizer.sep_id is None:
        raise ValueError(
            "The model reads passages joined by its tokenizer's separator, which no file names: "
            'give `sep_token` in tokenizer_config.json, "<|endoftext|>" for pplx-embed-context.'
        )
    return tokenizer.sep_id


def padding_id(tokenizer, config):
    """The id to pad with, which no text has: models mask it in every place.

    That of the model's config, unless the tokenizer adds it to every text, as those of Qwen3's
    embedders do, or to passages; then that of another special token, or of no token.
    """
    added = {*tokenizer.assemble([])[0], separator_id(tokenizer, config)}
    candidates = [config.pad_token_id, tokenizer.pad_id, *tokenizer.reserved_ids]
    candidates += range(tokenizer.vocab_size, config.vocab_size)[:1]
    unused = (token for token in candidates if token is not None and token not in added)
    return next(unused, tokenizer.pad_id)
