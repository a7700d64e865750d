"""F1 of entities by conlleval's rules, and answers by SQuAD's, against the rules written anew."""

import itertools
import re
import string

import numpy as np
import pytest

from keras_posenc.metrics.answers import answer_f1, best_spans, exact_match, normalized
from keras_posenc.metrics.entities import entities, entity_scores
from keras_posenc.metrics.scores import pearson, spearman
from keras_posenc.text import TagLabels, TextBatches, Tokenizer
from keras_posenc.text.documents import Row
from keras_posenc.training.finetuning.tag import Tag, _places

pytestmark = pytest.mark.once

TAGS = ["O", "B-P", "I-P", "E-P", "S-P", "B-L", "I-L", "E-L"]


def end_of_chunk(before, tag, kind_before, kind):
    """conlleval.pl's endOfChunk, with IOBES' E and S as seqeval has them."""
    pairs = "BB BO IB IO BS IS".split()
    if before in "ES" or before + tag in pairs:
        return True
    return before != "O" and kind_before != kind


def start_of_chunk(before, tag, kind_before, kind):
    pairs = "EE EI SE SI OE OI".split()
    if tag in "BS" or before + tag in pairs:
        return True
    return tag != "O" and kind_before != kind


def chunks(tags):
    found, begin, before, kind_before = [], 0, "O", ""
    for place, each in enumerate([*tags, "O"]):
        tag, _, kind = each.partition("-")
        if end_of_chunk(before, tag, kind_before, kind):
            found.append((kind_before, begin, place))
        if start_of_chunk(before, tag, kind_before, kind):
            begin = place
        before, kind_before = tag, kind
    return {each for each in found if each[0]}


def test_all_short_sequences_have_conllevals_entities():
    for length in range(5):
        for tags in itertools.product(TAGS, repeat=length):
            assert entities(tags) == chunks(tags), tags


def test_bilou_and_bmes_are_iobes_with_other_letters():
    for tags in itertools.product(TAGS, repeat=4):
        for letters in ({"E": "L", "S": "U"}, {"I": "M"}):
            other = [letters.get(tag[0], tag[0]) + tag[1:] for tag in tags]
            assert entities(other) == entities(tags), other


def test_scores_are_counted_over_all_texts():
    """The example of seqeval's README: F1 0.5, PER 1.0, MISC 0.0."""
    true = [["O", "O", "O", "B-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]]
    predicted = [["O", "O", "B-MISC", "I-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]]
    scores = entity_scores(list(map(entities, true)), list(map(entities, predicted)))
    assert (scores["f1"], scores["precision"], scores["support"]) == (0.5, 0.5, 2)
    assert scores["classes"]["PER"]["f1"] == 1 and scores["classes"]["MISC"]["f1"] == 0
    assert entity_scores([set()], [set()])["f1"] == 0


def test_answers_are_compared_as_squad_does():
    assert normalized("The  U.S.A.'s, an Apple") == "usas apple"
    assert exact_match("a Cat!", ["dog", "cat"]) == 1 and exact_match("cats", ["cat"]) == 0
    assert exact_match("", []) == answer_f1("", []) == 1
    assert exact_match("cat", []) == answer_f1("cat", []) == 0
    assert answer_f1("", ["cat"]) == 0
    assert answer_f1("black cat sat", ["the black cat", "dog"]) == pytest.approx(0.8)
    for text in ("A man; the plan", "theatre anchor", "x-ray (an)"):
        # The words of SQuAD's evaluate-v1.1.py.
        expected = "".join(c for c in text.lower() if c not in set(string.punctuation))
        expected = " ".join(re.sub(r"\b(a|an|the)\b", " ", expected).split())
        assert normalized(text) == expected


def test_the_best_span_is_that_of_all_windows():
    rng = np.random.default_rng(0)
    rows, outputs, every = [], [], {}
    for window in range(3):
        passage = [(1, 10 * window + 2 * n, 10 * window + 2 * n + 2) for n in range(8)]
        offsets = np.array([(-1, 0, 0), (0, 0, 5), (-1, 0, 0), *passage, (-1, 0, 0)])
        rows.append(Row([0] * len(offsets), [0] * len(offsets), 0, window, offsets))
        logits = rng.normal(size=(len(offsets), 2))
        logits[1] = 99  # the question
        outputs.append(logits)
        for first, last in itertools.combinations_with_replacement(range(3, 11), 2):
            place = offsets[first, 1], offsets[last, 2]
            logit = logits[first, 0] + logits[last, 1]
            every[place] = max(every.get(place, -np.inf), logit)
    found = best_spans(rows, outputs, 1, may_be_none=True)
    place = max(every, key=every.get)
    best = next(span for span in found if span.end)
    assert best[:2] == place and best.logit == pytest.approx(every[place])
    (nothing,) = [span for span in found if not span.end]
    assert nothing.logit == pytest.approx(min(logits[0].sum() for logits in outputs))
    assert all(span.end for span in best_spans(rows, outputs, 1, may_be_none=False))
    assert best_spans([rows[0]._replace(offsets=rows[0].offsets[:3])], [outputs[0][:3]], 1, 0) == []


def test_correlations():
    rng = np.random.default_rng(0)
    a = rng.integers(0, 6, 40).astype(float)
    b = a + rng.integers(0, 4, 40)
    assert pearson(a, b) == pytest.approx(np.corrcoef(a, b)[0, 1])
    ranks = [[(s < x).sum() + ((s == x).sum() + 1) / 2 for x in s] for s in (a, b)]
    assert spearman(a, b) == pytest.approx(np.corrcoef(*ranks)[0, 1])
    assert pearson([1, 1], [1, 2]) == spearman([3, 3], [1, 2]) == 0


def test_tokens_that_share_a_character_are_one_word():
    """Two tokens of bytes may end and begin inside "é", and a tag is of whole characters."""
    special, first, rest, other = (-1, 0, 0), (0, 0, 2), (0, 1, 2), (0, 3, 4)
    rows = [Row([], [], 0, 0, np.array([special, first, rest, other, special]))]
    starts, ends = _places("né b", rows)
    assert (starts.tolist(), ends.tolist()) == ([0, 3], [2, 4])
    apart = [Row([], [], 0, 0, np.array([special, (0, 0, 1), rest, other, special]))]
    assert _places("né b", apart)[0].tolist() == [0, 1, 3]


def test_a_word_has_the_logits_of_its_first_token():
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "love", "##lace", "wrote"]
    tokenizer = Tokenizer(vocabulary={piece: number for number, piece in enumerate(pieces)})
    text, names = ["lovelace", "wrote", "lovelace"], ["O", "B-P"]
    batches = TextBatches([text], TagLabels(None, names), tokenizer, max_length=6, shuffle=False)
    logits = np.arange(12.0).reshape(6, 2)  # [CLS] love ##lace wrote love [SEP]
    (words,) = Tag().merged([text], batches, [logits], names, "mean")
    np.testing.assert_array_equal(words.logits, logits[[1, 3, 4]])
