"""Attention with dropout as kernels for NVIDIA GPUs, which do not materialise the matrix.

cuDNN's kernel draws by how often XLA has launched it, regardless of the seed. Its forward and
backward kernels count apart, so in a loop they would drop different cells. Here the hashes of a row
and a column decide, as in blocks of rows, which drop the same cells.
"""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas
from jax.experimental.pallas import triton

from keras_posenc.backend.jax_splash import filled
from keras_posenc.backend.weighing import CLOSED, kept

SIZE = 64  # rows and columns of a part of the matrix
OF_COLUMNS = 1, 2, 3, 5  # the tensors that differ by column: k, v, ceiling, of_columns
OF_ROWS = 0, 4, 6, 7, 8  # and by row: q, of_rows; in the backward pass upstream, total, shared

_product = functools.partial(jax.lax.dot, preferred_element_type="float32")


def attend(q, k, v, key_mask, hashes, scale, dropout, causal, interpret=False):
    """softmax(q k') v of heads (B, T, H, D) with dropout; D is a power of 2.

    `key_mask`: (B, Tk), or None. `hashes`: (B, H, Tq) and (1, Tk) int32. `causal`: bool. Row i sees
    the columns up to i. `interpret`: bool. Run without a GPU.
    """
    (of_rows, of_columns), (length, columns) = hashes, (q.shape[1], k.shape[1])
    mask = jnp.ones((1, columns), "bool") if key_mask is None else key_mask.astype("bool")
    ceiling = jnp.where(filled(mask, SIZE, False), jnp.inf, CLOSED).astype("float32")
    of_rows = filled(of_rows.reshape(-1, length), SIZE, 1).reshape(*of_rows.shape[:2], -1)
    tensors = [*(filled(x, SIZE, 0) for x in (q, k, v)), ceiling[:, None], of_rows]
    tensors.append(filled(of_columns, SIZE, 1)[:, None])
    return _attention(tensors, scale, dropout, causal, interpret)[:, :length]


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2, 3, 4))
def _attention(tensors, *options):
    return _forward(tensors, *options)[0]


def _forward(tensors, scale, dropout, causal, interpret):
    def start():
        zeros = jnp.zeros(SIZE, "float32")
        return jnp.zeros((SIZE, tensors[0].shape[3]), "float32"), zeros + 2 * CLOSED, zeros

    def step(place, carry, q, k, v, ceiling, *hashes):
        output, most, total = carry
        logits = _logits(q, k, ceiling, scale, causal, place)
        higher = jnp.maximum(most, jnp.max(logits, axis=1))
        weights, before = jnp.exp(logits - higher[:, None]), jnp.exp(most - higher)
        used = (weights * _factors(dropout, *hashes)).astype(v.dtype)
        output = output * before[:, None] + _product(used, v)
        return output, higher, total * before + jnp.sum(weights, axis=1)

    def end(output, most, total):
        return output / total[:, None], most + jnp.log(total)

    results = tensors[0], jax.ShapeDtypeStruct(tensors[4].shape, "float32")
    output, total = _run((start, step, end), tensors, results, OF_ROWS, causal, interpret)
    return output, (tensors, output, total)


def _backward(scale, dropout, causal, interpret, saved, upstream):
    tensors, output, total = saved
    shared = jnp.sum(output.astype("float32") * upstream.astype("float32"), axis=-1)
    read = [*tensors, upstream, total, shared.transpose(0, 2, 1)]

    def cells(place, q, k, v, ceiling, of_rows, of_columns, upstream, total, shared):
        """The weights in use, and the gradient of the logits."""
        weights = jnp.exp(_logits(q, k, ceiling, scale, causal, place) - total[:, None])
        factors = _factors(dropout, of_rows, of_columns)
        of_logits = weights * (_product(upstream, v.T) * factors - shared[:, None]) * scale
        return (weights * factors).astype(v.dtype), of_logits.astype(q.dtype)

    def start(*_):
        return jnp.zeros((SIZE, upstream.shape[3]), "float32")

    def of_queries(place, found, *values):
        return found + _product(cells(place, *values)[1], values[1])

    def of_keys(place, found, *values):
        used, of_logits = cells(place, *values)
        of_k, of_v = _product(of_logits.T, values[0]), _product(used.T, values[6])
        return found[0] + of_k, found[1] + of_v

    parts = start, of_queries, lambda x: (x,)
    (of_q,) = _run(parts, read, read[:1], OF_ROWS, causal, interpret)
    parts = lambda: (start(), start()), of_keys, lambda *found: found
    of_k, of_v = _run(parts, read, read[1:3], OF_COLUMNS, causal, interpret)
    return ([of_q, of_k, of_v, None, None, None],)


_attention.defvjp(_forward, _backward)


def _logits(q, k, ceiling, scale, causal, place):
    """Those of the part of the matrix at this row and column of parts."""
    logits = jnp.minimum(_product(q, k.T) * scale, ceiling[None])
    if not causal:
        return logits
    rows, columns = (part * SIZE + jnp.arange(SIZE) for part in place)
    return jnp.where(rows[:, None] >= columns[None], logits, CLOSED)


def _factors(dropout, of_rows, of_columns):
    return jnp.where(kept(dropout, of_rows[:, None] * of_columns[None]), 1 / (1 - dropout), 0.0)


def _run(parts, tensors, results, fixed, causal, interpret):
    """Computes results of blocks of tokens, for each text and head, from the parts of a row of the
    matrix, or of a column if `fixed` are the tensors of columns.

    `parts`: functions () -> carry, (place, carry, *tensors) -> carry, and of the carry's values, to
    the results. `results`: tensors of the shapes and dtypes of the results.
    """
    start, step, end = parts
    by_row, shapes = 0 in fixed, [tensors[0].shape[1], tensors[1].shape[1]]
    length, others = shapes if by_row else shapes[::-1]

    def kernel(*refs):
        block, inputs = pallas.program_id(0), refs[: len(tensors)]
        here = {i: ref[...] for i, ref in enumerate(inputs) if i in fixed}

        def turn(other, carry):
            part = pallas.ds(other * SIZE, SIZE)
            values = [here[i] if i in here else ref[part] for i, ref in enumerate(inputs)]
            return step((block, other) if by_row else (other, block), carry, *values)

        first = block if causal and not by_row else 0
        last = block + 1 if causal and by_row else others // SIZE
        found = jax.lax.fori_loop(first, last, turn, start())
        found = end(*found) if isinstance(found, tuple) else end(found)
        for ref, x in zip(refs[len(tensors) :], found, strict=True):
            ref[...] = x.astype(ref.dtype)

    def spec(x, size, at):
        if len(x.shape) == 4:
            place = lambda t, b, h: (b, at(t), h, 0)  # noqa: E731
            return pallas.BlockSpec((None, size, None, x.shape[3]), place)
        place = lambda t, b, h: (b % x.shape[0], h % x.shape[1], at(t))  # noqa: E731
        return pallas.BlockSpec((None, None, size), place)

    specs = [
        spec(x, SIZE, lambda t: t) if i in fixed else spec(x, others, lambda t: 0)
        for i, x in enumerate(tensors)
    ]
    batch, _, heads, _ = tensors[0].shape
    return pallas.pallas_call(
        kernel,
        grid=(length // SIZE, batch, heads),
        in_specs=specs,
        out_specs=[spec(x, SIZE, lambda t: t) for x in results],
        out_shape=[jax.ShapeDtypeStruct(x.shape, x.dtype) for x in results],
        interpret=interpret,
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=2),
    )(*tensors)
