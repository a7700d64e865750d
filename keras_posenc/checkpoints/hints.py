"""What may be the matter with a checkpoint that does not fit."""

import re

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


def family_of(names):
    """The family whose checkpoints have names like these, as people know it, or None."""
    for pattern, family in FAMILIES.items():
        if any(re.search(pattern, name) for name in names):
            return family
    return None


def hints(account, checkpoint):
    """Sentences on what may be the matter with an account that does not balance."""
    if not account.problem():
        return []
    family = family_of(checkpoint)
    other = family and family.lower() != account.family
    found = [f"The names look like those of {family}."] if other else []
    found += [_shape_hint(*row) for row in account.wrong_shape]
    if other and not account.loaded:
        return found
    found += [_layers_hint(checkpoint, account)]
    heads = {"Pooler": "a pooler", "NSP": "an NSP head", "MLM": "an MLM head"}
    found += [
        f"The file has no {what.split(' ', 1)[1]}: build the model without it, or let "
        "ignore_invalid_weights=True leave it at its initial values."
        for head, what in heads.items()
        if any(name.startswith(head) for name in account.missing)
    ]
    return list(dict.fromkeys(hint for hint in found if hint))


def _shape_hint(variable, ours, tensor, theirs):
    (rows, *size), (their_rows, *their_size) = _numbers(ours), _numbers(theirs)
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
    ours = {name.split("-")[1] for name in account.missing if name.startswith("Transformer-")}
    numbers = [re.search(r"layer[_.](\d+)[/.]", name) for name in names]
    theirs = {number[1] for number in numbers if number}
    beyond = [name for name in account.unexpected if re.search(r"layer[_.]\d+[/.]", name)]
    if theirs and (beyond or ours - theirs):
        return f"The file has {len(theirs)} layers: is num_hidden_layers of the model the same?"
    return None
