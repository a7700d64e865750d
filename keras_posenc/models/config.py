"""The sizes of a model, checked, and as Hugging Face writes them."""

import dataclasses

import numpy as np

from keras_posenc.arguments import checks
from keras_posenc.checkpoints.quantized import KEYS as QUANTIZED
from keras_posenc.files.untrusted import quote
from keras_posenc.layers.block import NORM_PLACES
from keras_posenc.layers.norm import NORMS
from keras_posenc.maps.attention_dropout import ATTENTION_DROPOUT
from keras_posenc.models.families import FAMILIES
from keras_posenc.models.families.family import ALIASES, write_direction
from keras_posenc.models.families.keys import SPECIAL_TOKENS
from keras_posenc.models.families.task_heads import saved_head
from keras_posenc.models.label_names import read_label_names

# Size -> the largest plausible value. A config from an unknown source cannot ask for more. If
# there is a checkpoint, its size is a further bound.
MOST = {
    "vocab_size": 2**24,
    "hidden_size": 2**17,
    "embedding_size": 2**17,
    "intermediate_size": 2**20,
    "num_hidden_layers": 512,
    "num_hidden_groups": 512,
    "num_attention_heads": 2**12,
    "num_key_value_heads": 2**12,
    "attention_head_size": 2**16,
    "attention_key_size": 2**16,
    "max_position": 2**30,
    "segment_vocab_size": 2**16,
}
MAY_BE_0 = ("num_hidden_layers", "segment_vocab_size")
MOST_TABLE = 2**24  # rows of a table of positions
# Before the model_type of a file whose model has encodings, which other libraries would leave out.
WITH_ENCODINGS = "keras_posenc-"

RATES = ("dropout_rate", "attention_dropout_rate")
FLAGS = (
    "padded_positions", "embedding_norm", "embedding_mapping", "head_norm", "causal",
    "position_table", "table_norm", "mlm_bias", "tie_word_embeddings",
)  # fmt: skip

# Field -> the values it may have.
CHOICES = {
    "norm": NORM_PLACES,
    "norm_type": tuple(NORMS),
    "block": ("transformer", "gau"),
    "attention_bias": (True, False, "input"),
    "feed_forward_bias": (True, False, "output"),
    "mlm_dense": (True, False, "without_bias"),
}


def plain(value):
    """A value as JSON can hold it, which has no NumPy numbers."""
    return value.item() if isinstance(value, np.generic) else value


