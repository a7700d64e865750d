"""Long texts read by a frozen encoder: the first 512 tokens, chunks, stretched; and word counts.

    KERAS_BACKEND=torch python benchmarks/readings.py                 # digests, seed 0
    KERAS_BACKEND=torch python benchmarks/readings.py --seeds 1 2     # more seeds
    KERAS_BACKEND=torch python benchmarks/readings.py --table         # the results as a table

The texts are the digests of benchmarks/long_texts.py: eight posts of three newsgroups, four, two
and two, shuffled; the label is the group of most of them. Posts to train on and to test on are
those of the collection's two files, a month apart. MiniLM is stretched to 2,048 tokens by position
distillation on the texts to train on, without their labels, and is not trained otherwise: each way
of reading gives a text the mean of its last features, and a logistic regression on those, its
penalty chosen by cross-validation on the texts to train on, says the label. What is compared is
hence what the readings tell, at a tenth of the cost of fine-tuning. Chunks are told twice: by the
regression of the first 512 tokens, their probabilities averaged or the highest taken, and by one of
their own on the average of their features. TF-IDF has the same regression.

benchmarks/results/readings.json has for each seed and way which test texts were told right; what is
there is not computed again, and a stretching that was interrupted goes on where it stood.
"""

import argparse
import collections
import json
import pathlib
import platform
import time

import keras
import numpy as np
from data import MINILM
from long_texts import LENGTH, SHORT, STRETCH, WHOLE, digest_task, interval, naive_bayes
from long_texts import table as rows_table
from long_texts import verdict as rows_verdict

from keras_posenc import build_transformer_model
from keras_posenc.text import Texts, Tokenizer
from keras_posenc.training import stretch
from keras_posenc.training.state import write_text
from keras_posenc.training.stretching.windows import inputs_of

RESULTS = pathlib.Path(__file__).parent / "results" / "readings.json"
MEAN, MAX = "512-token chunks, mean", "512-token chunks, highest"
OWN = "512-token chunks, features averaged"
BAYES, TFIDF = "naive Bayes, all words", "TF-IDF + logistic regression, all words"
BAYES_512, TFIDF_512 = (way.replace("all words", SHORT) for way in (BAYES, TFIDF))
WAYS = (SHORT, MEAN, MAX, OWN, WHOLE, BAYES_512, BAYES, TFIDF_512, TFIDF)
PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
FOLDS = 5


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--texts", type=int, nargs=2, default=[160, 150], help="to train, to test")
    parser.add_argument("--steps", type=int, default=12, help="of the stretching")
    parser.add_argument("--results", default=RESULTS, type=pathlib.Path)
    parser.add_argument("--output", type=pathlib.Path, default="build/readings")
    parser.add_argument("--table", action="store_true", help="only print what the results say")
    arguments = parser.parse_args()
    rows = json.loads(arguments.results.read_text("utf-8")) if arguments.results.exists() else []
    for seed in () if arguments.table else arguments.seeds:
        given = {"seed": seed, "texts": arguments.texts, "steps": arguments.steps}
        done = {row["way"] for row in rows if given.items() <= row.items()}
        train, test = digest_task(*arguments.texts, seed)
        for ways, tell in READINGS.items():
            if done >= set(ways):
                continue
            started = time.perf_counter()
            print(f"Seed {seed}: {', '.join(ways)}", flush=True)
            found, more = tell(train, test, seed, arguments)
            told = {"seconds": round(time.perf_counter() - started), **more, **versions()}
            for way, said in zip(ways, found, strict=True):
                right = "".join("01"[a == b] for a, b in zip(said, test.labels, strict=True))
                rows.append({**given, "way": way, "right": right, **told})
                print(f"{way}: {right.count('1')} of {len(right)}, {told['seconds']} s", flush=True)
            write_text(arguments.results, json.dumps(rows, indent=1) + "\n")
    print(f"{table(rows)}\n\n{verdict(rows)}")


def counted(train, test, seed, arguments):
    right = naive_bayes(train, test)
    bayes = [label if r else None for label, r in zip(test.labels, right, strict=True)]
    labels = sorted(set(train.labels))
    probabilities = regression(*tfidf(train.texts, test.texts), train.labels)
    return [bayes, [labels[i] for i in probabilities.argmax(1)]], {}


def counted_512(train, test, seed, arguments):
    tokenizer = Tokenizer(MINILM)

    def cut(texts):
        rows = [text.split()[:510] for text in texts.texts]
        # Words are tokenized each by itself, [CLS] and [SEP] are two tokens.
        counts = [np.cumsum([len(ids) for ids in tokenizer.contents(words)]) for words in rows]
        kept = [words[: (n <= 510).sum()] for words, n in zip(rows, counts, strict=True)]
        return Texts([" ".join(words) for words in kept], texts.labels, texts.lines)

    return counted(cut(train), cut(test), seed, arguments)


def in_chunks(train, test, seed, arguments):
    model, tokenizer = build_transformer_model(MINILM), Tokenizer(MINILM)

    def read(texts):
        pieces = [tokenizer.windows(text, 512) for text in texts]
        return [np.stack([pooled(model, ids) for ids, _ in windows]) for windows in pieces]

    old, new = read(train.texts), read(test.texts)
    labels = sorted(set(train.labels))
    starts = np.cumsum([0, *map(len, new)])
    first = np.stack([chunks[0] for chunks in old])
    of_chunks = regression(first, np.concatenate(new), train.labels)
    by_text = [of_chunks[a:b] for a, b in zip(starts, starts[1:], strict=False)]
    whole = [np.stack([chunks.mean(0) for chunks in part]) for part in (old, new)]
    found = (
        [each[0] for each in by_text],
        [each.mean(0) for each in by_text],
        [each.max(0) for each in by_text],
        regression(*whole, train.labels),
    )
    return [[labels[each.argmax()] for each in probabilities] for probabilities in found], {}


