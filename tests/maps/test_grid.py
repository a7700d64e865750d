import numpy as np
import pytest
from keras import ops

from keras_posenc.encodings import Grid

IDS = np.array([[0, 1, 2, 3], [5, 7, 7, 9]])
KEEP = np.array([[1, 1, 1, 0], [0, 1, 1, 1]], bool)
MASK = np.random.default_rng(0).random((2, 4, 4)) > 0.4


def grid(**parts):
    parts = {name: ops.convert_to_tensor(part) for name, part in parts.items()}
    ids = ops.convert_to_tensor(IDS)
    return Grid(ids, ids, **parts)


def test_distance_is_row_minus_column():
    expected = IDS[:, :, None] - IDS[:, None]
    np.testing.assert_array_equal(ops.convert_to_numpy(grid().distance()), expected)


def test_a_cell_is_open_when_every_part_agrees():
    assert grid().mask() is None
    order = np.array([[0, 0, 1, 2], [0, 1, 2, 3]])
    cells = grid(key_mask=KEEP, query_order=order, key_order=order, attention_mask=MASK).mask()
    expected = KEEP[:, None] & (order[:, None] <= order[:, :, None]) & MASK
    np.testing.assert_array_equal(ops.convert_to_numpy(cells)[:, 0], expected)


def test_a_mask_may_differ_by_head():
    mask = np.stack([MASK, ~MASK], 1)
    np.testing.assert_array_equal(ops.convert_to_numpy(grid(attention_mask=mask).mask()), mask)


def test_orders_come_in_pairs():
    with pytest.raises(ValueError, match="needs both `query_order` and `key_order`, or neither"):
        grid(query_order=IDS)


def test_a_query_meets_the_key_of_its_token_by_index_or_by_position():
    by_position = np.array([np.eye(4), np.eye(4)], bool)
    by_position[1, 1:3, 1:3] = True  # two tokens at 7
    np.testing.assert_array_equal(ops.convert_to_numpy(grid().same_token()), by_position)
    # Two rows of a cache, at 1 and 3 of its columns.
    orders = {"query_order": np.array([[1, 3]]), "key_order": np.arange(4)[None]}
    by_index = grid(**orders).replace(order_is_index=True).same_token()
    np.testing.assert_array_equal(ops.convert_to_numpy(by_index), [np.eye(4)[[1, 3]]])


def test_what_a_grid_does_not_have_cannot_be_replaced():
    with pytest.raises(TypeError, match="A grid has no 'key_postions': did you mean 'key_posit"):
        grid().replace(key_postions=IDS)
    changed = grid().replace(key_mask=KEEP, queries=MASK)
    assert changed.key_mask is KEEP and changed.content.queries is MASK


@pytest.mark.once
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [1, 3, 2.5, 20])
@pytest.mark.parametrize("seen", [{}, {"sinks": 2}, {"global_tokens": 1}], ids=str)
def test_visible_keys_of_a_window_are_counted_without_its_map(window, seen, causal):
    ids = ops.arange(9)[None]
    keep = np.random.default_rng(0).random((3, 9)) > 0.3
    order = {"query_order": ids, "key_order": ids, "order_is_index": True} if causal else {}
    for keys in (None, ops.convert_to_tensor(keep)):
        near = Grid(ids, ids, key_mask=keys, window=window, ids_are_indices=True, **seen, **order)
        expected = np.sum(ops.convert_to_numpy(near.mask()), -1)
        np.testing.assert_array_equal(
            *np.broadcast_arrays(ops.convert_to_numpy(near.visible()), expected)
        )
