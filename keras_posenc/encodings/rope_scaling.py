"""Validation of rotary scaling dicts, which follow Hugging Face's `rope_scaling`."""

import difflib
import inspect
import math
import numbers

from keras_posenc.encodings import frequencies
from keras_posenc.files.untrusted import quote

# Other names in published configs; "mrope" leaves the frequencies as they are.
ALIASES = {"su": "longrope", "mrope": "default"}
# Fields of a `rope_scaling` dict that are not about frequencies -> argument of RotaryEmbedding.
OTHER_ARGUMENTS = {
    "rope_theta": "base",
    "partial_rotary_factor": "rotary_dim",
    "mrope_section": "sections",
    "mrope_interleaved": "section_order",
}


def scaled_frequencies(dim, base=10000.0, scaling=None, length=None):
    """Computes rotary frequencies under a scaling, and its factor of cosine and sine.

    `dim`: number of rotated features, even. `base`: longest wavelength, in units of 2 pi positions.
    `scaling`: None or a dict, as Hugging Face's `rope_scaling`. `length`: of the text, which
    "dynamic" and "longrope" depend on. Returns the frequencies, float64 (dim / 2,) in radians per
    position, and the factor.

    Example:

    >>> scaled_frequencies(4, scaling={"rope_type": "linear", "factor": 2.0})
    (array([0.5  , 0.005]), 1.0)
    """
    kind, fields = read_scaling(scaling)
    if "length" in inspect.signature(frequencies.SCALINGS[kind]).parameters:
        fields["length"] = length
    return frequencies.SCALINGS[kind](dim, base, **fields)


def read_scaling(scaling):
    """Validates a Hugging Face `rope_scaling` dict.

    "rope_type" takes precedence over "type". A missing `original_max_position_embeddings` is taken
    from `max_position_embeddings`; a missing factor is their ratio. `scaling`: None or a dict.
    Returns the type, a str, and a dict of its fields.
    """
    kind, fields = _kind_and_fields(scaling)
    parameters = inspect.signature(frequencies.SCALINGS[kind]).parameters.values()
    parameters = [p for p in parameters if p.name not in ("dim", "base", "length")]
    names = {p.name: p.default is p.empty for p in parameters}
    fields = {k: v for k, v in fields.items() if k in names or k not in OTHER_ARGUMENTS}
    reached = fields.pop("max_position_embeddings", None)
    if reached is not None and "original_max_position_embeddings" in names:
        original = fields.setdefault("original_max_position_embeddings", reached)
        if original != reached:
            fields.setdefault("factor", reached / original)
    missing = [name for name, needed in names.items() if needed and name not in fields]
    if missing:
        raise ValueError(
            f"Rope scaling of type {quote(kind)} lacks {_listed(missing)}; it needs "
            f"{_listed(name for name in names if names[name])}. Received: {quote(scaling)}"
        )
    # Hugging Face allows the original length beside every type.
    unknown = [name for name in fields if name not in (*names, "original_max_position_embeddings")]
    if unknown:
        raise ValueError(
            f"Rope scaling of type {quote(kind)} knows no {_listed(unknown)}; its fields are "
            f"{_listed(names) or 'none'}. Received: {quote(scaling)}"
        )
    fields = {name: fields[name] for name in names if name in fields}
    _check_values(kind, {p.name: p.default for p in parameters if p.default} | fields)
    return kind, fields


def arguments_in(scaling):
    """Returns the fields that are not about frequencies, as arguments of `RotaryEmbedding`."""
    kind, fields = _kind_and_fields(scaling)
    parameters = inspect.signature(frequencies.SCALINGS[kind]).parameters
    arguments = {
        OTHER_ARGUMENTS[k]: v
        for k, v in fields.items()
        if k in OTHER_ARGUMENTS and k not in parameters
    }
    if "section_order" in arguments:
        arguments["section_order"] = "round_robin" if arguments["section_order"] else "contiguous"
    if "rotary_dim" in arguments:
        arguments["rotary_dim"] = float(arguments["rotary_dim"])
    return arguments


def _kind_and_fields(scaling):
    if scaling is None:
        return "default", {}
    if not isinstance(scaling, dict):
        raise ValueError(
            "`scaling` must be None or a dict with a type, such as "
            f'{{"rope_type": "linear", "factor": 2.0}}. Received: {quote(scaling)}'
        )
    fields = {name: value for name, value in scaling.items() if value is not None}
    older = fields.pop("type", None)
    kind = fields.pop("rope_type", older)
    kind = ALIASES.get(kind, kind)
    if kind is None:
        raise ValueError(
            f"Rope scaling needs its type under 'rope_type' or 'type'. Received: {quote(scaling)}"
        )
    if kind not in frequencies.SCALINGS:
        near = difflib.get_close_matches(str(kind), frequencies.SCALINGS, n=1)
        hint = (
            f"did you mean {near[0]!r}?" if near else f"there are {sorted(frequencies.SCALINGS)}."
        )
        raise ValueError(f"Unknown rope type {quote(kind)}: {hint}")
    return kind, fields


# Lower bounds of the fields; None for lists and booleans.
BOUNDS = {
    "factor": 1,
    "original_max_position_embeddings": 2,
    "partial_rotary_factor": 0,  # DroPE: no positions are left
    "mscale": 0,
    "mscale_all_dim": 0,
    "short_factor": None,
    "long_factor": None,
    "truncate": None,
}


def _check_values(kind, fields):
    for name, value in fields.items():
        bound = BOUNDS.get(name, 1e-6)
        many = isinstance(value, (list, tuple))
        if bound is None and name != "truncate" and not (many and all(_above(v) for v in value)):
            wanted = "a list of positive numbers"
        elif name == "truncate" and not isinstance(value, bool):
            wanted = "True or False"
        elif bound is not None and not _above(value, bound):
            wanted = "a positive number" if bound == 1e-6 else f"a number of at least {bound}"
        else:
            continue
        raise ValueError(
            f"`{name}` of rope type {quote(kind)} must be {wanted}. Received: {quote(value)}"
        )
    for low, high in (("low_freq_factor", "high_freq_factor"), ("beta_slow", "beta_fast")):
        if low in fields and high in fields and not fields[low] < fields[high]:
            raise ValueError(
                f"`{low}` of rope type {quote(kind)} must be below `{high}`. "
                f"Received: {fields[low]!r} and {fields[high]!r}"
            )
    if fields.get("partial_rotary_factor", 1) > 1:
        raise ValueError(
            "`partial_rotary_factor` is a share, at most 1. "
            f"Received: {fields['partial_rotary_factor']!r}"
        )


def _above(value, bound=1e-6):
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return number and bound <= value < math.inf


def _listed(names):
    return ", ".join(f"`{name}`" for name in names)
