"""Arguments of `embed`, `search`, `rerank` and embedders until version 0.4."""

import functools
import inspect
import typing

from keras_posenc.arguments import checks
from keras_posenc.arguments.aliases import check_arguments
from keras_posenc.models.extension import FORMER, former_extension
from keras_posenc.retrieval.readings import Chunks, LateChunks, LateSpans

READING = ("chunks", "late", "overlap", "spans")
KINDS = {"multi": "LateInteraction", "sparse": "SparseEmbedder"}


class Unopened(typing.NamedTuple):
    """A directory, and arguments that it is to be opened with; "kind" is the name of a class."""

    directory: object
    arguments: dict


def former_arguments(function=None, *, opening=(), call=None):
    """Decorates a function, or `__init__`, that still takes arguments of version 0.4, with one
    warning.

    Those in `opening` belong to opening a directory: the function gets them as `Unopened` in the
    place of the directory. `call` is the function by which the warning opens the directory with
    them; by default `open_embedder`.
    """
    if function is None:
        return functools.partial(former_arguments, opening=opening, call=call)
    of = function.__qualname__.removesuffix(".__init__")
    names = (*FORMER, *READING, *KINDS, *opening, "document_length")
    places = [name for name in inspect.signature(function).parameters if name != "self"]

    @functools.wraps(function)
    def with_former(*args, **kwargs):
        former = [name for name in names if name in kwargs and name not in places]
        check_arguments(function, kwargs, former)
        if not former:
            return function(*args, **kwargs)
        given = {name: kwargs.pop(name) for name in former}
        opened = {name: given.pop(name) for name in opening if name in given}
        chosen = [KINDS[name] for name in KINDS if given.pop(name, False)]
        if len(chosen) > 1:
            raise ValueError("`multi` and `sparse` are for models of two kinds: leave both out.")
        opened |= dict(zip(["kind"], chosen, strict=False))
        new = _new(given)
        if twice := new.keys() & kwargs.keys():
            listed = checks.listed(former)
            raise TypeError(f"`{min(twice)}` of {of} has what {listed} had: give it alone.")
        if "extension" in new and "extension" not in places:
            opened["extension"] = new.pop("extension")
        kwargs |= new
        opened = {name: value for name, value in opened.items() if value is not None}
        new = {name: value for name, value in new.items() if value is not None}
        if opened:
            first, *others = args or (kwargs.pop("directory"),)
            args = (Unopened(first, opened), *others)
        checks.warn_former(of, _remedy(of, places, new, opened, call), former)
        return function(*args, **kwargs)

    return with_former


def _new(given):
    """What arguments of version 0.4 are called now."""
    new = {}
    if parts := {name: given[name] for name in FORMER if name in given}:
        new["extension"] = former_extension(parts)
    if parts := {name: given[name] for name in READING if name in given}:
        new["reading"] = _reading(**parts)
    if "document_length" in given:
        new["max_length"] = given["document_length"]
    return new


def _reading(chunks=None, late=False, overlap=0, spans=None):
    if spans is not None:
        if chunks is not None or overlap:
            raise ValueError(
                "`spans` are the chunks of each text: leave `chunks` and `overlap` out. Received: "
                f"chunks={chunks!r}, overlap={overlap!r}"
            )
        return LateSpans(spans)
    if chunks is None:
        if late or overlap:
            raise ValueError(
                '`late` and `overlap` need the size of chunks: give reading="late:256". '
                f"Received: late={late!r}, overlap={overlap!r}"
            )
        return None
    return (LateChunks if late else Chunks)(chunks, overlap)


def _remedy(of, places, new, opened, call):
    """What to give, or the new call with dots for what stays."""
    shown = [f"{name}={_text(value)}" for name, value in new.items()]
    if not opened:
        return f"give {', '.join(shown) or 'nothing'}"
    function = call or opened.get("kind", "open_embedder")
    inside = [f"{n}={_text(value)}" for n, value in opened.items() if n != "kind"]
    inside = f"{function}({', '.join([places[0], *inside])})"
    return f"call {of}({', '.join([inside, '...', *shown])})"


def _text(value):
    if isinstance(value, LateSpans):
        return "LateSpans(spans)"
    # Strings, readings and extensions are written as short strings.
    return repr(value if isinstance(value, (int, float, list, dict)) else str(value))
