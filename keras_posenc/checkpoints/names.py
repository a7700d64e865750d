"""The names of our weights in the checkpoints of each family: one literal table per family.

A row says where one of our layers lies in Google's checkpoints, and of what kind it is; the kind
says what its variables are called, there and in Hugging Face's. Hugging Face's scopes follow from
Google's: `bert/encoder/layer_3/output` is `bert.encoder.layer.3.output`. What does not follow is
listed in the table's `huggingface`. A name that ends in `.T` holds the transposed matrix.

A new family is one more `Table`, no code: see `ROBERTA`.
"""

import dataclasses
import re
from fnmatch import fnmatchcase

# kind: {our variable: (Google's ending, Hugging Face's endings, newest first)}
KINDS = {
    "table": {"embeddings": ("", [".weight"])},
    "dense": {"kernel": ("/kernel", [".weight.T"]), "bias": ("/bias", [".bias"])},
    "norm": {
        "gamma": ("/gamma", [".weight", ".gamma"]),
        "beta": ("/beta", [".bias", ".beta"]),
    },
    "output": {
        "kernel": ("/output_weights.T", [".weight.T"]),
        "bias": ("/output_bias", [".bias"]),
    },
    "bias": {"bias": ("/output_bias", [".bias"])},
}

BERT_ROWS = {
    "Embedding-Token": ("bert/embeddings/word_embeddings", "table"),
    "Embedding-Segment": ("bert/embeddings/token_type_embeddings", "table"),
    "Embedding-Position": ("bert/embeddings/position_embeddings", "table"),
    "Embedding-Norm": ("bert/embeddings/LayerNorm", "norm"),
    "Embedding-Mapping": ("bert/encoder/embedding_hidden_mapping_in", "dense"),
    "Transformer-{i}-MultiHeadSelfAttention/query": (
        "bert/encoder/layer_{i}/attention/self/query",
        "dense",
    ),
    "Transformer-{i}-MultiHeadSelfAttention/key": (
        "bert/encoder/layer_{i}/attention/self/key",
        "dense",
    ),
    "Transformer-{i}-MultiHeadSelfAttention/value": (
        "bert/encoder/layer_{i}/attention/self/value",
        "dense",
    ),
    "Transformer-{i}-MultiHeadSelfAttention/attention_output": (
        "bert/encoder/layer_{i}/attention/output/dense",
        "dense",
    ),
    "Transformer-{i}-MultiHeadSelfAttention-Norm": (
        "bert/encoder/layer_{i}/attention/output/LayerNorm",
        "norm",
    ),
    "Transformer-{i}-FeedForward/intermediate": (
        "bert/encoder/layer_{i}/intermediate/dense",
        "dense",
    ),
    "Transformer-{i}-FeedForward/output": ("bert/encoder/layer_{i}/output/dense", "dense"),
    "Transformer-{i}-FeedForward-Norm": ("bert/encoder/layer_{i}/output/LayerNorm", "norm"),
    "Pooler-Dense": ("bert/pooler/dense", "dense"),
    "NSP-Proba": ("cls/seq_relationship", "output"),
    "MLM-Dense": ("cls/predictions/transform/dense", "dense"),
    "MLM-Norm": ("cls/predictions/transform/LayerNorm", "norm"),
    "MLM-Bias": ("cls/predictions", "bias"),
}

# Variables of ours that no checkpoint of any family has: they keep their first values.
FRESH = (
    "Embedding-Position/fresh",
    "Embedding-Position-Shared-*",
    "*/beta_dense/*",
    "*/gamma_dense/*",
    "*/hidden_dense/*",
    "*/encoding_*",
)

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
}


