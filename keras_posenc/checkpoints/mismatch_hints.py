"""Likely causes of a mismatch between a checkpoint and a model."""

import re

from keras_posenc.checkpoints.names import TOKENS
from keras_posenc.checkpoints.quantized import hint as quantized_hint
from keras_posenc.files.untrusted import quote

# What only this family's names have, and the family as people know it; the first match counts.
FAMILIES = {
    r"\.ATTRIBUTES/VARIABLE_VALUE$": "a TensorFlow 2 object checkpoint (tf.train.Checkpoint)",
    r"^distilbert\.|transformer\.layer\.\d+\.attention\.q_lin": "DistilBERT",
    r"albert_layer_groups|encoder/transformer/group_\d": "ALBERT",
    r"^(electra|generator|discriminator)[./]|^(generator|discriminator)_": "ELECTRA",
    r"^deberta\.": "DeBERTa",
    r"^nezha\.": "NEZHA",
    r"^roformer\.": "RoFormer",
    r"^GAU_alpha/": "GAU-alpha",
    r"^mpnet\.|attention\.attn\.q\.": "MPNet",
    r"rel_attn": "XLNet",
    r"(^|\.)h\.\d+\.attn|^model/h\d+/attn": "GPT-2",
    r"(en|de)coder\.block\.\d+\.|(en|de)coder/block_\d+": "T5",
    r"layers\.\d+\.self_attn\.q_proj": "Llama",
    r"layers\.\d+\.attn\.Wqkv": "ModernBERT",
    r"^vit\.|patch_embeddings": "a vision transformer",
    r"^roberta\.|^lm_head\.layer_norm": "RoBERTa",
    r"^bert[./]|^cls[./]": "BERT",
}

HEADS = {"Pooler": "pooler", "NSP": "NSP head", "MLM": "MLM head"}


def family_of(names):
    """The usual name of the family whose checkpoints have such tensor names, or None."""
    for pattern, family in FAMILIES.items():
        if any(re.search(pattern, name) for name in names):
            return family
    return None


def hints(account, checkpoint, table):
    """Sentences on the likely causes of the mismatches in an account."""
    quantized = quantized_hint(checkpoint, [tensor for _, _, tensor, _ in account.wrong_shape])
    if quantized:
        return [quantized]
    family = family_of(checkpoint)
    stranger = family and not _plain(account.family).startswith(_plain(family))
    found, missing = (
        any(name.startswith("Transformer-0-") for name in names)
        for names in ([name for name, *_ in account.loaded], account.missing)
    )
    if stranger and missing and not found:  # families share names: Llama's are EuroBERT's
        return [f"The names look like those of {family}."]
    hints = [_prefix_hint(checkpoint, table), _layers_hint(checkpoint, account)]
    hints += [_shape_hint(*row) for row in account.wrong_shape]
    hints += [
        f"The file has no {what}: take a checkpoint that has one, build the model without it, or "
        "let build_transformer_model(..., ignore_invalid_weights=True) leave it at its initial "
        "values."
        for head, what in HEADS.items()
        if any(name.startswith(head) for name in account.missing)
    ]
    tokens = tuple(f" differs from {place.name}," for place in table.names(TOKENS))
    if any(name.endswith(tokens) for name in account.unexpected):
        hints.append(
            "Give tie_word_embeddings=False for a head of tokens with a weight of its own, as the "
            "file has."
        )
    if account.unexpected and not any(hints):
        hints.append(
            "If nothing is lost with what is unexpected, leave it out: `ignore` takes patterns of "
            "names, such as 'cls.chain.*'."
        )
    return list(dict.fromkeys(hint for hint in hints if hint))


def _plain(name):
    """A family's name without case and punctuation."""
    return re.sub(r"[\W_]", "", name.lower())


def _prefix_hint(names, table):
    """Wrappers put a prefix before all names."""
    usual = [place.name for place in table.names("Embedding-Token/embeddings")]
    for name in names:
        for ending in usual:
            if name.endswith(ending) and name not in usual:
                prefix = name.removesuffix(ending)
                return (
                    f"The names begin with {quote(prefix)}: give a dict without it, "
                    f"{{name.removeprefix({quote(prefix)}): array for name, array in "
                    "open_checkpoint(path).items()}."
                )
    return None


def _shape_hint(variable, model_shape, tensor, file_shape):
    (rows, *size), (their_rows, *their_size) = _numbers(model_shape), _numbers(file_shape)
    if size == their_size and variable == "Embedding-Position/embeddings":
        return (
            f"The file has {their_rows} positions, the model {rows}: to go beyond the table, name "
            "max_position together with a stretching scheme (hierarchical_position=True)."
        )
    if size == their_size and variable in ("Embedding-Token/embeddings", "MLM-Bias/bias"):
        return (
            f"The file has {their_rows} tokens, the model {rows}: vocab_size must be {their_rows}, "
            "less what keep_tokens leaves out and more what compound_tokens adds."
        )
    return "Does the config belong to this checkpoint?"


def _numbers(shape):
    return re.findall(r"\d+", shape) or [None]


def _layers_hint(names, account):
    in_model = {name.split("-")[1] for name in account.missing if name.startswith("Transformer-")}
    numbers = [re.search(r"layer[_.](\d+)[/.]", name) for name in names]
    in_file = {number[1] for number in numbers if number}
    beyond = [name for name in account.unexpected if re.search(r"layer[_.]\d+[/.]", name)]
    if in_file and (beyond or in_model - in_file):
        return f"The file has {len(in_file)} layers: is num_hidden_layers of the model the same?"
    return None
