"""Facts far back in a text: rotary models under tools that lengthen their context, and others.

    KERAS_BACKEND=torch python -m benchmarks.encodings.text_retrieval
    KERAS_BACKEND=torch python -m benchmarks.encodings.text_retrieval --table  # the results

Book excerpts in characters. In a window stand facts, each a key and its value in place of two
characters; where a key stands again, at the end, its value is to be told. A small causal model
learns on windows of 64 with one to four facts, one with rotary positions and one with each encoding
that has weights for each seed, and is not trained again. In test windows of 128 and more all facts
stand before the last 64 tokens; two layers that read 64 tokens each reach 126 back. There are 16
values: chance is 6.2%, and 25% for who tells one of the four values of the window.

Results go to benchmarks/results/text_retrieval.json, a row for each way to read and seed, and are
not computed again; the models are kept in build/text_retrieval.
"""

import dataclasses
import pathlib
import time

import numpy as np
from keras import ops

from benchmarks.encodings.context_tools import (
    LENGTH,
    LENGTHS,
    TOOLS,
    build,
    fixed,
    scaled,
    with_log_n,
)
from benchmarks.encodings.encodings_2026 import (
    NEW,
    RANDOM_IDS,
    READ_WITH,
    ROPE_ID,
    TRAINED,
    in_distribution,
)
from benchmarks.shared.data import CORPORA
from benchmarks.shared.kept import Study, keys, markdown, options, spread
from benchmarks.stretching.recovery import compiled
from keras_posenc import tasks
from keras_posenc.backend.seeding import set_random_seed
from keras_posenc.metrics.scores import wilson
from keras_posenc.training.schedules import cosine_warmup

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "text_retrieval.json"
STEPS, ROWS, RATE = 1500, 32, 3e-3
TEST_ROWS, FACTS = 100, (1, 4)
KINDS, ANSWER_WEIGHT = 16, 5.0
ROTARY, FIRE = fixed("rotary"), fixed({"name": "fire", "length": LENGTH})
# Way to read -> the encodings of the training, and those of the reading by length / 64.
TOOL_READINGS = {
    **{name: (ROTARY, TOOLS[name]) for name in ("rotary as it is", "log-n", "NTK", "YaRN")},
    "dynamic NTK": (ROTARY, scaled("dynamic", original_max_position_embeddings=LENGTH)),
    **{
        name: (ROTARY, TOOLS[name])
        for name in ("ReRoPE", "ReRoPE, log-n", "leaky ReRoPE", "window")
    },
    "FIRE": (FIRE, FIRE),
    "FIRE, log-n": (FIRE, with_log_n(FIRE)),
}
ENCODINGS_2026 = {
    **{name: TOOL_READINGS[name] for name in ("rotary as it is", "YaRN", "ReRoPE", "window")},
    **{name: (ROTARY, READ_WITH[name]) for name in NEW if name in READ_WITH},
    **{name: (fixed(*TRAINED[name]),) * 2 for name in TRAINED if name != RANDOM_IDS},
    ROPE_ID: (fixed(*in_distribution(32)),) * 2,
}
READINGS = TOOL_READINGS | ENCODINGS_2026


def main():
    parser = options(__doc__, RESULTS, "build/text_retrieval")
    parser.add_argument("--readings", nargs="+", default=list(READINGS), choices=READINGS)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--test-rows", type=int, default=TEST_ROWS)
    arguments = parser.parse_args()
    study = Study(arguments.results)
    if not arguments.table:
        corpus = tasks.Corpus(f"{CORPORA}/book-excerpts.tab", test_share=0.2)
        facts = Facts(corpus, corpus.vocabulary_size + 2 * KINDS)

        def measure(seed, reading):
            learned, way = READINGS[reading]
            weights = trained(facts, learned(1), seed, arguments.steps, arguments.folder)
            found = read(facts, way, weights, arguments.test_rows, seed)
            return {"steps": arguments.steps, **found}

        study.run(keys(seed=arguments.seeds, reading=arguments.readings), measure, ["right"])
    print(table(study.rows))


