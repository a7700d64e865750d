"""Contextual training of few texts, and its measure, of vectors that are given."""

import shutil
import types

import numpy as np
import pytest
from contextual_texts import OPENING, SHORT, TEXTS, write_embedder

from keras_posenc import Tokenizer, build_transformer_model, save_checkpoint
from keras_posenc.training import contextualize
from keras_posenc.training.contextual.batches import Prompted
from keras_posenc.training.contextual.corpus import Corpus
from keras_posenc.training.contextual.measure import Measure


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Folder of a random embedder of 64 positions, whose tokenizer knows the names."""
    return write_embedder(tmp_path_factory.mktemp("contextual"))


@pytest.mark.once
def test_copies_that_look_the_same_are_found_by_chance():
    """What does not read the name gives each copy the same vector: a quarter is right, not all."""
    case = types.SimpleNamespace(named=[["a", "b", "c"]] * 4)
    found = types.SimpleNamespace(cases=[case])
    same, apart = np.ones((4, 3, 8)), np.eye(12, 12).reshape(4, 3, 12)
    half = np.repeat(np.eye(2), 2, axis=0)[:, None].repeat(3, axis=1)  # two pairs of copies
    for vectors, fraction in ((same, 0.25), (half, 0.5), (apart, 1.0)):
        queries = vectors.reshape(12, -1)
        fractions, _ = Measure._found(found, lambda _, v=vectors: v, lambda _, q=queries: q)
        assert fractions == [pytest.approx(fraction)]


@pytest.mark.once
def test_a_run_is_of_the_weights_that_it_began_with(small, tmp_path):
    model = shutil.copytree(small, tmp_path / "model")
    settings = {**SHORT, "steps": 0, "test": TEXTS}
    first = contextualize(model, TEXTS, tmp_path / "run", **settings)[1]
    assert contextualize(model, TEXTS, tmp_path / "run", **settings)[1] == first
    other = build_transformer_model(model)
    for weight in other.weights:
        weight.assign(weight * 1.5)
    save_checkpoint(other, model)
    with pytest.raises(ValueError, match="weights was content with the digest .* and is now"):
        contextualize(model, TEXTS, tmp_path / "run", **settings)


@pytest.mark.once
def test_few_texts_are_measured_with_other_text_between(small, tmp_path, caplog):
    """Of twelve, three are held out; where there is too little text, the log says so."""
    settings = {**SHORT, "steps": 0}
    texts = [text + " " + other for text in TEXTS for other in TEXTS[:2]]
    (row,) = contextualize(small, texts, tmp_path / "run", **settings)[1]["found"]
    assert row["tokens"] > 200 and caplog.text == ""
    settings["test"] = TEXTS[:1]
    (row,) = contextualize(small, texts, tmp_path / "one", **settings)[1]["found"]
    assert row["tokens"] < 40 and "Passages are measured up to" in caplog.text


@pytest.mark.once
def test_a_word_is_exchanged_for_one_of_another_text(small):
    tokenizer = Prompted(Tokenizer(small), "")
    text = "The harbour is old. We saw the harbour. A harbour has boats. Her harbour sleeps."
    texts = [text, "Nothing repeats in here.", "And nothing does so there."]
    assert Corpus(texts, tokenizer, None, 500, 0.0, OPENING).words == []
    texts[1] = text.replace("harbour", "garden").replace("boats", "trees")
    words = Corpus(texts, tokenizer, None, 500, 0.0, OPENING).words
    assert {each.word for each in words} == {"harbour", "garden"}


@pytest.mark.once
def test_one_text_is_measured_on_itself_and_the_log_says_so(small, tmp_path, caplog):
    settings = {**SHORT, "steps": 0}
    contextualize(small, [" ".join(TEXTS)], tmp_path, **settings)
    assert "There is one text, and what is found is measured on it, too" in caplog.text


@pytest.mark.once
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"seed": -1}, "`seed` must be an integer from 0 to 4294967295. Received: -1"),
        ({"seed": 0.5}, "`seed` must be an integer from 0 to 4294967295. Received: 0.5"),
        ({"names": 0.5, "language": None}, "`names` needs the pronouns .* Received: names=0.5"),
        ({"names": 1.0}, "`names` needs the pronouns that stand for names: give `language`, one o"),
    ],
)
def test_settings_without_effect_are_refused(small, settings, message):
    texts = ["zug zur zeit"] * 9 if settings == {"names": 1.0} else TEXTS
    with pytest.raises(ValueError, match=message):
        contextualize(small, texts, **{**SHORT, **settings})
