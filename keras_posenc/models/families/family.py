"""What a model family is: data."""

import dataclasses
import difflib
from collections.abc import Callable

# Names of Google and Hugging Face -> ours, which are bert4keras's.
ALIASES = {
    "max_position_embeddings": "max_position",
    "hidden_dropout_prob": "dropout_rate",
    "attention_probs_dropout_prob": "attention_dropout_rate",
    "type_vocab_size": "segment_vocab_size",
    "is_causal": "causal",
}


def unchanged(config):
    """The config of a family that differs from BERT in nothing but its defaults."""
    return config


@dataclasses.dataclass(frozen=True)
class Family:
    """A model family: how its config files are read, and what its weights are called.

    Attributes:
        name: str, the `model` of `build_transformer_model`.
        title: str, as people write it.
        model_types: tuple of the values of `model_type` in its config files.
        weights: `Table` of the names of its weights, or a function Config -> `Table`.
        configure: function Config -> Config, called once, when the config has been read. The keys
            of the file are in `config.source`.
        aliases: dict, a key of the file -> field of `Config`, beside the usual ones (`ALIASES`).
        older: dict, the same for the keys of another dialect, which is read and not written.
        defaults: dict, field of `Config` -> its value where the file is silent.
        keys: tuple of the other keys that `configure` reads.
        rates: dict, a further dropout key of the file -> field of `Config`. They are not read, but
            written where the file was silent, because other libraries have defaults of their own.
        required: dict, key -> the values that are supported, or None for all.
        recognises: function dict -> bool, if more than `model_type` tells the family.
        without_type: bool. Whether `model=` may name it for a config without `model_type`, or with
            BERT's.
        transformer: subclass of `Transformer` to build, or None for `Transformer`.
        heads: dict, task -> `TaskHead`, or a function Config -> that dict.
        positions: str, for the table of families: how it knows where a token stands.
        compared: str: what its numbers are compared to in the tests.
        paper: str, URL.

    Example:

    >>> from keras_posenc.models.families import FAMILIES
    >>> FAMILIES["modernbert"].title, FAMILIES["modernbert"].ours("norm_eps")
    ('ModernBERT', 'layer_norm_eps')
    """

    name: str
    title: str
    model_types: tuple
    weights: object
    configure: Callable = unchanged
    aliases: dict = dataclasses.field(default_factory=dict)
    older: dict = dataclasses.field(default_factory=dict)
    defaults: dict = dataclasses.field(default_factory=dict)
    keys: tuple = ()
    rates: dict = dataclasses.field(default_factory=dict)
    required: dict = dataclasses.field(default_factory=dict)
    recognises: Callable | None = None
    without_type: bool = False
    transformer: type | None = None
    heads: object = dataclasses.field(default_factory=dict)
    positions: str = "table"
    compared: str = "transformers"
    paper: str | None = None

    def ours(self, key):
        """The field of `Config` that a key of the file stands for; other keys stay as they are."""
        return {**ALIASES, **self.aliases, **self.older}.get(key, key)

    @property
    def keys_read(self):
        """The keys that this family reads beside those of every family."""
        return {*self.aliases, *self.older, *self.keys, *self.required}

    @property
    def causal(self):
        """Whether its models are causal unless their config says otherwise."""
        return self.defaults.get("causal", False)

    def is_family_of(self, values):
        """Whether the keys of a config file say that it belongs to this family."""
        if self.recognises is not None:
            return self.recognises(values)
        return values.get("model_type") in self.model_types

    def heads_of(self, config):
        """The `TaskHead` of each task that this family's checkpoints may come with."""
        return self.heads(config) if callable(self.heads) else self.heads

    def table(self, config=None):
        """The names of the weights of a model of this config, or of most models."""
        return self.weights(config) if callable(self.weights) else self.weights


def nearest(name, known, cutoff=0.6):
    """Returns a list of the known name that resembles `name` most; empty if none does."""
    return difflib.get_close_matches(name, sorted(known), n=1, cutoff=cutoff)
