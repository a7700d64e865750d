"""Hierarchical positions, fine-tuned directly: what do 1,024 and 1,536 tokens add to 512?

    KERAS_BACKEND=tensorflow python -m benchmarks.long_texts.by_length  # an hour a seed
    KERAS_BACKEND=tensorflow python -m benchmarks.long_texts.by_length --table

The task is the digests of eight posts of fine_tuned.py. MiniLM is fine-tuned for two epochs at one
length, in batches of two texts, without dropout. At 1,536 tokens, it is also fine-tuned after
masked training on 320 digests without labels (`pretrain`, one epoch). The rows have a 0 or 1 for
each text of the test, so intervals are paired by text.
"""

import pathlib

from benchmarks.long_texts import rivals
from benchmarks.long_texts.reading_tasks import digest_texts, digests_to_train_on
from benchmarks.shared.data import MINILM
from benchmarks.shared.kept import Study, keys, options, write_lines
from keras_posenc.training import finetune, predict, pretrain

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "by_length.json"
SHORT, MIDDLE, LONG = (f"{length:,} tokens" for length in (512, 1024, 1536))
MASKED = f"{LONG}, after masked training"
LENGTHS = {SHORT: 512, MIDDLE: 1024, LONG: 1536, MASKED: 1536}
COUNT = 320  # digests, of which a seed trains on 200
DROPOUT = {"dropout_rate": 0.0, "attention_dropout_rate": 0.0}


def main():
    parser = options(__doc__, RESULTS, "build/by-length", seeds=(0, 1))
    parser.add_argument("--ways", nargs="+", default=list(LENGTHS), choices=LENGTHS)
    arguments = parser.parse_args()
    study = Study(arguments.results, write_lines)
    if not arguments.table:
        asked = keys(seed=arguments.seeds, way=arguments.ways)
        study.run(asked, lambda seed, way: measured(seed, way, arguments.folder / str(seed)))
    print(table(study.rows))


def measured(seed, way, folder):
    """Which texts of the test are classified correctly."""
    train, test = digests_to_train_on(COUNT, seed), digest_texts("test", 200)
    length, checkpoint, run = LENGTHS[way], MINILM, folder / str(list(LENGTHS).index(way))
    budget = {"token_budget": 2 * length}
    if way == MASKED:
        checkpoint = folder / "masked"
        masked = {"max_length": length, "extension": "hierarchical", **budget}
        texts = digest_texts("train", COUNT).texts
        pretrain(MINILM, texts, checkpoint, seed=seed, **masked, **DROPOUT)
    stages = {"lengths": [(length, 2)], "seed": seed}
    found = finetune(checkpoint, train, run, **stages, **budget, **DROPOUT)
    labels = [prediction.label for prediction in predict(run, test.texts)]
    scores = [int(a == b) for a, b in zip(labels, test.labels, strict=True)]
    return {"scores": scores, "updates": found["train"]["steps"]}


def table(rows):
    """Lengths, and masked training, each compared on the seeds that all ways of a table have."""
    found = {
        way: {row["seed"]: row["scores"] for row in rows if row["way"] == way} for way in LENGTHS
    }
    tables = []
    for ways in ((SHORT, MIDDLE, LONG), (SHORT, LONG, MASKED)):
        seeds = sorted(set.intersection(*(set(found[way]) for way in ways)))
        if seeds:
            scores = {way: [found[way][seed] for seed in seeds] for way in ways}
            listed = ", ".join(map(str, seeds))
            compared = rivals.compared(scores, ways[2], [ways[1]])
            tables += [f"Training seeds: {listed}.", rivals.table(scores, SHORT), compared]
    return "\n\n".join(tables)


if __name__ == "__main__":
    main()
