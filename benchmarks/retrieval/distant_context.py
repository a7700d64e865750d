"""Distant context without labels: does a chunk's vector know what its document stated far away?

    KERAS_BACKEND=torch python -m benchmarks.retrieval.distant_context
    KERAS_BACKEND=torch python -m benchmarks.retrieval.distant_context --table  # the results

Libraries are searched (distant_texts.py), and every way of reading gets the same
documents, passages and queries:

opening    16 texts, each about a person who is introduced by name and profession in the first
           sentence. A number of tokens behind it, such as 700, sentences refer to the person by a
           pronoun, and the query asks by name. Ranked are the sentences of all texts that state the
           same relation. Someone of the other sex is introduced in between.
inside     the same, but the person is introduced behind the other one, not in the first sentence.
one person the easier test: 30 texts that differ in nothing but the name in the first sentence. The
           last sentence, the same in all of them, is searched by the name.
tales      30 tales of up to 1,536 tokens, in passages of 96, which are found by the tale's title.
           The title is not in the text.
episodes   transcripts of 24 episodes of 4,096 tokens, likewise.

subjects   the same as opening, 700 tokens behind, about other subjects than a person by first name:
           by a surname or a role, inside a sentence, companies and ships, two of one sex, renamed
           halfway (distant_subjects.py).
licences   clauses of licences, found by the name of the licence, of which no word is near the
           clause; a natural case (distant_terms.py), for which `make evidence-data` was run. It is
           not in the default.
200 documents   the same as opening, 700 tokens behind, with 200 texts.
sentences  400 single sentences of the tales: the rank correlation of their similarities with those
           by the original model, which is what training costs.

The model is trained by `contextualize` on excerpts of other books, without labels. Results
go to benchmarks/results/distant_context.json, a row per library, way and seed, and are not computed
again; the trained models are kept in build/distant_context. The model is MiniLM; with
`--model mpnet` it is all-mpnet-base-v2, if `make evidence-data` was run, and the files have its
name.
"""

import functools
import pathlib

import numpy as np

