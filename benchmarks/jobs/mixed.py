"""What padding costs when `fit` meets texts of every length.

    KERAS_BACKEND=tensorflow python -m benchmarks.jobs.mixed

MiniLM, with its own dropout, is trained on posts of 20 Newsgroups, cut at 2,048 tokens, in batches
of a token budget. A first epoch compiles; the later ones are timed whole and batch by batch.
Compared with

- no padding at all: c(n) summed over the texts' own lengths n, where c is the time of one text in
  a full batch, measured at the lengths of the batches and straight between them;
- padding all to the longest: the time of a full batch at 2,048 tokens;
- packing: short texts joined into full rows of one length, with no row wasted and the mask for
  nothing. That is the least it could take: c of a full row, by the same measurements.

Results go to benchmarks/results/mixed.json, one entry a backend.
"""

import argparse
import json
import pathlib
import time

import keras
import numpy as np

from benchmarks.shared.data import CORPORA, MINILM
from benchmarks.steps import step
from keras_posenc import TextBatches, Tokenizer, build_transformer_model
from keras_posenc.backend.seeding import set_random_seed
from keras_posenc.heads import classifier
from keras_posenc.text import read_texts

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "mixed.json"


class Watched(TextBatches):
    """Remembers the shapes that were drawn."""

    drawn = ()

    def __getitem__(self, index):
        batch = super().__getitem__(index)
        self.drawn = (*self.drawn, batch[0]["token_ids"].shape)
        return batch


class Stopwatch(keras.callbacks.Callback):
    """Of every epoch: its seconds, those of its batches, their shapes, and what others used."""

    def __init__(self, data):
        super().__init__()
        self.data, self.epochs = data, []

    def on_epoch_begin(self, epoch, logs=None):
        self.batches, self.began = [], time.perf_counter()
        self.busy, self.process_seconds = step.busy_seconds(), time.process_time()

    def on_train_batch_begin(self, batch, logs=None):
        self.start = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        float(logs["loss"])  # waits for the step
        self.batches.append(time.perf_counter() - self.start)

    def on_epoch_end(self, epoch, logs=None):
        passed = time.perf_counter() - self.began
        others = step.busy_seconds() - self.busy - (time.process_time() - self.process_seconds)
        shapes = self.data.drawn[-len(self.batches) :]
        self.epochs.append((passed, self.batches, shapes, max(0.0, others / passed)))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=1024)
    parser.add_argument("--max-length", type=int, default=2048)
    parser.add_argument("--token-budget", type=int, default=8192)
    parser.add_argument("--epochs", type=int, default=2, help="the first is not counted")
    parser.add_argument("--results", default=RESULTS, type=pathlib.Path)
    arguments = parser.parse_args()
    set_random_seed(0)
    line = measured(arguments)
    report = json.loads(arguments.results.read_text()) if arguments.results.exists() else {}
    report[keras.backend.backend()] = line
    arguments.results.parent.mkdir(exist_ok=True)
    arguments.results.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(line, indent=1))


def measured(arguments):
    corpus = read_texts(f"{CORPORA}/20newsgroups-train.tab")
    chosen = np.random.default_rng(0).permutation(len(corpus.texts))[: arguments.documents]
    texts, labels = ([part[i] for i in chosen] for part in (corpus.texts, corpus.labels))
    tokenizer = Tokenizer(MINILM)
    limits = {"max_length": arguments.max_length, "token_budget": arguments.token_budget}
    began = time.perf_counter()
    batches = Watched(texts, labels, tokenizer, **limits)
    tokenised = time.perf_counter() - began
    lengths = np.minimum(batches.lengths, arguments.max_length)

    model = classifier(
        build_transformer_model(MINILM, hierarchical_position=True), len(batches.classes)
    )
    # What Keras chooses: XLA on JAX, no XLA on TensorFlow without an accelerator.
    model.compile(keras.optimizers.Adam(1e-4), _loss())
    watch = Stopwatch(batches)
    model.fit(batches, epochs=arguments.epochs, verbose=0, callbacks=[watch])
    first, *timed = watch.epochs
    price = prices(timed)
    took = float(np.median([epoch[0] for epoch in timed]))
    waited = float(np.median([epoch[0] - sum(epoch[1]) for epoch in timed]))

    ideal = alone(lengths, price)
    longest = padded(model, texts, labels, tokenizer, limits)
    packed = {width: packing(lengths, width, price) for width in sorted(price)}
    best = min(packed, key=packed.get)
    return {
        "documents": len(texts),
        "tokens": int(lengths.sum()),
        "mean": round(float(lengths.mean())),
        "median": int(np.median(lengths)),
        "shapes": [list(shape) for shape in batches.shapes],
        "padding_share": round(batches.padding_share, 3),
        "tokenised_seconds": round(tokenised, 2),
        "first_epoch_seconds": round(first[0], 1),
        "epoch_seconds": round(took, 2),
        "seconds_between_steps": round(waited, 2),
        "against_no_padding": round(took / ideal, 2),
        "documents_a_second": round(len(texts) / took, 2),
        "against_padding_to_the_longest": round(longest * len(texts) / took, 2),
        "best_packing": {"row": best, "against_batches": round(packed[best] / took, 2)},
        "seconds_a_text": {int(width): round(price[width], 4) for width in sorted(price)},
        "others": round(max(epoch[3] for epoch in timed), 2),
    }


def _loss():
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def prices(epochs):
    """Seconds of one text of each length, in the fullest batches of that length."""
    times = {}
    for _, seconds, shapes, _ in epochs:
        for (size, width), second in zip(shapes, seconds, strict=True):
            times.setdefault(int(width), []).append((size, second / size))
    return {
        width: float(np.median([s for size, s in found if size == max(found)[0]]))
        for width, found in times.items()
    }


def alone(lengths, price):
    """Seconds of the texts without padding: the price between the lengths measured."""
    widths = sorted(price)
    return float(np.interp(lengths, [0, *widths], [0, *(price[w] for w in widths)]).sum())


def padded(model, texts, labels, tokenizer, limits):
    """Seconds of one text when all are padded to the longest."""
    size = limits["token_budget"] // limits["max_length"]
    some = slice(0, 4 * size)  # four batches; the first is not counted
    batches = Watched(
        texts[some], labels[some], tokenizer, max_shapes=1, pad_to=limits["max_length"], **limits
    )
    watch = Stopwatch(batches)
    model.fit(batches, epochs=1, verbose=0, callbacks=[watch])
    return float(np.median(watch.epochs[0][1][1:])) / size


def packing(lengths, row, price):
    """Seconds if texts shorter than `row` filled rows of that length to the last token."""
    short = lengths[lengths < row]
    return short.sum() / row * price[row] + alone(lengths[lengths >= row], price)


if __name__ == "__main__":
    main()
