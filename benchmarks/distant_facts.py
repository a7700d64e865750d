"""Two facts far apart, which only a reader of the whole text can compare.

    make demo                                                               # seed 0
    KERAS_BACKEND=torch python benchmarks/distant_facts.py --seeds 0 1 2 --record

"Anna has a red box. ... Anna has a blue box." Between a fact and a true or false statement about it
are hundreds of words of a real book. Books to train on are excerpts, those to test on other ones,
Grimm's tales. MiniLM is stretched by position distillation on the excerpts, without labels, then
fine-tuned on near facts first and distant ones last. Its rivals: the same MiniLM with no fewer
updates, on all texts that it can read whole, which then reads the first 512 tokens, or chunks of
512 whose probabilities are averaged or the highest of which is taken; and counted words. Each row
has the accuracy on the distant facts and, paired by text, what it has more than the first 512
tokens, with 95% intervals.

Runs and report go to build/distant-facts; one that was interrupted goes on where it stood. The rows
are added to benchmarks/results/distant_facts.json with --record.
"""

import argparse
import json
import pathlib
import platform
import time

import keras
import numpy as np
from data import CORPORA, MINILM
from rivals import BAYES, compared, fitted, interval, table

from keras_posenc.analysis import plot, write_report, write_stretch_report
from keras_posenc.tasks.long_texts import distant_facts
from keras_posenc.text import Texts, Tokenizer, read_texts
from keras_posenc.training import finetune, predict, stretch, stretch_summary
from keras_posenc.training.metrics import accuracy_by_length
from keras_posenc.training.state import write_text

RESULTS = pathlib.Path(__file__).parent / "results" / "distant_facts.json"
LENGTH = 2048
STRETCH = {"length": LENGTH, "local": 256, "global_every": 3}
# Words between the two facts: within 512 tokens, and never within.
NEAR, FAR = (0, 330), (520, 1100)
# What the two models read: near facts at 48 tokens teach to compare, the others at which distance.
STAGES = {512: [(48, 4), (512, 3)], LENGTH: [(48, 4), (512, 1), (LENGTH, 1)]}
# Without dropout a step takes two thirds of the time.
COMMON = {
    "learning_rate": 2e-4,
    "longer": "skip",
    "token_budget": LENGTH,
    "dropout_rate": 0.0,
    "attention_dropout_rate": 0.0,
}
MINUTES = 10
SHORT, MEAN, BEST = "first 512 tokens", "512-token chunks, averaged", "512-token chunks, highest"
WHOLE, WORDS = "stretched, one pass", "naive Bayes, all words"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--tests", type=int, default=100, help="distant facts to test on, a seed")
    parser.add_argument("--steps", type=int, default=16, help="of the stretching")
    parser.add_argument("--output", type=pathlib.Path, default="build/distant-facts")
    parser.add_argument("--record", action="store_true", help="write the rows to the results")
    arguments = parser.parse_args()
    print(f"On two idle cores this takes about {MINUTES} minutes for each seed.", flush=True)
    found, seconds = [], []
    for seed in arguments.seeds:
        started = time.perf_counter()
        found.append(one_seed(seed, arguments.output / f"seed-{seed}", arguments))
        seconds.append(round(time.perf_counter() - started))
    rows = distant(found)
    print(f"\n{table(rows, SHORT)}\n")
    print(compared(rows, WHOLE, [name for name in rows if name != WHOLE]))
    if arguments.record:
        record(arguments, found, seconds)
    folder = arguments.output / f"seed-{arguments.seeds[-1]}"
    print(f"\n{sum(seconds) / 60:.1f} minutes. Pictures in {folder}: report.html, facts.svg, and how")
    print("well the stretched model keeps its features, stretched/report.html")


