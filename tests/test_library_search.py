"""The search of the demonstration: its example, its picture and its page."""

import numpy as np
import pytest
from benchmark_modules import imported

pytestmark = pytest.mark.once

(demo,) = imported("benchmarks", "demo")
distant_context, distant_texts, library_search = imported(
    "benchmarks.retrieval", "distant_context distant_texts library_search"
)


@pytest.fixture
def library(distant_texts):
    """Two documents of one sentence each, searched by two names."""
    library = distant_texts.Library.empty("document", "distance")
    library.texts = ["Ada. She lives by the sea.", "Bea. She lives in town."]
    library.spans = [[(5, 26)], [(5, 23)]]
    library.openings, library.queries = ["Ada.", "Bea."], ["Where is Ada?", "Where is Bea?"]
    library.right, library.ranked = [np.array([0]), np.array([1])], [np.arange(2)] * 2
    library.about = {"document": [0, 1], "distance": [1, 700]}
    return library


def test_the_example_is_answered_by_one_way_alone(library, library_search):
    near, far = np.array([[1.0, 0.0], [1.0, 0.0]]), np.eye(2)
    scores = {"near": near, "far": far}
    found = library_search.example(library, scores, "far", "near")
    assert (found.query, found.tokens, found.opening) == ("Where is Bea?", 700, "Bea.")
    wrong, right = "She lives by the sea.", "She lives in town."
    assert found.found == {"near": (wrong, False), "far": (right, True)}
    assert library_search.example(library, scores, "near", "far").query == "Where is Ada?"


def test_titles_are_prepended_to_tales_alone(distant_context, distant_texts, library_search):
    tokenizer = distant_context.Tokenizer(distant_context.MINILM)
    libraries = {"tales": distant_texts.tales(tokenizer, 200, 2)}
    libraries["opening 100"] = distant_texts.people(tokenizer, 0, "opening", 100, 2)
    model = distant_context.reader(tokenizer, distant_context.ALONE, 0, None)
    ways = distant_context.ALONE, distant_context.TITLE
    rows, similar = library_search.searched(tokenizer, libraries, dict.fromkeys(ways, model))
    assert [(row["library"], row["way"]) for row in rows] == list(similar)
    assert list(similar) == [("tales", way) for way in ways] + [("opening 100", ways[0])]
    sizes = {name: [len(library.queries), sum(map(len, library.spans))]
             for name, library in libraries.items()}  # fmt: skip
    assert all(list(each.shape) == sizes[name] for (name, _), each in similar.items())


def test_the_page_has_the_tables_and_the_example(
    library, distant_context, library_search, demo, tmp_path
):
    ways = distant_context.WINDOWS, distant_context.ALONE, distant_context.CONTEXTUAL
    top1 = [1, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]
    rows = [
        {"library": "opening 700", "way": way, "seed": 0, "top1": right * 2, "distance": [700] * 8}
        for way, right in zip(ways, top1, strict=True)
    ]
    scores = {ways[0]: np.array([[1.0, 0.0], [1.0, 0.0]]), ways[2]: np.eye(2)}
    found = library_search.example(library, scores, ways[2], ways[0])
    demo.write_search_report(tmp_path / "search.html", rows, found)
    page = (tmp_path / "search.html").read_text("utf-8")
    assert "<svg" not in page and page.count("data:image/svg+xml") == 1
    assert f"<tr><th>{ways[0]}</th><td>50 ± 0</td></tr>" in page
    assert "<td>+50 ± 0</td>" in page
    assert "<th>late chunking, trained by contextualize</th>" in page and "`" not in page
    assert (
        f"<tr><th>{ways[0]}</th><td>She lives by the sea.</td><td>of another document</td>" in page
    )
    assert "Where is Bea?" in page and "Bea. The answer stands 700 tokens later" in page
