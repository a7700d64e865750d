"""A masked language model stretched to three times its length: what is lost, how fast it returns.

    KERAS_BACKEND=torch python -m benchmarks.stretching.recovery --models small
    KERAS_BACKEND=torch python -m benchmarks.stretching.recovery --models minilm
    KERAS_BACKEND=torch python -m benchmarks.stretching.recovery --table  # results as tables

`small` learns characters from scratch on windows of 32, for each seed anew. `minilm` is the
pretrained MiniLM, trained with a new MLM head on windows of 512, once; seeds differ in the windows,
in what is masked and in new rows. Both are then stretched in several ways. Each way sees the same
windows, tested at once and along a short training on the long windows; "unstretched" trains on as
many tokens of the old length, and is what the others are held to: the same test places in pieces of
the old length. Text: the book excerpts, the last fifth for the test.

Results go to benchmarks/results/recovery.json, a row for each way and seed, and are not computed
again, and their curves to recovery.svg beside it; the models before stretching are kept in
build/recovery.
"""

import pathlib
import statistics
import time

import keras
import numpy as np
from keras import ops

from benchmarks.shared.data import CORPORA, MINILM
from benchmarks.shared.kept import Study, keys, markdown, options, spread
from keras_posenc import (
    SinusoidalPositionEmbedding,
    Tokenizer,
    build_transformer_model,
    tasks,
)
from keras_posenc.analysis.plot import COLOURS, MARKERS, styled, to_svg
from keras_posenc.backend.seeding import set_random_seed
from keras_posenc.files.writing import write_text
from keras_posenc.training.schedules import cosine_warmup

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "recovery.json"
CORPUS = f"{CORPORA}/book-excerpts.tab"
FACTOR = 3
WAYS = {
    "hierarchical, alpha 0.2": {"hierarchical_position": 0.2},
    "hierarchical, alpha 0.4": {"hierarchical_position": 0.4},
    "hierarchical, alpha 0.45": {"hierarchical_position": 0.45},
    "hierarchical, alpha 0.6": {"hierarchical_position": 0.6},
    "hierarchical, alpha 0.8": {"hierarchical_position": 0.8},
    "hierarchical 0.4 without row 0": {"extension": "hierarchical:0.4,kept_rows=1"},
    "tile": {"extension": "tile"},
    "interpolate": {"extension": "interpolate"},
    "fresh": {"extension": "fresh"},
    "unstretched": {},
}
# The ways of one model alone: row 0 is unlike the others where [CLS] stands on it.
ALONE = {
    "hierarchical 0.4 without row 0": "minilm",
    "hierarchical, alpha 0.6": "small",
    "hierarchical, alpha 0.8": "small",
}
# Steps are those of a training; at each number of `marks` the long windows are tested.
SETTINGS = {
    "small": {
        "length": 32,
        "first": {"rows": 128, "steps": 800, "rate": 5e-3},
        "then": {"rows": 42, "rate": 3e-3, "marks": [0, 10, 20, 40, 80, 160]},
        "test_rows": 160,
    },
    "minilm": {
        "length": 512,
        "first": {"rows": 4, "steps": 250, "rate": 3e-4},
        "then": {"rows": 1, "rate": 1e-4, "marks": [0, 8, 16, 32, 64]},
        "test_rows": 4,
    },
}


def main():
    parser = options(__doc__, RESULTS, "build/recovery")
    parser.add_argument("--models", nargs="+", default=list(SETTINGS), choices=SETTINGS)
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--tiny", action="store_true", help="a few steps, to see that it runs")
    arguments = parser.parse_args()
    study = Study(arguments.results)
    for model in () if arguments.table else arguments.models:
        settings = tiny(SETTINGS[model]) if arguments.tiny else SETTINGS[model]
        subject = Subject(model, settings, arguments.folder)
        ways = [way for way in arguments.ways if ALONE.get(way, model) == model]
        rows = keys(model=[model], seed=arguments.seeds, way=ways)

        def measure(model, seed, way, subject=subject):
            return subject.row(way, seed)

        study.run(rows, measure, ["accuracy"])
    picture = to_svg(curves(study.rows, size=(9.6, 4.6)))
    write_text(arguments.results.with_suffix(".svg"), picture)
    for model in dict.fromkeys(row["model"] for row in study.rows):
        print(f"\n{model}\n{table([row for row in study.rows if row['model'] == model])}")


def tiny(settings):
    """Runs of a second, of the same kind."""
    first = {**settings["first"], "rows": 2, "steps": 2}
    then = {**settings["then"], "rows": 1, "marks": [0, 2]}
    return {**settings, "first": first, "then": then, "test_rows": 4}