from benchmarks.retrieval import distant_subjects, distant_terms, distant_texts
from benchmarks.shared.data import CORPORA, MINILM, mpnet
from benchmarks.shared.intervals import half_width
from benchmarks.shared.kept import Study, keys, markdown, options, write_lines
from benchmarks.shared.reading import by_words
from keras_posenc import TextModel, Tokenizer, embedder
from keras_posenc.retrieval import embed_spans, open_embedder
from keras_posenc.training import Embed, contextualize, finetune, stretch

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "distant_context.json"
LENGTH, WINDOW = 4096, 512
TABLE = {"extension": "hierarchical:0.2,kept_rows=1"}
LOCAL = [{"name": "window", "window": 257, "global_tokens": 1}]  # 256 tokens to each side
EVERY_THIRD = {**TABLE, "encodings": [[] if layer % 3 == 0 else LOCAL for layer in range(6)]}
TRAINED = 128  # the length of the texts that both models were last trained on
LOG_N = {"name": "log_n", "train_length": TRAINED, "clipped": True}
WORDS, ALONE, TITLE = "BM25 on chunks", "chunk alone", "chunk after the title"
FIRST = "chunk after the document's first sentence"
WINDOWS = "late chunking in 512-token windows"
WINDOWS_LOG_N = "late chunking in 512-token windows, with log-n"
LONG_LOG_N = "late chunking, stretched, with log-n, untrained"
CONTEXTUAL = "late chunking, trained by `contextualize`"
ON_LICENCES = "late chunking, trained by `contextualize` on these licences"
LABELLED = "late chunking, trained with labels on other licences"
FASTER = 'late chunking, trained with `opening=0.2, names=1, steps=240, optimizer="adamw:1e-4"`'
SUPERVISED = "late chunking, trained with `supervised_attention=1`"
STEPS_60 = "late chunking, trained with `steps=60`"
SUPERVISED_60 = "late chunking, trained with `steps=60, supervised_attention=1`"
# Ways of training -> the arguments of `contextualize`.
TRAININGS = {
    CONTEXTUAL: {},
    "late chunking, trained with `opening=0.1, names=1`": {"opening": 0.1, "names": 1.0},
    "late chunking, trained with `opening=0.1, names=1, steps=360`": {
        "opening": 0.1,
        "names": 1.0,
        "steps": 360,
    },
    "late chunking, trained with `steps=360`": {"steps": 360},
    ON_LICENCES: {},
    STEPS_60: {"steps": 60},
    FASTER: {"opening": 0.2, "names": 1.0, "steps": 240, "optimizer": "adamw:1e-4"},
    SUPERVISED: {"supervised_attention": 1.0},
    SUPERVISED_60: {"steps": 60, "supervised_attention": 1.0},
}
# Row of a table -> the two ways that it compares.
COMPARED = {
    "gain by `contextualize` over windows": (CONTEXTUAL, WINDOWS),
    "gain by positions over windows, both with log-n": (LONG_LOG_N, WINDOWS_LOG_N),
    "gain by twice the steps and rate over the defaults": (FASTER, CONTEXTUAL),
    "gain by supervised attention over the defaults": (SUPERVISED, CONTEXTUAL),
    "gain by supervised attention over the same 60 steps": (SUPERVISED_60, STEPS_60),
}
# Ways that read windows -> the arguments of the encoder.
WINDOWED = {WINDOWS: {}, WINDOWS_LOG_N: {"encodings": [LOG_N]}}
# The same of those that read the whole document, before any training.
UNTRAINED = {
    "late chunking, stretched, untrained": TABLE,
    "the same, every third layer global": EVERY_THIRD,
    "late chunking, positions of Su (2020), untrained": {"hierarchical_position": True},
    "late chunking, interpolated, untrained": {"extension": "interpolate", "max_position": LENGTH},
    LONG_LOG_N: {**TABLE, "encodings": [LOG_N]},
}
DEFAULT_WAYS = [WORDS, ALONE, FIRST, TITLE, *WINDOWED, LONG_LOG_N, CONTEXTUAL]
WAYS = list(dict.fromkeys([*DEFAULT_WAYS, *UNTRAINED, *TRAININGS, LABELLED]))
ONE = "one person"
# Where people are introduced -> how many tokens before the sentences about them.
DISTANCES = {
    "opening": (100, 300, 700, 1600, 3600),
    "inside": (100, 300, 700, 1600, 3600),
    ONE: (300, 700, 1100, 1600, 2048, 3900),
}
# The name of a library -> its place and its distance.
PEOPLE = {
    f"{place} {tokens}": (place, tokens) for place in DISTANCES for tokens in DISTANCES[place]
}
NATURAL = ("tales", "episodes")
SENTENCES, LICENCES = "sentences", "licences"
SUBJECTS = (*distant_subjects.KINDS, distant_subjects.MANY)
LIBRARIES = (*PEOPLE, *NATURAL, SENTENCES, *SUBJECTS)  # and licences, on request


def main():
    parser = options(__doc__, RESULTS, "build/distant_context")
    parser.add_argument("--model", default="minilm", choices=("minilm", "mpnet"))
    parser.add_argument("--ways", nargs="+", default=DEFAULT_WAYS, choices=WAYS)
    parser.add_argument("--libraries", nargs="+", default=list(LIBRARIES),
                        choices=[*LIBRARIES, LICENCES])  # fmt: skip
    arguments = parser.parse_args()
    results, folder, checkpoint = arguments.results, arguments.folder, MINILM
    if arguments.model == "mpnet":
        checkpoint = mpnet()
        results, folder = results.with_stem(f"{results.stem}_mpnet"), folder / "mpnet"
    study = Study(results, write_lines)
    if not arguments.table:
        tokenizer = Tokenizer(checkpoint)
        library = functools.cache(functools.partial(load, tokenizer))

        def measured(**key):
            if key["library"] == SENTENCES:
                models = [reader(tokenizer, way, key["seed"], folder, checkpoint)
                          for way in (ALONE, key["way"])]  # fmt: skip
                return {"mean": same_order(distant_texts.sentences(tokenizer), *models)}
            texts = library(key["library"], key["seed"])
            name = "-".join(map(str, key.values())).translate({ord("`"): None, ord("/"): None})
            path = folder / f"{name}.npy"
            if not path.exists():
                how = tokenizer, key["way"], key["seed"], folder, checkpoint
                found = similarities(texts, key["way"], tokenizer, functools.partial(reader, *how))
                path.parent.mkdir(parents=True, exist_ok=True)
                np.save(path, found)
            return scores(texts, np.load(path))

        every = keys(
            seed=arguments.seeds,
            library=arguments.libraries,
            way=arguments.ways,
        )
        study.run(filter(makes_sense, every), measured, ["mean"])
    print(table(study.rows))


