"""Records of tensors whose fields declare which axes are the rows and the columns of a map."""

import dataclasses

LAYOUTS = {}  # torch.compile can read a dict, and neither a cached function nor `fields`


@dataclasses.dataclass(frozen=True)
class Axes:
    """The axes of a tensor that follow the map.

    `rows`, `columns`: int or None. The axis of the rows, and that of the columns. `by_encoding`:
    bool. The field is a dict, encoding -> tensor. `for_hooks`: bool. Only the hooks of encodings on
    the map read it.
    """

    rows: int | None = None
    columns: int | None = None
    by_encoding: bool = False
    for_hooks: bool = False


def tensor(rows=None, columns=None, default=None, by_encoding=False, for_hooks=False):
    """Declares a tensor of a record.

    `rows`, `columns`, `by_encoding`, `for_hooks`: as in `Axes`. `default`: value of the field;
    `dataclasses.MISSING` if there is none.
    """
    metadata = {"axes": Axes(rows, columns, by_encoding, for_hooks)}
    if by_encoding:
        return dataclasses.field(default_factory=dict, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def derived():
    """Declares what is computed from the tensors of a record: a copy with others has none."""
    return dataclasses.field(default=None, metadata={"derived": True})


def layout(kind):
    """What a record holds: dict, tensor -> `Axes`; dict, record inside -> its class; names of what
    is derived."""
    if kind not in LAYOUTS:
        fields = dataclasses.fields(kind)
        tensors = {f.name: f.metadata["axes"] for f in fields if "axes" in f.metadata}
        inside = {f.name: f.type for f in fields if dataclasses.is_dataclass(f.type)}
        LAYOUTS[kind] = tensors, inside, [f.name for f in fields if "derived" in f.metadata]
    return LAYOUTS[kind]


def tensors_of(record):
    """The tensors of a record and of those inside: dict, (name, encoding or None) -> tensor.

    `record`: a dataclass with fields made by `tensor`.
    """
    declared, inside, _ = layout(type(record))
    tensors = {}
    for name, axes in declared.items():
        x = getattr(record, name)
        if axes.by_encoding:
            tensors.update({(name, key): y for key, y in x.items()})
        elif x is not None:
            tensors[name, None] = x
    for name in inside:
        tensors.update(tensors_of(getattr(record, name)))
    return tensors


def with_tensors(record, tensors):
    """A copy of a record with these tensors, under the keys of `tensors_of`, and no others."""
    declared, inside, outdated = layout(type(record))
    changes = dict.fromkeys(outdated)
    for name, axes in declared.items():
        if axes.by_encoding:
            changes[name] = {key: x for (field, key), x in tensors.items() if field == name}
        else:
            changes[name] = tensors.get((name, None))
    for name in inside:
        changes[name] = with_tensors(getattr(record, name), tensors)
    return dataclasses.replace(record, **changes)


def axes_of(kind):
    """All tensors of a record and of those inside: dict, name -> `Axes`. `kind`: the dataclass."""
    declared, inside, _ = layout(kind)
    return {**declared, **{k: v for other in inside.values() for k, v in axes_of(other).items()}}
