"""`Extension`: how a model serves more positions than it was trained with, as one value."""

import copy
import dataclasses
import functools

from keras_posenc.arguments import checks
from keras_posenc.encodings.frequencies import SCALINGS
from keras_posenc.encodings.rope_scaling import read_scaling
from keras_posenc.files.untrusted import quote
from keras_posenc.positions.stretched import STRETCHES, check_alpha

TABLES = tuple(name for name in STRETCHES if name)
SU = 0.4  # the weight of the block index in Su (2020)
# What `Extension` replaced in version 0.5.
FORMER = ("stretch", "alpha", "kept_rows", "rope_scaling")


@dataclasses.dataclass(frozen=True)
class Extension:
    """How a model serves more positions than it was trained with.

    A model with a table of positions extends the table; one with rotary encodings scales their
    frequencies. Functions take an extension as an object, as a dict, or as a short string:

    | string | meaning |
    |---|---|
    | "hierarchical" | position i n + j combines two rows of the table (Su, 2020) |
    | "hierarchical:0.2" | with this weight of the block index, `alpha` |
    | "hierarchical:0.2,kept_rows=1" | and with one reserved row, such as that of [CLS] |
    | "tile", "interpolate", "fresh" | other ways to extend the table |
    | "yarn:4", "linear:4", "dynamic:4" | a type of rotary scaling, with its factor |

    A string means the same in every function. `keras_posenc.stretch` has another default than the
    others, which its documentation explains.

    Args:
        table: str. How a table of positions is extended: "hierarchical", "tile", "interpolate" or
            "fresh".
        alpha: float. For "hierarchical", the weight of the block index. Default 0.4, as in Su
            (2020).
        kept_rows: int. For "hierarchical" and "tile", the number of first rows that serve the first
            positions and no others. Default 0, as in Su (2020).
        rope_scaling: dict, as in Hugging Face's configs, such as {"rope_type": "yarn", "factor":
            4.0}. Replaces the scaling of all rotary encodings; see `RotaryEmbedding`.

    Example:

    >>> extension = Extension("hierarchical", alpha=0.2)
    >>> str(extension), extension == Extension.of("hierarchical:0.2")
    ('hierarchical:0.2', True)
    """

    table: str | None = None
    alpha: float | None = None
    kept_rows: int | None = None
    rope_scaling: dict | None = None

    def __post_init__(self):
        if self.table is None and self.rope_scaling is None:
            raise ValueError(
                "An extension needs `table`, for a table of positions, or `rope_scaling`, for "
                f"rotary encodings. Received: {self!r}"
            )
        checks.choice("table", self.table, STRETCHES)
        if self.alpha is not None:
            if self.table != "hierarchical":
                raise ValueError(f'`alpha` belongs to "hierarchical". Received: {self!r}')
            check_alpha(self.alpha)
        if self.kept_rows is not None:
            if self.table not in ("hierarchical", "tile"):
                raise ValueError(
                    '`kept_rows` belongs to "hierarchical" and "tile", which repeat rows. '
                    f"Received: {self!r}"
                )
            checks.whole("kept_rows", self.kept_rows, least=0)
        if self.rope_scaling is not None:
            if not isinstance(self.rope_scaling, dict):
                raise TypeError(f"`rope_scaling` must be a dict. Received: {self.rope_scaling!r}")
            # The config has the original length, which some types need.
            read_scaling({"max_position_embeddings": 2**30} | self.rope_scaling)
            object.__setattr__(self, "rope_scaling", copy.deepcopy(self.rope_scaling))

    @classmethod
    def of(cls, given):
        """Returns the extension that a value describes.

        Args:
            given: None, an `Extension`, a str such as "hierarchical:0.4" or "yarn:4", or a dict:
                that of `get_config`, or the `rope_scaling` of Hugging Face's configs.

        Returns:
            `Extension`, or None for None.

        Example:

        >>> Extension.of("yarn:4").rope_scaling
        {'rope_type': 'yarn', 'factor': 4.0}
        """
        if given is None or isinstance(given, cls):
            return given
        if isinstance(given, str):
            return cls(**_parse(given))
        if not isinstance(given, dict):
            raise TypeError(
                "`extension` must be an Extension, a str such as 'hierarchical:0.4' or 'yarn:4', "
                f"or a dict. Received: {given!r}"
            )
        if {"rope_type", "type"} & given.keys():
            return cls(rope_scaling=given)
        names = [field.name for field in dataclasses.fields(cls)]
        if unknown := [name for name in given if name not in names]:
            raise ValueError(
                f"`extension` has no {quote(unknown[0])}: its keys are {', '.join(names)}. "
                f"Received: {quote(given)}"
            )
        return cls(**given)

    def get_config(self):
        """Returns a dict that JSON can hold, with the defaults of what was not given.

        Example:

        >>> Extension("hierarchical").get_config()
        {'table': 'hierarchical', 'alpha': 0.4, 'kept_rows': 0}
        """
        defaults = {"alpha": SU} if self.table == "hierarchical" else {}
        if self.table in ("hierarchical", "tile"):
            defaults["kept_rows"] = 0
        given = {name: value for name, value in vars(self).items() if value is not None}
        return {**{n: given[n] for n in ("table",) if n in given}, **defaults, **given}

    def __str__(self):
        scaling = self.rope_scaling or {}
        numbers = {"alpha": self.alpha, "kept_rows": self.kept_rows}
        name = self.table
        if self.table is None:
            numbers = {name: value for name, value in scaling.items() if name != "rope_type"}
            name = scaling.get("rope_type")
        numbers = {key: value for key, value in numbers.items() if value is not None}
        plain = all(isinstance(value, (int, float)) for value in numbers.values())
        if name is None or not plain or (self.table and scaling):
            return repr(self)
        first = "alpha" if self.table else "factor"
        texts = [f"{numbers.pop(first):g}"] if first in numbers else []
        texts += [f"{key}={value!r}" for key, value in numbers.items()]
        return ":".join([name, ",".join(texts)] if texts else [name])


