"""The benchmark of distant context: what its libraries hold, what is measured, its tables."""

import numpy as np
import pytest
from benchmark_modules import imported

pytestmark = pytest.mark.once

distant_context, distant_subjects, distant_texts = imported(
    "benchmarks.retrieval", "distant_context distant_subjects distant_texts"
)
(kept,) = imported("benchmarks.shared", "kept")


@pytest.mark.parametrize("place", ["opening", "inside"])
def test_a_sentence_is_about_a_person_whose_name_is_elsewhere(
    distant_texts, distant_context, place
):
    tokenizer = distant_context.Tokenizer(distant_context.MINILM)
    library = distant_texts.people(tokenizer, 1, place, 300, documents=5)
    places = [(i, span) for i, spans in enumerate(library.spans) for span in spans]
    names = [word for every in distant_texts.NAMES.values() for word in every.split()]
    asked = [next(w for w in query.split() if w in names) for query in library.queries]
    assert 4 * len(set(asked)) == len(places) == len(library.queries) == len(set(library.queries))
    for query, name in enumerate(asked):
        (row,) = library.right[query]
        number, (start, end) = places[row]
        text = library.texts[number]
        assert number == library.about["document"][query]
        assert name not in text[start:end] and name in text[:start]
        assert (name in library.openings[number]) == (place == "opening")
        assert text.startswith(library.openings[number])
        pronoun = next(sex for sex, every in distant_texts.NAMES.items() if name in every.split())
        assert text[start:end].startswith(f"{pronoun} ")
        after = text[text.index(name) : start]
        away = library.about["distance"][query]
        assert len(tokenizer.contents([after])[0]) == pytest.approx(away, abs=12)
        assert 200 < away < 600
    sentences = [library.texts[i][start:end] for i, (start, end) in places]
    for (right,), rows in zip(library.right, library.ranked, strict=True):
        assert right in rows and len({sentences[row][:8] for row in rows}) == 1 and len(rows) == 5
    again = distant_texts.people(tokenizer, 1, place, 300, documents=5)
    assert again.texts == library.texts


def test_documents_about_one_person_differ_in_the_name_alone(distant_texts, distant_context):
    tokenizer = distant_context.Tokenizer(distant_context.MINILM)
    library = distant_context.load(tokenizer, f"{distant_context.ONE} 300", 1)
    names, fillers = [query.split()[2] for query in library.queries], set()
    assert len(set(names)) == len(library.texts) == 30
    for number, (name, text, ((start, end),)) in enumerate(
        zip(names, library.texts, library.spans, strict=True)
    ):
        assert text.startswith(library.openings[number]) and name in library.openings[number]
        assert library.openings[number].replace(name, "Ada") == "Ada is a chemist."
        assert text[start:] == text[start:end] == "She now lives by the harbour."
        assert library.right[number].tolist() == [number]
        assert library.ranked[number].tolist() == list(range(30))
        filler = text.removeprefix(library.openings[number])[: start - len(text)]
        assert len(tokenizer.contents([filler])[0]) == pytest.approx(300, abs=2)
        fillers.add(filler)
    assert len(fillers) == 1


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
    library = distant_texts.Library.empty("document", "distance")
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
    # Of equal passages each place has its share, whatever their order.
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]):
        library.right = [np.flatnonzero(np.isin(order, [0, 2]))]
        found = distant_context.scores(library, np.array([[0.5, 0.5, 0.5, 0.0]])[:, order])
        gain = 2 / 3 * (1 + 1 / np.log2(3) + 1 / np.log2(4))
        assert found["ndcg"] == [pytest.approx(gain / ideal, abs=1e-4)]
        assert found["precision"] == [0.6667]


def test_ways_are_compared_on_the_same_documents(distant_context):
    def row(way, seed, distance, right):
        away = [distance + 20] * len(right)
        library = f"opening {distance}"
        return {"library": library, "way": way, "seed": seed, "top1": right, "distance": away}

    windows, trained = distant_context.WINDOWS, distant_context.CONTEXTUAL
    rows = [row(windows, 0, 300, [1, 1, 0, 0, 0, 0, 0, 0]), row(windows, 1, 300, [1, 1, 1, 1])]
    rows += [row(trained, 0, 300, [1, 1, 1, 0, 1, 0, 0, 0]), row(trained, 1, 300, [1] * 4)]
    rows += [
        {"library": "tales", "way": way, "seed": 0, "ndcg": ndcg, "precision": ndcg}
        for way, ndcg in zip((windows, trained), ([0.5, 0.25], [0.75, 0.75]), strict=True)
    ]
    one = distant_context.ONE
    rows += [
        {"library": f"{one} 300", "way": way, "seed": 0, "top1": top1, "distance": [300] * 4}
        for way, top1 in zip((windows, trained), ([1, 0, 0, 0], [1, 1, 0, 0]), strict=True)
    ]
    found = distant_context.table(rows)
    assert f"| tokens back to the name, {one} | 300 |\n|---|---|\n| {windows} | 25 ± 49 |" in found
    assert "| tokens back to the name, opening | 320 |" in found
    # Documents of 50, 0 and 100%, and of 75, 25 and 100%.
    assert f"| {windows} | 50 ± 57 |" in found
    assert f"| {trained} | 67 ± 43 |" in found
    assert "| gain by `contextualize` over windows | +17 ± 16 |" in found
    assert (
        f"| {trained} | 0.750 ± 0.000 | +0.375 ± 0.245 | 0.750 ± 0.000 | +0.375 ± 0.245 |" in found
    )


def test_a_gain_is_of_the_seeds_that_both_ways_have(distant_context):
    def row(way, seed, right):
        about = {"library": "opening 300", "seed": seed, "distance": [320] * len(right)}
        return {**about, "way": way, "top1": right}

    windows, trained = distant_context.WINDOWS, distant_context.CONTEXTUAL
    rows = [row(trained, 2, [0] * 8), row(trained, 1, [1] * 4), row(trained, 0, [1] * 8)]
    rows += [row(windows, 0, [1] * 4 + [0] * 4), row(windows, 1, [0] * 4), row(windows, 3, [1] * 4)]
    found = distant_context.table(rows)
    # Gains of 0 and 100, and of 100.
    assert "| gain by `contextualize` over windows | +67 ± 65 |" in found


@pytest.mark.parametrize("name", ["a company, the company", "two of one sex, by the second"])
def test_other_subjects_are_named_once_far_before(distant_context, distant_subjects, name):
    tokenizer = distant_context.Tokenizer(distant_context.MINILM)
    library = distant_subjects.library(tokenizer, name, 1, documents=3)
    names = distant_subjects.KINDS[name].names or distant_subjects.NAMES["She"].split()
    for query, (passage,), document in zip(
        library.queries, library.right, library.about["document"], strict=True
    ):
        text, start = library.texts[document], library.spans[document][passage % 4][0]
        (asked,) = (each for each in names if each in query.split())
        assert text.count(asked) == 1 and text.index(asked) < start - 500
        assert (asked in library.openings[document]) == ("second" not in name)
    (passages,) = {len(ranked) for ranked in library.ranked}
    assert passages == 3


def test_a_table_in_a_terminal_has_aligned_columns(kept):
    rows = [["tokens", "220", "1,710"], ["a longer way", "7 ± 4", ""]]
    assert kept.aligned(rows) == "tokens          220  1,710\na longer way  7 ± 4       "
