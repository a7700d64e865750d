"""Distant context without labels: does a chunk's vector know what its document stated far away?

    KERAS_BACKEND=torch python benchmarks/distant_context.py
    KERAS_BACKEND=torch python benchmarks/distant_context.py --table      # the results as tables

Three libraries are searched (benchmarks/distant_texts.py), and every way of reading gets the same
documents, passages and queries:

people     texts of 512 to 4,096 tokens in which four people are introduced by name and profession.
           A sentence far behind refers to each by a pronoun or the profession, and the query asks
           for it by name. All such sentences of all texts are ranked.
tales      30 tales of up to 1,536 tokens, in passages of 96, which are found by the tale's title.
           The title is not in the text.
episodes   transcripts of 8 episodes of 4,096 tokens, likewise.

MiniLM is stretched by `keras_posenc.stretch` on excerpts of other books, without labels. Results go
to benchmarks/results/distant_context.json, a row per library, way and seed, and are not computed
again; the stretched models are kept in build/distant_context.
"""

import functools
import pathlib

import distant_texts
import numpy as np
from data import CORPORA, MINILM
from intervals import half_width
from kept import Study, keys, markdown, options, write_lines

from keras_posenc import TextModel, Tokenizer, embedder, open_embedder
from keras_posenc.bench.reading import by_words
from keras_posenc.retrieval import embed_spans
from keras_posenc.training import stretch
from keras_posenc.training.metrics import accuracy_by_length

RESULTS = pathlib.Path(__file__).parent / "results" / "distant_context.json"
LENGTH, WINDOW = 4096, 512
DOCUMENTS = {512: 6, 1024: 6, 2048: 5, 4096: 3}
STRETCH = {"length": LENGTH, "train_length": 1536, "steps": 24}
TABLE = {"stretch": "hierarchical", "hierarchical_position": 0.2, "kept_rows": 1}
LOCAL = [{"name": "window", "window": 257, "global_tokens": 1}]  # 256 tokens to each side
EVERY_THIRD = {**TABLE, "encodings": [[] if layer % 3 == 0 else LOCAL for layer in range(6)]}
WORDS, ALONE, TITLE = "BM25 on chunks", "chunk alone", "chunk after the title"
FIRST = "chunk after the document's first sentence"
WINDOWS = "late chunking in 512-token windows"
STRETCHED = "late chunking, stretched by `stretch`"
# Before any training: way -> the arguments of the encoder.
UNTRAINED = {
    "late chunking, stretched, untrained": TABLE,
    "the same, every third layer global": EVERY_THIRD,
    "late chunking, positions of Su (2020), untrained": {"hierarchical_position": True},
}
WAYS = [WORDS, ALONE, FIRST, TITLE, WINDOWS, STRETCHED, *UNTRAINED]
LIBRARIES = ("people", "tales", "episodes")
# Tokens from the name to the sentence.
BORDERS = (0, 128, 512, 1024, 4096)


def main():
    parser = options(__doc__, RESULTS, "build/distant_context")
    parser.add_argument("--ways", nargs="+", default=WAYS[:6], choices=WAYS)
    parser.add_argument("--libraries", nargs="+", default=list(LIBRARIES), choices=LIBRARIES)
    arguments = parser.parse_args()
    study = Study(arguments.results, write_lines)
    if not arguments.table:
        tokenizer = Tokenizer(MINILM)
        library = functools.cache(functools.partial(load, tokenizer))

        def measured(**key):
            texts = library(key["library"], key["seed"])
            model = functools.partial(reader, tokenizer, key["way"], key["seed"], arguments.folder)
            return scores(texts, similarities(texts, key["way"], tokenizer, model))

        every = keys(seed=arguments.seeds, library=arguments.libraries, way=arguments.ways)
        study.run(filter(makes_sense, every), measured, ["mean"])
    print(table(study.rows))


def makes_sense(key):
    """People have no title; natural texts have one seed but for the training."""
    if key["library"] == "people":
        return key["way"] != TITLE
    return key["way"] == STRETCHED or key["seed"] == 0


def load(tokenizer, library, seed):
    if library == "people":
        return distant_texts.people(tokenizer, seed, DOCUMENTS)
    return getattr(distant_texts, library)(tokenizer)


