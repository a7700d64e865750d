"""A page for each family of pretrained models, from `FAMILIES` and the files of results."""

import json

import tables

TASKS = {
    "sequence_classification": "`ForSequenceClassification`",
    "token_classification": "`ForTokenClassification`",
    "question_answering": "`ForQuestionAnswering`",
}


def names():
    """The families that have a page."""
    from keras_posenc.models.families import FAMILIES

    return list(FAMILIES)


def page(name):
    """What loads, how it goes beyond its length, how near it is, what its weights are called."""
    from keras_posenc.models.families import FAMILIES

    family = FAMILIES[name]
    kinds = ", ".join(f"`{kind}`" for kind in family.model_types)
    title = f"[{family.title}]({family.paper})" if family.paper else family.title
    return f"""# {family.title}

`build_transformer_model("path/to/directory")` loads {title} if `model_type` in `config.json` is
{kinds}. If the config has no `model_type`, pass `model="{name}"`. Read this page to see how the
context is extended, which heads load, and how the weights are named.

| | |
|---|---|
| positions | {family.positions} |
| longer texts | {_longer(family)} |
| heads that load | {_heads(family)} |
| compared to | {family.compared} |
| largest difference | {_differences(name)} |

The difference is that of the outputs in float32, relative to the largest output, on tiny
checkpoints with random weights ([how it was measured](../guides/families.md)).

## Names of the weights

`{{i}}` is the number of the block, and `@` stands for {_prefixes(family)}.

{_weights(family)}

## See also

[All families](../guides/families.md) · [Convert](../guides/convert.md) ·
[Tokenizers](../guides/tokenizers.md)
"""


def _longer(family):
    if family.defaults.get("position_table", True):
        return "`hierarchical_position=True`, or another `extension=`"
    if "rotary" in family.positions:
        return '`extension="yarn:4"`'
    return "no setting needed: far distances share the last bucket, or have the largest bias"


def _heads(family):
    rows = family.table().rows
    # The head of a causal model may be its token table, which has no row of its own.
    of_tokens = family.causal or any(name.startswith("MLM") for name in rows)
    heads = ["the MLM or language-model head (`with_mlm=True`)"] * of_tokens
    heads += ["the discriminator's (`with_discriminator=True`)"] * ("Discriminator-Proba" in rows)
    return ", ".join([*heads, *(TASKS[task] for task in family.heads_of(None))]) or "none"


def _differences(name):
    found = json.loads((tables.RESULTS / "families.json").read_text("utf-8"))
    each = [f"{rows[name]:.1e} on {backend}" for backend, rows in found.items() if name in rows]
    return ", ".join(each) or "below 1e-5, by the tests"


def _prefixes(family):
    quoted = [f"`{prefix}`" if prefix else "nothing" for prefix in family.table().prefixes]
    return " or ".join(quoted)


def _weights(family):
    rows = [("here", "in the file")]
    for layer, places in family.table().rows.items():
        places = places if isinstance(places, list) else [places]
        rows.append((f"`{layer}`", ", ".join(_place(*place) for place in places)))
    return tables.markdown(rows)


def _place(scope, kind, cut=None):
    part = f", part {cut.part + 1} of {cut.parts}" if cut else ""
    return f"`{scope}`{part}"
