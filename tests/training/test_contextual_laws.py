"""What holds for all counterfactual copies, where the names of texts meet."""

import re
import types

import numpy as np
import pytest
from contextual_texts import ENGLISH, OPENING, write_embedder

from keras_posenc import Tokenizer
from keras_posenc.training.contextual.batches import CopyBatches
from keras_posenc.training.contextual.copies import (
    COPIES,
    PASSAGES,
    Fillers,
    draw,
    lent_passages,
    passages_of,
)
from keras_posenc.training.contextual.corpus import Corpus, holds

STORY = (
    "The old mill stood near the river. We met {name} there in spring. Later {name} sold it at the "
    "market. In summer {friend} came with {name} and left. I asked {name} about the road. In the "
    "rain {friend} sang. All the winter {name} wrote letters. We saw {name} and {friend} in the "
    "garden. In the evening {name} sang for us. People spoke with {friend} about the price. Then "
    "{friend} went to the house, and we heard {friend} sing. The price rose."
)
# The same name is in several texts, as the one of whom the text is, and as the friend.
MEETING = [
    ("Ada", "Otto"), ("Otto", "Ada"), ("Nora", "Ada"), ("Ada", "Nora"), ("Hugo", "Otto"),
    ("Nora", "Hugo"), ("Otto", "Hugo"), ("Rita", "Emil"),
]  # fmt: skip
PRONOUNS = {"Ada": "she", "Nora": "she", "Rita": "she", "Otto": "he", "Hugo": "he", "Emil": "he"}
KNOWN = [
    f"In town {name} sang and {p} slept. We met {name} and {p} sang. I saw {name} and {p} left."
    for name, p in PRONOUNS.items()
]
NAMES = [STORY.format(name=name, friend=friend) for name, friend in MEETING]
# A word is in two texts, more often in one of them; so many texts that it is rare in the others.
NOUNS = (
    "apples bridges candles drawers engines feathers gardens hammers islands jackets kettles "
    "lanterns mirrors needles orchards pillows quarries ribbons saddles turnips"
).split()
THINGS = [STORY.format(name=a, friend=b) for a, b in zip(NOUNS, NOUNS[1:] + NOUNS[:1], strict=True)]
DRAWS = 200


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return write_embedder(tmp_path_factory.mktemp("laws"))


@pytest.fixture(scope="module", params=["names", "words"])
def drawn(small, request):
    """`DRAWS` copies of texts whose names or words meet, and their corpus."""
    names = request.param == "names"
    texts, language = (NAMES, ENGLISH) if names else (THINGS, None)
    known = (small / "vocab.txt").read_text("utf-8").split()
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys([*known, *NOUNS]))}
    # The pronouns of the names are seen in further texts only.
    corpus = Corpus(
        texts, Tokenizer(vocabulary=vocabulary), language, 260, float(names), OPENING, KNOWN * 20
    )
    return corpus, [draw(corpus, np.random.default_rng(step)) for step in range(DRAWS)]


@pytest.mark.once
def test_names_of_copies_meet_in_the_corpus(drawn):
    """Otherwise the laws below would hold without their guards."""
    corpus, every = drawn
    found = corpus.names or corpus.words
    assert len({each.word for each in found}) < len(found)
    texts = [" ".join(sentences) for sentences in corpus.sentences]
    meet = sum(sum(map(bool, map(each.pattern.search, texts))) > 1 for each in found)
    assert meet >= len(found) - 2
    assert {len(copies.subjects) for copies in every} == {1, 2}


@pytest.mark.once
def test_two_subjects_have_other_pronouns_texts_and_words(drawn):
    for copies in drawn[1]:
        if len(copies.subjects) > 1:
            one, other = copies.subjects
            assert one.text != other.text and one.word.lower() != other.word.lower()
            assert one.pronoun is None or one.pronoun != other.pronoun


@pytest.mark.once
def test_a_name_stands_in_its_introduction_only(drawn):
    """In no filler, no passage, also of another text, and no sentence between them."""
    for copies in drawn[1]:
        first = copies.texts[0]
        other = [i for i in range(len(first)) if len({text[i] for text in copies.texts}) > 1]
        assert len(other) == len(copies.subjects) and max(other) < min(copies.passages)
        assert not any(
            holds(sentence, copies.subjects) for i, sentence in enumerate(first) if i not in other
        )
        assert all(any(holds(first[i], [subject]) for i in other) for subject in copies.subjects)


@pytest.mark.once
def test_a_query_has_the_name_of_one_subject(drawn):
    for copies in drawn[1]:
        for number in range(len(copies.passages)):
            named = [each[number] for each in copies.named]
            assert len(set(named)) == len(copies.texts) <= COPIES
            assert sum(holds(named[0], [subject]) for subject in copies.subjects) == 1


@pytest.mark.once
def test_the_names_of_other_copies_stand_in_no_copy_of_their_own_accord(drawn):
    """A name that is put in place of another is in no filler and no passage."""
    met = 0
    for copies in drawn[1]:
        first = copies.texts[0]
        for i in range(len(first)):
            variants = [text[i] for text in copies.texts]
            if len(set(variants)) > 1:
                words = [set(re.findall(r"\w+", each.lower())) for each in variants]
                names = set.union(*words) - set.intersection(*words)
                rest = " ".join(first[:i] + first[i + 1 :]).lower()
                met += bool(names & set(re.findall(r"\w+", rest)))
    assert met == 0


@pytest.mark.once
def test_passages_of_a_text_keep_their_order_behind_the_introduction(drawn):
    corpus, every = drawn
    for step, copies in enumerate(every):
        assert 1 <= len(copies.passages) <= PASSAGES
        subject, text = copies.subjects[0], " ".join(corpus.sentences[copies.subjects[0].text])
        place = subject.introductions[0]
        found = passages_of(corpus, subject, [subject], place, 3, np.random.default_rng(step))
        end = text.index(corpus.sentences[subject.text][place])
        assert 1 <= len(found) <= 3
        for *_, part in found:
            assert text.index(part.named) > end
            end = text.index(part.named) + len(part.named) - 1


@pytest.mark.once
def test_other_texts_fill_the_gaps_and_lend_passages(drawn):
    corpus, every = drawn
    for step, copies in enumerate(every):
        rng, pair = np.random.default_rng(step), copies.subjects
        taken = {subject.text for subject in pair}
        assert not taken & set(Fillers(corpus, pair, rng).texts)
        for subject in pair:
            for (part,) in lent_passages(corpus, subject, pair, 6, rng):
                lenders = [each for each in corpus.names if each.pattern == part.pattern]
                assert {each.pronoun for each in lenders} == {subject.pronoun}
                texts = {each.text for each in lenders} - taken
                assert any(part.named in corpus.sentences[text] for text in texts)


@pytest.mark.once
def test_no_position_is_past_the_table(small, drawn):
    most = 300
    for fraction in (0.0, 0.4):  # no jump at the beginning of the text, or behind it
        far = types.SimpleNamespace(integers=lambda _, high: high - 1, random=lambda f=fraction: f)
        make = CopyBatches(Tokenizer(small), 278, most, skips=True, window=64)
        assert (
            max(int(make(c, far).inputs["position_ids"].max()) for c in drawn[1][:40]) == most - 1
        )
