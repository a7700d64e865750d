"""Combinations of all that attention takes, drawn anew each day, against one reference in NumPy."""

import attention_checks
import attention_draws
import keras
import pytest

SEED = attention_draws.seed_of_the_day()


@pytest.mark.once
def test_every_pair_of_options_meets_and_is_the_reference():
    """Another draw: `python tests/attention_draws.py --seed N`, or SEED=N in the environment."""
    number, failures, pairs, _ = attention_draws.run(
        SEED, most=2500, every=4, long=0.01, until_met=True
    )
    print("\n".join(attention_draws.table(pairs)))
    assert failures == [], f"seed {SEED}"
    assert [sorted(pair) for pair in pairs.missing()] == [], f"seed {SEED}, {number} cases"


@pytest.mark.once
@pytest.mark.parametrize("pair", attention_draws.REFUSED, ids=" + ".join)
def test_a_pair_that_is_left_out_is_refused(pair):
    case = attention_draws.case_of(0, 0, list(pair), "short")
    with pytest.raises(attention_checks.Refused, match=attention_draws.REFUSED[pair]):
        attention_checks.check(case)


def test_draws_are_the_reference():
    """Some on each backend, long ones among them."""
    most = {"torch": 60, "tensorflow": 20, "jax": 8}[keras.backend.backend()]
    number, failures, _, _ = attention_draws.run(SEED + 1, most=most, long=0.2)
    assert failures == [], f"seed {SEED + 1}"
    assert number == most


@pytest.mark.once
@pytest.mark.parametrize("planted", ["window", "softmax", "gradient"])
def test_a_fault_is_found(planted, monkeypatch):
    from keras_posenc.attention import fused, matrix
    from keras_posenc.maps.grid import Grid

    if planted == "window":
        mask = Grid.mask

        def wider(self):
            return mask(self if self.window is None else self.replace(window=self.window + 1))

        monkeypatch.setattr(Grid, "mask", wider)
        options = ["sliding window", "alibi"]
    elif planted == "softmax":
        monkeypatch.setattr(matrix, "softmax", lambda x: keras.ops.softmax(1.01 * x))
        options = ["scores", "shaw"]
    else:

        def halved(q, k, v):
            return 0.5 * q + 0.5 * keras.ops.stop_gradient(q), k, v, v.shape[-1]

        monkeypatch.setattr(fused, "_of_one_size", halved)
        options = ["causal", "rotary"]
    drawn = (attention_draws.case_of(1, number, options, "short") for number in range(99))
    longer = (case for case in drawn if case.call["query"].shape[1] > 8)
    case = next(case for case in longer if case.layer.get("sliding_window", 1) < 9)
    with pytest.raises(AssertionError, match="gradients" if planted == "gradient" else "off by"):
        attention_checks.check(case)
