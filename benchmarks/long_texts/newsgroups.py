"""20 Newsgroups with MiniLM: what do more than 512 tokens add on long texts?

    KERAS_BACKEND=tensorflow python -m benchmarks.long_texts.newsgroups

A length curriculum over the whole training file: an epoch at 128 tokens, an epoch at 512, then the
texts longer than 512 tokens alone at 2,048, under hierarchical positions. After each of the last
two stages the whole test file is scored with its texts cut at 256, 512, 1,024 and 2,048 tokens.
Results, with the seconds that each part took, go to benchmarks/results/newsgroups.json.
"""

import argparse
import json
import pathlib
import time

import keras
import numpy as np

from benchmarks.shared.data import CORPORA, MINILM
from keras_posenc.backend.seeding import set_random_seed
from keras_posenc.models.factory import build_transformer_model
from keras_posenc.models.heads import classifier
from keras_posenc.text import TextBatches, Tokenizer, read_texts
from keras_posenc.training import adamw

RESULTS = pathlib.Path(__file__).parents[1] / "results"
LONG = 512


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=[256, 512, 1024, 2048])
    parser.add_argument("--rate", type=float, default=2e-4)
    parser.add_argument("--token-budget", type=int, default=8192)
    parser.add_argument("--attention-dropout", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=1.0, help="of both files, for a quick look")
    parser.add_argument("--results", default=RESULTS / "newsgroups.json", type=pathlib.Path)
    parser.add_argument("--models", type=pathlib.Path, help="folder for the model of every stage")
    arguments = parser.parse_args()
    set_random_seed(arguments.seed)

    tokenizer = Tokenizer(MINILM)
    train = some_of(read_texts(f"{CORPORA}/20newsgroups-train.tab"), arguments.share)
    test = some_of(read_texts(f"{CORPORA}/20newsgroups-test.tab"), arguments.share)
    classes = sorted(set(train[1]))
    common = dict(tokenizer=tokenizer, classes=classes, token_budget=arguments.token_budget)
    encoder = build_transformer_model(
        MINILM, hierarchical_position=True, attention_dropout_rate=arguments.attention_dropout
    )
    model = classifier(encoder, len(classes))

    rate = arguments.rate
    stages = [  # texts, tokens, and the rate from its start to its end
        (train, 128, rate, rate),
        (train, LONG, rate, rate / 10),
        (longer_than(train, LONG, tokenizer), max(arguments.lengths), rate / 4, 0.0),
    ]
    report = {
        "arguments": {k: v for k, v in vars(arguments).items() if k not in ("results", "models")},
        "stages": [],
    }
    report["backend"] = keras.backend.backend()
    for number, (texts, length, start, end) in enumerate(stages):
        batches = TextBatches(*texts, max_length=length, seed=arguments.seed + number, **common)
        stage = {"texts": len(texts[0]), "length": length, "batches": len(batches)}
        stage["padding_share"] = round(batches.padding_share, 3)
        stage["seconds"] = fit(model, batches, start, end)
        if arguments.models:
            arguments.models.mkdir(exist_ok=True)
            model.save(arguments.models / f"stage-{number}.keras")
        if length >= LONG:
            stage["test"] = score(model, test, arguments.lengths, classes, common)
        report["stages"].append(stage)
        print(json.dumps(stage), flush=True)
        arguments.results.parent.mkdir(exist_ok=True)
        arguments.results.write_text(json.dumps(report, indent=1) + "\n")


def some_of(texts, share):
    count = max(1, round(len(texts.texts) * share))
    picked = np.random.default_rng(0).permutation(len(texts.texts))[:count]
    return [texts.texts[i] for i in picked], [texts.labels[i] for i in picked]


def longer_than(texts, length, tokenizer):
    counts = TextBatches(texts[0], tokenizer=tokenizer).lengths
    return tuple(
        [item for item, n in zip(part, counts, strict=True) if n > length] for part in texts
    )


def fit(model, batches, start, end):
    """An epoch: warm-up over a twentieth of it, then a cosine from one rate to the other."""
    warm_up = max(1, len(batches) // 20)
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0,
        max(1, len(batches) - warm_up),
        alpha=end / start,
        warmup_target=start,
        warmup_steps=warm_up,
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(adamw(model, schedule), loss, metrics=["accuracy"])
    began = time.perf_counter()
    model.fit(batches, verbose=2)
    return round(time.perf_counter() - began)


def score(model, test, lengths, classes, common):
    """Accuracy with the texts cut at each length; a text shorter than the cut is run once."""
    labels = np.array([classes.index(label) for label in test[1]])
    scores, logits = [], None
    for length in sorted(lengths, reverse=True):
        began = time.perf_counter()
        if logits is None:
            batches = TextBatches(test[0], max_length=length, shuffle=False, **common)
            counts, rows = np.asarray(batches.lengths), np.arange(len(labels))
            logits = np.zeros((len(labels), len(classes)))
        else:
            rows = np.flatnonzero(counts > length)
            cut = [test[0][i] for i in rows]
            batches = TextBatches(cut, max_length=length, shuffle=False, **common)
        logits[rows] = batches.restore_order(model.predict(batches, verbose=0))
        right, long = logits.argmax(-1) == labels, counts > LONG
        scores.insert(
            0,
            {
                "length": length,
                "accuracy": round(float(right.mean()), 4),
                "accuracy_long": round(float(right[long].mean()), 4),
                "long_texts": int(long.sum()),
                "texts_run": len(rows),
                "seconds": round(time.perf_counter() - began),
            },
        )
    return scores


if __name__ == "__main__":
    main()
