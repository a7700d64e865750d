"""What a stretched encoder is good for: one MiniLM, two tasks, on two CPU cores.

    make demo

1. MiniLM is stretched to 1,536 tokens by position distillation, without labels.
2. Search, without labels: a small library is searched for sentences about people who are named
   100, 300 and 700 tokens before them, and for passages of tales by the title. Passages are
   embedded alone, with the first sentence or title of their document prepended, and by late
   chunking, in windows of 512 tokens and over the whole text. Log-n sharpens attention only when
   the stretched model is opened; `distant_context.py` also trains with it, with three seeds.
3. Fine-tuning: do two facts that are far apart agree? The same as `distant_facts.py`, whose
   baselines read the first 512 tokens, chunks of 512 tokens, or a bag of words.

Tables are printed with 95% intervals. Runs, figures and reports are written to build/demo. An
interrupted run resumes.
"""

import argparse
import pathlib
import time

import distant_context
import distant_facts
import distant_texts
import library_search
from data import MINILM
from distant_context import ALONE, FIRST, LOG_N, STRETCHED_LOG_N, TITLE, WINDOW, WINDOWS
from distant_context import WINDOWS_LOG_N as SHARPER

from keras_posenc import TextModel, Tokenizer, embedder
from keras_posenc.analysis import plot
from keras_posenc.analysis.page import escaped, picture, section, table, write_page

LENGTH, SEED = 1536, 0
DISTANCES, TALES = (100, 300, 700), 8


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=pathlib.Path, default="build/demo")
    folder = parser.parse_args().output
    print("On two idle cores this takes 4 to 8 minutes.", flush=True)
    report = distant_facts.stretched(SEED, LENGTH, folder)
    started = time.perf_counter()
    search(folder)
    seconds = time.perf_counter() - started
    row = distant_facts.measured(SEED, LENGTH, folder, report)
    print(f"\n{distant_facts.table([row])}\n\n{distant_facts.verdict([row])}")
    print(f"\n{(seconds + row['seconds']) / 60:.1f} minutes. Reports in {folder}:")
    print("  stretched/report.html   how well the stretched model keeps its features")
    print("  search.html             what each way of searching finds, with an example")
    print("  report.html, facts.svg  the fine-tuned models")


def search(folder):
    """Searches the library with the stretched model of the folder and in other ways."""
    print("\nA library is searched, without labels", flush=True)
    tokenizer = Tokenizer(MINILM)
    libraries = {
        f"opening {tokens}": distant_texts.people(tokenizer, SEED, "opening", tokens)
        for tokens in DISTANCES
    }
    libraries["tales"] = distant_texts.tales(tokenizer, LENGTH, TALES)
    models = dict.fromkeys((ALONE, FIRST, TITLE, WINDOWS), model(MINILM, WINDOW, tokenizer))
    models[SHARPER] = model(MINILM, WINDOW, tokenizer, encodings=[LOG_N])
    stretched = folder / distant_facts.STRETCHED
    models[STRETCHED_LOG_N] = model(stretched, LENGTH, tokenizer, encodings=[LOG_N])
    rows, similar = library_search.searched(tokenizer, libraries, models)
    people = f"opening {DISTANCES[-1]}"
    found = library_search.example(
        libraries[people], {way: similar[people, way] for way in models if way != TITLE},
        STRETCHED_LOG_N, SHARPER,
    )  # fmt: skip
    print(f"\n{distant_context.table(rows)}")
    print(f"\n{found.query} (named {found.tokens} tokens before: {found.opening})")
    for way, (passage, right) in found.found.items():
        print(f"  {'right' if right else 'wrong'}: {passage} ({way})")
    write_search_report(folder / "search.html", rows, found)


def model(checkpoint, length, tokenizer, **settings):
    return TextModel(embedder(checkpoint, **settings), tokenizer, length)


def write_search_report(path, rows, found):
    """The tables, recall by distance, and an example, as a page."""
    by_distance = distant_context.by_distance(rows, "opening")

    def draw():
        return recall(by_distance, size=(9.6, 4.2))

    parts = [
        "<p class=verdict>Late chunking reads a document before it embeds its passages. The "
        "stretched model reads all of it, and so finds sentences by a name more than 512 tokens "
        "before them. If the first sentence or the title names the subject, prepending it to each "
        "passage finds more.</p>",
        section("Recall by distance", picture(draw, "Right sentence first, by distance.")),
        section("An example", example_table(found)),
    ]
    tables = {
        "People: right sentence first (%)": distant_context.people_lines(rows, "opening"),
        "Tales: passages found by title": distant_context.natural_lines(rows, "tales"),
    }
    for heading, lines in tables.items():
        parts.append(section(heading, table(lines[0], lines[1:]) if lines else ""))
    write_page(path, "Search in a small library, without labels", parts, "make demo")


def example_table(found):
    """The query, why it is hard, and the passage that each way finds first."""
    why = f"{found.opening} The answer stands {found.tokens} tokens later, and has only a pronoun."
    lines = [
        (way, passage, "right" if right else "of another document")
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