def makes_sense(key):
    """A seed draws people, and trains the model. People have no title."""
    if key["library"] == SENTENCES:
        return key["way"] in TRAININGS
    if key["library"] in (*PEOPLE, *SUBJECTS):
        return key["way"] != TITLE
    return key["seed"] == 0 or key["way"] in (*TRAININGS, LABELLED)


def load(tokenizer, library, seed):
    if library in PEOPLE:
        place, distance = PEOPLE[library]
        if place == ONE:
            return distant_texts.one_person(tokenizer, seed, distance)
        return distant_texts.people(tokenizer, seed, place, distance)
    if library in SUBJECTS:
        return distant_subjects.library(tokenizer, library, seed)
    if library == LICENCES:
        return distant_terms.licences(tokenizer)
    return getattr(distant_texts, library)(tokenizer)


def reader(tokenizer, way, seed, folder, checkpoint=MINILM):
    """The model of a way of reading, whose training has a seed."""
    if way in TRAININGS:
        number = list(TRAININGS).index(way)
        output = folder / (f"contextual-{number}-{seed}" if number else f"contextual-{seed}")
        texts, settings = f"{CORPORA}/book-excerpts.tab", TRAININGS[way]
        if way == ON_LICENCES:
            texts = distant_terms.licences(tokenizer).texts
        contextualize(checkpoint, texts, output, max_length=LENGTH, seed=seed, **settings)
        return open_embedder(output, max_length=LENGTH)
    if way == LABELLED:
        rows = distant_terms.labelled(tokenizer)
        return with_labels(checkpoint, rows, folder / f"labels-{seed}", seed)
    if way in UNTRAINED:
        return TextModel(embedder(checkpoint, **UNTRAINED[way]), tokenizer, LENGTH)
    return TextModel(embedder(checkpoint, **WINDOWED.get(way, {})), tokenizer, WINDOW)