@dataclasses.dataclass(frozen=True)
class Config:
    """The sizes of a model; its fields are keywords of `build_transformer_model`.

    Attributes:
        vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size: int.
        hidden_act: str or list. Name of an activation ("gelu" is the exact one), or a list of them
            for a gated unit.
        max_position: int. Rows of the position table.
        segment_vocab_size: int. Rows of the segment table; 0 for none.
        dropout_rate, attention_dropout_rate: float. Of features and of attention weights.
        embedding_size: int or None. Size of the embeddings, if not `hidden_size`.
        embedding_mapping: bool. Whether they are mapped to the features if the sizes are equal.
        attention_head_size: int or None. Size of a value head; default `hidden_size /
            num_attention_heads`.
        attention_key_size: int or None. Size of a query and key head; default
            `attention_head_size`.
        layer_norm_eps: float.
        initializer_range: float. Standard deviation of new weights.
        pad_token_id: int, or None if there is no padding token.
        position_offset: int. Rows of the checkpoint's position table before position 0.
        padded_positions: bool. Whether positions do not count padding.
        model_type: str or None. The family, as Hugging Face names it.
        norm: str. Position of the norms in a block: "post", "pre" (with a final norm after all
            blocks) or "both". With "pre" and a norm of the embeddings, the first attention has
            none.
        norm_type: str. A name of `keras_posenc.layers.norm.NORMS`.
        embedding_norm: bool. Whether the embeddings are normalised.
        embedding_scale: float or None. Factor of the token embeddings.
        attention_bias: bool, or "input" for biases of queries, keys and values alone.
        feed_forward_bias: bool, or "output" for W_o alone.
        num_key_value_heads: int or None. Heads of keys and values; default `num_attention_heads`.
        head_norm: bool. Whether each head of queries and keys is normalised.
        causal: bool. Whether no token sees a later one, with every application.
        position_table: bool. Whether positions are looked up in a table of `max_position` rows.
        block: str. "transformer", or "gau" for gated attention units.
        experts: dict or None. Arguments of `MixtureOfExperts`, in place of feed-forward layers.
        convolutions: tuple. Per block, the `kernel_size` of a `ShortConvolution` in place of
            attention, or 0; empty: attention in all blocks.
        gau_normalization: str. The `normalization` of `GatedAttentionUnit`.
        table_norm: bool. Whether a table of positions that layers share is normalised.
        num_hidden_groups: int or None. Number of blocks with separate weights, each shared by
            `num_hidden_layers / num_hidden_groups` layers. Default: one per layer.
        mlm_dense: bool, or "without_bias". Whether the MLM head has a dense layer and a norm.
        mlm_act: str. The activation of that dense layer; default `hidden_act`.
        mlm_bias: bool. Whether the tokens' logits have a bias.
        tie_word_embeddings: bool. Whether the MLM head shares the token table.
        zeroed_token_id: int or None. Id of a mask token whose embedding is zero, while those of the
            other tokens grow with the fraction of masked ones, as in `MaskTokenDropout`.
        encodings: list. The position encodings that the family has in every layer, or a list of
            such lists, one per layer.
        family: str. Name of the family in `FAMILIES`.
        source: dict. The keys that the config was read from.

    Example:

    >>> config = read_config("bert")
    >>> config.key_size == config.hidden_size // config.num_attention_heads
    True
    """

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    hidden_act: str | list
    max_position: int = 512
    segment_vocab_size: int = 2
    dropout_rate: float = 0.0
    attention_dropout_rate: float = ATTENTION_DROPOUT
    embedding_size: int | None = None
    attention_head_size: int | None = None
    attention_key_size: int | None = None
    layer_norm_eps: float = 1e-12
    initializer_range: float = 0.02
    pad_token_id: int | None = 0
    position_offset: int = 0
    padded_positions: bool = False
    model_type: str | None = None
    norm: str = "post"
    norm_type: str = "layer_norm"
    embedding_norm: bool = True
    embedding_scale: float | None = None
    embedding_mapping: bool = False
    attention_bias: bool | str = True
    feed_forward_bias: bool | str = True
    num_key_value_heads: int | None = None
    head_norm: bool = False
    causal: bool = False
    position_table: bool = True
    block: str = "transformer"
    gau_normalization: str = "softmax_plus"
    table_norm: bool = False
    num_hidden_groups: int | None = None
    mlm_dense: bool | str = True
    mlm_act: str | None = None
    mlm_bias: bool = True
    tie_word_embeddings: bool = True
    zeroed_token_id: int | None = None
    encodings: tuple = ()
    experts: dict | None = None
    convolutions: tuple = ()
    family: str = "bert"
    source: dict | None = dataclasses.field(default=None, compare=False, repr=False)

    def __post_init__(self):
        for name, value in vars(self).items():
            object.__setattr__(self, name, plain(value))
        for name in MOST:
            value = getattr(self, name)
            if value is not None or DEFAULTS[name] is not None:
                checks.whole(name, value, least=0 if name in MAY_BE_0 else 1)
        checks.number("initializer_range", self.initializer_range, least=0)
        for name in ("pad_token_id", "zeroed_token_id"):
            token = getattr(self, name)
            if token is not None:
                why = "it is a token id"
                checks.whole(name, token, least=0, most=self.vocab_size - 1, why=why)
        names = self.hidden_act if isinstance(self.hidden_act, (list, tuple)) else [self.hidden_act]
        # Keras would take a dict for an object of any class to make.
        if not all(isinstance(name, str) for name in names):
            raise ValueError(
                f"`hidden_act` must be a name or a list of names. Received: "
                f"{quote(self.hidden_act)}"
            )
        for name, most in MOST.items():
            if (getattr(self, name) or 0) > most:
                raise ValueError(
                    f"`{name}` must be at most {most}. Received: {quote(getattr(self, name))}"
                )
        if self.position_table and self.max_position > MOST_TABLE:
            raise ValueError(
                f"`max_position` must be at most {MOST_TABLE}, the rows of a table. "
                f"Received: {self.max_position}"
            )
        for name in FLAGS:
            if not isinstance(getattr(self, name), bool):
                value = quote(getattr(self, name))
                raise ValueError(f"`{name}` must be true or false. Received: {value}")
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                value = quote(getattr(self, name))
                raise ValueError(f"`{name}` must be one of {choices}. Received: {value}")
        checks.number("layer_norm_eps", self.layer_norm_eps, above=0)
        for name in RATES:
            if getattr(self, name) is None:
                object.__setattr__(self, name, DEFAULTS[name])
            checks.number(name, getattr(self, name), least=0, below=1)
        if self.attention_head_size is None and self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size={self.hidden_size} does not divide into "
                f"num_attention_heads={self.num_attention_heads} heads; give `attention_head_size`."
            )

    @property
    def saved_encodings(self):
        """What `build_transformer_model` was given for `encodings` before the model was saved."""
        return (self.source or {}).get("encodings")

    @property
    def label_names(self):
        """The names of the logits of a task's head, from `id2label`."""
        return read_label_names(self.source or {})

    def with_label_names(self, label_names):
        """The config with other label names, as Hugging Face writes them."""
        names = label_names if isinstance(label_names, (list, tuple)) else []
        if not names or not all(isinstance(x, str) for x in names) or len(set(names)) < len(names):
            raise ValueError(
                f"`label_names` must list names, each once. Received: {quote(label_names)}"
            )
        source = self.source
        if source is None:
            source = {name: getattr(self, name) for name in FIRST_FIELDS}
        left_out = ("architectures", "num_labels")
        source = {key: value for key, value in source.items() if key not in left_out}
        source["id2label"] = {str(i): label for i, label in enumerate(label_names)}
        source["label2id"] = {label: i for i, label in enumerate(label_names)}
        return dataclasses.replace(self, source=source)

    @property
    def heads(self):
        """The `TaskHead` of each task, the family's or that of this config's checkpoint."""
        other = (self.source or {}).get("task_head")
        known = FAMILIES[self.family].heads_of(self)
        return known if other is None else {**known, **saved_head(other)}

    def beyond_table(self, length):
        """Returns a length if it needs more positions than the table has.

        Args:
            length: int or None.

        Returns:
            The length; None if the table has as many rows, or there is no table.
        """
        longer = self.position_table and (length or 0) > self.max_position
        return length if longer else None

    @property
    def value_size(self):
        """The size of a value head."""
        return self.attention_head_size or self.hidden_size // self.num_attention_heads

    @property
    def key_size(self):
        """The size of a query and key head."""
        return self.attention_key_size or self.value_size

    def value_of(self, key):
        """The value of a key of the family's config files, or None.

        Args:
            key: str, such as "max_position_embeddings", which here does not count the rows of the
                padding id and below.
        """
        field = FAMILIES[self.family].ours(key)
        return getattr(self, field) if field in FIELDS else (self.source or {}).get(key)

    @property
    def has_other_direction(self):
        """Whether it is causal where its family is not, or not causal where that is."""
        return bool(write_direction(self.causal, self.source or {}, FAMILIES[self.family]))

    def to_huggingface(self, encodings=None):
        """Returns the dict to write as config.json, in the keys that the family's files have.

        Args:
            encodings: list of lists of specs, one a layer, if they are not the family's. Then the
                model_type is one that only this library knows, for others would compute something
                else without a word.
        """
        family = FAMILIES[self.family]
        names = {field: key for key, field in {**ALIASES, **family.aliases}.items()}
        if self.source is None:
            values = {name: getattr(self, name) for name in FIRST_FIELDS}
        else:
            values = dict(self.source)
        sizes = {name: getattr(self, name) for name in ("vocab_size", "pad_token_id", *RATES)}
        sizes["max_position"] = self.max_position + self.position_offset
        for name, size in sizes.items():
            written = [key for key in values if family.ours(key) == name]
            values |= dict.fromkeys(written or [name], size)
        # Another library would take a default of its own for what is not there.
        for key, name in family.rates.items():
            if values.get(key) is None:
                values[key] = getattr(self, name)
        names = {field: key for field, key in names.items() if field not in family.required}
        # "No window" and "no such token" are written, for what is not there has a default.
        explicit = {*family.keys, *SPECIAL_TOKENS}
        if family.defaults.get("pad_token_id", DEFAULTS["pad_token_id"]) is not None:
            explicit.add("pad_token_id")
        explicit |= {k for k in values if family.defaults.get(family.ours(k)) is not None}
        kept = {k: v for k, v in values.items() if v is not None or k in explicit}
        values = {names.get(k, k): v for k, v in kept.items()}
        values |= write_direction(self.causal, values, family)
        values["model_type"] = self.model_type or family.model_types[0]
        if family.name == "roberta" and not self.padded_positions:  # Google's layout is BERT's
            values["model_type"] = "bert"
        for key in ("encodings", *QUANTIZED):
            values.pop(key, None)
        if encodings:
            values["encodings"] = encodings
            values["model_type"] = WITH_ENCODINGS + values["model_type"]
        return values


DEFAULTS = {field.name: field.default for field in dataclasses.fields(Config)}
FIELDS = tuple(
    field.name
    for field in dataclasses.fields(Config)
    if field.name not in ("encodings", "experts", "convolutions", "family", "source")
)
# The fields that a config of BERT has.
FIRST_FIELDS = FIELDS[: FIELDS.index("position_offset")]
