"""What a model family is: data. Whether tokens see later ones is read here too."""

import dataclasses
import difflib
from collections.abc import Callable

from keras_posenc.files.untrusted import quote

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
        name: str. The `model` of `build_transformer_model`.
        title: str. The usual spelling of the name.
        model_types: tuple of str. The values of `model_type` in its config files.
        weights: `Table` or function. The names of its weights, or a function Config -> `Table`.
        configure: function Config -> Config. Called once, when the config has been read. The keys
            of the file are in `config.source`.
        aliases: dict. Maps a key of the file to a field of `Config`, in addition to `ALIASES`.
        older: dict. The same for the keys of another dialect, which is read and not written.
        defaults: dict. Maps a field of `Config` to its value if the file lacks it.
        keys: tuple of str. The other keys that `configure` reads.
        rates: dict. Maps a further dropout key of the file to a field of `Config`. These keys are
            not read. They are written if the file lacked them, because other libraries have
            different defaults.
        required: dict. Maps a key to the values that are supported, or None for all.
        recognises: function dict -> bool. Needed if `model_type` alone does not identify the
            family.
        bidirectional: tuple of str. Those of `model_types` whose models are not causal, in a family
            of causal ones.
        without_type: bool. Whether `model=` may name it for a config without `model_type`, or with
            BERT's.
        transformer: class or None. Subclass of `Transformer` to build; None for `Transformer`.
        heads: dict or function. Maps a task to its `TaskHead`, or a function Config -> that dict.
        rescales: bool. Whether other libraries read a scaling of rotary positions in its files.
        positions: str. How it encodes positions, as shown in the table of families.
        compared: str. The reference of its numbers in the tests.
        paper: str. URL of the paper, or of the model where there is none.

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
    bidirectional: tuple = ()
    without_type: bool = False
    transformer: type | None = None
    heads: object = dataclasses.field(default_factory=dict)
    rescales: bool = True
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
        """Whether its models are causal by default."""
        return self.defaults.get("causal", False)

    def is_family_of(self, values):
        """Whether a config file belongs to this family, by its keys."""
        if self.recognises is not None:
            return self.recognises(values)
        return values.get("model_type") in self.model_types

    def heads_of(self, config):
        """The `TaskHead` of each task that this family's checkpoints may come with."""
        return self.heads(config) if callable(self.heads) else self.heads

    def table(self, config=None):
        """The names of the weights of a model of this config, or of most models."""
        found = self.weights(config) if callable(self.weights) else self.weights
        tied = config is None or config.tie_word_embeddings
        return dataclasses.replace(found, family=self.name, tied=tied)


def nearest(name, known, cutoff=0.6):
    """Returns a list of the known name that resembles `name` most; empty if none does."""
    return difflib.get_close_matches(name, sorted(known), n=1, cutoff=cutoff)


# Of Gemma 3 and of embedding models made of decoders; `is_causal` of any decoder, from transformers
# 5.2 on, is an alias of the field `causal`.
BIDIRECTIONAL = "use_bidirectional_attention"


def read_direction(values, family):
    """Whether a model is causal. `values`: dict, the keys of the config file."""
    keys = {key: value for key, value in values.items() if family.ours(key) == "causal"}
    both_ways = values.get(BIDIRECTIONAL)
    for key, value in (*keys.items(), (BIDIRECTIONAL, both_ways or False)):
        if not isinstance(value, bool) and key not in family.required:
            raise ValueError(f"`{key}` must be true or false. Received: {quote(value)}")
    by_type = not family.causal or values.get("model_type") in family.bidirectional
    causal = next(map(bool, keys.values()), not (by_type or both_ways))
    if causal and both_ways:
        raise ValueError(f"`{next(iter(keys))}` and `{BIDIRECTIONAL}` are true: drop one of them.")
    if causal and not family.causal:
        raise ValueError(
            f'{family.title} is no causal model; application="lm" makes one of it. Received: '
            f"`{next(iter(keys))}` true"
        )
    return causal


def write_direction(causal, values, family):
    """The keys to write so that a reader computes the same, as a dict.

    `values`: dict, the keys that are written.
    """
    known = BIDIRECTIONAL in family.keys and values.get(BIDIRECTIONAL)
    return {} if causal == family.causal or known else {"is_causal": causal}