class Subject:
    """What is stretched: the text, the model before, and its training."""

    def __init__(self, name, settings, folder):
        self.name, self.settings, self.folder = name, settings, folder
        self.length = settings["length"]
        self.corpus, self.first_id, self.sizes = {"small": characters, "minilm": words}[name]()
        self.train, self.test = (
            tasks.get("masked_language_model", corpus=self.corpus, split=split)
            for split in ("train", "test")
        )

    def build(self, way):
        arguments = dict(WAYS[way])
        if arguments:
            arguments["max_position"] = FACTOR * self.length
        # With a checkpoint, all that it lacks is the head.
        missing = {"ignore_invalid_weights": True} if self.sizes.get("config_path") else {}
        return build_transformer_model(
            **self.sizes, **arguments, **missing, with_mlm="linear", dropout_rate=0.0
        )

    def before(self, seed):
        """The weights before stretching, by layer."""
        seed = seed if self.name == "small" else 0
        path = self.folder / f"{self.name}-{self.length}-{seed}.weights.h5"
        set_random_seed(seed)
        model = self.build("unstretched")
        if path.exists():
            model.load_weights(path)
        else:
            self.learn(model, seed)
            self.folder.mkdir(parents=True, exist_ok=True)
            model.save_weights(path)
        return {layer.name: layer.get_weights() for layer in model.layers}

    def learn(self, model, seed):
        if self.name == "small":
            # From sines, for else hundreds of steps pass before places matter at all.
            table = model.get_layer("Embedding-Position")
            sines = SinusoidalPositionEmbedding(table.output_dim, merge_mode="zero")
            rows = sines(ops.zeros((1, self.length, table.output_dim)))[0]
            table.set_weights([0.3 * ops.convert_to_numpy(rows)])
        first = self.settings["first"]
        compiled(model, cosine_warmup(first["rate"], first["steps"], first["steps"] // 10))
        losses = []
        for step in range(first["steps"]):
            losses.append(self.step(model, first["rows"], self.length, (seed, step, 0)))
            if step % 50 == 49:
                mean = statistics.fmean(losses[-50:])
                print(f"{self.name} {seed}: step {step + 1}, loss {mean:.3f}", flush=True)

    def row(self, way, seed):
        weights, then = self.before(seed), self.settings["then"]
        marks = then["marks"]
        set_random_seed(seed)
        model = self.build(way)
        for layer in model.layers:
            old = weights[layer.name]
            # Fresh rows come behind the trained ones.
            layer.set_weights(old + layer.get_weights()[len(old) :])
        long = 1 if way == "unstretched" else FACTOR
        compiled(model, then["rate"])
        found = {"accuracy": {}, "by_block": {}, "seconds": {}}
        seconds = 0.0  # of a core, of the training alone
        for step in range(marks[-1] + 1):
            if step in marks:
                right, scored = self.score(model, long, seed)
                found["accuracy"][str(step)] = round(sum(right) / sum(scored), 5)
                blocks = zip(right, scored, strict=True)
                found["by_block"][str(step)] = [round(r / n, 5) for r, n in blocks]
                found["seconds"][str(step)] = round(seconds, 1)
            if step < marks[-1]:
                started, rows = time.process_time(), then["rows"] * FACTOR // long
                self.step(model, rows, long * self.length, (seed, step, 1))
                seconds += time.process_time() - started
        return found

    def step(self, model, rows, length, seed):
        ids, targets, mask = self.sample(self.train, rows, length, seed)
        loss = model.train_on_batch(self.inputs(ids), targets, mask.astype("float32"))
        return float(np.ravel(loss)[0])

    def score(self, model, long, seed):
        """(right, scored) in each third of the long windows, or in pieces of a third of them."""
        size = FACTOR * self.length
        ids, targets, mask = self.sample(
            self.test, self.settings["test_rows"], size, (seed, 2**31 - 1)
        )
        mask[:, :: self.length] = 0
        if long == 1:
            ids = ids.reshape(-1, self.length)
            ids[:, 0] = ids[0, 0] if self.first_id is not None else ids[:, 0]
        rows = max(1, 4096 // ids.shape[1])
        pieces = [ids[start : start + rows] for start in range(0, len(ids), rows)]
        answers = [model.predict_on_batch(self.inputs(piece)).argmax(-1) for piece in pieces]
        answers = np.concatenate(answers).reshape(targets.shape)
        return tasks.right_by_span(answers, targets, mask, self.length)

    def sample(self, task, rows, length, seed):
        ids, targets, mask = task.sample(rows, length, seed)
        if self.first_id is not None:
            ids[:, 0], mask[:, 0] = self.first_id, 0
        return ids, targets, mask

    def inputs(self, ids):
        segments = {"segment_ids": np.zeros_like(ids)} if self.name == "minilm" else {}
        return {"token_ids": ids, **segments}


def characters():
    corpus = tasks.Corpus(CORPUS, test_share=0.2)
    sizes = {
        "vocab_size": corpus.mask_id + 1,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 256,
        "hidden_act": "gelu",
        "segment_vocab_size": 0,
        "pad_token_id": None,
        "max_position_embeddings": 32,
        "initializer_range": 0.1,
    }
    return corpus, None, sizes


def words():
    """The excerpts as MiniLM's tokens; of its vocabulary, those that occur there."""
    tokenizer = Tokenizer(MINILM)
    corpus = tasks.Corpus(CORPUS, unit=tokenizer, test_share=0.2)
    special = [tokenizer.pad_id, tokenizer.cls_id, tokenizer.mask_id]
    keep = np.unique(np.concatenate([*corpus.parts.values(), special]))
    corpus.parts = {
        part: np.searchsorted(keep, ids).astype("int32") for part, ids in corpus.parts.items()
    }
    corpus.vocabulary_size = len(keep)
    corpus.mask_id = int(np.searchsorted(keep, tokenizer.mask_id))
    first = int(np.searchsorted(keep, tokenizer.cls_id))
    return corpus, first, {"config_path": MINILM, "keep_tokens": keep.tolist()}


def compiled(model, rate):
    model.compile(
        keras.optimizers.Adam(rate, global_clipnorm=1.0),
        keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="mean_with_sample_weight"
        ),
    )


def recovered(row, level):
    """The first tested step with four fifths of the accuracy before stretching."""
    return next((s for s, found in row["accuracy"].items() if found >= 0.8 * level), None)


def table(rows):
    """Markdown: accuracy in % at once and after the last step; what that took, and four fifths."""
    levels = {r["seed"]: r["accuracy"]["0"] for r in rows if r["way"] == "unstretched"}
    last = max(rows[0]["accuracy"], key=int)
    heads = ["", "before training", "before training, beyond the old length"]
    heads += [f"after {last} steps", "seconds of a core", "steps to four fifths of the accuracy"]
    lines = [heads]
    for way in (way for way in WAYS if any(row["way"] == way for row in rows)):
        runs = [row for row in rows if row["way"] == way]
        later = [100 * statistics.fmean(row["by_block"]["0"][1:]) for row in runs]
        steps = [recovered(row, levels[row["seed"]]) for row in runs]
        cells = [way, spread([100 * row["accuracy"]["0"] for row in runs])]
        cells.append("" if way == "unstretched" else spread(later))
        cells.append(spread([100 * row["accuracy"][last] for row in runs]))
        took = [row["seconds"][last] for row in runs if "seconds" in row]
        cells.append(spread(took, 0) if took else "–")
        cells.append(", ".join(step or "–" for step in steps))
        lines.append(cells)
    return markdown(lines)


@styled
def curves(figure, rows):
    """Accuracy along the training on long windows, a panel a model; shaded: all seeds."""
    models = [model for model in SETTINGS if any(row["model"] == model for row in rows)]
    for axes, model in zip(np.atleast_1d(figure.subplots(1, len(models))), models, strict=True):
        for index, way in enumerate(WAYS):
            runs = [r["accuracy"] for r in rows if (r["model"], r["way"]) == (model, way)]
            if not runs:
                continue
            steps = [int(step) for step in runs[0]]
            values = np.array([[100 * found[str(step)] for step in steps] for found in runs])
            look = {"color": COLOURS[index % len(COLOURS)], "marker": MARKERS[index % len(MARKERS)]}
            look["linestyle"] = "-" if index < len(COLOURS) else ":"
            if way == "unstretched":
                look = {"color": "#767676", "linestyle": "--"}
            axes.plot(steps, values.mean(0), markersize=4, label=way, **look)
            axes.fill_between(
                steps, values.min(0), values.max(0), color=look["color"], alpha=0.12, linewidth=0
            )
        length = SETTINGS[model]["length"]
        axes.set_xscale("symlog", linthresh=10)
        axes.set_xticks(steps, [str(step) for step in steps])
        axes.minorticks_off()
        axes.set(title=f"{model}: {length} to {FACTOR * length}", xlabel="steps of training")
        axes.set_ylabel("hidden tokens told right (%)")
    found = [zip(*axes.get_legend_handles_labels(), strict=True) for axes in figure.axes]
    lines = {label: handle for pairs in found for handle, label in pairs}
    figure.legend(lines.values(), lines.keys(), loc="outside lower left", ncols=4)


if __name__ == "__main__":
    main()
