"""Clauses of licences, found by the name of the licence, which stands far before them.

Most licences have the same clauses, and state whose they are at the beginning. A query is the name
of a licence and one clause, such as "Apple Public Source License: termination". For each query the
passages of all licences about that clause are ranked that have no name: the words of the passage
are no help to tell whose it is. Documents, names and clauses are found by rule:

- The texts are those of long_documents.py, versions of one licence grouped, cut at 4,096 tokens.
- Words of the header's name that at most three licences have are its name. One of them must be
  among the first 200 words of the text.
- A passage of 96 tokens is about a clause if a word of it begins as below, twice or more. It is
  ranked if no name word of its licence stands in it, nor in the 256 tokens before it or after it.

The first 80 licences in a random order are searched. `labelled` has such queries about the others.
"""

import collections
import re

import numpy as np

from benchmarks.retrieval.distant_texts import CHUNK, Library
from benchmarks.retrieval.long_documents import WORD, english_licences
from benchmarks.shared.data import package_file
from keras_posenc.retrieval import chunk_spans

LENGTH, APART, MOST = 4096, 256, 80
CLAUSES = {
    "termination": "terminat",
    "warranty": "warrant",
    "liability": "liab",
    "patents": "patent",
    "trademarks": "trademark",
    "modifications": "modif",
    "distribution": "distribut",
}
COMMON_AT_MOST = 3  # licences that have a name word


def licences(tokenizer):
    """The library that is searched."""
    return _library(tokenizer, slice(MOST))


def labelled(tokenizer):
    """(query, document, passage) of the licences that are not searched."""
    library = _library(tokenizer, slice(MOST, None))
    places = [(n, span) for n, spans in enumerate(library.spans) for span in spans]
    found = []
    for query, right in zip(library.queries, library.right, strict=True):
        for number, (start, end) in (places[row] for row in right):
            text = library.texts[number]
            if text.count(text[start:end]) == 1:
                found.append((query, text, text[start:end]))
    return found


def _library(tokenizer, part):
    """A slice of the licences that have a name, in a random order."""
    texts, named_by = english_licences(), {}
    words = {name: WORD.findall(text.lower()) for name, text in texts.items()}
    counts = collections.Counter(word for found in words.values() for word in {*found})
    for key in np.random.default_rng(0).permutation(sorted(texts)):
        rare = {word for word in WORD.findall(_title(key).lower())
                if word.isalpha() and counts[word] <= COMMON_AT_MOST}  # fmt: skip
        if rare & {*words[key][:200]}:
            named_by[key] = rare
    library = Library.empty("document", "distance")
    passages = []  # (document, {clause}, tokens back to the name)
    for key, rare in list(named_by.items())[part]:
        text, spans, offsets = _cut(texts[key].strip(), tokenizer)
        places = [m.start() for m in re.finditer(r"\w+", text) if m[0].lower() in rare]
        named = np.searchsorted([start for start, _ in offsets], places)
        for start, end in spans:
            first, last = np.searchsorted([at for at, _ in offsets], [start, end])
            before, after = named[named < last], named[named >= last]
            away = int(first - before.max()) if len(before) else 0
            far = away >= APART and (not len(after) or after.min() - last >= APART)
            begun = collections.Counter(
                clause for clause, stem in CLAUSES.items()
                for word in WORD.findall(text[start:end].lower()) if word.startswith(stem)
            )  # fmt: skip
            about = {clause for clause, count in begun.items() if count >= 2}
            passages.append((len(library.texts), about if far else set(), away))
        library.texts.append(text)
        library.spans.append(spans)
        library.openings.append(re.split(r"(?<=[.!?])\s+|\n\n", text)[0])
        library.titles.append(_title(key))
    for number, title in enumerate(library.titles):
        for clause in CLAUSES:
            ranked = [row for row, (_, about, _) in enumerate(passages) if clause in about]
            right = [row for row in ranked if passages[row][0] == number]
            if right:
                library.queries.append(f"{title}: {clause}")
                library.right.append(np.array(right))
                library.ranked.append(np.array(ranked))
                library.about["document"].append(number)
                library.about["distance"].append(int(np.median([passages[r][2] for r in right])))
    return library


def _title(key):
    """The name in the header of a licence, without its version."""
    path = package_file("licensedcode-data", f"licensedcode/data/licenses/{key}.LICENSE")
    with open(path, encoding="utf-8") as file:
        name = re.search(r"^name: *(.+)$", file.read(), re.M)[1]
    return re.sub(r"\s+(version\s+)?v?\d[\d.\-]*\s*$", "", name, flags=re.I)


def _cut(text, tokenizer):
    """The text of at most `LENGTH` tokens, its passages, and the characters of its tokens."""
    ((_, offsets),) = tokenizer.contents([text], offsets=True)
    offsets = offsets[: LENGTH - 2]
    text = text[: offsets[-1][1]]
    return text, chunk_spans(text, tokenizer, CHUNK), offsets
