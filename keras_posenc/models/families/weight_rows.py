"""The vocabulary of weight tables: rows for the parts that most families have.

Scopes are Hugging Face's, with "@" for a table's prefix and "{i}" for the number of the block.
"""

import dataclasses

from keras_posenc.checkpoints.names import BERT, NOT_WEIGHTS, OTHER_HEADS, Cut, Table

ATTENTION = "Transformer-{i}-MultiHeadSelfAttention"
CONVOLUTION = "Transformer-{i}-ShortConvolution"
FEED_FORWARD = "Transformer-{i}-FeedForward"
BUFFERS = {"*rotary_emb.inv_freq": "buffer", "*.position_ids": "buffer"}


def table(rows, *, unused=None, **names):
    """A `Table` of Hugging Face's names alone.

    `unused`: what is not read, beside what no family needs. The others: as in `Table`.
    """
    unused = NOT_WEIGHTS | OTHER_HEADS | BUFFERS | (unused or {})
    return Table(rows, heads=(*BERT.heads, "MLM-Output"), unused=unused, **names)


def attention(scope, part, names, norm):
    """Rows of an attention layer with a tensor for each projection, and of its norm.

    `scope`: of the block, such as "@layers.{i}"; the other names are put behind it. `names`: of
    the tensors of queries, keys, values and the output in `part`, with spaces between them.
    """
    layers = zip(("query", "key", "value", "attention_output"), names.split(), strict=True)
    rows = {f"{ATTENTION}/{layer}": (f"{scope}.{part}.{n}", "dense") for layer, n in layers}
    return {**rows, f"{ATTENTION}-Norm": (f"{scope}.{norm}", "norm")}


def packed_attention(scope, packed, output, norm, by_head=False, kind="dense"):
    """Rows of an attention layer with query, key and value in one tensor, and of its norm.

    `scope`: of the block. `packed`, `output`, `norm`: names of the parts. `by_head`: bool. Whether
    a head's query, key and value are neighbours; else they are thirds. `kind`: "dense", or "conv1d"
    for matrices that are not transposed.
    """
    cuts = {name: Cut(i, 3, by_head) for i, name in enumerate(("query", "key", "value"))}
    rows = {f"{ATTENTION}/{n}": (f"{scope}.{packed}", kind, cut) for n, cut in cuts.items()}
    rows[f"{ATTENTION}/attention_output"] = (f"{scope}.{output}", kind)
    return {**rows, f"{ATTENTION}-Norm": (f"{scope}.{norm}", "norm")}


def feed_forward(scope, inner, output, norm, kind="dense"):
    """Rows of a feed-forward layer and of its norm.

    `inner`: name of the inner matrix. A gated unit has a pair, the activated one first, or
    {"packed": name, "activated": 0 or 1}, the half that goes through the activation. `kind`:
    "dense" or "conv1d".
    """
    first, second = f"{FEED_FORWARD}/intermediate", f"{FEED_FORWARD}/intermediate_1"
    if isinstance(inner, dict):
        packed, half = f"{scope}.{inner['packed']}", inner["activated"]
        rows = {first: (packed, kind, Cut(half, 2)), second: (packed, kind, Cut(1 - half, 2))}
    elif isinstance(inner, tuple):
        rows = {first: (f"{scope}.{inner[0]}", kind), second: (f"{scope}.{inner[1]}", kind)}
    else:
        rows = {first: (f"{scope}.{inner}", kind)}
    rows[f"{FEED_FORWARD}/output"] = (f"{scope}.{output}", kind)
    return {**rows, f"{FEED_FORWARD}-Norm": (f"{scope}.{norm}", "norm")}


def mlm(dense, norm, bias):
    """Rows of an MLM head that shares the token table."""
    return {"MLM-Dense": (dense, "dense"), "MLM-Norm": (norm, "norm"), "MLM-Bias": (bias, "bias")}


def bert_embeddings(*left_out):
    """Rows of BERT's embeddings, without those of some layers."""
    rows = {
        "Embedding-Token": ("@embeddings.word_embeddings", "table"),
        "Embedding-Segment": ("@embeddings.token_type_embeddings", "table"),
        "Embedding-Position": ("@embeddings.position_embeddings", "table"),
        "Embedding-Norm": ("@embeddings.LayerNorm", "norm"),
    }
    return {layer: row for layer, row in rows.items() if layer not in left_out}


def like_bert(*, classes, root="bert", rows=None, **changes):
    """BERT's `Table`, Google's names included, with another root and what else differs.

    `classes`: as in `Table`. `root`: what Google's names of the encoder begin with. `rows`: dict,
    rows that differ, or None for a layer that there is not. `changes`: other fields of `Table`.
    """
    all_rows = {
        layer: (scope.replace("bert/", f"{root}/", 1), kind)
        for layer, (scope, kind) in BERT.rows.items()
    }
    all_rows |= rows or {}
    all_rows = {layer: row for layer, row in all_rows.items() if row is not None}
    changes["unused"] = {**BERT.unused, **BUFFERS, **changes.get("unused", {})}
    changes["huggingface"] = {**BERT.huggingface, **changes.get("huggingface", {})}
    return dataclasses.replace(BERT, root=root, rows=all_rows, classes=classes, **changes)


def llama_block():
    """Rows of a block with Llama's names: norms first, a gated feed-forward layer."""
    scope = "@layers.{i}"
    return {
        **attention(scope, "self_attn", "q_proj k_proj v_proj o_proj", "input_layernorm"),
        **feed_forward(
            scope, ("mlp.gate_proj", "mlp.up_proj"), "mlp.down_proj", "post_attention_layernorm"
        ),
    }
