"""Where a run starts: the weights, the config and the tokenizer of a pretrained encoder."""

import dataclasses

from keras_posenc.checkpoints import open_checkpoint
from keras_posenc.checkpoints.reader import folder_of
from keras_posenc.models.config_file import read_config
from keras_posenc.text import Tokenizer
from keras_posenc.training.vocabulary_check import check_table


@dataclasses.dataclass(frozen=True)
class Source:
    """A checkpoint with its config, tokenizer and family.

    Attributes:
        checkpoint: str. Path of the weights, or of a directory.
        config, tokenizer: str or None. Paths; None for the directory of the checkpoint.
        model: str or None. Name of the family; None for the one that the config names.
        ignore: list of str or None. Patterns of tensors to leave out.
    """

    checkpoint: object
    config: object = None
    tokenizer: object = None
    model: str | None = None
    ignore: object = None

    @property
    def config_path(self):
        """Where the config is."""
        return self.config or folder_of(self.checkpoint)

    def read_config(self):
        """Returns the `Config`."""
        return read_config(self.config_path, self.model)

    def open_weights(self):
        """Returns the weights, as `open_checkpoint` does."""
        return open_checkpoint(self.checkpoint)

    def read_tokenizer(self, config):
        """Returns the `Tokenizer`, whose tokens must all have a row in the table of `config`."""
        tokenizer = Tokenizer(self.tokenizer or folder_of(self.checkpoint))
        check_table(tokenizer, config.vocab_size)
        return tokenizer
