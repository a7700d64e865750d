"""What the library does for a BERT: MiniLM finds sentences by distant names, on two CPU cores.

    make demo

MiniLM is trained by `contextualize`, without labels. A small library is searched for sentences
about people who are named 100 to 1,600 tokens before them, before the training and after it.
Sentences are also embedded alone, and with the first sentence of their document prepended.
`benchmarks.retrieval.distant_context` measures more, with three seeds;
`benchmarks.long_texts.distant_facts` fine-tunes a stretched MiniLM on texts with two distant facts.

A table with 95% intervals is printed. The run and the reports are written to build/demo. An
interrupted run resumes.
"""

import argparse
import pathlib
import time

from benchmarks.retrieval import distant_context, distant_texts, library_search
from benchmarks.retrieval.distant_context import ALONE, CONTEXTUAL, FIRST, WINDOW, WINDOWS
from benchmarks.shared.data import CORPORA, MINILM
from benchmarks.shared.kept import aligned
from keras_posenc import TextModel, Tokenizer, embedder
from keras_posenc.analysis import plot, write_contextual_report
from keras_posenc.analysis.page import escaped, picture, section, table, write_page
from keras_posenc.retrieval import open_embedder
from keras_posenc.training import contextualize

SEED, STEPS, LENGTH = 0, 60, 2048
DISTANCES = 100, 300, 700, 1600
FAR = f"opening {DISTANCES[2]}"  # the library of the example


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=pathlib.Path, default="build/demo")
    folder = parser.parse_args().output
    print("On two idle cores this takes 3 to 5 minutes.", flush=True)
    started = time.perf_counter()
    search(folder)
    print(f"\n{(time.perf_counter() - started) / 60:.1f} minutes. Reports in {folder}:")
    print("  search.html             what each way of searching finds, with an example")
    print("  contextual/report.html  what contextual training found and kept")
    print("\nTraining with labels on long texts, in 7 minutes:")
    print("  KERAS_BACKEND=torch .venv/bin/python -m benchmarks.long_texts.distant_facts")


def search(folder):
    """Trains the embedder, and searches the libraries with it and in other ways."""
    output = folder / "contextual"
    print("\nMiniLM learns to bring distant names to its passages, without labels", flush=True)
    contextualize(MINILM, f"{CORPORA}/book-excerpts.tab", output, max_length=LENGTH, steps=STEPS)
    write_contextual_report(output)
    print("\nA library is searched for sentences by the name of a person", flush=True)
    tokenizer = Tokenizer(MINILM)
    libraries = {
        f"opening {tokens}": distant_texts.people(tokenizer, SEED, "opening", tokens)
        for tokens in DISTANCES
    }
    original = TextModel(embedder(MINILM), tokenizer, WINDOW)
    models = dict.fromkeys((ALONE, FIRST, WINDOWS), original)
    models[CONTEXTUAL] = open_embedder(output, max_length=LENGTH)
    rows, similar = library_search.searched(tokenizer, libraries, models)
    found = library_search.example(
        libraries[FAR], {way: similar[FAR, way] for way in models}, CONTEXTUAL, WINDOWS
    )
    print(f"\nRight sentence first, in %:\n\n{aligned(lines_of(rows))}")
    print(f"\n{found.query} (named {found.tokens} tokens before: {found.opening})")
    for way, (passage, right) in found.found.items():
        print(f"  {'right' if right else 'wrong'}: {passage} ({way})")
    write_search_report(folder / "search.html", rows, found)


def lines_of(rows):
    """The table of recall by distance, as rows of cells without marks of Markdown."""
    return [list(map(plain, line)) for line in distant_context.people_lines(rows, "opening")]


def write_search_report(path, rows, found):
    """The table, recall by distance, and an example, as a page."""
    found_by = distant_context.by_distance(rows, "opening").items()
    by_distance = {plain(way): columns for way, columns in found_by}
    what = "Right sentence first, by distance."
    parts = [
        "<p class=verdict>Late chunking reads a document before it embeds its passages. After "
        "contextual training, passages are found by names that stand far before them, where no "
        "window of 512 tokens has both. If the first sentence names the subject, prepending it to "
        "each passage finds as many or more.</p>",
        section("Recall by distance", picture(what, recall, by_distance, size=(9.6, 4.2))),
        section("An example", example_table(found)),
    ]
    heads, *lines = lines_of(rows)
    parts.append(section("Right sentence first (%)", table(heads, lines)))
    write_page(path, "Search in a small library, without labels", parts, "make demo")


def plain(name):
    """The name of a way or a row, without the marks of code that Markdown has."""
    return name.replace("`", "")


def example_table(found):
    """The query, why it is hard, and the passage that each way finds first."""
    why = f"{found.opening} The answer stands {found.tokens} tokens later, and has only a pronoun."
    lines = [
        (plain(way), passage, "right" if right else "of another document")
        for way, (passage, right) in found.found.items()
    ]
    names = "way", "passage found first", ""
    return f"<p>{escaped(found.query)}</p><p>{escaped(why)}</p>{table(names, lines)}"


@plot.styled
def recall(figure, by_distance):
    """Whether the right sentence is first, by the distance back to the name it is about."""
    axes = figure.subplots()
    library_search.draw_recall(axes, by_distance)
    axes.set_ylabel("right sentence first (%)")
    figure.legend(loc="outside upper left", ncols=2)


if __name__ == "__main__":
    main()
