"""The words of passages, and their index, made by bm25s and kept beside the vectors."""

import contextlib
import functools
import hashlib
import re
import unicodedata

import numpy as np

from keras_posenc.checkpoints.numpy_files import read_npz
from keras_posenc.files.side_files import check_file_is_ours, companion
from keras_posenc.files.writing import replacing

# A character of Chinese or Japanese is a word; no spaces stand between theirs.
_BY_CHARACTER = "\u3040-\u3098\u309d-\u30ff\u3400-\u9fff\uf900-\ufaff"
# Accents that are characters of their own, and the vowels of Hindi: a word goes on behind them.
_MARKS = "".join(
    each for each in map(chr, range(0x0300, 0x0E00)) if unicodedata.category(each)[0] == "M"
)
_WORD = re.compile(rf"[{_BY_CHARACTER}][{_MARKS}]*|(?:[^\W{_BY_CHARACTER}][{_MARKS}]*)+")
# getFileName and get_file_name are found by their parts, too.
_PART = re.compile(rf"[A-Z]+(?![a-z])|[A-Z]?(?:[^\W\dA-Z_][{_MARKS}]*)+|\d+")
_VERSION = 2  # of what words are
_MOST_KNOWN = 2**18  # words that are remembered


def words_of(text):
    """The words of a text in their order, in lower case and without accents.

    An identifier counts as itself and as its parts. There are no stop words, because the inverse
    document frequency has them count little, and no stemming.

    Example:

    >>> words_of("Café getName()")
    ['cafe', 'getname', 'get', 'name']
    """
    return [word for found in _WORD.findall(text) for word in _forms(found)]


def places_of(text, words):
    """Where words, from `words_of`, stand in a text: (start, end) in characters.

    Example:

    >>> places_of("The boat, a boat.", {"boat"})
    [(4, 8), (12, 16)]
    """
    found = _WORD.finditer(text)
    return [each.span() for each in found if not words.isdisjoint(_forms(each[0]))]


@functools.lru_cache(_MOST_KNOWN)
def _forms(word):
    """A word as it is counted, and its parts if it is an identifier."""
    if not word.isascii():
        found = unicodedata.normalize("NFKD", word)
        word = "".join(each for each in found if not unicodedata.combining(each))
    whole = word.casefold()
    if word.islower() and "_" not in word or word.istitle():
        return (whole,)
    parts = [part.casefold() for part in _PART.findall(word)]
    return (whole, *parts) if len(parts) > 1 else (whole,)


K1, B = 1.2, 0.75  # saturation of the frequency of a word, and weight of the length of a passage
ARRAYS = {"data", "indices", "indptr", "words", "count", "of"}


class WordIndex:
    """Scores of passages by the words of a query: BM25, as Lucene computes it.

        score = sum over the words w of the query of idf(w) tf / (tf + k1 (1 - b + b n / mean n))

    Here tf is how often w stands in the passage, n is its number of words, k1 = 1.2 and b = 0.75.
    With N passages, df of which have w, idf(w) = ln(1 + (N - df + 0.5) / (df + 0.5)).

    `arrays` are what bm25s computes, `data`, `indices`, `indptr`, by word and passage.

    Reference: [The probabilistic relevance framework](https://doi.org/10.1561/1500000019),
    [BM25S](https://arxiv.org/abs/2407.03618).
    """

    def __init__(self, arrays, words, count):
        self._bm25 = _bm25s().BM25(k1=K1, b=B, method="lucene")
        self._bm25.scores = {**arrays, "num_docs": count}
        self._bm25.nonoccurrence_array = None
        self.words, self.count = words, count

    @classmethod
    def of(cls, passages):
        """The index of passages."""
        bm25, numbers = _bm25s().BM25(k1=K1, b=B, method="lucene"), {}
        rows = [
            [numbers.setdefault(word, len(numbers)) for word in words_of(passage)]
            for passage in passages
        ]
        numbers.setdefault("", len(numbers))  # so that there is one
        with np.errstate(invalid="ignore"):  # passages without any word
            bm25.index((rows, numbers), show_progress=False)
        arrays = {name: bm25.scores[name] for name in ("data", "indices", "indptr")}
        return cls(arrays, numbers, len(rows))

    def scores(self, query):
        """The scores (N,) of the passages for a query, float32."""
        numbers = [self.words[word] for word in words_of(query) if word in self.words]
        return self._bm25.get_scores_from_ids(numbers)

    def save(self, vectors, digest):
        """Writes the index beside a file of vectors, where there may be none of something else;
        `digest` is what the vectors and the texts are known by."""
        path = index_path(vectors)
        check_file_is_ours(path, _is_index)
        arrays = {name: self._bm25.scores[name] for name in ("data", "indices", "indptr")}
        words = np.frombuffer("\n".join(self.words).encode(), "uint8")
        with contextlib.suppress(OSError), replacing(path) as partial:
            of = np.frombuffer(bytes.fromhex(digest), "uint8")
            np.savez(partial, **arrays, words=words, count=np.array(self.count), of=of)

    @classmethod
    def load(cls, vectors, digest):
        """The index beside a file of vectors, or None if it is of other vectors or texts."""
        path = index_path(vectors)
        if not path.is_file():
            return None
        try:
            found = read_npz(path)
        except ValueError:
            return None
        if found.keys() != ARRAYS or found["of"].tobytes().hex() != digest:
            return None
        words = found["words"].tobytes().decode("utf-8", "replace").split("\n")
        arrays = {name: found[name] for name in ("data", "indices", "indptr")}
        count = int(found["count"].sum())
        if not _fit(**arrays, words=words, count=count):
            return None
        return cls(arrays, {word: n for n, word in enumerate(words)}, count)


def index_path(vectors):
    """The path of the index of a file of vectors: v.npy.words.npz of v.npy."""
    return companion(vectors, ".words.npz")


def digest_of(*facts):
    """What vectors and texts are known by: a digest of what is known of both."""
    return hashlib.sha256(repr((_VERSION, *facts)).encode()).hexdigest()


def _is_index(path):
    try:
        return read_npz(path).keys() == ARRAYS
    except ValueError:
        return False


def _fit(data, indices, indptr, words, count):
    """Whether the arrays of a file are those of so many words and passages."""
    return (
        data.shape == indices.shape == (indptr.max(initial=0),)
        and indptr.shape == (len(words) + 1,)
        and indptr[0] == 0
        and (np.diff(indptr) >= 0).all()
        and indices.min(initial=0) >= 0
        and indices.max(initial=-1) < count
        and bool(np.isfinite(data).all())
    )


def _bm25s():
    try:
        import bm25s
    except ImportError:
        raise ImportError(
            "A search by words needs bm25s: pip install 'keras_posenc[words]', or leave `scoring` "
            "out to search by vectors."
        ) from None
    return bm25s