def reader(tokenizer, way, seed, folder):
    """The model of a way of reading."""
    if way == STRETCHED:
        output = folder / f"stretched-{seed}"
        stretch(MINILM, f"{CORPORA}/book-excerpts.tab", output, seed=seed, **STRETCH)
        return open_embedder(output, max_length=LENGTH)
    arguments = UNTRAINED.get(way)
    length = WINDOW if arguments is None else LENGTH
    return TextModel(embedder(MINILM, **(arguments or {})), tokenizer, length)


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

    Of people, whether the right sentence is the nearest one, where ties count as if drawn at
    random. Of natural texts nDCG@10, and R-precision: of a title's R passages, the share that is
    among the R nearest.
    """
    found = dict(library.about)
    if "place" in found:
        found["top1"] = [float(_top1(row, right[0])) for row, right in
                         zip(similar, library.right, strict=True)]  # fmt: skip
        first = found["top1"]
    else:
        gains = [np.isin(np.argsort(-row, kind="stable"), right)
                 for row, right in zip(similar, library.right, strict=True)]  # fmt: skip
        sizes = [len(right) for right in library.right]
        found["ndcg"] = [_ndcg(gain, size) for gain, size in zip(gains, sizes, strict=True)]
        found["precision"] = [
            round(float(gain[:size].mean()), 4) for gain, size in zip(gains, sizes, strict=True)
        ]
        first = found["ndcg"]
    return {**found, "mean": round(float(np.mean(first)), 4)}


def _top1(row, right):
    nearest = row >= row.max() - 1e-6
    return round(nearest[right] / nearest.sum(), 4)


def _ndcg(gain, right, most=10):
    discounts = 1 / np.log2(2 + np.arange(most))
    ideal = discounts[: min(most, right)].sum()
    return round(float((gain[:most] * discounts[: len(gain[:most])]).sum() / ideal), 4)


def people_rows(rows):
    """Way -> the queries of all its seeds as one dict of arrays."""
    found = {}
    for way in WAYS:
        own = [row for row in rows if row["library"] == "people" and row["way"] == way]
        if own:
            names = ("document", "length", "place", "distance", "top1")
            found[way] = {name: np.concatenate([row[name] for row in own]) for name in names}
            found[way]["seeds"] = [row["seed"] for row in own]
            sizes = [len(row["top1"]) for row in own]
            found[way]["seed"] = np.repeat(found[way]["seeds"], sizes)
    return found


def by_distance(rows, place, ways=WAYS):
    """Way -> top-1 by the distance between name and sentence, as `plot.score_by_length` draws."""
    found = {}
    for way, queries in people_rows(rows).items():
        if way in ways:
            chosen = queries["place"] == place
            right = queries["top1"][chosen] > 0.5
            found[way] = accuracy_by_length(right, queries["distance"][chosen], BORDERS)[:-1]
    return found


def table(rows):
    """The tables of all libraries."""
    parts = [people_table(rows, place) for place in ("opening", "inside")]
    parts += [natural_table(rows, library) for library in LIBRARIES[1:]]
    return "\n\n".join(filter(None, parts))


def people_table(rows, place):
    """Top-1 in % with 95% intervals: a row per way, a column per distance and for texts that are
    longer than MiniLM's 512 tokens, and what a way has more there than windows, by query."""
    groups, queries = by_distance(rows, place), people_rows(rows)
    if not groups:
        return ""
    heads = [f"{g['more_than'] + 1:,}–{g['up_to']:,} ({g['documents']})"
             for g in next(iter(groups.values()))]  # fmt: skip
    lines = [[f"name {place}: tokens back (queries)", *heads, "beyond 512, less windows", "seeds"]]
    for way, own in groups.items():
        cells = [f"{100 * g['accuracy']:.0f} ({100 * g['interval'][0]:.0f}–"
                 f"{100 * g['interval'][1]:.0f})" for g in own]  # fmt: skip
        found, base = queries[way], queries.get(WINDOWS)
        cells.append(_less(found, base, place) if base and way != WINDOWS else "")
        lines.append([way, *cells, str(len(found["seeds"]))])
    return markdown(lines)


def _less(found, base, place):
    """The paired difference of top-1 to windows, of queries from more than 512 tokens away."""
    shared = np.isin(base["seed"], found["seeds"])
    own = found["top1"], found["place"], found["distance"]
    other = base["top1"][shared]
    if len(own[0]) != len(other):
        return ""
    chosen = (own[1] == place) & (own[2] > WINDOW)
    more = 100 * (own[0] - other)[chosen]
    return f"{more.mean():+.0f} ± {half_width(more):.0f}"


def natural_table(rows, library):
    """nDCG@10 and R-precision with 95% intervals by document, and nDCG@10 less that of windows."""
    found = {}
    for row in rows:
        if row["library"] == library:
            found.setdefault(row["way"], []).append(row)
    if not found:
        return ""
    lines = [[f"{library}: found by title", "nDCG@10", "R-precision", "nDCG@10 less windows",
              "trainings"]]  # fmt: skip
    for way in filter(found.get, WAYS):
        ndcg, precision = (
            np.mean([row[name] for row in found[way]], axis=0) for name in ("ndcg", "precision")
        )
        cells = [f"{x.mean():.3f} ± {half_width(x):.3f}" for x in (ndcg, precision)]
        more = ndcg - np.array(found[WINDOWS][0]["ndcg"]) if WINDOWS in found else None
        less = (
            "" if more is None or way == WINDOWS else f"{more.mean():+.3f} ± {half_width(more):.3f}"
        )
        trained = str(len(found[way])) if way == STRETCHED else ""
        lines.append([way, *cells, less, trained])
    return markdown(lines)


if __name__ == "__main__":
    main()