def one_seed(seed, folder, arguments):
    """The lengths of the test texts, and for each row whether each was told right."""
    train, test = parts(seed, arguments.tests)
    print(f"\nSeed {seed}, 1 of 4: MiniLM is stretched to {LENGTH:,} tokens, without labels")
    books = book_texts("book-excerpts")
    settings = {**STRETCH, "steps": arguments.steps, "seed": seed}
    report = stretch(MINILM, books, folder / "stretched", **settings).report
    write_stretch_report(folder / "stretched")
    print(stretch_summary(report))
    runs, names = {}, {512: (SHORT, MINILM), LENGTH: (WHOLE, folder / "stretched")}
    for number, (length, (name, checkpoint)) in enumerate(names.items(), 2):
        print(f"\nSeed {seed}, {number} of 4: fine-tuned for the row '{name}'", flush=True)
        runs[name] = folder / f"at-{length}"
        found = finetune(checkpoint, train, runs[name], lengths=STAGES[length], seed=seed, **COMMON)
        print(f"{found['train']['steps']} updates in {found['train']['seconds']:.0f} s")
    write_report(runs, folder / "report.html")
    print(f"\nSeed {seed}, 4 of 4: {len(test)} texts are read in each way", flush=True)
    readings = {
        SHORT: (runs[SHORT], {}),
        MEAN: (runs[SHORT], {"chunks": 512}),
        BEST: (runs[SHORT], {"chunks": 512, "pool": "max"}),
        WHOLE: (runs[WHOLE], {}),
    }
    right = {}
    for name, (run, how) in readings.items():
        print(name, flush=True)
        said = [prediction.label for prediction in predict(run, test.texts, **how)]
        right[name] = [a == b for a, b in zip(said, test.labels, strict=True)]
    right[WORDS] = naive_bayes(train, test)
    tokens = [len(ids) + 2 for ids in Tokenizer(MINILM).contents(test.texts)]
    picture = plot.accuracy_by_length(by_distance([(tokens, right)]), size=(9.6, 4.2))
    write_text(folder / "facts.svg", plot.to_svg(picture))
    return tokens, right


def parts(seed, tests):
    """Texts to train on, and to test on: near facts, a quarter, and `tests` distant ones."""
    excerpts, tales = book_texts("book-excerpts"), book_texts("grimm-tales")
    made = [(excerpts, 480, (0, 20)), (excerpts, 64, NEAR), (excerpts, 40, FAR)]
    train = [distant_facts(*how, seed=seed) for how in made]
    made = [(tales, tests // 4, NEAR), (tales, tests, FAR)]
    test = [distant_facts(*how, seed=seed + 10**6) for how in made]
    return joined(train), joined(test)


def book_texts(name):
    """Texts, the short ones joined to others, so that all have the words of a distant fact."""
    found = [""]
    for text in read_texts(f"{CORPORA}/{name}.tab", label=False).texts:
        if len(found[-1].split()) >= FAR[1]:
            found.append("")
        found[-1] = f"{found[-1]} {text}".strip()
    return [text for text in found if len(text.split()) >= FAR[1]]


def joined(several):
    texts, labels = (sum((list(part[i]) for part in several), []) for i in range(2))
    return Texts(texts, labels, list(range(1, len(texts) + 1)))


def naive_bayes(train, test):
    """Whether naive Bayes over all words tells each text right; its smoothing is chosen by folds of
    the texts to train on."""
    model = fitted(BAYES, train.texts, train.labels, 5)
    return (model.predict(test.texts) == np.array(test.labels)).tolist()


def by_distance(found):
    """For each row the accuracy by length of the text, over all seeds."""
    tokens = np.concatenate([tokens for tokens, _ in found])
    return {
        name: accuracy_by_length(np.concatenate([right[name] for _, right in found]), tokens)
        for name in found[0][1]
    }


def distant(found):
    """For each row (1, texts), over all seeds: whether each distant fact was told right."""
    far = np.concatenate([np.array(tokens) > 512 for tokens, _ in found])
    return {
        name: [np.concatenate([right[name] for _, right in found])[far].astype(float)]
        for name in found[0][1]
    }


def record(arguments, found, seconds):
    versions = {"keras": keras.__version__, "backend": keras.backend.backend()}
    rows = {name: interval(own, distant(found)[SHORT]) for name, own in distant(found).items()}
    content = {
        "seeds": arguments.seeds,
        "tests": arguments.tests,
        "steps": arguments.steps,
        "rows": rows,
        "by_length": by_distance(found),
        "by_seed": {name: [float(np.mean(distant([one])[name])) for one in found] for name in rows},
        "seconds": seconds,
        "versions": {**versions, "python": platform.python_version()},
    }
    write_text(RESULTS, json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
