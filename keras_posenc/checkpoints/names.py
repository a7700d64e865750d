"""The names of our weights in the checkpoints of each family: one literal table per family.

A row gives the scope of one of our layers in Google's checkpoints, and the layer's kind; the kind
gives the names of its variables, there and in Hugging Face's. Hugging Face's scopes follow from
Google's: `bert/encoder/layer_3/output` is `bert.encoder.layer.3.output`. Those that do not follow
are listed in the table's `huggingface`. A name that ends in `.T` stores the transposed matrix. A
family without Google checkpoints has a table without a `root`, whose scopes are Hugging Face's,
with "@" for the prefix; a row may then have a third entry, a `Cut`: several of our variables in one
tensor.

A new family is one more `Table`, no code: see `ROBERTA`, and `keras_posenc.models.families`.
"""

import dataclasses
import re
import typing
from fnmatch import fnmatchcase

# kind: {our variable: (Google's ending, Hugging Face's endings, newest first)}
KINDS = {
    "table": {"embeddings": ("", [".weight"])},
    "dense": {"kernel": ("/kernel", [".weight.T"]), "bias": ("/bias", [".bias"])},
    "norm": {"gamma": ("/gamma", [".weight", ".gamma"]), "beta": ("/beta", [".bias", ".beta"])},
    "output": {"kernel": ("/output_weights.T", [".weight.T"]), "bias": ("/output_bias", [".bias"])},
    "bias": {"bias": ("/output_bias", [".bias"])},
    "shared_table": {"table": (None, [".weight"])},
    "original": {"kernel": (None, [".weight.original.T"])},
    "original_table": {"embeddings": (None, [".weight.original"])},
    "unit": {
        "query_scale": ("/q_scaleoffset/gamma", [".q_scaleoffset.gamma"]),
        "key_scale": ("/k_scaleoffset/gamma", [".k_scaleoffset.gamma"]),
    },
    "experts": {
        "inner_kernel": (None, [".gate_up_proj"]),
        "inner_bias": (None, [".gate_up_proj_bias"]),
        "outer_kernel": (None, [".down_proj"]),
        "outer_bias": (None, [".down_proj_bias"]),
    },
    "short_convolution": {"conv_kernel": (None, [".weight.T"])},
    "router": {"router_kernel": (None, [".weight.T"]), "router_bias": (None, [".bias"])},
    "sinks": {"logits": (None, [".sinks"])},
    "conv1d": {"kernel": (None, [".weight"]), "bias": (None, [".bias"])},
    # In KerasHub's presets a layer's variables have numbers.
    "hub_table": {"embeddings": (None, ["/vars/0"])},
    "hub_shared_table": {"table": (None, ["/vars/0"])},
    "hub_reverse": {"kernel": (None, ["/vars/1"])},
    "hub_dense": {"kernel": (None, ["/vars/0"]), "bias": (None, ["/vars/1"])},
    "hub_norm": {"gamma": (None, ["/vars/0"]), "beta": (None, ["/vars/1"])},
}


