"""Passkeys and needles: what hides where, at which length."""

import pytest

from keras_posenc.tasks.retrieval import PLACES, needles, passkeys
from keras_posenc.text import Tokenizer

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def tokenizer(minilm):
    return Tokenizer(minilm)


def test_each_pass_key_is_in_one_document_at_any_depth(tokenizer):
    made = passkeys(tokenizer, 128, 40, seed=3)
    texts = [tokenizer.decode(ids) for ids in made.documents]
    names = [query.removeprefix("What is the pass key of ").strip("?") for query in made.queries]
    assert {len(ids) for ids in made.documents} == {126} and len(set(names)) == 40
    depths = []
    for name, document in zip(names, texts, strict=True):
        having = [text for text in texts if name.lower() in text]
        place = document.find(f"pass key of {name.lower()} is")
        assert having == [document]
        assert document.count("remember it") == 1 and "the river is wide" in document
        depths.append(place / len(document))
    assert min(depths) < 0.1 and max(depths) > 0.5


def test_the_same_is_asked_at_each_length_of_a_seed(tokenizer):
    made = [passkeys(tokenizer, *given) for given in ((64, 5, 1), (256, 5, 1), (64, 5, 2))]
    short, long, other = made
    assert short.queries == long.queries != other.queries
    assert passkeys(tokenizer, 64, 5, 1) == short
    fillers = ["One two three. Four five.", "Six seven."]
    assert needles(tokenizer, 64, 5, fillers).queries == needles(tokenizer, 90, 5, fillers).queries


def test_a_needle_hides_between_sentences_of_real_text(tokenizer):
    fillers = ["Alpha beta gamma. Delta epsilon.", "Zeta eta theta iota kappa."]
    made = needles(tokenizer, 96, 30, fillers, seed=1)
    for query, ids in zip(made.queries, made.documents, strict=True):
        text = tokenizer.decode(ids)
        name, thing = query.removeprefix("Where does ").strip("?").lower().split(" keep the ")
        before, after = text.split(f"{name} keeps the {thing} ")
        assert len(ids) == 94 and (not before or before.rstrip().endswith("."))
        assert sum(after.startswith(place) for place in PLACES) == 1
    assert len(set(made.queries)) == 30


def test_what_cannot_be_made(tokenizer):
    with pytest.raises(ValueError, match="length=16: what is to be found takes .* give at least"):
        passkeys(tokenizer, 16, 3)
    with pytest.raises(
        ValueError,
        match="`count` must be an integer from 1 to 400.* Received: 401",
    ):
        passkeys(tokenizer, 64, 401)
    with pytest.raises(ValueError, match="The 1 fillers have no tokens"):
        needles(tokenizer, 64, 3, [""])