@dataclasses.dataclass(frozen=True)
class Table:
    """The names under which a family's checkpoints store each of our variables.

    Args:
        family: str. The family's name in `build_transformer_model`.
        root: str. First scope of the encoder in Google's names.
        prefixes: tuple of str. Possible prefixes of the encoder in Hugging Face's names; the first
            is used for writing.
        rows: dict, our layer -> (Google's scope, kind).
        huggingface: dict, our layer -> Hugging Face's scope, where it does not follow from
            Google's. An encoder's scope is written with the first of `prefixes`.
        copies: dict, our variable -> other names under which a file may repeat it.
        heads: tuple of our layers that a checkpoint may have and a model may lack.
        unused: dict, glob pattern of names -> reason why nothing is read from them.
        classes: dict, Hugging Face's model type -> prefix of its class names.

    Example:

    >>> BERT.names("Pooler-Dense/bias")[0]
    ('bert/pooler/dense/bias', False)
    """

    family: str
    root: str
    prefixes: tuple
    rows: dict
    huggingface: dict
    copies: dict
    heads: tuple
    unused: dict
    classes: dict

    def names(self, variable):
        """All names a variable may have in a file, as (name, whether the matrix is transposed).

        Args:
            variable: str such as `"Transformer-3-FeedForward/output/kernel"`.

        Returns:
            list of (str, bool), empty for a variable that no checkpoint of the family has.
        """
        row = self._row(variable)
        if row is None:
            return []
        google, huggingface = row
        return [_transposed(name) for name in [google, *huggingface]]

    def written_name(self, variable, format):
        """Name under which a variable is written, as (name, whether the matrix is transposed).

        Args:
            variable: str such as `"Transformer-3-FeedForward/output/kernel"`.
            format: `"google"` or `"huggingface"`.
        """
        return self.names(variable)[("google", "huggingface").index(format)]

    def why_unused(self, tensor, layers):
        """Returns why a model of these layers does not need a tensor, or None if unknown."""
        for head in self.heads:
            if head not in layers and tensor in self._names_of(head):
                return "not asked for"
        return next((why for each, why in self.unused.items() if fnmatchcase(tensor, each)), None)

    def _names_of(self, layer):
        parts = KINDS[self.rows[layer][1]]
        return {name for part in parts for name, _ in self.names(f"{layer}/{part}")}

    def _row(self, variable):
        layer, _, part = variable.rpartition("/")
        number = re.match(r"Transformer-(\d+)-", layer)
        pattern = re.sub(r"^Transformer-\d+-", "Transformer-{i}-", layer)
        scope, kind = self.rows.get(pattern, (None, None))
        if part not in KINDS.get(kind, {}):
            return None
        ending, endings = KINDS[kind][part]
        scopes = self._huggingface_scopes(pattern, scope)
        names = [scope + ending, *(each + end for each in scopes for end in endings)]
        if number:
            names = [name.replace("{i}", number[1]) for name in names]
        return names[0], names[1:] + self.copies.get(variable, [])

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


class OwnNames:
    """Our own names for a family's variables, as in .keras files, with the methods of `Table`."""

    def __init__(self, table):
        self.family = table.family
        self._table = table

    def names(self, variable):
        return [(variable, False)]

    def why_unused(self, tensor, layers):
        """Returns a reason for heads, of this library or the user's, and None for the encoder."""
        head = tensor.rpartition("/")[0] in self._table.heads
        encoder = self._table.names(tensor) or is_fresh(tensor)
        return None if encoder and not head else "not asked for"


def flat_shape(variable, shape):
    """Shape of a variable in files, where heads and head size are one axis.

    Args:
        variable: str; attention's output has heads first, its inputs have them last.
        shape: tuple of int, the variable's shape in the model.
    """
    if len(shape) == 3:
        first, heads, last = shape
        outputs = "/attention_output/" in variable
        return (first * heads, last) if outputs else (first, heads * last)
    return (shape[0] * shape[1],) if len(shape) == 2 and variable.endswith("/bias") else shape


def is_fresh(variable):
    """Whether no checkpoint of any family has a variable, so that it keeps its initial values."""
    return any(fnmatchcase(variable, pattern) for pattern in FRESH)


def _transposed(name):
    return name.removesuffix(".T"), name.endswith(".T")


BERT = Table(
    family="bert",
    root="bert",
    prefixes=("bert.", ""),
    rows=BERT_ROWS,
    huggingface={},
    copies={
        "Embedding-Token/embeddings": ["cls.predictions.decoder.weight"],
        "MLM-Bias/bias": ["cls.predictions.decoder.bias"],
    },
    heads=(
        "Pooler-Dense",
        "NSP-Proba",
        "MLM-Dense",
        "MLM-Norm",
        "MLM-Bias",
        "Embedding-Segment",
        "Embedding-Position",
    ),
    unused=NOT_WEIGHTS | OTHER_HEADS,
    classes={"bert": "Bert"},
)

# Also XLM-RoBERTa and CamemBERT; and, as in bert4keras, checkpoints named like BERT's.
ROBERTA = dataclasses.replace(
    BERT,
    family="roberta",
    prefixes=("roberta.", "bert.", ""),
    huggingface={
        "MLM-Dense": "lm_head.dense",
        "MLM-Norm": "lm_head.layer_norm",
        "MLM-Bias": "lm_head",
    },
    copies={
        "Embedding-Token/embeddings": ["lm_head.decoder.weight", "cls.predictions.decoder.weight"],
        "MLM-Bias/bias": ["lm_head.decoder.bias", "cls.predictions.decoder.bias"],
    },
    classes={"roberta": "Roberta", "xlm-roberta": "XLMRoberta", "camembert": "Camembert"},
)

TABLES = {table.family: table for table in (BERT, ROBERTA)}


def table_of(model_type):
    """The table that names the weights of one of Hugging Face's model types."""
    tables = {each: table for table in TABLES.values() for each in table.classes}
    if model_type not in tables:
        raise ValueError(
            f"No weight table writes model_type {model_type!r}; there are {', '.join(tables)}."
        )
    return tables[model_type]
