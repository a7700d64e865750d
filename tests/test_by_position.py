"""The benchmark by position: its documents and queries, what it measures, its tables."""

import collections
import importlib.metadata

import numpy as np
import pytest
from benchmark_modules import imported

pytestmark = pytest.mark.once

(data,) = imported("benchmarks.shared", "data")
by_position, long_documents = imported("benchmarks.retrieval", "by_position long_documents")


def test_a_query_is_its_span_without_the_words_that_the_fewest_documents_have(long_documents):
    counts = collections.Counter({"the": 9, "work": 4, "may": 5, "be": 6, "copied": 2, "baz": 1})
    words = "The work may be copied, the BAZ".split()
    assert long_documents.without_rare_words(words, counts) == "The work may be the"


def test_versions_are_one_document(long_documents):
    rng = np.random.default_rng(0)
    text, other = (" ".join(map(str, rng.integers(0, 900, 3000))) for _ in range(2))
    texts = {"a-1.0": text, "a-2.0": f"{text} and more", "b": other}
    assert list(long_documents._one_per_group(texts)) == ["a-2.0", "b"]


def test_queries_are_at_their_depths_in_documents_of_each_length(long_documents):
    rng = np.random.default_rng(0)
    sizes = [1300, 1400, 2000, 4000]
    texts = {f"{n} words": " ".join(map(str, rng.integers(0, 9999, n))) for n in sizes}
    found = long_documents._chosen(texts, 1, seed=0)
    assert found.sizes().tolist()[1:] == sizes[2:] and len(found.texts) == 3
    assert [query.depth for query in found.queries] == [*long_documents.DEPTHS] * 3
    for query in found.queries:
        words = texts[found.names[query.document]].split()
        place = words.index(query.text.split()[0]) / len(words)
        assert place == pytest.approx(query.depth, abs=0.05)
        assert 20 < len(query.text.split()) < 32


def test_ranks_and_means_are_by_document(long_documents, by_position):
    queries = [long_documents.Query("", d, depth) for d in (0, 1) for depth in (0.05, 0.95)]
    collection = long_documents.Collection(["a", "b"], ["", ""], queries)
    found = np.array([[0.9, 0.1], [0.2, 0.3], [0.5, 0.5], [0.1, 0.4]])
    ranks = by_position.ranks(collection, found)
    assert ranks == [1, 2, 2, 1]  # a tie is not found first
    row = {"model": "M", "corpus": "c", "documents": 2, "way": by_position.WORDS, "ranks": ranks}
    row |= {"document": [0, 0, 1, 1], "depth": [0.05, 0.95] * 2, "words": [1300, 1300, 4000, 4000]}
    lines = by_position.lines([row])
    assert lines[0][:3] == ["M, c, 2 documents", "depth 5%", "depth 25%"]
    cells = ["BM25", "50 ± 98", "", "", "", "50 ± 98", "50", "", "50", "50 ± 0"]
    assert lines[1] == cells


def test_the_corpora_have_documents_of_all_lengths(long_documents):
    try:
        found = long_documents.speeches(2)
    except importlib.metadata.PackageNotFoundError as error:
        pytest.skip(f"{error.name} is not installed")
    assert np.digitize(found.sizes(), long_documents.LENGTHS).tolist() == [1, 1, 2, 2, 3, 3]


def test_a_package_that_is_not_there_is_named(data):
    with pytest.raises(importlib.metadata.PackageNotFoundError, match="no-such-package"):
        data.package_file("no-such-package", "file")
