"""Grouping of documents into batches: few lengths, little padding. NumPy only."""

import math

import numpy as np


def choose_lengths(lengths, most, multiple, price, priced=math.inf, call=0):
    """Chooses the lengths to pad to that waste the fewest tokens.

    An exact dynamic programme. With T_1 < ... < T_k the chosen lengths it minimises sum_i T(n_i) +
    min(k, priced) * price + k * call, where T(n) is the smallest chosen length >= n.

    `lengths`: int array, the tokens n_i of each document. `most`: of the lengths k. `multiple`: of
    which every length is one. `price`: padding tokens that one more length must save, which is that
    of a compilation. `priced`: how many lengths have it. `call`: further tokens that each must
    save, because it adds a batch. Returns an increasing array, which fits the longest document.

    Example:

    >>> choose_lengths(np.array([9, 10, 10, 60, 64]), most=2, multiple=8, price=0).tolist()
    [16, 64]
    """
    ends, counts = np.unique(-(-np.asarray(lengths) // multiple), return_counts=True)
    ends = ends * multiple
    count, most = len(ends), min(most, len(ends))
    below = np.concatenate([[0], np.cumsum(counts)])
    # best[k, j]: lowest cost of the documents with the j shortest ends, using k lengths; the
    # longest of these is then ends[j - 1] and covers the ends from start[k, j] on.
    best = np.full((most + 1, count + 1), np.inf)
    best[0, 0] = 0
    start = np.zeros((most + 1, count + 1), int)
    for j in range(1, count + 1):
        total = best[:-1, :j] + ends[j - 1] * (below[j] - below[:j])
        start[1:, j] = total.argmin(axis=1)
        best[1:, j] = total.min(axis=1)
    chosen, j = [], count
    number = np.arange(most + 1)
    total = best[:, count] + price * np.minimum(number, priced) + call * number
    for k in range(int(total.argmin()), 0, -1):
        chosen.append(ends[j - 1])
        j = start[k, j]
    return np.array(chosen[::-1])


def batch_sizes(counts, lengths, budget, multiple=1):
    """Chooses the number of documents per batch for each length.

    All batches of one length have one size, and so one shape. Documents left over move up to the
    next length, if there is one. A size slightly below the budget may leave fewer of them, and is
    chosen if that saves more than the additional batches cost (one row of padding each).

    `counts`: number of documents of each of the increasing `lengths`. `budget`: maximum number of
    tokens in a batch, unless `multiple` documents have more. Every size is a multiple of these.
    """
    sizes, left = [], 0
    for k, (count, length) in enumerate(zip(counts, lengths, strict=True)):
        count += left
        most = max(1, min(-(-count // multiple), budget // (length * multiple)))
        size = np.arange(most, 0, -1) * multiple  # ties go to the largest
        rest = count % size
        if k + 1 < len(lengths):
            waste = rest * (lengths[k + 1] - length)
        else:  # the rest makes a smaller batch: one more shape to compile
            waste = np.where(rest, budget, 0)
        best = np.argmin(waste + count // size * length)
        sizes.append(int(size[best]))
        left = int(rest[best])
    return sizes


def even_sizes(counts, lengths, budget, multiple=1):
    """Chooses the number of documents per batch where those of a batch are compared.

    Each is compared with more others in a larger batch. So for each length there are as few batches
    as the budget allows, and these are of about the same size. `counts`, `lengths`, `budget`,
    `multiple`: as in `batch_sizes`. Returns a list of sizes.
    """
    sizes, left = [], 0
    for count, length in zip(counts, lengths, strict=True):
        groups = -(-(count + left) // multiple)
        batches = -(-groups // max(1, budget // (length * multiple)))
        sizes.append(max(1, -(-groups // max(1, batches))) * multiple)
        left = (count + left) % sizes[-1]
    return sizes


def epoch_batches(buckets, sizes, rng=None):
    """Distributes every document of the buckets into batches.

    `buckets`: for each length an array of documents, shortest first. `sizes`: from `batch_sizes`.
    `rng`: a NumPy Generator that shuffles documents and batches; None orders them longest first.
    Returns a list of `(k, documents)`: the bucket whose length the batch has, and an int array.
    """
    batches, left = [], np.array([], int)
    for k, (bucket, size) in enumerate(zip(buckets, sizes, strict=True)):
        documents = np.concatenate([left, bucket])
        if rng is not None:
            documents = rng.permutation(documents)
        full = len(documents) // size * size
        batches += [(k, documents[start : start + size]) for start in range(0, full, size)]
        left = documents[full:]
    if len(left):
        batches.append((len(buckets) - 1, left))
    order = range(len(batches))[::-1] if rng is None else rng.permutation(len(batches))
    batches = [batches[i] for i in order]
    # TensorFlow's `fit` inspects two batches and treats a length that they share as constant.
    other = next((i for i, (k, _) in enumerate(batches) if k != batches[0][0]), None)
    if other is not None:
        batches[1], batches[other] = batches[other], batches[1]
    return batches