def _parse(text):
    """The arguments of an `Extension` in its short form."""
    name, _, rest = text.partition(":")
    if name not in (*TABLES, *SCALINGS):
        checks.choice("extension", name, (*TABLES, *SCALINGS))
    fields = {}
    for number, part in enumerate(filter(None, rest.split(","))):
        key, equals, value = part.rpartition("=")
        if not equals and number == 0:
            key = "alpha" if name in TABLES else "factor"
        try:
            fields[key.strip()] = int(value) if key.strip() == "kept_rows" else float(value)
        except ValueError:
            fields = None
        if not fields or "" in fields:
            raise ValueError(
                "`extension` must be like 'hierarchical:0.4', 'hierarchical:0.2,kept_rows=1' or "
                f"'yarn:4'. Received: {text!r}"
            )
    if name not in TABLES:
        return {"rope_scaling": {"rope_type": name, **fields}}
    if unknown := fields.keys() - {"alpha", "kept_rows"}:
        raise ValueError(
            f"{name!r} takes alpha and kept_rows, not {min(unknown)!r}. Received: {text!r}"
        )
    return {"table": name, **fields}


def former_arguments(function):
    """Decorates a function that still takes the arguments which `extension` replaced."""
    of = function.__qualname__.removesuffix(".__init__")

    @functools.wraps(function)
    def call(*args, **kwargs):
        given = {name: kwargs.pop(name) for name in FORMER if name in kwargs}
        if given:
            if kwargs.get("extension") is not None:
                raise TypeError(
                    f"`extension` of {of} has what {checks.listed(given)} had: give it alone."
                )
            bert4keras = kwargs.pop("hierarchical_position", None)
            kwargs["extension"] = extension = former_extension(given, bert4keras=bert4keras)
            shown = str(extension) if extension else None
            checks.warn_former(of, f"give extension={shown!r}", given)
        return function(*args, **kwargs)

    return call


def former_extension(given, default=None, bert4keras=None):
    """The `Extension` of the arguments that functions had until version 0.4, or None.

    `given`: dict, the former arguments. `default`: str or None. The default of `extension`: what of
    it was not given stays. `bert4keras`: bool, float or None, as `hierarchical_position`.
    """
    usual = {} if default is None else vars(Extension.of(default))
    usual = {name: value for name, value in usual.items() if value is not None}
    given = {name: value for name, value in given.items() if value is not None or name == "stretch"}
    if isinstance(given.get("rope_scaling"), str):
        given |= Extension.of(given.pop("rope_scaling")).get_config()
    table = checks.choice("stretch", given.pop("stretch", usual.get("table")), STRETCHES)
    if bert4keras is not None and bert4keras is not False:
        if table not in (None, "hierarchical") or bert4keras is not True and "alpha" in given:
            raise ValueError(
                "Give `extension` or `hierarchical_position`, not both. Received: "
                f"hierarchical_position={bert4keras!r} with "
                f"{', '.join(f'{name}={value!r}' for name, value in given.items())}"
            )
        table = "hierarchical"
        given |= {} if bert4keras is True else {"alpha": bert4keras}
    if table is None and "alpha" in given:
        table = "hierarchical"
    if table is None and "rope_scaling" not in given:
        if given:
            raise ValueError(
                f"`kept_rows` is for a table that is extended. Received: {given}, stretch=None"
            )
        return None
    if usual:  # runs ignored what did not belong to their `stretch`
        belongs = {"hierarchical": ("alpha", "kept_rows"), "tile": ("kept_rows",)}.get(table, ())
        given = {name: value for name, value in (usual | given).items() if name in belongs}
    return Extension(**{"table": table, **given})
