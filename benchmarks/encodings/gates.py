"""Which tokens do the gates of a trained CoPE count: increments in programs, sentences in texts?

    KERAS_BACKEND=jax python -m benchmarks.encodings.corpora  # the words, into build/corpora
    KERAS_BACKEND=jax python -m benchmarks.encodings.gates
    KERAS_BACKEND=jax python -m benchmarks.encodings.gates --table  # the results

Models of `benchmarks.extrapolation` with the settings of its results: one counts the increments of
a variable, the other predicts the words of Friends. In test texts of the trained length, the gates
of all queries (in programs, of the one that answers) are averaged over the keys that are to be
counted, increments or ends of sentences, and over all other keys, for each head. The same is done
before any training.

Results go to benchmarks/results/gates.json, a row for each task and seed.
"""

import collections
import pathlib

import numpy as np

from benchmarks.extrapolation.models import build_model
from benchmarks.extrapolation.run import Contender
from benchmarks.extrapolation.settings import Settings, task_of
from benchmarks.shared.kept import Study, keys, markdown, options, spread
from keras_posenc.analysis import attention_inputs, contextual_positions
from keras_posenc.tasks import counting, language

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "gates.json"
FRIENDS = "build/corpora/friends"
COMMON = {"layers": 2, "heads": 2, "dropout": 0.0, "train_lengths": (64,), "test_lengths": (64,)}
# Task -> its notation, its encoding and its settings.
TASKS = {
    "increments": (
        "counting:variables=1",
        "cope:npos_max=16",
        Settings(steps=800, learning_rate=2e-3, **COMMON),
    ),
    "ends of sentences": (
        "language_model:unit=words",
        "cope",
        Settings(steps=600, batch_size=32, learning_rate=3e-3, corpus=FRIENDS, **COMMON),
    ),
}
TEST_ROWS = 32


def main():
    parser = options(__doc__, RESULTS, "build/gates")
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=TASKS)
    arguments = parser.parse_args()
    study = Study(arguments.results)
    if not arguments.table:
        arguments.folder.mkdir(parents=True, exist_ok=True)

        def measure(seed, task):
            name, encodings, settings = TASKS[task]
            made = task_of(name, settings.corpus)
            untrained = build_model(made, settings, encodings=encodings)
            contender = Contender(name, settings, "transformer", encodings, "consecutive")
            contender.train(seed, arguments.folder / f"{task}-{seed}.zip".replace(" ", "-"), print)
            models = {"untrained": untrained, "trained": contender.model}
            return {when: gates(model, made, settings) for when, model in models.items()}

        study.run(keys(task=arguments.tasks, seed=arguments.seeds), measure, ["trained"])
    print(table(study.rows))


def gates(model, task, settings):
    """For each head its mean gate of keys that are to be counted, and of the others."""
    tokens, _, scored = task.sample(TEST_ROWS, 64, 2**31 - 1)
    if settings.corpus:
        counted, scored = np.isin(tokens, ends_of_sentences(settings.corpus)), np.ones(tokens.shape)
    else:
        counted = tokens == counting.INCREMENT
    seen = np.tril(np.ones((64, 64))) * scored[:, :, None]
    found = []
    for layer, states in attention_inputs(model, tokens).items():
        of_heads = contextual_positions(layer, states)["gates"]
        for head in np.moveaxis(of_heads, 1, 0):
            kinds = seen * counted[:, None], seen * ~counted[:, None]
            found.append([round(float((head * kind).sum() / kind.sum()), 3) for kind in kinds])
    return found


def ends_of_sentences(corpus):
    """The ids of marks that end a sentence, in a corpus of words."""
    text = pathlib.Path(corpus, "train.txt").read_text("utf-8").lower()
    frequent = collections.Counter(language.WORD.findall(text)).most_common(2000)
    return [number for number, (word, _) in enumerate(frequent, 1) if word in (".", "!", "?")]


def table(rows):
    """Markdown: of the head that counts best, its mean gates, untrained and trained."""
    lines = [["counted", "model", "gate of these", "gate of other tokens", "heads that count"]]
    for task in dict.fromkeys(row["task"] for row in rows):
        for when in ("untrained", "trained"):
            heads = [row[when] for row in rows if row["task"] == task]
            best = [max(each, key=lambda gate: gate[0] - gate[1]) for each in heads]
            count = [sum(one > 2 * other for one, other in each) for each in heads]
            cells = [spread(values, 2) for values in zip(*best, strict=True)]
            lines.append([task, when, *cells, f"{min(count)} to {max(count)} of {len(heads[0])}"])
    return markdown(lines)


if __name__ == "__main__":
    main()