def in_one_pass(train, test, seed, arguments):
    folder = arguments.output / f"stretched-{seed}-{arguments.steps}-{len(train)}"
    settings = {**STRETCH, "steps": arguments.steps}
    model, report = stretch(MINILM, train.texts, folder, seed=seed, **settings)
    tokenizer = Tokenizer(MINILM)

    def read(texts):
        encoded = (tokenizer.assemble(ids, max_length=LENGTH) for ids in tokenizer.contents(texts))
        return np.stack([pooled(model, ids) for ids, _ in encoded])

    labels = sorted(set(train.labels))
    probabilities = regression(read(train.texts), read(test.texts), train.labels)
    more = {name: report[name] for name in ("within", "beyond")}
    return [[labels[i] for i in probabilities.argmax(1)]], {"stretched": more}


# The ways of reading that are told together.
READINGS = {
    (BAYES, TFIDF): counted,
    (BAYES_512, TFIDF_512): counted_512,
    (SHORT, MEAN, MAX, OWN): in_chunks,
    (WHOLE,): in_one_pass,
}


def pooled(model, ids):
    features = model.predict_on_batch(inputs_of(model, np.array([ids], "int32")))
    return features[0].mean(axis=0)


def tfidf(train, test):
    """Rows of unit length, the words' counts logarithmic, words of the training texts alone."""
    counts = [collections.Counter(text.lower().split()) for text in (*train, *test)]
    texts_with = collections.Counter(word for each in counts[: len(train)] for word in each)
    column = {word: i for i, word in enumerate(texts_with)}
    weight = {word: 1 + np.log((1 + len(train)) / (1 + n)) for word, n in texts_with.items()}
    found = np.zeros((len(counts), len(column)))
    for row, each in zip(found, counts, strict=True):
        for word in each.keys() & column.keys():
            row[column[word]] = (1 + np.log(each[word])) * weight[word]
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    return found[: len(train)], found[len(train) :]


def regression(train, test, labels):
    """Probabilities (N, C) of logistic regression, the penalty chosen by cross-validation."""
    center = train.mean(0)
    left, size, axes = np.linalg.svd(train - center, full_matrices=False)
    # Of n texts only n directions matter to a regression with a squared penalty.
    x, y = left * size, np.unique(labels, return_inverse=True)[1]
    scale = np.sqrt(np.square(x).sum(1).mean())
    x, z = x / scale, (test - center) @ axes.T / scale
    fold = np.arange(len(x)) % FOLDS

    def loss(penalty):
        found = [
            _probabilities(x[fold != k], x[fold == k], y[fold != k], y.max() + 1, penalty)[
                np.arange((fold == k).sum()), y[fold == k]
            ]
            for k in range(FOLDS)
        ]
        return -np.log(np.concatenate(found) + 1e-12).mean()

    return _probabilities(x, z, y, y.max() + 1, min(PENALTIES, key=loss))


def _probabilities(x, z, y, classes, penalty, steps=1000):
    """Accelerated gradient steps on the mean cross-entropy plus penalty / 2 times the squared
    weights."""
    x, z = (np.concatenate([each, np.ones((len(each), 1))], axis=1) for each in (x, z))
    true = np.eye(classes)[y]
    # The curvature is at most half of the largest eigenvalue of the features' second moments.
    rate = 1 / (0.5 * np.linalg.norm(x, 2) ** 2 / len(x) + penalty)
    weights = ahead = np.zeros((x.shape[1], classes))
    for step in range(steps):
        slope = x.T @ (_softmax(x @ ahead) - true) / len(x) + penalty * ahead
        new = ahead - rate * slope
        ahead = new + step / (step + 3) * (new - weights)
        weights = new
    return _softmax(z @ weights)


def _softmax(logits):
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def versions():
    found = {"keras": keras.__version__, "backend": keras.backend.backend()}
    return {"versions": {**found, "python": platform.python_version()}}


def by_way(rows):
    """For each way that all seeds have, whether each test text was told right."""
    right = collections.defaultdict(dict)
    for row in rows:
        key = (row["seed"], *row["texts"], row["steps"])
        right[row["way"]][key] = [int(digit) for digit in row["right"]]
    keys = sorted(set().union(*right.values()))
    ways = [way for way in WAYS if set(right[way]) >= set(keys)]
    return {way: sum((right[way][key] for key in keys), []) for way in ways}


def table(rows):
    right = by_way(rows)
    found = {way: interval(values, right.get(SHORT, values)) for way, values in right.items()}
    if SHORT in found:
        return rows_table(found)
    lines = ["| | accuracy |", "|---|---|"]
    for way, row in found.items():
        lines.append(f"| {way} | {row['accuracy']:.1%} ± {100 * row['half']:.1f} |")
    return "\n".join(lines)


def verdict(rows):
    """What the intervals carry, and which ways are still to be measured."""
    right, words = by_way(rows), []
    if SHORT in right and WHOLE in right:
        words.append(rows_verdict({way: interval(v, right[SHORT]) for way, v in right.items()}))
    for whole, short in ((BAYES, BAYES_512), (TFIDF, TFIDF_512)):
        if whole in right and short in right:
            row = interval(right[whole], right[short])
            more = f"{100 * row['more']:+.1f} ± {100 * row['more_half']:.1f}"
            words.append(f"{whole}: {more} points by reading on, paired by text.")
    if missing := [way for way in WAYS if way not in right]:
        words.append(f"Not measured yet: {'; '.join(missing)}.")
    return " ".join(words)


if __name__ == "__main__":
    main()
