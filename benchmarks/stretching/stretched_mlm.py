"""MiniLM as a masked language model, stretched: what it still tells, at once and after minutes.

    KERAS_BACKEND=torch python -m benchmarks.stretching.stretched_mlm
    KERAS_BACKEND=torch python -m benchmarks.stretching.stretched_mlm --table  # the results

MiniLM is an encoder of sentences: an MLM head is trained with it once, on windows of 512 tokens of
the book excerpts. Then it is stretched to 1,536 positions, by `keras_posenc.stretch` on the same
excerpts, in three patterns of layers, the head as it was; or by hierarchical positions as
published, followed by as many steps of telling hidden tokens. Judged on text of another source,
Grimm's tales: the hidden tokens that are told, in one pass of 1,530 tokens, beside the unstretched
model, which reads the same tokens, the same ones hidden, in three windows. The vocabulary is that
of both texts.

Results go to benchmarks/results/stretched_mlm.json, a row for each way and seed, and are not
computed again: of each text the hidden tokens and those told right, in the first window and in the
others. The unstretched model stays in build/stretched_mlm. Seeds differ in what is trained on after
stretching, in the texts of the test and in the tokens that are hidden.
"""

import functools
import pathlib
import statistics
import time

import keras
import numpy as np

from benchmarks.shared import intervals
from benchmarks.shared.data import CORPORA, MINILM
from benchmarks.shared.kept import Study, keys, markdown, options, spread, write_lines
from benchmarks.stretching.recovery import compiled
from benchmarks.stretching.stretch_base import recipe_of
from keras_posenc import Tokenizer, build_transformer_model, tasks
from keras_posenc.backend.seeding import set_random_seed
from keras_posenc.checkpoints import save_checkpoint
from keras_posenc.models.config_file import read_config
from keras_posenc.training import Source, stretch
from keras_posenc.training.schedules import cosine_warmup

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "stretched_mlm.json"
TRAIN, TEST = f"{CORPORA}/book-excerpts.tab", f"{CORPORA}/grimm-tales.tab"
HIDDEN = "as published, then hidden tokens"
# What `stretch` is told in each way; of the published one, the keywords of the factory.
WAYS = {
    "every third layer global": {"local": 256, "global_every": 3},
    "all layers global": {},
    "every layer local": {"local": 256},
    HIDDEN: {"hierarchical_position": 0.4},
}
SETTINGS = {
    "window": 510,  # and two special tokens
    "windows": 3,
    # Of a cosine schedule of 250 steps, as in recovery.py, the first 140.
    "first": {"rows": 4, "steps": 140, "schedule": 250, "rate": 3e-4},
    "rate": 1e-4,  # of hidden tokens, as in recovery.py
    "texts": 12,
}
TINY = {"first": {"rows": 1, "steps": 2, "schedule": 2, "rate": 1e-4}, "texts": 2}


def main():
    parser = options(__doc__, RESULTS, "build/stretched_mlm", seeds=[0, 1])
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--steps", type=int, default=12, help="after stretching")
    parser.add_argument("--tiny", action="store_true", help="a few steps, to see that it runs")
    arguments = parser.parse_args()
    study = Study(arguments.results, write_lines)
    if not arguments.table:
        subject = Subject(SETTINGS | (TINY if arguments.tiny else {}), arguments.folder)
        rows = keys(seed=arguments.seeds, way=arguments.ways, steps=[arguments.steps])
        study.run(rows, subject.row, ["right"])
    print(f"{table(study.rows)}\n\n{verdict(study.rows)}")


