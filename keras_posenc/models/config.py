"""What a checkpoint's JSON says about its model, read strictly."""

import dataclasses
import difflib
import json
import os

CONFIG_NAMES = ("config.json", "bert_config.json")

# The names Google and Hugging Face use -> ours, which are bert4keras's.
ALIASES = {
    "max_position_embeddings": "max_position",
    "hidden_dropout_prob": "dropout_rate",
    "attention_probs_dropout_prob": "attention_dropout_rate",
    "type_vocab_size": "segment_vocab_size",
}

# Keys that change the model; only these values of them mean what is built here.
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
    """The sizes and numbers of a model. Its fields are keywords of `build_transformer_model`.

    Attributes:
        vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size: int.
        hidden_act: an activation's name ("gelu" is the exact one), or a list of them for a gated
            unit.
        max_position: int. Rows of the position table.
        segment_vocab_size: int. Rows of the segment table; 0 for none.
        dropout_rate, attention_dropout_rate: float. Of features and of attention weights.
        embedding_size: int or None. Of the tables, if not `hidden_size`.
        attention_head_size: int or None. Of a value head; default `hidden_size /
            num_attention_heads`.
        attention_key_size: int or None. Of a query and key head; default `attention_head_size`.
        layer_norm_eps: float.
        initializer_range: float. Standard deviation of new weights.
        pad_token_id: int, or None if no token stands for padding.
        position_offset: int. Rows of the checkpoint's position table that come before position 0.
        padded_positions: bool. Positions count the real tokens only.
        model_type: str or None. The family in Hugging Face's words.
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
        if not isinstance(self.hidden_act, (str, list, tuple)):
            raise ValueError(
                f"`hidden_act` must be a name or a list. Received: {self.hidden_act!r}"
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
            raise ValueError(f"`{name}` must be {wanted}. Received: {value!r}")

    @property
    def value_size(self):
        """Size of a value head."""
        return self.attention_head_size or self.hidden_size // self.num_attention_heads

    @property
    def key_size(self):
        """Size of a query and key head."""
        return self.attention_key_size or self.value_size

    def to_huggingface(self):
        """The dict to write as config.json."""
        names = {ours: theirs for theirs, ours in ALIASES.items()}
        values = {names.get(k, k): v for k, v in dataclasses.asdict(self).items() if v is not None}
        values["max_position_embeddings"] += values.pop("position_offset")
        del values["padded_positions"]
        values["model_type"] = self.model_type or "bert"
        return values


FIELDS = tuple(field.name for field in dataclasses.fields(Config))


def read_config(source=None, **overrides):
    """Reads a `Config` from a JSON file, a directory that holds one, or a dict; keywords
    override it.

    Keys that say nothing about the computation (labels, versions, ...) are passed over. A key that
    is almost one of ours is taken for a misspelling, and a value we would silently ignore is
    refused.

    Args:
        source: path of bert_config.json or config.json, a directory with one of them, a dict, or
            None.
        **overrides: fields of `Config`, or their names in Google's and Hugging Face's files.

    Raises:
        FileNotFoundError: no such file, or a directory without a config.
        ValueError: not JSON, a missing or misspelt key, or a model that cannot be built.

    Example:

    >>> read_config("uncased_L-12_H-768_A-12/bert_config.json", hidden_dropout_prob=0.0)
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
            raise ValueError(f"{_REFUSALS[key]} Found {key}={value!r} in {where}.")
    for key, value in overrides.items():
        values.pop(ALIASES.get(key, key), None)
        values.pop(next((a for a, ours in ALIASES.items() if ours == key), None), None)
        values[key] = value
    known = {*FIELDS, *ALIASES, *REQUIRED_VALUES}
    for key in values:
        near = [] if key in known or key in _HARMLESS else nearest(key, known, cutoff=0.85)
        if near:
            raise ValueError(f"Unknown key {key!r} in {where}: did you mean {near[0]!r}?")
    fields = {ALIASES.get(k, k): v for k, v in values.items() if ALIASES.get(k, k) in FIELDS}
    missing = [f.name for f in dataclasses.fields(Config) if f.default is dataclasses.MISSING]
    missing = [name for name in missing if name not in fields]
    if missing:
        raise ValueError(f"Missing in {where}: {', '.join(missing)}. Is it the config of a BERT?")
    return Config(**fields)


def nearest(name, known, cutoff=0.6):
    """The known names that resemble `name`, best first."""
    return difflib.get_close_matches(name, sorted(known), n=1, cutoff=cutoff)


def find_config(directory):
    """The path of the config in a directory, or None."""
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
    try:
        with open(path, encoding="utf-8-sig") as file:
            values = json.load(file)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path} is not JSON ({error}): give the config, not the weights."
        ) from None
    if not isinstance(values, dict):
        raise ValueError(f"{path} holds a {type(values).__name__}, not the keys of a config.")
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

# Hugging Face keys near to ours that mean something else.
_HARMLESS = {"hidden_sizes", "pad_token", "vocab_file"}
