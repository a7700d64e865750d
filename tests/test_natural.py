"""Passages of real documents: which are asked for, and what the tables make of the results."""

import numpy as np
import pytest

from benchmarks.retrieval import natural, natural_sections, natural_texts

pytestmark = pytest.mark.once


def collection(count=4):
    """Documents of a name, other text, and two fields, the first of which is near the name."""
    documents = []
    for number in range(count):
        name = f"Land{number}"
        text = f"{name}\n\nClimate: mild weather\n\n{'So it is. ' * 120}\n\nTerrain: hills and sea"
        parts = [
            (name, name, field.lower(), text.index(field), text.index(field) + 20)
            for field in ("Climate", "Terrain")
        ]
        documents.append((f"title of {name}", text, parts))
    return natural_texts.collection(documents, 4, "{}: {}".format)


def test_only_passages_far_from_their_name_are_asked_for():
    texts = collection()
    assert sorted(texts.queries) == [f"Land{n}: terrain" for n in range(4)]
    assert [texts.passages[n][3] for n in texts.right] == [q.split(":")[0] for q in texts.queries]
    assert all(set(ranked) == set(range(4)) for ranked in texts.ranked)
    assert texts.chunk(texts.right[0]) == "Terrain: hills and s"
    # Too few passages of one kind are no task.
    assert collection(natural_texts.FEWEST - 1).queries == []


def test_a_class_is_asked_for_by_methods_of_the_same_name():
    source = (
        '"""Tools."""\n\n\nclass A:\n    """First."""\n\n    def close(self):\n        return 1\n'
    )
    tree = natural_texts.ast.parse(source)

    class Tokenizer:
        def contents(self, texts):
            return [text.split() for text in texts]

    ((title, text, parts),) = natural_texts._modules("tools: Tools.", source, tree, Tokenizer())
    assert title == "tools: Tools." and text.startswith('"""tools: Tools."""\n\nclass A:')
    ((heading, _, kind, start, end),) = parts
    assert heading == "A, First." and kind == "close"
    assert text[start:end] == "    def close(self):\n        return 1\n"


def test_a_section_is_asked_for_by_its_heading_far_before_it():
    class Tokenizer:
        def contents(self, texts):
            return [text.split() for text in texts]

    filler = "So it is now. " * 120
    sections = [
        ("The harbour", f"The harbour\n\n{filler}Nothing else was seen there."),
        ("Bridges", f"Bridges\n\n{filler}All bridges are old."),
        ("Roads", "Roads\n\nToo short."),
        ("", f"No heading\n\n{filler}"),
        ("Endless", "word " * (natural_texts.LENGTH + 1)),
    ]
    ((title, text, parts),) = natural_sections._packed("Town", sections, Tokenizer())
    assert title == "Town" and text.startswith("Town\n\nThe harbour\n\n") and "word" not in text
    found = list(natural_texts.far(text, parts))
    assert [heading for heading, *_ in found] == ["Town: The harbour"]
    _, _, start, end = found[0]
    assert text[start:end].endswith("was seen there.") and end - start <= natural_sections.LAST
    # A new document begins where the next section has no room.
    every = [*natural_sections._packed("Town", sections[:2] * 4, Tokenizer())]
    assert len(every) == 2 and all(
        len(text.split()) <= natural_texts.LENGTH + 8 for _, text, _ in every
    )


def test_vectors_are_in_the_order_of_passages_and_sums_of_length_one(tmp_path, monkeypatch):
    texts = collection()
    monkeypatch.setattr(
        natural, "embed_spans", lambda model, all_texts, spans, verbose: model(spans)
    )

    class Model:
        def __call__(self, spans):
            rows = [[n + 1, 0, 0, 0] for n, some in enumerate(spans) for _ in some]
            return type("Found", (), {"vectors": np.array(rows, float)})

        def predict(self, texts, verbose):
            return np.array([[0, 0, 3, len(text)] for text in texts], float)

    reading = natural.Reading(texts, lambda *reader: Model(), tmp_path, "trained")
    vectors = reading._vectors(natural.WINDOWS, natural.IN_DOCUMENT)
    np.testing.assert_allclose(vectors, [[1, 0, 0, 0]] * 4)
    way = f"{natural.TITLE}, summed with {natural.WINDOWS}"
    alone, queries = (
        reading._vectors(natural.WINDOWS, each) for each in (natural.TITLE, "queries")
    )
    np.testing.assert_allclose(np.linalg.norm(alone, axis=1), 1)
    found = alone + vectors
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    np.testing.assert_allclose(reading.scores(way), queries @ found.T)


def test_documents_are_ranked_by_the_best_of_their_passages():
    texts = natural_texts.Collection(
        ["a", "b"], None, [(0, 0, 1, ""), (0, 0, 1, ""), (1, 0, 1, "")], ["q"], [1], [], whole=True
    )
    assert texts.ranked_by(np.array([[1.0, 3.0, 2.0]])).tolist() == [[3.0, 2.0]]
    assert texts.documents == [1] and not collection().whole


def test_gains_are_paired_by_document():
    row = {"collection": "a", "seed": 0, "steps": 0, "document": [0, 0, 1, 2], "ranked": [4] * 4}
    rows = [
        {**row, "way": natural.WINDOWS, "right": [1, 0, 0, 0], "better": [0, 1, 2, 3]},
        {**row, "way": natural.UNTRAINED, "right": [1, 0, 1, 1], "better": [0, 3, 0, 0]},
        *(
            {**row, "way": natural.CONTEXTUAL, "steps": 24, "seed": seed, "right": right,
             "better": [0] * 4}
            for seed, right in enumerate(([1, 1, 0, 0], [1, 1, 1, 0]))
        ),
    ]  # fmt: skip
    heads, windows, untrained, trained = natural.lines("a", rows)
    assert heads[0] == "a: 4 queries about 3 documents, chance 25%"
    assert windows[1:] == ["17 ± 33", "44 ± 30", ""]
    assert untrained[1] == "83 ± 33" and untrained[3] == "+67 ± 65"
    assert trained[0].endswith(", 24 steps") and trained[1] == "50 ± 57"
