"""Model families, a file for each kin: functions Config -> Config and tables of weight names."""

import importlib
import pkgutil

from keras_posenc.files.untrusted import quote
from keras_posenc.models.families.family import Family, nearest

__all__ = ["FAMILIES", "Family", "choose_family", "register_family"]

# Name -> family: every `Family` of the modules here.
FAMILIES = {
    family.name: family
    for module in pkgutil.iter_modules(__path__)
    for family in vars(importlib.import_module(f"{__name__}.{module.name}")).values()
    if isinstance(family, Family)
}
FAMILIES = dict(sorted(FAMILIES.items()))

LISTED = "`keras_posenc.models.families.FAMILIES` lists what is."


def register_family(family):
    """Registers a model family for `build_transformer_model` and everything that uses it.

    Args:
        family: `Family`. One of the same name is replaced.

    Returns:
        The family.

    Example:

    >>> import dataclasses
    >>> mine = dataclasses.replace(FAMILIES["bert"], name="mine", model_types=("mine",),
    ...     defaults={"norm": "pre"})
    >>> register_family(mine).name
    'mine'
    >>> build_transformer_model(model="mine", vocab_size=9, hidden_size=8, num_hidden_layers=1,
    ...     num_attention_heads=1, intermediate_size=9, hidden_act="relu").output_shape
    (None, None, 8)
    """
    if not isinstance(family, Family):
        raise TypeError(f"`register_family` takes a Family. Received: {family!r}")
    FAMILIES[family.name] = family
    return family


def choose_family(values, model=None):
    """Chooses the family of a config.

    `values`: dict, the keys of the config file. `model`: name of the family, or None for that of
    the config. Returns a `Family`; without `model` and `model_type` BERT.
    """
    kind = values.get("model_type")
    if model is not None and model not in FAMILIES:
        near = nearest(model, FAMILIES) if isinstance(model, str) else []
        hint = f"did you mean {near[0]!r}?" if near else LISTED
        raise ValueError(f"Unknown model {model!r}: {hint}")
    family = _family_of_type(values)
    if model is None and family is None:
        types = {each for family in FAMILIES.values() for each in family.model_types}
        near = nearest(kind, types) if isinstance(kind, str) and len(kind) < 100 else []
        hint = f"did you mean {near[0]!r}?" if near else LISTED
        raise ValueError(f"model_type {quote(kind)} is not supported: {hint}")
    if model is None or family is not None and family.name == model:
        return family
    if FAMILIES[model].without_type and kind in (None, "bert") and family.without_type:
        return FAMILIES[model]
    if kind is None or kind in FAMILIES[model].model_types:
        return FAMILIES[model]
    remedy = f"give model={family.name!r}, or none." if family else LISTED
    raise ValueError(
        f"model={model!r} cannot hold a checkpoint of model_type {quote(kind)}: {remedy}"
    )


def _family_of_type(values):
    """The family that a config belongs to by its own words, or None."""
    if values.get("model_type") is None:
        return FAMILIES["bert"]
    # Those that look at more than the type come first.
    order = sorted(FAMILIES.values(), key=lambda family: family.recognises is None)
    return next((family for family in order if family.is_family_of(values)), None)
