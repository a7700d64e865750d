"""Model configurations, and how they are read from a checkpoint's JSON."""

import dataclasses
import difflib
import os

from keras_posenc.untrusted import parse_json, quote, read_bytes, shorten

CONFIG_NAMES = ("config.json", "bert_config.json")
MOST_KEYS = 1000

# Names of Google and Hugging Face -> ours, which are bert4keras's.
ALIASES = {
    "max_position_embeddings": "max_position",
    "hidden_dropout_prob": "dropout_rate",
    "attention_probs_dropout_prob": "attention_dropout_rate",
    "type_vocab_size": "segment_vocab_size",
}

# Keys that change the model -> the values that are supported.
REQUIRED_VALUES = {
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False, None),
    "add_cross_attention": (False, None),
    "tie_word_embeddings": (True, None),
    "is_encoder_decoder": (False, None),
    "pruned_heads": ({}, None),
}


@dataclasses.dataclass(frozen=True)
class Config:
    """The sizes of a model; its fields are keywords of `build_transformer_model`.

    Attributes:
        vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size: int.
        hidden_act: name of an activation ("gelu" is the exact one), or a list of them for a gated
            unit.
        max_position: int. Rows of the position table.
        segment_vocab_size: int. Rows of the segment table; 0 for none.
        dropout_rate, attention_dropout_rate: float. Of features and of attention weights.
        embedding_size: int or None. Size of the embeddings, if not `hidden_size`.
        attention_head_size: int or None. Size of a value head; default `hidden_size /
            num_attention_heads`.
        attention_key_size: int or None. Size of a query and key head; default
            `attention_head_size`.
        layer_norm_eps: float.
        initializer_range: float. Standard deviation of new weights.
        pad_token_id: int, or None if there is no padding token.
        position_offset: int. Rows of the checkpoint's position table before position 0.
        padded_positions: bool. Whether positions count real tokens only.
        model_type: str or None. The family, as Hugging Face names it.

    Raises:
        ValueError: on a field that is out of range, or a `hidden_size` that does not divide into
            heads.

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
    attention_dropout_rate: float = 0.0
    embedding_size: int | None = None
    attention_head_size: int | None = None
    attention_key_size: int | None = None
    layer_norm_eps: float = 1e-12
    initializer_range: float = 0.02
    pad_token_id: int | None = 0
    position_offset: int = 0
    padded_positions: bool = False
    model_type: str | None = None

    def __post_init__(self):
        for name in ("vocab_size", "hidden_size", "num_attention_heads", "intermediate_size"):
            self._check(name, lambda x: x > 0, "a positive integer", int)
        self._check("max_position", lambda x: x > 0, "a positive integer", int)
        self._check("num_hidden_layers", lambda x: x >= 0, "an integer, at least 0", int)
        self._check("segment_vocab_size", lambda x: x >= 0, "an integer, at least 0", int)
        self._check("initializer_range", lambda x: x >= 0, "a number, at least 0", (int, float))
        for name in ("embedding_size", "attention_head_size", "attention_key_size"):
            if getattr(self, name) is not None:
                self._check(name, lambda x: x > 0, "a positive integer", int)
        if self.pad_token_id is not None:
            known = f"a token id, from 0 to {self.vocab_size - 1}"
            self._check("pad_token_id", lambda x: 0 <= x < self.vocab_size, known, int)
        names = self.hidden_act if isinstance(self.hidden_act, (list, tuple)) else [self.hidden_act]
        # Keras would take a dict for an object of any class to make.
        if not all(isinstance(name, str) for name in names):
            raise ValueError(
                f"`hidden_act` must be a name or a list of names. Received: "
                f"{quote(self.hidden_act)}"
            )
        self._check("layer_norm_eps", lambda x: x > 0, "a number above 0", (int, float))
        for name in ("dropout_rate", "attention_dropout_rate"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, 0.0)
            self._check(name, lambda x: 0 <= x < 1, "at least 0 and below 1", (int, float))
        if self.attention_head_size is None and self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size={self.hidden_size} does not divide into "
                f"num_attention_heads={self.num_attention_heads} heads; give `attention_head_size`."
            )

    def _check(self, name, holds, wanted, types):
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, types) or not holds(value):
            raise ValueError(f"`{name}` must be {wanted}. Received: {quote(value)}")

    @property
    def value_size(self):
        """The size of a value head."""
        return self.attention_head_size or self.hidden_size // self.num_attention_heads

    @property
    def key_size(self):
        """The size of a query and key head."""
        return self.attention_key_size or self.value_size

    def to_huggingface(self):
        """Returns the dict to write as config.json."""
        names = {ours: theirs for theirs, ours in ALIASES.items()}
        values = {names.get(k, k): v for k, v in dataclasses.asdict(self).items() if v is not None}
        values["max_position_embeddings"] += values.pop("position_offset")
        del values["padded_positions"]
        values["model_type"] = self.model_type or "bert"
        return values


FIELDS = tuple(field.name for field in dataclasses.fields(Config))


def read_config(source=None, **overrides):
    """Reads a `Config` from a JSON file, a directory that holds one, or a dict.

    Keys that do not affect the computation (labels, versions, ...) are ignored. A key that nearly
    equals a known one is an error, and so is a value that the model would not honour.

    Args:
        source: path of bert_config.json or config.json, a directory with one of them, a dict, or
            None.
        **overrides: fields of `Config`, or their names in Google's and Hugging Face's files; they
            take precedence over `source`.

    Returns:
        A `Config`.

    Raises:
        FileNotFoundError: no such file, or a directory without a config.
        TypeError: if `source` is neither a path, a dict nor a `Config`.
        ValueError: not JSON, a missing or misspelt key, or a model that cannot be built.

    Example:

    >>> read_config("bert", hidden_dropout_prob=0.0).dropout_rate
    0.0
    """
    if isinstance(source, Config):
        source = dataclasses.asdict(source)
    values = {} if source is None else dict(source) if isinstance(source, dict) else _load(source)
    where = (
        "the keywords" if source is None else "the config" if isinstance(source, dict) else source
    )
    for key, allowed in REQUIRED_VALUES.items():
        value = overrides.pop(key, values.get(key))
        if value not in allowed:
            raise ValueError(f"{_REFUSALS[key]} Found {key}={quote(value)} in {where}.")
    for key, value in overrides.items():
        values.pop(ALIASES.get(key, key), None)
        values.pop(next((a for a, ours in ALIASES.items() if ours == key), None), None)
        values[key] = value
    known = {*FIELDS, *ALIASES, *REQUIRED_VALUES}
    for key in values:
        short = len(key) < 100  # comparing takes as long as the square of a key
        near = nearest(key, known, cutoff=0.85) if short and key not in known | _HARMLESS else []
        if near:
            raise ValueError(f"Unknown key {quote(key)} in {where}: did you mean {near[0]!r}?")
    fields = {ALIASES.get(k, k): v for k, v in values.items() if ALIASES.get(k, k) in FIELDS}
    missing = [f.name for f in dataclasses.fields(Config) if f.default is dataclasses.MISSING]
    missing = [name for name in missing if name not in fields]
    if missing:
        raise ValueError(f"Missing in {where}: {', '.join(missing)}. Is it the config of a BERT?")
    try:
        return Config(**fields)
    except ValueError as error:
        raise error if where != source else ValueError(f"{where}: {error}") from None


def nearest(name, known, cutoff=0.6):
    """Returns a list of the known name that resembles `name` most; empty if none does."""
    return difflib.get_close_matches(name, sorted(known), n=1, cutoff=cutoff)


def find_config(directory):
    """Returns the path of the config in a directory, or None."""
    for name in CONFIG_NAMES:
        path = os.path.join(directory, name)
        if os.path.isfile(path):
            return path
    return None


def _load(path):
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"A config is a path, a dict or a Config. Received: {path!r}")
    path = os.fspath(path)
    if os.path.isdir(path):
        found = find_config(path)
        if found is None:
            raise FileNotFoundError(
                f"No {' or '.join(CONFIG_NAMES)} in the directory {path}: give the path of the "
                "config, "
                f"or put one there."
            )
        path = found
    if not os.path.isfile(path):
        raise FileNotFoundError(f"No config at {path}: give a JSON file or a directory with one.")
    data = read_bytes(path)
    try:
        values = parse_json(data)
    except ValueError as error:
        raise ValueError(
            f"{path} is not JSON ({shorten(error)}): give the config, not the weights."
        ) from None
    if not isinstance(values, dict):
        raise ValueError(f"{path} holds a {type(values).__name__}, not the keys of a config.")
    if len(values) > MOST_KEYS:  # each is compared to all known ones
        raise ValueError(f"{path} has {len(values)} keys, more than a config has.")
    return values


_REFUSALS = {
    "position_embedding_type": (
        "Only absolute positions are supported; relative ones would be lost."
    ),
    "is_decoder": 'A decoder is asked for with application="lm".',
    "add_cross_attention": "Cross-attention is not supported.",
    "tie_word_embeddings": (
        "The MLM head is tied to the token table; an untied one is not supported."
    ),
    "is_encoder_decoder": "Encoder-decoder models are not supported.",
    "pruned_heads": "Pruned heads are not supported.",
}

# Hugging Face keys with names close to ours and another meaning.
_HARMLESS = {"hidden_sizes", "pad_token", "vocab_file"}