class Cut(typing.NamedTuple):
    """One of several equal parts of a tensor along its last axis, in our orientation; by head, if
    the parts of a head are adjacent."""

    part: int
    parts: int
    by_head: bool = False

    def of(self, array, shape):
        """A view of the part (..., heads, n / heads) of an array (..., parts n) or its transpose.

        `array`: NumPy array. `shape`: of our variable, whose last axes are (heads, size), if it has
        three.
        """
        *lead, size = array.shape
        heads = shape[-2] if self.by_head else 1
        split = array.reshape(*lead, heads, self.parts, size // heads // self.parts)
        return split[..., self.part, :]

    def shape(self, shape):
        """The shape of the part; that of the whole, if it cannot be cut so."""
        if not shape or shape[-1] % self.parts:
            return shape
        return (*shape[:-1], shape[-1] // self.parts)


class Place(typing.NamedTuple):
    """The place of a variable in a file: a tensor, whether it is transposed, and a part of it."""

    name: str
    transposed: bool = False
    cut: Cut | None = None


TOKENS, MLM_BIAS, HEAD = "Embedding-Token/embeddings", "MLM-Bias/bias", "MLM-Output/kernel"
_BLOCK, _HERE = "bert/encoder/layer_{i}", "Transformer-{i}"
BERT_ROWS = {
    "Embedding-Token": ("bert/embeddings/word_embeddings", "table"),
    "Embedding-Segment": ("bert/embeddings/token_type_embeddings", "table"),
    "Embedding-Position": ("bert/embeddings/position_embeddings", "table"),
    "Embedding-Norm": ("bert/embeddings/LayerNorm", "norm"),
    "Embedding-Mapping": ("bert/encoder/embedding_hidden_mapping_in", "dense"),
    **{
        f"{_HERE}-MultiHeadSelfAttention/{part}": (f"{_BLOCK}/attention/self/{part}", "dense")
        for part in ("query", "key", "value")
    },
    f"{_HERE}-MultiHeadSelfAttention/attention_output": (
        f"{_BLOCK}/attention/output/dense",
        "dense",
    ),
    f"{_HERE}-MultiHeadSelfAttention-Norm": (f"{_BLOCK}/attention/output/LayerNorm", "norm"),
    f"{_HERE}-FeedForward/intermediate": (f"{_BLOCK}/intermediate/dense", "dense"),
    f"{_HERE}-FeedForward/output": (f"{_BLOCK}/output/dense", "dense"),
    f"{_HERE}-FeedForward-Norm": (f"{_BLOCK}/output/LayerNorm", "norm"),
    "Pooler-Dense": ("bert/pooler/dense", "dense"),
    "NSP-Proba": ("cls/seq_relationship", "output"),
    "MLM-Dense": ("cls/predictions/transform/dense", "dense"),
    "MLM-Norm": ("cls/predictions/transform/LayerNorm", "norm"),
    "MLM-Bias": ("cls/predictions", "bias"),
    "Sequence-Output": ("classifier", "dense"),
    "Token-Output": ("classifier", "dense"),
    "Span-Output": ("cls/squad", "output"),
}

# The last layer of a head that no class of transformers has, and its row in every family.
OTHER_OUTPUT = "Head-Output"
COMMON_ROWS = {OTHER_OUTPUT: ("task_head", "dense")}

# Layers of the heads of tasks, which a checkpoint may have and a model may lack.
TASK_LAYERS = ("Sequence-Dense", "Sequence-Output", "Token-Output", "Span-Output", OTHER_OUTPUT)

# Variables of ours that no checkpoint of any family has: they keep their first values.
FRESH = (
    "Embedding-Position/fresh", "Embedding-Position-Shared-*", "*/beta_dense/*", "*/gamma_dense/*",
    "*/hidden_dense/*", "*/encoding_*",
)  # fmt: skip

# Names no model of ours needs, and why: glob patterns over a checkpoint's names.
NOT_WEIGHTS = {
    "*/adam_[mv]": "optimizer slot",
    "*/Adam": "optimizer slot",
    "*/Adam_1": "optimizer slot",
    "*/LAMB*": "optimizer slot",
    "*/ExponentialMovingAverage": "moving average",
    "beta[12]_power": "optimizer state",
    "global_step": "step counter",
    "*embeddings.position_ids": "buffer",
    "*embeddings.token_type_ids": "buffer",
}
OTHER_HEADS = {
    "output_weights": "a task's head",
    "output_bias": "a task's head",
    "cls/squad/*": "a task's head",
    "loss/*": "a task's head",
    "classifier.*": "a task's head",
    "qa_outputs.*": "a task's head",
    "score.*": "a task's head",
}


@dataclasses.dataclass(frozen=True)
class Table:
    """The names under which a family's checkpoints store each of our variables.

    Args:
        rows: dict. Maps our layer to (scope, kind) or (scope, kind, cut), or to a list of those, of
            which the first is written and all are read.
        family: str. The family's name in `build_transformer_model`, which `Family.table` fills in.
        root: str or None. First scope of the encoder in Google's names, without the slash; None for
            Hugging Face's names alone.
        prefixes: tuple of str. Possible prefixes of the encoder in Hugging Face's names; the first
            is used for writing.
        huggingface: dict. Maps our layer to Hugging Face's scope, where it does not follow from
            Google's. An encoder's scope is written with the first of `prefixes`.
        copies: dict. Maps our variable to other names of it; the token table's are those of a head.
        heads: tuple of str. Our layers that a checkpoint may have and a model may lack.
        unused: dict. Maps a glob pattern of names to the reason why nothing is read from them.
        classes: dict. Maps Hugging Face's model type to the prefix of its class names.
        endings: dict. Maps the ending of BERT's class names to that of this family's.
        tied: bool. Whether a head of tokens repeats the token table; else its copies are it.

    Example:

    >>> BERT.names("Pooler-Dense/bias")[0].name
    'bert/pooler/dense/bias'
    """

    rows: dict
    family: str = ""
    root: str | None = None
    prefixes: tuple = ("",)
    huggingface: dict = dataclasses.field(default_factory=dict)
    copies: dict = dataclasses.field(default_factory=dict)
    heads: tuple = ()
    unused: dict = dataclasses.field(default_factory=dict)
    classes: dict = dataclasses.field(default_factory=dict)
    endings: dict = dataclasses.field(default_factory=dict)
    tied: bool = True

    def names(self, variable):
        """Lists the possible places of a variable in a file.

        Args:
            variable: str such as `"Transformer-3-FeedForward/output/kernel"`.

        Returns:
            list of `Place`, empty for a variable that no checkpoint of the family has.
        """
        layer, _, part = variable.rpartition("/")
        number = re.match(r"Transformer-(\d+)-", layer)
        pattern = re.sub(r"^Transformer-\d+-", "Transformer-{i}-", layer)
        places = [
            place
            for row in self._rows_of(pattern)
            if part in KINDS[row[1]]
            for place in self._places(pattern, part, *row)
        ]
        copies = [Place(name) for name in self.copies.get(variable, [])] if places else []
        if self.tied:
            places += copies
        elif variable == MLM_BIAS:  # a decoder's goes before the shared one, as in transformers 5
            places = copies + places
        elif variable == HEAD:
            places = places or [Place(name, True) for name in self.copies.get(TOKENS, [])]
        return [p._replace(name=p.name.replace("{i}", number[1])) if number else p for p in places]

    def has(self, variable):
        """Returns whether a checkpoint of the family has the variable."""
        return bool(self.names(variable))

    def written_name(self, variable, format):
        """Returns the `Place` at which a variable is written.

        Args:
            variable: str such as `"Transformer-3-FeedForward/output/kernel"`.
            format: `"google"` or `"huggingface"`.
        """
        places = [p for p in self.names(variable) if ("/" in p.name) == (format == "google")]
        if not places:
            which = self.family if self.root is None else f"{self.family} with {variable}"
            raise ValueError(
                f"There are no Google checkpoints of {which}: use format='huggingface'."
            )
        return places[0]

    def why_unused(self, tensor, layers):
        """Returns why a model of these layers does not need a tensor, or None if unknown."""
        for head in self.heads:
            if head not in layers and tensor in self._names_of(head):
                return "not asked for"
        return next((why for each, why in self.unused.items() if fnmatchcase(tensor, each)), None)

    def _names_of(self, layer):
        parts = {part for row in self._rows_of(layer) for part in KINDS[row[1]]}
        return {place.name for part in parts for place in self.names(f"{layer}/{part}")}

    def _rows_of(self, pattern):
        rows = self.rows.get(pattern) or COMMON_ROWS.get(pattern, [])
        return rows if isinstance(rows, list) else [rows]

    def _places(self, pattern, part, scope, kind, cut=None):
        ending, endings = KINDS[kind][part]
        if self.root is None:
            prefixes = self.prefixes if "@" in scope else [""]
            scopes = [scope.replace("@", prefix) for prefix in prefixes]
            names = [each + end for each in scopes for end in endings]
        else:
            scopes = self._huggingface_scopes(pattern, scope)
            names = [scope + ending, *(each + end for each in scopes for end in endings)]
        return [Place(name.removesuffix(".T"), name.endswith(".T"), cut) for name in names]

    def _huggingface_scopes(self, pattern, scope):
        root, first = f"{self.root}/", self.prefixes[0]
        rule = scope.replace(root, first, 1) if scope.startswith(root) else scope
        rule = rule.replace("layer_{i}", "layer.{i}").replace("/", ".")
        scopes = [self.huggingface[pattern]] if pattern in self.huggingface else []
        return [
            scope.replace(first, prefix, 1)
            for scope in [*scopes, rule]
            for prefix in (self.prefixes if scope.startswith(first) else [""])
        ]


class KerasNames:
    """The names of variables in .keras files, with the methods of `Table`."""

    def __init__(self, table):
        self.family = table.family
        self._table = table

    def names(self, variable):
        return [Place(variable)]

    def has(self, variable):
        return self._table.has(variable)

    def why_unused(self, tensor, layers):
        """Returns a reason for heads, of this library or the user's, and None for the encoder."""
        head = tensor.rpartition("/")[0] in self._table.heads
        encoder = self._table.names(tensor) or is_fresh(tensor)
        return None if encoder and not head else "not asked for"


def flat_shape(variable, shape):
    """Shape of a variable in files, where heads and head size are one axis.

    `variable`: str; attention's output has heads first, its inputs have them last. `shape`: tuple
    of int, the variable's shape in the model.
    """
    if len(shape) == 3 and variable.endswith("/kernel"):
        first, heads, last = shape
        outputs = "/attention_output/" in variable
        return (first * heads, last) if outputs else (first, heads * last)
    return (shape[0] * shape[1],) if len(shape) == 2 and variable.endswith("/bias") else shape


def is_fresh(variable):
    """Whether no checkpoint of any family has a variable, so that it keeps its initial values."""
    return any(fnmatchcase(variable, pattern) for pattern in FRESH)


def decoder_copies(*heads):
    """The `copies` of a family whose MLM heads, such as "lm_head", repeat the token table and their
    bias in a decoder."""
    return {
        TOKENS: [f"{head}.decoder.weight" for head in heads],
        MLM_BIAS: [f"{head}.decoder.bias" for head in heads],
    }


BERT = Table(
    family="bert",
    root="bert",
    prefixes=("bert.", ""),
    rows=BERT_ROWS,
    huggingface={"Span-Output": "qa_outputs"},
    copies=decoder_copies("cls.predictions"),
    heads=(
        "Pooler-Dense",
        "NSP-Proba",
        "MLM-Dense",
        "MLM-Norm",
        "MLM-Bias",
        "Embedding-Segment",
        "Embedding-Position",
        *TASK_LAYERS,
    ),
    unused=NOT_WEIGHTS | OTHER_HEADS,
    classes={"bert": "Bert"},
)

# Also XLM-RoBERTa and CamemBERT; and, as in bert4keras, checkpoints named like BERT's.
ROBERTA = dataclasses.replace(
    BERT,
    family="roberta",
    prefixes=("roberta.", "bert.", ""),
    rows=BERT_ROWS
    | {
        "Sequence-Dense": ("classifier/dense", "dense"),
        "Sequence-Output": ("classifier/out_proj", "dense"),
    },
    huggingface={
        "Span-Output": "qa_outputs",
        "MLM-Dense": "lm_head.dense",
        "MLM-Norm": "lm_head.layer_norm",
        "MLM-Bias": "lm_head",
    },
    copies=decoder_copies("lm_head", "cls.predictions"),
    classes={"roberta": "Roberta", "xlm-roberta": "XLMRoberta", "camembert": "Camembert"},
)

TABLES = {table.family: table for table in (BERT, ROBERTA)}