class Subject:
    """The model with its head before stretching, its texts and its test.

    Args:
        settings: dict, as `SETTINGS`.
        folder: directory of the model.
    """

    def __init__(self, settings, folder):
        self.settings, self.folder = settings, folder / "unstretched"
        full = Tokenizer(MINILM)
        corpora = [tasks.Corpus(path, unit=full) for path in (TRAIN, TEST)]
        ids = [part for corpus in corpora for part in corpus.parts.values()]
        special = [full.pad_id, full.unk_id, full.cls_id, full.sep_id, full.mask_id]
        self.keep = np.unique(np.concatenate([*ids, special])).tolist()
        names = {id: token for token, id in full.vocabulary.items()}
        vocabulary = {names[id]: new for new, id in enumerate(self.keep)}
        self.tokenizer = Tokenizer(MINILM, vocabulary=vocabulary)

    @functools.cached_property
    def source(self):
        """The task of the excerpts, nearly all of them."""
        corpus = tasks.Corpus(TRAIN, unit=self.tokenizer, test_share=0.01)
        return tasks.get("masked_language_model", corpus=corpus, split="train")

    @functools.cached_property
    def tales(self):
        corpus = tasks.Corpus(TEST, unit=self.tokenizer, test_share=0.99)
        return tasks.get("masked_language_model", corpus=corpus, split="test")

    @functools.cached_property
    def checkpoint(self):
        """Where the unstretched model is: trained with its head if it is not there."""
        if not (self.folder / "config.json").exists():
            set_random_seed(0)
            model = build_transformer_model(
                MINILM,
                keep_tokens=self.keep,
                with_mlm="linear",
                ignore_invalid_weights=True,
                dropout_rate=0.0,
            )
            first = self.settings["first"]
            schedule = cosine_warmup(first["rate"], first["schedule"], first["schedule"] // 10)
            compiled(model, schedule)
            started, losses = time.process_time(), []
            for step in range(first["steps"]):
                losses.append(self.step(model, first["rows"], 1, (0, step, 0)))
                if step % 10 == 9:
                    loss, seconds = statistics.fmean(losses[-10:]), time.process_time() - started
                    print(f"step {step + 1}, loss {loss:.3f}, {seconds:.0f} s", flush=True)
            self.tokenizer.save(self.folder)
            save_checkpoint(model, self.folder)
        return self.folder

    def build(self, checkpoint, **arguments):
        return build_transformer_model(
            checkpoint, with_mlm="linear", dropout_rate=0.0, attention_dropout_rate=0.0, **arguments
        )

    def framed(self, ids):
        """Inputs of texts (B, T): with [CLS] and [SEP] around each."""
        first, last = self.tokenizer.cls_id, self.tokenizer.sep_id
        ids = np.pad(ids, ((0, 0), (1, 1)), constant_values=((0, 0), (first, last)))
        return {"token_ids": ids, "segment_ids": np.zeros_like(ids)}

    def step(self, model, rows, windows, seed):
        """A step of telling hidden tokens; returns the loss."""
        ids, targets, mask = self.source.sample(rows, windows * self.settings["window"], seed)
        targets, mask = (np.pad(array, ((0, 0), (1, 1))) for array in (targets, mask))
        loss = model.train_on_batch(self.framed(ids), targets, mask.astype("float32"))
        return float(np.ravel(loss)[0])

    def counts(self, model, seed, windows):
        """Hidden tokens, and those told right, of each text and window: two (texts, all windows).

        The texts are read in pieces of so many windows.
        """
        size, count = self.settings["window"], self.settings["windows"]
        texts = self.settings["texts"]
        ids, targets, mask = self.tales.sample(texts, count * size, (seed, 2**31 - 1))
        pieces = ids.reshape(texts, -1, windows * size)
        answers = np.concatenate(
            [model.predict_on_batch(self.framed(text))[:, 1:-1].argmax(-1) for text in pieces]
        )
        right = (answers.reshape(targets.shape) == targets) * mask
        return [array.reshape(texts, count, size).sum(-1) for array in (mask, right)]

    @functools.cache  # noqa: B019 (one subject, few seeds)
    def unstretched(self, seed):
        return self.counts(self.build(self.checkpoint), seed, 1)

    def row(self, way, seed, steps):
        """A way, measured: what is told, in the first window of each text and in the others."""
        settings, length = self.settings, self.settings["windows"] * (self.settings["window"] + 2)
        hidden, right = self.unstretched(seed)
        found = {"length": length, "hidden": halves(hidden)}
        found["right"] = {"unstretched": halves(right)}
        report = {}
        if way == HIDDEN:
            set_random_seed(seed)
            model = self.build(self.checkpoint, max_position=length, **WAYS[way])
            found["right"]["at once"] = halves(self.counts(model, seed, settings["windows"])[1])
            compiled(model, settings["rate"])
            started = time.process_time()
            for step in range(steps):
                self.step(model, 1, settings["windows"], (seed, step, 1))
            seconds = time.process_time() - started
        else:
            given = {"max_length": length, "steps": steps, "seed": seed, **WAYS[way]}
            recipe = recipe_of(Source(self.checkpoint, model="bert"), **given)
            model = self.build(self.checkpoint, **recipe.options(read_config(self.checkpoint)))
            found["right"]["at once"] = halves(self.counts(model, seed, settings["windows"])[1])
            started = time.process_time()
            output = self.folder.parent / f"{way.replace(' ', '-')}-{seed}-{steps}"
            report = stretch(self.checkpoint, TRAIN, output, test=TEST, **given).report
            report = {"agreement": {part: report[part] for part in ("within", "beyond")}}
            seconds = time.process_time() - started
            model = self.build(output)
        found["right"]["after"] = halves(self.counts(model, seed, settings["windows"])[1])
        return {**found, **report, "core_seconds": round(seconds), "keras": keras.__version__}


def halves(counts):
    """Of each text, the first window and the others."""
    return [[int(one[0]), int(one[1:].sum())] for one in counts]


def shares(rows, name, part=None):
    """Of each text of each seed: the share of the hidden tokens that is told right.

    Args:
        rows: list of dict, of one way.
        name: "unstretched", "at once" or "after".
        part: 0, the first window; 1, the others; None, all.
    """
    kept = slice(None) if part is None else slice(part, part + 1)
    pairs = [zip(row["right"][name], row["hidden"], strict=True) for row in rows]
    return [[sum(right[kept]) / sum(hidden[kept]) for right, hidden in runs] for runs in pairs]


def kept_share(rows, name, part=None):
    """What is kept of the unstretched model's accuracy, and the half width of its 95% interval.

    The interval is that of a ratio of two means, paired by text.
    """
    one, level = (np.concatenate(shares(rows, which, part)) for which in (name, "unstretched"))
    return intervals.ratio(one, level)


def table(rows):
    """Markdown: accuracy in % before, and what is kept of it at once and after the steps."""
    heads = ["", "seeds", "unstretched", "before training", "kept", "steps", "after these steps"]
    heads += ["kept after them", "kept after them, beyond 512 tokens", "minutes of a core"]
    lines = [heads]
    for (way, steps), runs in kinds(rows).items():
        cells = [way, str(len(runs)), percent(runs, "unstretched")]
        cells += [percent(runs, "at once"), interval(runs, "at once"), str(steps)]
        cells += [percent(runs, "after"), interval(runs, "after"), interval(runs, "after", 1)]
        cells.append(spread([row["core_seconds"] / 60 for row in runs]))
        lines.append(cells)
    return markdown(lines)


def kinds(rows):
    """(way, steps) -> its rows, in the order of `WAYS`."""
    found = {}
    for row in sorted(rows, key=lambda row: (list(WAYS).index(row["way"]), row["steps"])):
        found.setdefault((row["way"], row["steps"]), []).append(row)
    return found


def percent(rows, name):
    return f"{100 * np.mean(shares(rows, name)):.1f}"


def interval(rows, name, part=None):
    kept, half = kept_share(rows, name, part)
    return f"{100 * kept:.0f} ± {100 * half:.0f}%"


def verdict(rows, aim=0.95):
    """Whether each way keeps 95% of the original model's accuracy, as far as its interval shows."""
    lines = ["| | steps | 95% kept afterwards? |", "|---|---|---|"]
    for (way, steps), runs in kinds(rows).items():
        kept, half = kept_share(runs, "after")
        what = "not decided" if abs(kept - aim) <= half else "yes" if kept > aim else "no"
        lines.append(f"| {way} | {steps} | {what} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
