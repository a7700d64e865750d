"""Encodings of 2026 beside earlier ones: plain text at eight times the trained length.

    KERAS_BACKEND=torch python -m benchmarks.encodings.encodings_2026
    KERAS_BACKEND=torch python -m benchmarks.encodings.encodings_2026 --table  # the results

The test is that of context_tools.py, with a smaller model: a causal model of characters with two
layers of 32 features learns on windows of 64 and reads the same test text in windows of 64 to 512.
An encoding with weights, or one that changes the training, has a model for each seed; one that only
changes how a rotary model reads shares the rotary model. With random ids, training samples 64 of
512 positions, and the test has its ids evenly spread.

Results go to benchmarks/results/encodings_2026.json, a row for each encoding and seed, and are not
computed again; the models are kept in build/encodings_2026.
"""

import math
import pathlib

from benchmarks.encodings.context_tools import (
    LENGTH,
    LENGTHS,
    STEPS,
    TEST_ROWS,
    TOOLS,
    build,
    fixed,
    read,
    trained,
)
from benchmarks.shared.data import CORPORA
from benchmarks.shared.kept import Study, keys, markdown, options, spread
from keras_posenc import RandomPositionIds, tasks

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "encodings_2026.json"
ROWS, SIZES = 16, {"hidden_size": 32, "intermediate_size": 128}
RANDOM_IDS = "rotary, random ids"
ROPE_ID = "RoPE-ID"


def in_distribution(head_size):
    """RoPE-ID: half of the features turn, the slowest of them once within the trained length."""
    turned = head_size // 2
    base = (LENGTH / (2 * math.pi)) ** (turned / (turned - 2))
    return [{"name": "rotary", "rotary_dim": turned, "base": base}]


# Way -> the encodings that are trained, and read as they were trained.
TRAINED = {
    "PoPE": ["pope"],
    "log-CPB": [{"name": "log_cpb", "train_length": LENGTH}],
    "content bias": [{"name": "content_bias", "max_distance": LENGTH}],
    "DAPE": ["dape"],
    "PaTH": ["path"],
    "CoPE": ["cope"],
    RANDOM_IDS: ["rotary"],
    ROPE_ID: in_distribution(16),
}
# Way -> the encodings with which a rotary model reads, by length / 64. Self-Extend makes of
# distances up to 512 those up to 512 / 16 + 32 - 2 = 62.
READ_WITH = {
    **{name: TOOLS[name] for name in ("rotary as it is", "YaRN", "ReRoPE", "window")},
    "Self-Extend": fixed({"name": "self_extend", "group_size": 16, "window": LENGTH // 2}),
    "dual chunk": fixed({"name": "dual_chunk", "chunk_size": LENGTH, "local_size": LENGTH // 4}),
}
NEW = ("PoPE", "log-CPB", "content bias", "DAPE", "PaTH", ROPE_ID, "Self-Extend", "dual chunk")


def main():
    parser = options(__doc__, RESULTS, "build/encodings_2026")
    ways = [*READ_WITH, *TRAINED]
    parser.add_argument("--ways", nargs="+", default=ways, choices=ways)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--test-rows", type=int, default=TEST_ROWS)
    arguments = parser.parse_args()
    study = Study(arguments.results)
    if not arguments.table:
        corpus = tasks.Corpus(f"{CORPORA}/book-excerpts.tab", test_share=0.2)

        def measure(seed, way):
            learned = TRAINED.get(way, ["rotary"])
            reading = READ_WITH.get(way, fixed(*learned))
            options = {**SIZES, "position_ids": random_ids() if way == RANDOM_IDS else None}
            name = way if way in TRAINED else "rotary"
            file = arguments.folder / f"{name}-{arguments.steps}-{seed}.weights.h5"
            how = learned, seed, arguments.steps, file, ROWS
            weights = trained(corpus, *how, **options).get_weights()

            def reader(length):
                model = build(corpus, reading(length / LENGTH), **options)
                model.set_weights(weights)
                return model

            return {"steps": arguments.steps, **read(corpus, reader, arguments.test_rows, LENGTHS)}

        study.run(keys(seed=arguments.seeds, way=arguments.ways), measure, ["loss"])
    print(table(study.rows))


def random_ids():
    return RandomPositionIds("sorted", max_position=LENGTHS[-1], inference="spread")


def table(rows):
    """Markdown: the loss by length, and the accuracy on the characters beyond the trained length;
    the lowest loss at the longest first."""
    last, by_way = str(LENGTHS[-1]), {}
    for row in rows:
        by_way.setdefault(row["way"], []).append(row)

    def loss(way):
        return sum(row["loss"][last] for row in by_way[way]) / len(by_way[way])

    heads = ["", "new", *(f"loss at {length}" for length in LENGTHS), f"far accuracy at {last}"]
    lines = [heads]
    for way in sorted(by_way, key=loss):
        runs = by_way[way]
        cells = [way, "yes" if way in NEW else ""]
        cells += [spread([row["loss"][str(length)] for row in runs], 2) for length in LENGTHS]
        cells.append(spread([100 * row["far_accuracy"][last] for row in runs], 1))
        lines.append(cells)
    return markdown(lines)


if __name__ == "__main__":
    main()
