"""The benchmark of distant context: what its libraries hold, what is measured, its tables."""

import numpy as np
import pytest
from benchmark_modules import imported

pytestmark = pytest.mark.once

distant_texts, distant_context = map(imported, ("distant_texts", "distant_context"))


def test_a_sentence_is_about_a_person_whose_name_is_elsewhere(distant_texts, distant_context):
    tokenizer = distant_context.Tokenizer(distant_context.MINILM)
    library = distant_texts.people(tokenizer, 1, {512: 2, 1024: 1, 2048: 1})
    tokens = [len(ids) + 2 for ids in tokenizer.contents(library.texts)]
    assert tokens[0] <= 512 and tokens[1] <= 512 < tokens[2] <= 1024 < tokens[3] <= 2048
    places = [(i, span) for i, spans in enumerate(library.spans) for span in spans]
    names = [word for every in distant_texts.NAMES.values() for word in every.split()]
    asked = [next(w for w in query.split() if w in names) for query in library.queries]
    assert 2 * len(set(asked)) == len(places) == len(library.queries) == 16
    assert len(set(library.queries)) == 16
    for query, name in enumerate(asked):
        (row,) = library.right[query]
        number, (start, end) = places[row]
        text, place = library.texts[number], library.about["place"][query]
        assert number == library.about["document"][query]
        assert name not in text[start:end] and name in text[:start]
        assert (name in library.openings[number]) == (place == "opening")
        assert text.startswith(library.openings[number])
        pronoun = next(sex for sex, every in distant_texts.NAMES.items() if name in every.split())
        assert text[start:end].startswith(f"{pronoun} ")
        after = text[text.index(name) : start]
        assert len(tokenizer.contents([after])[0]) == pytest.approx(
            library.about["distance"][query], abs=12
        )
    assert library.about["place"].count("opening") == 8
    sentences = [library.texts[i][start:end] for i, (start, end) in places]
    for (right,), rows in zip(library.right, library.ranked, strict=True):
        assert right in rows and len({sentences[row][:8] for row in rows}) == 1
    again = distant_texts.people(tokenizer, 1, {512: 2, 1024: 1, 2048: 1})
    assert again.texts == library.texts


def test_the_title_is_not_in_the_text_that_it_finds(distant_texts, distant_context):
    tokenizer = distant_context.Tokenizer(distant_context.MINILM)
    for make, length, most in ((distant_texts.tales, 600, 5), (distant_texts.episodes, 700, 2)):
        library = make(tokenizer, length, most)
        assert len(library.texts) == most
        assert not any(
            title.lower() in text.lower()
            for title, text in zip(library.titles, library.texts, strict=True)
        )
        tokens = [len(ids) + 2 for ids in tokenizer.contents(library.texts)]
        assert max(tokens) <= length
        assert [len(right) for right in library.right] == list(map(len, library.spans))
        assert np.concatenate(library.right).tolist() == list(range(sum(map(len, library.spans))))


def test_the_measures_are_those_of_the_ranking(distant_texts, distant_context):
    library = distant_texts.Library.empty("document", "place", "distance")
    library.about["place"] = ["opening"] * 3
    library.right = [np.array([0]), np.array([1]), np.array([2])]
    library.ranked = [np.array([0, 1, 2]), np.array([0, 1, 2]), np.array([1, 2])]
    similar = np.array([[0.9, 0.1, 0.2], [0.5, 0.5, 0.1], [0.9, 0.1, 0.2]])
    found = distant_context.scores(library, similar)
    assert found["top1"] == [1, 0.5, 1] and found["mean"] == 0.8333
    assert found["chance"] == pytest.approx((1 / 3 + 1 / 3 + 1 / 2) / 3, abs=1e-4)
    library = distant_texts.Library.empty("document")
    library.right, library.ranked = [np.array([0, 2])], [np.arange(4)]
    found = distant_context.scores(library, np.array([[0.9, 0.5, 0.1, 0.0]]))
    ideal = 1 + 1 / np.log2(3)
    assert found["ndcg"] == [pytest.approx((1 + 1 / np.log2(4)) / ideal, abs=1e-4)]
    assert found["precision"] == [0.5]


def test_ways_are_compared_on_the_same_queries(distant_context):
    def row(way, seed, right):
        about = {"place": ["opening", "opening", "inside", "inside"]}
        about["distance"] = [100, 900, 600, 3000]
        return {"library": "people", "way": way, "seed": seed, "top1": right, **about}

    ways = distant_context.WINDOWS, distant_context.STRETCHED
    rows = [row(ways[0], 0, [1, 0, 0, 0]), row(ways[0], 1, [1, 1, 0, 0])]
    rows += [row(ways[1], 0, [1, 1, 1, 0]), row(ways[1], 1, [1, 1, 0, 0])]
    rows += [
        {"library": "tales", "way": way, "seed": 0, "ndcg": ndcg, "precision": ndcg}
        for way, ndcg in zip(ways, ([0.5, 0.25], [0.75, 0.75]), strict=True)
    ]
    told = distant_context.table(rows)
    assert (
        "| tokens back to the name, opening | 1–128 | 513–1,024 | beyond 512, less windows |"
        in told
    )
    assert f"| {ways[1]} | 100 (34–100) | 100 (34–100) | +50 ± 98 |" in told
    assert f"| {ways[0]} | 100 (34–100) | 50 (9–91) |  |" in told
    assert f"| {ways[1]} | 50 (9–91) | 0 (0–66) | +25 ± 49 |" in told
    assert (
        f"| {ways[1]} | 0.750 ± 0.000 | +0.375 ± 0.245 | 0.750 ± 0.000 | +0.375 ± 0.245 |" in told
    )
