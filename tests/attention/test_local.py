"""A window at the cost of the window computes what the whole map says."""

import keras
import laws
import numpy as np
import pytest
from keras import ops
from selection import on_all

from keras_posenc import PositionalAttention, backend
from keras_posenc.attention import choose, local
from keras_posenc.attention.rules import Rules
from keras_posenc.encodings import Encoding, Grid

BACKEND = keras.backend.backend()
T = 200  # the last chunk of 16 is not full
H, D = laws.H, 4


@keras.saving.register_keras_serializable("tests")
class Near(Encoding):
    """A window whose first tokens are seen, or see and are seen, from everywhere."""

    def __init__(self, window=5, sinks=0, global_tokens=0, **kwargs):
        super().__init__(**kwargs)
        self.limits = {"window": window, "sinks": sinks, "global_tokens": global_tokens}

    def restrict(self, grid):
        return grid.replace(**self.limits)

    def get_config(self):
        return {**super().get_config(), **self.limits}


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Chunks of 16 columns; and a note of each call that goes by them."""
    taken, attend_locally = [], local.attend_locally

    def noted(*arguments, block_rows, **options):
        taken.append(block_rows)
        return attend_locally(*arguments, block_rows, **options)

    monkeypatch.setattr(local, "FEWEST_ROWS", 1)
    monkeypatch.setattr(choose, "attend_locally", noted)
    return taken


def compare(taken, layer, causal, keep=None, rows=16, tolerance=1e-4):
    """Values and gradients, in training and not, with those of the map in full."""
    x = laws.numbers(length=T)
    if not layer.built:
        layer.build(x.shape, x.shape)
    arguments = {"causal": causal}
    if keep is not None:
        arguments |= {"value_mask": keep, "counted": keep}
    explicit = laws.gradients(layer, x, return_attention_scores=True, **arguments)
    assert taken == []
    for training in (True, False):
        near = laws.gradients(layer, x, training=training, **arguments)
        # In a window beside the padding a row may see nothing.
        outputs = [near[0], explicit[0]]
        outputs = [x if keep is None else x * keep[..., None] for x in outputs]
        laws.close(*outputs, tolerance)
        for one, other in zip(near[1:], explicit[1:], strict=True):
            laws.close(one, other, tolerance)
    assert set(taken) == {rows}


def padding():
    keep = np.ones((laws.B, T), bool)
    keep[0, 140:], keep[1, :3] = False, False
    return keep


# A hook each; on torch all of them, the others compile for seconds.
LISTS = {
    "plain": [],
    "heads": ["rotary"],
    "bias": ["t5", "nezha"],
    "value": ["shaw"],
    "score": ["cope"],
    "normalize": ["squared_relu"],
    "features": ["forget_gate"],
    "visible": ["log_n"],
}
LIMITS = [{}, {"sinks": 2}, {"global_tokens": 3}, {"window": 20, "sinks": 1, "global_tokens": 2}]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("limits", on_all(LIMITS[-1:], LIMITS), ids=str)
def test_a_window_is_the_map_in_full(limits, causal, small_chunks):
    layer = PositionalAttention(H, D, encodings=[Near(**limits), "rotary"], seed=1)
    compare(small_chunks, layer, causal, padding(), 32 if "window" in limits else 16)


@pytest.mark.once
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("limits", LIMITS[:3], ids=str)
@pytest.mark.parametrize("name", LISTS)
def test_every_hook_acts_in_a_window(name, limits, causal, small_chunks):
    if name in ("score", "features") and not causal:
        return
    layer = PositionalAttention(H, D, encodings=[Near(**limits), *LISTS[name]], seed=1)
    compare(small_chunks, layer, causal, padding())


@pytest.mark.skipif(BACKEND != "torch", reason="PyTorch's calls take longer than a GPU")
@pytest.mark.parametrize(
    "encodings, causal, bytes_at_once, at_once",
    [
        ([Near(), "rotary"], False, 2**30, 13),
        ([Near(), "sink_logits"], True, 2**17, 7),  # 14 blocks, of which one is of no rows
        ([Near(window=20, sinks=1, global_tokens=2)], True, 2**30, 7),
        ([Near(), "t5"], True, 2**30, 1),  # its map is read
    ],
    ids=str,
)
def test_on_a_gpu_blocks_are_one_batch(
    encodings, causal, bytes_at_once, at_once, small_chunks, monkeypatch
):
    found, run = [], local.run

    def noted(*arguments):
        found.extend(arguments[5:])
        return run(*arguments)

    monkeypatch.setattr(local, "run", noted)
    monkeypatch.setattr(local, "AT_ONCE", bytes_at_once)
    monkeypatch.setattr(backend, "on_accelerator", lambda q: True)
    layer = PositionalAttention(H, D, encodings=encodings, seed=1)
    rows = 32 if encodings[0].limits["window"] == 20 else 16
    compare(small_chunks, layer, causal, padding(), rows)
    assert set(found) == {at_once}


@pytest.mark.parametrize("limits", on_all([{}], [{}, {"global_tokens": 3}]), ids=str)
def test_a_window_drops_a_share_of_its_weights(limits, small_chunks):
    """Unlike in blocks not the same cells as the whole map, but as many, and the mean stays."""
    layer = PositionalAttention(1, 4, encodings=[Near(**limits)], dropout=0.25, seed=1)
    x = ops.ones((4, T, 6))
    layer.build(x.shape, x.shape)
    output = [laws.to_numpy(layer(x, x, training=training)) for training in (True, False)]
    share = output[0] / output[1]
    assert small_chunks and share.std() > 0.1
    assert abs(share.mean() - 1) < 4 * share.std() / np.sqrt(share[..., 0].size)


@pytest.mark.once
def test_what_a_window_cannot_say_goes_over_the_map(small_chunks):
    x = laws.numbers(length=T)
    layer = PositionalAttention(H, D, encodings=[Near()])
    ids = np.arange(T)[::-1].copy()
    mask = np.ones((T, T), bool)
    wholly = [{"query_positions": ids}, {"attention_mask": mask}, {"bias": np.zeros((1, 1, T, T))}]
    for arguments in wholly:
        laws.run(layer, x, **arguments)
    laws.run(layer, x[:, :92])
    carried = PositionalAttention(H, D, encodings=[Near(), "selective"])
    laws.run(carried, x, causal=True)
    assert small_chunks == []
    laws.run(layer, x)
    assert small_chunks == [16]


@pytest.mark.once
@pytest.mark.parametrize("reach", [4, 300])
def test_chunks_follow_the_window(reach):
    grid = Grid(np.arange(9)[None], np.arange(9)[None], ids_are_indices=True, window=reach + 1)
    q = keras.KerasTensor((1, 2**14, H, D))
    assert local.local_rows(q, q, grid, Rules()) == -(-min(reach, 256) // 16) * 16
    short = keras.KerasTensor((1, 64, H, D))
    assert local.local_rows(short, short, grid, Rules()) is None
    unknown = keras.KerasTensor((1, None, H, D))
    assert local.local_rows(unknown, unknown, grid, Rules())
    far = grid.replace(window=2000)
    assert local.local_rows(unknown, unknown, far, Rules()) is None
