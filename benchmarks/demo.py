"""What a stretched encoder is good for, in three parts.

    make demo

1. MiniLM is stretched from 512 to 4,096 tokens, without labels.
2. A small library is searched, without labels: people by name, tales by title. Passages are
   embedded alone, after their document's first sentence, by late chunking in windows of 512 tokens,
   and by late chunking over whole documents with the stretched model.
3. The stretched model is fine-tuned to compare two facts that are far apart, beside the same MiniLM
   that reads 512 tokens (benchmarks/distant_facts.py).

The measurements on more documents are those of benchmarks/distant_context.py. All goes to
build/demo; a run that was interrupted goes on where it stood.
"""

import functools
import pathlib
import re
import time

import distant_context
import distant_facts
import distant_texts
from data import CORPORA, MINILM
from distant_context import ALONE, FIRST, STRETCHED, WINDOWS, WORDS

from keras_posenc import TextModel, Tokenizer, embedder, open_embedder
from keras_posenc.analysis import page, plot, write_stretch_report
from keras_posenc.training import stretch, stretch_summary
from keras_posenc.writing import write_text

FOLDER = pathlib.Path("build/demo")
SETTINGS = {**distant_context.STRETCH, "steps": 12}
DOCUMENTS, TALES = {512: 3, 1024: 3, 2048: 3, 4096: 1}, 12
WAYS = [WORDS, ALONE, FIRST, WINDOWS, STRETCHED]
QUERIES = 4  # of each library, shown on the page
NAMES = {name for names in distant_texts.NAMES.values() for name in names.split()}


def main():
    started = time.perf_counter()
    print("On two idle cores this takes about eight minutes.", flush=True)
    print(f"\n1 of 3: MiniLM is stretched to {SETTINGS['length']:,} tokens, without labels")
    output = FOLDER / "stretched"
    report = stretch(MINILM, f"{CORPORA}/book-excerpts.tab", output, **SETTINGS).report
    write_stretch_report(output)
    print(stretch_summary(report))
    print("\n2 of 3: a small library is searched, without labels", flush=True)
    tables = search(output)
    print(f"\n{tables}\n\nQueries and what each way finds: {FOLDER / 'library.html'}", flush=True)
    print("\n3 of 3: two distant facts are compared, after fine-tuning", flush=True)
    row = distant_facts.measured(0, 1536, FOLDER / "facts", (output, report))
    print(f"\n{distant_facts.table([row])}\n\n{distant_facts.verdict([row])}")
    print(
        f"\n{(time.perf_counter() - started) / 60:.1f} minutes, and {time.process_time() / 60:.1f}"
    )
    print(
        f"minutes of one core. In {FOLDER}: library.html, facts/report.html, stretched/report.html"
    )


def search(output):
    """Searches both libraries in each way, writes library.html and returns the tables."""
    tokenizer = Tokenizer(MINILM)
    short = functools.cache(lambda: TextModel(embedder(MINILM), tokenizer, distant_context.WINDOW))
    models = {way: short for way in WAYS[:-1]}
    models[STRETCHED] = functools.cache(
        lambda: open_embedder(output, max_length=SETTINGS["length"])
    )
    libraries = {
        "people": distant_texts.people(tokenizer, 0, DOCUMENTS),
        "tales": distant_texts.tales(tokenizer, most=TALES),
    }
    rows, examples = [], []
    for name, library in libraries.items():
        similar = {}
        for way in WAYS:
            print(f"{name}: {way}", flush=True)
            similar[way] = distant_context.similarities(library, way, tokenizer, models[way])
            found = distant_context.scores(library, similar[way])
            rows.append({"library": name, "way": way, "seed": 0, **found})
        examples += found_by(library, similar)
    tables = distant_context.table(rows)
    write_page(rows, examples, tables)
    return tables


def found_by(library, similar):
    """The first queries that the stretched model answers and chunks that are alone do not: the
    query, what each way finds first, and the sentence or title that makes it right."""
    places = [(number, span) for number, spans in enumerate(library.spans) for span in spans]
    first = {way: distant_context.found_first(library, each) for way, each in similar.items()}
    examples = []
    for query, right in enumerate(library.right):
        best = {way: int(rows[query]) for way, rows in first.items()}
        if best[STRETCHED] not in right or best[ALONE] in right or len(examples) == QUERIES:
            continue
        row = [library.queries[query]]
        for way in WAYS:
            number, (start, end) = places[best[way]]
            mark = "✓" if best[way] in right else "✗"
            row.append(f"{mark} {library.texts[number][start:end]}")
        number = places[right[0]][0]
        examples.append([*row, library.titles[number] or _context(library, query, number)])
    return examples


def _context(library, query, number):
    """The sentence that introduces the person of the query, and how far back it is."""
    name = next(word for word in library.queries[query].split() if word in NAMES)
    sentences = re.split(r"(?<=[.!?])\s+", library.texts[number])
    sentence = next(each for each in sentences if re.search(rf"\b{name}\b", each))
    return f"{library.about['distance'][query]:,} tokens earlier: “{sentence}”"


def write_page(rows, examples, tables):
    """A page with the tables, recall by distance, and queries with what each way finds."""
    figures = []
    for place in ("opening", "inside"):
        groups = distant_context.by_distance(rows, place, WAYS)
        figure = plot.score_by_length(groups, title="right sentence first", size=(9.6, 3.8))
        figure.axes[0].set_xlabel(f"tokens back to the name ({place})")
        figures.append(page.picture(figure, f"Recall by distance, name in the {place}"))
    names = ["query", *WAYS, "why"]
    body = [
        page.section(
            "Queries, and the passage that each way finds first", page.table(names, examples)
        ),
        page.section("Recall by distance", "\n".join(figures)),
        page.section("Tables", f"<pre>{tables}</pre>"),
    ]
    text = page.PAGE.substitute(
        title="A small library, searched without labels", body="\n".join(body)
    )
    write_text(FOLDER / "library.html", text)


if __name__ == "__main__":
    main()