@dataclasses.dataclass
class Facts:
    """Windows of a text with facts in them, and the questions at their end.

    Attributes:
        vocabulary_size: characters, then keys, then values.
    """

    corpus: tasks.Corpus
    vocabulary_size: int

    def sample(self, part, rows, length, facts, questions, reach, rng):
        """Windows (B, T), targets (B, T) and weights (B, T).

        Args:
            facts: (B,) numbers of facts.
            questions: how many of the facts of a window are asked; None for all.
            reach: facts stand before this place.
        """
        ids = self.corpus.windows(part, rng, rows, length + 1)
        weights = np.ones((rows, length), "float32")
        for row, count in enumerate(facts):
            first_key = self.vocabulary_size - 2 * KINDS
            keys = first_key + rng.permutation(KINDS)[:count]
            pairs = np.stack([keys, first_key + KINDS + rng.integers(0, KINDS, count)], axis=1)
            asked = pairs[rng.permutation(count)[:questions]]
            start = length + 1 - asked.size
            # Places two apart: no fact overwrites another.
            for place, pair in zip(
                2 * rng.permutation(min(reach, start - 1) // 2)[:count], pairs, strict=True
            ):
                ids[row, place : place + 2] = pair
                weights[row, max(0, place - 1) : place + 1] = 0
            ids[row, start:] = asked.ravel()
            weights[row, start - 1 :: 2] = 0
            weights[row, start::2] = ANSWER_WEIGHT
        return ids[:, :-1], ids[:, 1:], weights


def trained(facts, encodings, seed, steps, folder):
    """The weights of a model that learned on windows of `LENGTH`."""
    first = encodings[0]
    name = first if isinstance(first, str) else "-".join(map(str, first.values()))
    path = folder / f"{name}-{steps}-{seed}.weights.h5"
    set_random_seed(seed)
    model = build(facts, encodings)
    if path.exists():
        model.load_weights(path)
        return model.get_weights()
    compiled(model, cosine_warmup(RATE, steps, steps // 20))
    started = time.process_time()
    for step in range(steps):
        rng = np.random.default_rng((seed, step))
        some = rng.integers(1, FACTS[-1] + 1, ROWS)
        ids, targets, weights = facts.sample("train", ROWS, LENGTH, some, None, LENGTH, rng)
        loss = float(np.ravel(model.train_on_batch({"token_ids": ids}, targets, weights))[0])
        if step % 100 == 99:
            seconds = time.process_time() - started
            print(f"{name} {seed}: step {step + 1}, loss {loss:.3f}, {seconds:.0f} s", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    model.save_weights(path)
    return model.get_weights()


def read(facts, reading, weights, rows, seed):
    """By number of facts and length: questions answered right; by length the loss of the text."""
    found = {"asked": rows, "right": {}, "told_a_value_there": {}, "text_loss": {}}
    for length in LENGTHS:
        model = build(facts, reading(length / LENGTH))
        model.set_weights(weights)
        for count in FACTS:
            rng = np.random.default_rng((2**31 - 1, seed, count))
            reach = LENGTH if length == LENGTH else length - LENGTH
            ids, targets, weight = facts.sample("test", rows, length, [count] * rows, 1, reach, rng)
            size = max(1, 8192 // length)
            pieces = np.split(ids, range(size, rows, size))
            logits = [model.predict_on_batch({"token_ids": piece}) for piece in pieces]
            log_p = ops.convert_to_numpy(ops.log_softmax(np.concatenate(logits)))
            found_ids, values = log_p[:, -1].argmax(-1), facts.vocabulary_size - KINDS
            there = [
                answer >= values and answer in row
                for answer, row in zip(found_ids, ids, strict=True)
            ]
            key = f"{count} at {length}"
            found["right"][key] = int((found_ids == targets[:, -1]).sum())
            found["told_a_value_there"][key] = int(sum(there))
            if count == 1:
                losses = -np.take_along_axis(log_p, targets[..., None], -1)[..., 0]
                found["text_loss"][str(length)] = round(float(losses[weight == 1].mean()), 4)
    return found


def table(rows, readings=READINGS):
    """Markdown: of all seeds, the share of right answers to one of four facts; the text's loss."""
    heads = ["", *(f"four facts at {length}" for length in LENGTHS), "one fact at 512"]
    heads += ["four facts at 512, per seed"]
    heads += [f"loss of the text at {length}" for length in (LENGTHS[0], LENGTHS[-1])]
    lines = [heads]
    known = {row["reading"] for row in rows}
    for name in filter(known.__contains__, readings):
        runs = [row for row in rows if row["reading"] == name]
        asked = sum(row["asked"] for row in runs)

        def share(key, runs=runs, asked=asked):
            right = sum(row["right"][key] for row in runs)
            low, high = (100 * bound for bound in wilson(right, asked))
            return f"{100 * right / asked:.0f} ({low:.0f} to {high:.0f})"

        cells = [name, *(share(f"{FACTS[-1]} at {length}") for length in LENGTHS)]
        cells.append(share(f"1 at {LENGTHS[-1]}"))
        last = f"{FACTS[-1]} at {LENGTHS[-1]}"
        cells.append(" / ".join(f"{100 * row['right'][last] / row['asked']:.0f}" for row in runs))
        cells += [
            spread([row["text_loss"][str(length)] for row in runs], 2)
            for length in (LENGTHS[0], LENGTHS[-1])
        ]
        lines.append(cells)
    return markdown(lines)


if __name__ == "__main__":
    main()
