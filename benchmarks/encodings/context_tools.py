"""One causal language model with rotary positions, read under tools that lengthen its context.

    KERAS_BACKEND=torch python -m benchmarks.encodings.context_tools
    KERAS_BACKEND=torch python -m benchmarks.encodings.context_tools --table  # the results

A small model of characters learns on windows of 64, one for each seed, and is not trained again.
Every tool reads the same windows of 512 with its weights, whole and cut into pieces of 256, 128 and
64: the same characters are to be told at every length, with more or less text before them. Tools
with a factor get the length over 64, those with a window half of the trained length or all of it.
Text: the book excerpts, the last fifth for the test.

Results go to benchmarks/results/context_tools.json, a row for each tool and seed, and are not
computed again; the models are kept in build/context_tools.
"""

import functools
import pathlib

import numpy as np
from keras import ops

from benchmarks.shared.data import CORPORA
from benchmarks.shared.kept import Study, keys, markdown, options, spread
from benchmarks.stretching.recovery import compiled
from keras_posenc import build_transformer_model, tasks
from keras_posenc.backend.seeding import set_random_seed
from keras_posenc.training.schedules import cosine_warmup

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "context_tools.json"
LENGTH, LENGTHS = 64, (64, 128, 256, 512)
STEPS, ROWS, RATE = 400, 32, 3e-3
TEST_ROWS = 16
LOG_N = {"name": "log_n", "train_length": LENGTH, "clipped": True}


def scaled(kind, **fields):
    """Rotary positions whose frequencies are scaled by `factor`."""

    def encodings(factor):
        return [{"name": "rotary", "scaling": {"rope_type": kind, "factor": factor, **fields}}]

    return encodings


def fixed(*encodings):
    """The same encodings at every length."""
    return lambda factor: list(encodings)


def with_log_n(tool):
    return lambda factor: [*tool(factor), LOG_N]


rerope = fixed({"name": "rerope", "window": LENGTH // 2})
TOOLS = {
    "rotary as it is": fixed("rotary"),
    "log-n": with_log_n(fixed("rotary")),
    "linear": scaled("linear"),
    "NTK": scaled("ntk"),
    "YaRN": scaled("yarn", original_max_position_embeddings=LENGTH),
    "mixed base": scaled("su_mixed"),
    "mixed base, log-n": with_log_n(scaled("su_mixed")),
    "ReRoPE": rerope,
    "ReRoPE, log-n": with_log_n(rerope),
    "leaky ReRoPE": fixed({"name": "rerope", "window": LENGTH // 2, "leak": 16.0}),
    "window": fixed("rotary", {"name": "window", "window": LENGTH}),
    "window, 4 sinks": fixed("rotary", {"name": "window", "window": LENGTH, "sinks": 4}),
}


def main():
    parser = options(__doc__, RESULTS, "build/context_tools")
    parser.add_argument("--tools", nargs="+", default=list(TOOLS), choices=TOOLS)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--test-rows", type=int, default=TEST_ROWS)
    arguments = parser.parse_args()
    study = Study(arguments.results)
    if not arguments.table:
        corpus = tasks.Corpus(f"{CORPORA}/book-excerpts.tab", test_share=0.2)

        @functools.cache
        def weights(seed):
            file = arguments.folder / f"{arguments.steps}-{seed}.weights.h5"
            return trained(corpus, ["rotary"], seed, arguments.steps, file).get_weights()

        def measure(seed, tool):
            def reader(length):
                model = build(corpus, TOOLS[tool](length / LENGTH))
                model.set_weights(weights(seed))
                return model

            return read(corpus, reader, arguments.test_rows, LENGTHS)

        study.run(keys(seed=arguments.seeds, tool=arguments.tools), measure, ["loss"])
    print(table(study.rows))


def build(corpus, encodings, **others):
    sizes = {
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 256,
        "hidden_act": "gelu",
        "segment_vocab_size": 0,
        "pad_token_id": None,
        "initializer_range": 0.1,
        **others,
    }
    return build_transformer_model(
        vocab_size=corpus.vocabulary_size,
        application="lm",
        with_mlm="linear",
        absolute_positions=False,
        encodings=encodings,
        **sizes,
    )


def trained(corpus, encodings, seed, steps, path, rows=ROWS, **sizes):
    """A model that learned on windows of `LENGTH`, or that of the file, if it is there."""
    set_random_seed(seed)
    model = build(corpus, encodings, **sizes)
    if path.exists():
        model.load_weights(path)
        return model
    task = tasks.get("language_model", corpus=corpus)
    compiled(model, cosine_warmup(RATE, steps, steps // 20))
    for step in range(steps):
        ids, targets, _ = task.sample(rows, LENGTH, (seed, step))
        loss = float(np.ravel(model.train_on_batch({"token_ids": ids}, targets))[0])
        if step % 100 == 99:
            print(f"{path.stem}: step {step + 1}, loss {loss:.3f}", flush=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    model.save_weights(path)
    return model


def read(corpus, reader, rows, lengths):
    """Loss and accuracy by length: of all characters, and of those beyond the trained length.

    Args:
        reader: callable that returns the model for texts of a length.
        lengths: of all of them the same `rows` windows of the longest are read, whole or cut.
    """
    test = tasks.get("language_model", corpus=corpus, split="test")
    ids, targets, _ = test.sample(rows, lengths[-1], 2**31 - 1)
    found = {"loss": {}, "accuracy": {}, "far_loss": {}, "far_accuracy": {}}
    for length in lengths:
        model = reader(length)
        answers = targets.reshape(-1, length)
        size = max(1, 4096 // length)
        pieces = np.split(ids.reshape(-1, length), range(size, len(answers), size))
        logits = [model.predict_on_batch({"token_ids": piece}) for piece in pieces]
        log_p = ops.convert_to_numpy(ops.log_softmax(np.concatenate(logits)))
        losses = -np.take_along_axis(log_p, answers[..., None], -1)[..., 0]
        right = log_p.argmax(-1) == answers
        for name, values in (("loss", losses), ("accuracy", right)):
            found[name][str(length)] = round(float(values.mean()), 5)
            if length > LENGTH:
                found[f"far_{name}"][str(length)] = round(float(values[:, LENGTH:].mean()), 5)
    return found


def table(rows):
    """Markdown: the loss by length, and the accuracy on the far characters of the longest."""
    heads = ["", *(f"loss at {length}" for length in LENGTHS), f"far accuracy at {LENGTHS[-1]}"]
    lines = [heads]
    for tool in dict.fromkeys(row["tool"] for row in rows):
        runs = [row for row in rows if row["tool"] == tool]
        cells = [tool]
        for length in map(str, LENGTHS):
            cells.append(spread([row["loss"][length] for row in runs], 2))
        cells.append(spread([100 * row["far_accuracy"][str(LENGTHS[-1])] for row in runs], 1))
        lines.append(cells)
    return markdown(lines)


if __name__ == "__main__":
    main()
