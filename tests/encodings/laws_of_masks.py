"""What every encoding keeps of masks, padding and empty inputs; more laws, as in `laws.py`."""

import numpy as np
from laws import (
    HALF,
    B,
    E,
    T,
    attention,
    call,
    close,
    finite,
    ids_of,
    numbers,
    padded,
    run,
    to_numpy,
)


def padding_and_batch_mates_change_nothing(case, causal):
    layer = attention(case)
    x, keep, ids = padded(case)
    results = [run(layer, x, causal=causal, value_mask=keep, query_positions=ids)]
    if case.relative and case.axes == 1:
        results.append(run(layer, x, causal=causal, value_mask=keep))
    alone = run(layer, np.stack([x[0, T - HALF :], x[1, :HALF]]), causal=causal)
    for result in results:
        close(np.stack([result[0, T - HALF :], result[1, :HALF]]), alone, 5e-5)


def packed_documents_do_not_meet(case, causal):
    layer, x = attention(case), numbers()
    document = np.arange(T) // HALF
    mask = document[:, None] == document[None]
    if causal:
        mask = mask & np.tril(np.ones((T, T), bool))
    every = np.repeat(ids_of(case, np.arange(T) % HALF)[None], B, 0)
    arguments = dict(attention_mask=mask, query_positions=every)
    results = [run(layer, x, **arguments), run(layer, x, causal=causal, **arguments)]
    if case.relative and case.axes == 1:
        results.append(run(layer, x, attention_mask=np.repeat(mask[None], B, 0), causal=causal))
    if case.axes == 1:
        results.append(run(layer, x, causal=causal, query_positions=every, packed=True))
    for part in (slice(0, HALF), slice(HALF, T)):
        alone = run(layer, x[:, part], causal=causal)
        for result in results:
            close(result[:, part], alone, 5e-5)


def nothing_leaks_through_the_mask(case, causal):
    """Closed keys may hold anything: some that are closed for all, and the future."""
    layer, x = attention(case), numbers()
    closed = np.isin(np.arange(T), [3, 4] if case.gaps else [0, 1])
    y = np.where(closed[:, None], 5 * numbers(3), x)
    mask = np.broadcast_to(~closed, (B, case.heads, T, T))
    first, second = (run(layer, x, z, causal=causal, attention_mask=mask) for z in (x, y))
    # The closed rows have other queries.
    close(first[:, ~closed], second[:, ~closed], 1e-5)
    if causal:
        first, second = run(layer, x, causal=True), run(layer, y, causal=True)
        future = int(np.argmax(closed))
        close(first[:, :future], second[:, :future], 1e-5)
        assert np.abs(first - second)[:, future:].max() > 1e-3


def masked_keys_may_hold_any_number(case, causal):
    """Huge numbers in keys that a mask closes; in padding also what is no number."""
    layer, x = attention(case), numbers()
    keep = np.broadcast_to(np.arange(T) < HALF, (B, T))
    closed = np.broadcast_to(keep[:, None], (B, T, T))
    masks = [("value_mask", keep, (1e9, 1e15, np.inf, np.nan))]
    masks += [("attention_mask", closed, (1e9, 1e15))]
    for name, mask, values in masks:
        arguments = {"causal": causal, name: mask}
        plain = run(layer, x, np.where(keep[..., None], x, 0), **arguments)
        for value in values:
            y = np.where(keep[..., None], x, np.float32(value))
            close(run(layer, x, y, **arguments)[:, :HALF], plain[:, :HALF], 1e-5)


def the_causal_order_is_its_mask(case):
    """Whatever the ids are: also where they fall, or where a later token is a nearer one."""
    layer, x = attention(case), numbers()
    ids = np.stack([np.arange(T)[::-1], np.random.default_rng(4).permutation(4 * T)[:T]])
    ids = ids_of(case, ids.astype("int32"))
    ordered = run(layer, x, causal=True, query_positions=ids)
    mask = np.tri(T, dtype=bool)
    close(ordered, run(layer, x, query_positions=ids, attention_mask=mask), 5e-5)


def nothing_to_attend_to_is_an_answer(case, causal):
    """Batches without texts, texts without tokens: alone, for training, with the weights."""
    layer = attention(case)
    for batch, length in ((0, T), (B, 0)):
        empty = numbers(batch=batch, length=length)
        for training in (False, True):
            assert run(layer, empty, causal=causal, training=training).shape == empty.shape
        _, weights = call(layer, empty, causal=causal, return_attention_scores=True)
        assert tuple(weights.shape) == (batch, case.heads, length, length)


def a_row_without_keys_is_zero(case, causal, cut_maps):
    """By every mask and on every path: what is left is the bias of the output's projection."""
    layer, x = attention(case), numbers()
    bias = to_numpy(layer.output_dense.bias)
    keep = np.ones((B, T), bool)
    keep[0] = False
    below = np.tril(np.ones((T, T), bool), -2)
    some = np.arange(B)[:, None] > 0
    cases = [("attention_mask", np.zeros((B, T, T), bool), np.ones((B, T), bool))]
    cases += [("attention_mask", below, np.broadcast_to(np.arange(T) < 2, (B, T)))]
    cases += [("value_mask", keep, np.broadcast_to(~some, (B, T)))]
    for name, mask, blind in cases:
        for training in (False, True):
            # With the gradients of one of them.
            computed = run if training or name == "attention_mask" else finite
            found = computed(layer, x, causal=causal, training=training, **{name: mask})
            assert np.isfinite(found).all()
            close(found[blind], np.broadcast_to(bias, found.shape)[blind])
    arguments = {"causal": causal, "value_mask": keep}
    output, weights = call(layer, x, return_attention_scores=True, **arguments)
    close(to_numpy(output)[0], np.broadcast_to(bias, (T, E)))
    assert not to_numpy(weights)[0].any()
    cut_maps(0, 1, 2)  # blocks of two rows
    found = finite(layer, x, training=True, **arguments)
    close(found[0], np.broadcast_to(bias, (T, E)))
