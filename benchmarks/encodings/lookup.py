"""Which of many symbols is the query? By the size of keys, and by how attention scores them.

    KERAS_BACKEND=torch python -m benchmarks.encodings.lookup
    KERAS_BACKEND=torch python -m benchmarks.encodings.lookup --table  # the results

Attention is given `PAIRS[0]` different symbols of 1,024 and one of them as its query, and learns to
attend to that one. Scores are products of queries and keys, products divided by the root of the key
size, or additive: a learned vector times the tanh of the sum of a query and a key. Then it is given
more symbols than in the training, also with its scores multiplied by log n / log `PAIRS[0]`.

Results go to benchmarks/results/lookup.json, a row for each kind of score, key size and seed.
"""

import pathlib

import keras
import numpy as np
from keras import ops

from benchmarks.shared.kept import Study, keys, markdown, options, spread, write_lines
from keras_posenc.backend.seeding import set_random_seed

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "lookup.json"
SYMBOLS, FEATURES, PAIRS = 1024, 64, (16, 64, 256)
STEPS, ROWS, RATE, TEST_ROWS = 1000, 64, 3e-3, 1000
SCORES = ("products", "divided products", "additive")
SIZES = (2, 8, 64)


def main():
    parser = options(__doc__, RESULTS, "build/lookup")
    parser.add_argument("--scores", nargs="+", default=list(SCORES), choices=SCORES)
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--steps", type=int, default=STEPS)
    arguments = parser.parse_args()
    study = Study(arguments.results, write_lines)
    if not arguments.table:

        def measure(seed, scores, size):
            return measured(scores, size, seed, arguments.steps)

        rows = keys(scores=arguments.scores, size=arguments.sizes, seed=arguments.seeds)
        study.run(rows, measure, ["right"])
    print(table(study.rows))


def model_of(kind, size):
    """Maps symbols (B, 1 + n), of which the first is the query, to the scores (B, n) of others."""
    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(SYMBOLS, FEATURES, "random_normal")(ids)
    query, key = keras.layers.Dense(size, use_bias=False), keras.layers.Dense(size, use_bias=False)
    query, key = query(x[:, :1]), key(x[:, 1:])
    if kind == "additive":
        scores = keras.layers.Dense(1, use_bias=False)(ops.tanh(query + key))[..., 0]
    else:
        scores = ops.sum(query * key, -1) / (size**0.5 if kind == "divided products" else 1)
    return keras.Model(ids, scores)


def sample(rows, count, seed):
    """`count` different symbols and, before them, the query; and where that is among them."""
    rng = np.random.default_rng(seed)
    ids = np.argpartition(rng.random((rows, SYMBOLS)), count, axis=1)[:, :count]
    place = rng.integers(0, count, rows)
    query = np.take_along_axis(ids, place[:, None], 1)
    return np.concatenate([query, ids], 1).astype("int32"), place


def measured(kind, size, seed, steps):
    """The fraction of attention's largest scores that are right, and its loss, by number."""
    set_random_seed(seed)
    model = model_of(kind, size)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(RATE), loss)
    for step in range(steps):
        model.train_on_batch(*sample(ROWS, PAIRS[0], (seed, step)))
    found = {"right": {}, "loss": {}, "log-n loss": {}}
    for count in PAIRS:
        given, place = sample(TEST_ROWS, count, 2**31 - 1)
        logits = ops.convert_to_numpy(model.predict(given, batch_size=ROWS, verbose=0))
        growth = np.log(count) / np.log(PAIRS[0])
        found["right"][str(count)] = round(float((logits.argmax(-1) == place).mean()), 4)
        for name, factor in (("loss", 1.0), ("log-n loss", growth)):
            log_p = ops.convert_to_numpy(ops.log_softmax(factor * logits))
            found[name][str(count)] = round(float(-log_p[np.arange(len(place)), place].mean()), 4)
    return found


def table(rows):
    """Markdown: accuracy by number of symbols, and the loss for the most of them."""
    most = str(PAIRS[-1])
    heads = ["scores", "key size", *(f"{count} symbols" for count in PAIRS)]
    lines = [[*heads, f"loss, {most} symbols", "loss with log-n"]]
    for kind in SCORES:
        for size in sorted({row["size"] for row in rows if row["scores"] == kind}):
            runs = [row for row in rows if (row["scores"], row["size"]) == (kind, size)]
            cells = [spread([100 * row["right"][str(count)] for row in runs]) for count in PAIRS]
            cells += [
                spread([row[name][most] for row in runs], 2) for name in ("loss", "log-n loss")
            ]
            lines.append([kind, str(size), *cells])
    return markdown(lines)


if __name__ == "__main__":
    main()
