"""Mined negatives against a search text by text in NumPy."""

import json

import numpy as np
import pytest

from keras_posenc.cli import main
from keras_posenc.retrieval import Reranker, mine_hard_negatives, open_embedder
from keras_posenc.retrieval.hard_negatives import Choice
from keras_posenc.training import finetune

pytestmark = pytest.mark.once

WORDS = "sea house train cherry violin harbour storm baker painter garden".split()
PAIRS = [(f"the {word}", f"a story of the {word} and the {other}")
         for word, other in zip(WORDS, WORDS[1:] + WORDS[:1], strict=True)]  # fmt: skip
PAIRS.append(("the sea", "the sea was calm"))  # a second positive of the first query
CORPUS = ["the sea", "a storm at sea", "an old house", "fruit from a garden"]


def expected(vector, range_min, range_max, bound, count):
    """(query, positive, negatives, scores) of each pair that has enough, by loops."""
    texts = list(dict.fromkeys([*(positive for _, positive in PAIRS), *CORPUS]))
    found = []
    for query, positive in PAIRS:
        mine = {p for q, p in PAIRS if q == query} | {query}
        others = [(vector[query] @ vector[text], text) for text in texts if text not in mine]
        others = sorted(others, reverse=True)[range_min:range_max]
        score = vector[query] @ vector[positive]
        allowed = [each for each in others if each[0] <= bound(score)][:count]
        if len(allowed) == count:
            scores = [score, *(s for s, _ in allowed)]
            found.append((query, positive, *(text for _, text in allowed), scores))
    return found


@pytest.fixture(scope="module")
def vector(minilm):
    """Text -> its vector."""
    texts = sorted({*sum(PAIRS, ()), *CORPUS})
    return dict(zip(texts, open_embedder(minilm).predict(texts, verbose=0), strict=True))


@pytest.mark.parametrize(
    "options, bound",
    [
        ({}, lambda score: np.inf),
        ({"range_min": 2, "range_max": 6}, lambda score: np.inf),
        ({"relative_margin": 0.3}, lambda score: 0.7 * score),
        ({"absolute_margin": 0.35, "max_score": 0.3}, lambda score: min(score - 0.35, 0.3)),
    ],
)
def test_equal_to_a_search_text_by_text(minilm, vector, options, bound):
    wanted = expected(
        vector, options.get("range_min", 0), options.get("range_max", 100), bound, count=2
    )
    found = mine_hard_negatives(
        minilm, PAIRS, corpus=CORPUS, num_negatives=2, scores=True, verbose=0, **options
    )
    assert wanted and found.texts == [group[:-1] for group in wanted]
    np.testing.assert_allclose(found.labels, [group[-1] for group in wanted], atol=1e-5)
    assert [PAIRS[line - 1] for line in found.lines] == [group[:2] for group in found.texts]


def test_what_has_the_same_tokens_is_one_text(minilm):
    """In queries, positives and the corpus: in letters, spaces, accents, or behind the end."""
    query, positive = "where is the house", "the house is by the sea"
    copies = ["THE HOUSE  is by the sea", "the house is by the séa ", query.upper()]
    pairs = [(query, positive), (f" {query.title()}", "a house stands here"), ("who", "a painter")]
    others = ["a storm", "the train", "A STORM"]
    options = {"corpus": [*copies, *others], "num_negatives": 3, "scores": True, "verbose": 0}
    found = mine_hard_negatives(minilm, pairs, **options)
    assert [group[:2] for group in found.texts] == pairs
    for group, scores in zip(found.texts[:2], found.labels, strict=False):
        assert set(group[2:]) == {"a painter", "a storm", "the train"}
        assert max(scores[1:]) < 0.999
    # Cut off behind the words that differ, they are one text, too.
    corpus = [f"{positive} today", f"{positive} tomorrow", *others]
    length = len(open_embedder(minilm).tokenizer.encode(positive)[0])
    options = {"corpus": corpus, "num_negatives": 2, "max_length": length, "verbose": 0}
    (first, *_) = mine_hard_negatives(minilm, pairs, **options).texts
    assert not set(first[2:]) & set(corpus[:2])


def test_random_negatives_are_ordered_by_their_scores():
    choice = Choice(4, 0, 20, None, None, None, "random")
    scores = np.linspace(1, 0, 21)
    drawn = [choice(scores, np.random.default_rng(seed)).tolist() for seed in range(40)]
    assert all(each == sorted(each) for each in drawn) and len({tuple(d) for d in drawn}) > 30


def test_negatives_of_a_file_of_many_rows(pretrained, tmp_path):
    """More rows than are read at a time: lines, pairs and a corpus from files."""
    pairs, corpus = tmp_path / "pairs.csv", tmp_path / "corpus.txt"
    rows = [(f"w{n % 7} w{n // 7 % 7}", f"w{n % 5} w{n // 5 % 7} w{n // 35 % 7} w{n // 245}")
            for n in range(1100)]  # fmt: skip
    pairs.write_text("anchor,positive\n" + "".join(f"{q},{p}\n" for q, p in rows))
    corpus.write_text("".join(f"w{n % 9} w{n // 9 % 9} w{n // 81}\n" for n in range(1100)))
    options = {"num_negatives": 2, "range_max": 9, "scores": True, "verbose": 0}
    found = mine_hard_negatives(pretrained, pairs, corpus=corpus, **options)
    assert [line - found.lines[0] for line in found.lines] == list(range(1100))
    assert [group[:2] for group in found.texts] == rows
    given = mine_hard_negatives(
        pretrained, rows, corpus=corpus.read_text().split("\n")[:-1], **options
    )
    assert found.texts == given.texts and found.labels == given.labels


