"""Every name of an encoding against its oracle, with weights that are nowhere neutral."""

import ast
import pathlib

import cases
import keras
import laws
import numpy as np
import pytest
from attention_checks import reference, values_of
from keras import ops
from oracles_places import KNOWN

from keras_posenc import encodings as position_encodings
from keras_posenc.encodings.base import Encoding

TESTS = pathlib.Path(__file__).parents[1]
FIRSTS = [case for case in cases.CASES if isinstance(case.encodings[0], str)]
GAPS = np.array([[0, 1, 4, 5, 9, 10, 13, 21], [2, 3, 5, 6, 7, 8, 11, 40]], "int32")
KEEP = np.ones(GAPS.shape, bool)
KEEP[0, :2] = KEEP[1, -3:] = False


@pytest.fixture(autouse=True)
def programs(monkeypatch):
    monkeypatch.setattr(laws, "COMPILED", keras.backend.backend() == "jax")


def name_of(case):
    (spec,) = case.encodings
    return spec if isinstance(spec, str) else spec["name"]


def is_the_papers(case, causal, shift=None, tolerance=2e-5):
    """Attention with one encoding gives what its oracle gives, where a query is no padding.

    Args:
        shift: added to ids with gaps, another ladder on each axis. None: no ids are given.
    """
    name = name_of(case)
    assert name in KNOWN, f"{name} has no oracle: write one from its paper"
    layer, x = laws.attention(case), laws.numbers()
    ids = np.tile(np.arange(laws.T, dtype="int32"), (laws.B, 1)) if shift is None else GAPS
    if case.axes > 1:
        ids = ids[..., None] * np.arange(1, case.axes + 1, dtype="int32")
    ids = ids if shift is None else ids + shift
    arguments = {} if shift is None and case.axes == 1 else {"query_positions": ids}
    found = laws.run(layer, x, causal=causal, value_mask=KEEP, **arguments)
    call = {"query": x, "value": x, "value_mask": KEEP, "use_causal_mask": causal}
    expected, *_ = reference(layer, values_of(layer), call | {"query_positions": ids})
    laws.close(found[KEEP], expected[KEEP], tolerance)


def over(cases):
    """Every case and order; the first ones of each encoding on every backend, the rest `once`."""
    pairs = [(case, causal) for case in cases for causal in case.orders]
    return pytest.mark.parametrize(
        ("case", "causal"),
        [
            pytest.param(
                case,
                causal,
                id=f"{case}-{'causal' if causal else 'open'}",
                marks=() if case in FIRSTS and causal is case.orders[0] else pytest.mark.once,
            )
            for case, causal in pairs
        ],
    )


@pytest.mark.once
def test_every_encoding_has_an_oracle():
    assert set(KNOWN) == set(position_encodings.ENCODINGS)


@pytest.mark.once
def test_oracles_import_nothing_of_ours():
    paths = sorted(TESTS.glob("oracles*.py"))
    assert paths
    allowed = {"ast", "dataclasses", "itertools", "math", "numpy", "re", "unicodedata"}
    allowed |= {path.stem for path in paths}
    for path in paths:
        nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
        names = [n.name for node in nodes if isinstance(node, ast.Import) for n in node.names]
        names += [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
        assert set(names) <= allowed, path.name


@over(cases.CASES)
def test_it_is_the_papers(case, causal):
    is_the_papers(case, causal)
    is_the_papers(case, causal, shift=0)


@over(cases.CASES)
def test_it_is_the_papers_a_million_positions_away(case, causal):
    is_the_papers(case, causal, shift=1_000_000, tolerance=2e-4)


@pytest.mark.parametrize("name", ["rotary", "rotary_bias", "sandwich", "transformer_xl"])
def test_waves_are_exact_where_a_million_positions_lie_between(name):
    is_the_papers(laws.Case((name,)), True, np.where(GAPS > 8, 1_000_000, 0), 2e-4)


# --- That the law can fail ---


@pytest.mark.once
def test_an_encoding_without_an_oracle_is_refused(monkeypatch):
    monkeypatch.setitem(position_encodings.ENCODINGS, "of_another", position_encodings.KERPLE)
    with pytest.raises(AssertionError, match="of_another has no oracle: write one from its paper"):
        is_the_papers(laws.Case(("of_another",)), causal=False)


def strengthened(returned, hook, factor, before):
    """What a hook said, with all that it adds to what it was given times `factor`."""
    if hook == "heads":
        (q, k), heads = returned, before[0]
        heads = ops.pad(heads, [(0, 0)] * 3 + [(0, q.shape[-1] - heads.shape[-1])])
        return heads + factor * (q - heads), k
    if hook == "score":
        return before[0] + factor * (returned - before[0])
    if hook == "scan":
        logits, carry = returned
        return before[0] + factor * (logits - before[0]), carry
    return None if returned is None else factor * returned


def wrong(encoding, hook, factor):
    """The class with one hook that says `factor` times what it should."""

    def method(self, *arguments):
        return strengthened(right(self, *arguments), hook, factor, arguments)

    right = getattr(encoding, hook)
    return type(encoding.__name__, (encoding,), {hook: method})


def is_noticed(monkeypatch, name, encoding):
    """Whether the law finds the wrong encoding, in some case of its name."""
    monkeypatch.setattr(laws, "_BUILT", {})
    monkeypatch.setitem(position_encodings.ENCODINGS, name, encoding)
    for case in (case for case in cases.CASES if name_of(case) == name):
        for shift in (None, 0):
            try:
                is_the_papers(case, case.orders[-1], shift)
            except AssertionError:
                return True
    return False


@pytest.mark.once
@pytest.mark.parametrize("factor", [1.1, -3.0])
def test_a_hook_that_is_wrong_is_found(factor, monkeypatch):
    """By a tenth; or with +3 c d for -c d, as once passed 44 tests."""
    hooks = (
        "features",
        "query_features",
        "heads",
        "bias",
        "score",
        "scan",
        "sink",
        "normalize",
        "value",
    )
    noticed = {
        (name, hook): is_noticed(monkeypatch, name, wrong(encoding, hook, factor))
        for name, encoding in dict(position_encodings.ENCODINGS).items()
        for hook in hooks
        if getattr(encoding, hook) is not getattr(Encoding, hook)
    }
    assert [which for which, seen in noticed.items() if not seen] == []
    # A window has only cells that it closes.
    assert {name for name, _ in noticed} == set(position_encodings.ENCODINGS) - {"window"}


@pytest.mark.once
def test_a_window_that_is_wrong_is_found(monkeypatch):
    class OneWider(position_encodings.Window):
        def restrict(self, grid):
            return super().restrict(grid).replace(window=self.window + 1)

    assert is_noticed(monkeypatch, "window", OneWider)