def with_labels(checkpoint, rows, output, seed):
    """The stretched embedder, fine-tuned on queries and passages in their documents (InSeNT).

    Rows are learned whose passage stands in the first half of what is read later. Without dropout,
    attention takes a fused kernel.
    """
    start, texts = output / "start", [document for _, document, _ in rows]
    stretch(checkpoint, texts, start, max_length=LENGTH, steps=0, log_n=TRAINED, **TABLE)
    settings = {"max_length": LENGTH // 2, "token_budget": 4 * LENGTH, "epochs": 1, "seed": seed}
    settings |= {"dropout_rate": 0.0, "attention_dropout_rate": 0.0}
    finetune(start, rows, output / "trained", task=Embed(document_weight=0.2), **settings)
    return open_embedder(output / "trained", max_length=LENGTH)


def similarities(library, way, tokenizer, model):
    """Scores (Q, N) of all passages by one way of reading.

    Args:
        library: `Library`.
        way: one of `WAYS`.
        tokenizer: `Tokenizer`.
        model: function without arguments that makes the `TextModel` of the way.
    """
    texts, pieces, starts = library.texts, [], []
    for number, (text, spans) in enumerate(zip(texts, library.spans, strict=True)):
        pieces += [text[start:end] for start, end in spans]
        starts += [(library.openings[number], library.titles[number])] * len(spans)
    if way == WORDS:
        return by_words(*([list(ids) for ids in tokenizer.contents(part)]
                          for part in (library.queries, pieces)))  # fmt: skip
    model = model()
    if way in (ALONE, FIRST, TITLE):
        which = {ALONE: None, FIRST: 0, TITLE: 1}[way]
        if which is not None:
            pieces = [f"{s[which]} {piece}" for s, piece in zip(starts, pieces, strict=True)]
        vectors = model.predict(pieces, verbose=0)
    else:
        vectors = embed_spans(model, texts, library.spans, verbose=0).vectors
    return model.predict(library.queries, verbose=0) @ vectors.T


def scores(library, similar):
    """What is measured of each query, and the mean of the first measure.

    Ties count by their expectation, as if drawn at random: equal passages have equal scores. Of
    people, whether the right sentence is the nearest one. Of natural texts nDCG@10, and
    R-precision: of a title's R passages, the share that is among the R nearest.
    """
    found = dict(library.about)
    # Of each query, the scores of what is ranked, and which of them are right.
    ranked = [
        (row[rows], np.isin(rows, right))
        for row, rows, right in zip(similar, library.ranked, library.right, strict=True)
    ]
    if "distance" in found:
        found["top1"] = first = [_top1(*query) for query in ranked]
        found["chance"] = round(float(np.mean([1 / len(row) for row, _ in ranked])), 4)
    else:
        gains = [(_gains(row, right), int(right.sum())) for row, right in ranked]
        found["ndcg"] = first = [_ndcg(*each) for each in gains]
        found["precision"] = [round(float(gain[:count].mean()), 4) for gain, count in gains]
    return {**found, "mean": round(float(np.mean(first)), 4)}


def same_order(texts, *models):
    """Spearman's correlation of the similarities of all pairs of texts by two models."""
    pairs, ranks = np.triu_indices(len(texts), 1), []
    for model in models:
        vectors = model.predict(texts, verbose=0)
        ranks.append(np.argsort(np.argsort((vectors @ vectors.T)[pairs])))
    return round(float(np.corrcoef(*ranks)[0, 1]), 4)


def found_first(library, similar):
    """The passage that is nearest to each query, of those that are ranked for it."""
    return np.array([
        rows[np.argmax(row[rows])] for row, rows in zip(similar, library.ranked, strict=True)
    ])  # fmt: skip


def _top1(row, right):
    nearest = row >= row.max() - 1e-6
    return round(float(nearest[right].sum() / nearest.sum()), 4)


def _gains(row, right):
    """What is expected to be right at each place, from the largest score on."""
    order = np.argsort(-row, kind="stable")
    level = np.cumsum(np.append(0, -np.diff(row[order]) > 1e-6))
    return (np.bincount(level, right[order]) / np.bincount(level))[level]


def _ndcg(gain, count, most=10):
    discounts = 1 / np.log2(2 + np.arange(min(most, len(gain))))
    ideal = discounts[:count].sum()
    return round(float((gain[:most] * discounts).sum() / ideal), 4)


def by_distance(rows, place, ways=WAYS):
    """Way -> distance of the library -> dict with the mean distance, and the top-1 in % and seed of
    each document."""
    found, queries = {}, 1 if place == ONE else len(distant_texts.RELATIONS)
    for way in ways:
        for distance in DISTANCES[place]:
            name = f"{place} {distance}"
            chosen = [row for row in rows if row["library"] == name and row["way"] == way]
            chosen.sort(key=lambda row: row["seed"])
            if chosen:
                top1 = np.concatenate([row["top1"] for row in chosen]).reshape(-1, queries)
                seeds = np.concatenate([[row["seed"]] * len(row["top1"]) for row in chosen])
                away = np.mean(np.concatenate([row["distance"] for row in chosen]))
                found.setdefault(way, {})[distance] = {
                    "tokens": round(float(away), -1),
                    "top1": 100 * top1.mean(axis=1),
                    "seeds": seeds[::queries],
                }
    return found


def table(rows):
    """The tables of all libraries."""
    parts = [people_lines(rows, place) for place in DISTANCES]
    parts += [natural_lines(rows, library) for library in NATURAL]
    parts += [subject_lines(rows), licence_lines(rows), sentence_lines(rows)]
    return "\n\n".join(map(markdown, filter(None, parts)))


def people_lines(rows, place):
    """Top-1 in % with 95% intervals over documents: a row per way, a column per distance, and what
    a way has more than windows, paired by document; as rows of cells, the first of which are the
    heads."""
    found = by_distance(rows, place)
    if WINDOWS not in found:
        return []
    tokens = {
        distance: column["tokens"]
        for columns in reversed(found.values())  # of the first way that has it
        for distance, column in columns.items()
    }
    distances = sorted(tokens)
    heads = [f"{tokens[distance]:,.0f}" for distance in distances]
    lines = [[f"tokens back to the name, {place}", *heads]]
    for way, columns in found.items():
        scores = [
            columns[distance]["top1"] if distance in columns else [] for distance in distances
        ]
        cells = (f"{np.mean(s):.0f} ± {half_width(s):.0f}" if len(s) else "" for s in scores)
        lines.append([way, *cells])
    for name, ways in COMPARED.items():
        pair = [found.get(way, {}) for way in ways]
        if any(distance in pair[0] for distance in pair[1]):
            lines.append([name, *(difference(*pair, distance) for distance in distances)])
    return lines


def difference(one, other, distance):
    """What one way finds more than another, paired by document, in the seeds that both have; "" if
    there is none."""
    pair = [way[distance] for way in (one, other) if distance in way]
    seeds = np.intersect1d(*(each["seeds"] for each in pair)) if len(pair) == 2 else []
    scores = [each["top1"][np.isin(each["seeds"], seeds)] for each in pair]
    return interval(scores[0] - scores[1]) if len(seeds) else ""


def interval(values, digits=0):
    return f"{np.mean(values):+.{digits}f} ± {half_width(values):.{digits}f}"


def subject_lines(rows):
    """Top-1 in % with 95% intervals over documents: a row per subject, a column per way, and what
    a way has more than another, paired by document."""
    shown = [way for way in WAYS if any(r["way"] == way and r["library"] in SUBJECTS for r in rows)]
    gains = {name: ways for name, ways in COMPARED.items() if set(ways) <= set(shown)}
    lines = [["about 820 tokens back to the name, opening", *shown, *gains]] if shown else []
    for library in SUBJECTS:
        cells = {way: [] for way in shown}
        for row in rows:
            if row["library"] == library:
                top1 = np.reshape(row["top1"], (-1, len(distant_texts.RELATIONS)))
                cells[row["way"]].extend(100 * top1.mean(axis=1))
        if any(cells.values()):
            lines.append([library, *(f"{np.mean(each):.0f} ± {half_width(each):.0f}" if each else ""
                                     for each in cells.values())])  # fmt: skip
            pairs = [[np.array(cells[way]) for way in ways] for ways in gains.values()]
            lines[-1] += [interval(one - other) if len(one) == len(other) else ""
                          for one, other in pairs]  # fmt: skip
    return lines


def licence_lines(rows):
    """Top-1 in % with 95% intervals over documents, and the gain over windows, of the licences."""
    found = {}
    for row in rows:
        if row["library"] == LICENCES:
            found.setdefault(row["way"], []).append(row)
    lines = [["clauses of licences, found by name", "top-1", "gain over windows"]] if found else []
    means = {}
    for way in filter(found.get, WAYS):
        document, top1 = found[way][0]["document"], np.mean([r["top1"] for r in found[way]], axis=0)
        means[way] = np.array([100 * top1[np.equal(document, each)].mean()
                               for each in np.unique(document)])  # fmt: skip
    for way, value in means.items():
        gain = interval(value - means[WINDOWS]) if WINDOWS in means and way != WINDOWS else ""
        lines.append([way, f"{value.mean():.0f} ± {half_width(value):.0f}", gain])
    return lines


def sentence_lines(rows):
    """The rank correlation of the similarities of single sentences with the original, by way."""
    found = {}
    for row in rows:
        if row["library"] == SENTENCES:
            found.setdefault(row["way"], []).append(row["mean"])
    heads = ["similarities of single sentences", "rank correlation with the original, by seed"]
    lines = [[way, ", ".join(f"{value:.3f}" for value in values)] for way, values in found.items()]
    return [heads, *lines] if lines else []


def natural_lines(rows, library):
    """nDCG@10 and R-precision with 95% intervals by document, and the gains over windows; as rows
    of cells, the first of which are the heads."""
    found, names = {}, ("ndcg", "precision")
    for row in rows:
        if row["library"] == library:
            found.setdefault(row["way"], []).append(row)
    if not found:
        return []
    means = {
        way: {name: np.mean([row[name] for row in runs], axis=0) for name in names}
        for way, runs in found.items()
    }
    gain = "gain over windows"
    lines = [[f"{library}, found by title", "nDCG@10", gain, "R-precision", gain]]
    for way in filter(found.get, WAYS):
        cells = []
        for name in names:
            value = means[way][name]
            cells.append(f"{value.mean():.3f} ± {half_width(value):.3f}")
            compared = WINDOWS in means and way != WINDOWS
            cells.append(interval(value - means[WINDOWS][name], 3) if compared else "")
        lines.append([way, *cells])
    for name, (one, other) in COMPARED.items():
        if one in means and other in means and other != WINDOWS:
            more = [interval(means[one][key] - means[other][key], 3) for key in names]
            lines.append([name, more[0], "", more[1], ""])
    return lines


if __name__ == "__main__":
    main()