def test_random_negatives_are_of_the_candidates(minilm, vector):
    options = {"corpus": CORPUS, "num_negatives": 2, "verbose": 0, "range_max": 5}
    top = expected(vector, 0, 5, lambda score: np.inf, count=5)
    draws = [
        mine_hard_negatives(minilm, PAIRS, sampling="random", seed=seed, **options).texts
        for seed in (0, 1)
    ]
    assert draws[0] != draws[1]
    for wide, *drawn in zip(top, *draws, strict=True):
        for group in drawn:
            assert set(group[2:]) < set(wide[2:-1]) and len(set(group[2:])) == 2


def test_a_cross_encoder_orders_by_its_logits(minilm, tiny_model):
    cross = tiny_model("BertForSequenceClassification", num_labels=1)
    words = "one two three four five six seven eight nine ten".split()
    pairs = [(f"{words[n]} who", " ".join(words[n : n + 3])) for n in range(8)]
    options = {"range_max": 4, "reranker": cross, "scores": True, "verbose": 0}
    found = mine_hard_negatives(minilm, pairs, num_negatives=4, **options)
    reranker = Reranker(cross)
    for group, values in zip(found.texts, found.labels, strict=True):
        logits = reranker.logits([(group[0], text) for text in group[1:]], 0)
        np.testing.assert_allclose(values, logits, atol=1e-5)
        assert values[1:] == sorted(values[1:], reverse=True)
    best = sorted(values[1] for values in found.labels)
    bound = float(np.mean(best[3:5]))
    # Bounds are of the scores behind the sigmoid, as `Reranker.predict` gives them.
    score = reranker.scores(np.array(bound)).item()
    fewer = mine_hard_negatives(minilm, pairs, num_negatives=1, max_score=score, **options)
    left = [values[1] for values in fewer.labels]
    assert max(left) <= bound < best[-1] and min(left) < 0
    classifier = tiny_model("BertForSequenceClassification", num_labels=2)
    with pytest.raises(ValueError, match="mine_hard_negatives needs a cross-encoder with one outp"):
        mine_hard_negatives(minilm, pairs, reranker=classifier)


def test_prompts_stand_before_queries_and_documents(minilm):
    options = {"num_negatives": 1, "scores": True, "verbose": 0}
    found = mine_hard_negatives(
        minilm, PAIRS[:3], query_prompt="query: ", document_prompt="passage: ", **options
    )
    query = open_embedder(minilm, prompt="query: ").predict([PAIRS[0][0]], verbose=0)
    text = open_embedder(minilm, prompt="passage: ").predict([PAIRS[0][1]], verbose=0)
    assert found.labels[0][0] == pytest.approx((query @ text.T).item(), abs=1e-5)


def test_the_command_and_a_training_with_what_it_mined(minilm, pretrained, tmp_path, capsys):
    rows = "".join(f"{query}\t{positive}\n" for query, positive in PAIRS)
    (tmp_path / "pairs.tsv").write_text(f"anchor\tpositive\n{rows}")
    (tmp_path / "more.txt").write_text("\n".join(CORPUS) + "\n")
    arguments = ["mine", str(minilm), str(tmp_path / "pairs.tsv"), str(tmp_path / "mined.jsonl")]
    options = f"--corpus {tmp_path}/more.txt --num-negatives 2 --scores".split()
    assert main([*arguments, *options]) == 0
    assert "11 pairs with negatives" in capsys.readouterr().out
    mined = [json.loads(line) for line in (tmp_path / "mined.jsonl").read_text().splitlines()]
    assert list(mined[0]) == ["anchor", "positive", "negative_1", "negative_2", "scores"]
    metrics = finetune(
        pretrained, tmp_path / "mined.jsonl", tmp_path / "out", task="embed", max_length=16,
        epochs=1, verbose=0,
    )  # fmt: skip
    assert metrics["labels"] == ["anchor", "positive", "negative_1", "negative_2", "scores"]


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"num_negatives": 0}, ValueError, "`num_negatives` must be a positive integer"),
        ({"range_min": -1}, ValueError, "`range_min` must be an integer of at least 0"),
        ({"range_max": 3, "range_min": 1}, ValueError, "`range_max` must be an integer of at lea"),
        ({"relative_margin": -1}, ValueError, "`relative_margin` must be a number of at least 0"),
        ({"absolute_margin": "x"}, ValueError, "`absolute_margin` must be a number of at least"),
        ({"max_score": None, "sampling": "best"}, ValueError, "`sampling` must be one of"),
        ({"max_score": np.nan}, ValueError, "`max_score` must be a number"),
        ({"output": "a.tsv"}, ValueError, "`output` must be a .jsonl file. Received: 'a.tsv'"),
        ({"corpus": 3}, TypeError, "`corpus` must be a list. Received: 3"),
        ({"corpus": ["a", 3]}, TypeError, "`corpus` must be a list of str. Received: 3 at 1"),
        ({"max_score": -0.99}, ValueError, "None of 11 pairs has num_negatives=3 negatives among"),
    ],
)
def test_refusals(minilm, options, error, message):
    with pytest.raises(error, match=message):
        mine_hard_negatives(minilm, PAIRS, verbose=0, **options)


@pytest.mark.parametrize(
    "score, others, chosen",
    [(0.5, [0.49, 0.36, 0.34], 2), (-0.5, [-0.51, -0.64, -0.66], 2), (0.0, [0.1, 0.0, -0.1], 1)],
)
def test_a_relative_margin_is_a_fraction_of_the_size_of_a_score(score, others, chosen):
    """Cosines and logits may be negative: a margin is then below the score, too."""
    choice = Choice(1, 0, 100, 0.3, None, None, "top")
    assert choice([score, *others], None).tolist() == [chosen]
