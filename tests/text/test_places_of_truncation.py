"""Where longer texts are cut: at their end, at their beginning, or in the middle."""

import json

import keras
import numpy as np
import pytest

from keras_posenc import Tokenizer, embed, finetune
from keras_posenc.retrieval import Reranker, open_embedder
from keras_posenc.text import TextBatches
from keras_posenc.training import load_finetuned

pytestmark = pytest.mark.once
TEXT = " ".join(f"w{n}" for n in range(20))


def words(tokenizer, ids):
    return tokenizer.decode(ids).split()


def test_each_place_keeps_what_it_states(pretrained):
    tokenizer = Tokenizer(pretrained)
    kept = {
        place: words(tokenizer, tokenizer.encode(TEXT, max_length=9, truncate_from=place)[0])
        for place in ("right", "left", "middle")
    }
    assert kept["right"] == [f"w{n}" for n in range(7)]
    assert kept["left"] == [f"w{n}" for n in range(13, 20)]
    assert kept["middle"] == ["w0", "w1", "w2", "w3", "w17", "w18", "w19"]
    short = tokenizer.encode("w1 w2", max_length=9, truncate_from="middle")
    assert short == tokenizer.encode("w1 w2")


def test_the_tokens_of_a_pair_keep_their_places(pretrained):
    tokenizer = Tokenizer(pretrained, truncate_from="middle")
    ids, _, offsets = tokenizer.encode("w1 w2", TEXT, max_length=11, offsets=True)
    second = [TEXT[start:end] for start, end in offsets[4:-1]]
    assert second == ["w0", "w1", "w2", "w17", "w18", "w19"]
    assert words(tokenizer, ids) == ["w1", "w2", *second]


def test_the_place_is_saved_and_counts_in_the_fingerprint(pretrained, tmp_path):
    for place in ("right", "left", "middle"):
        tokenizer = Tokenizer(pretrained, truncate_from=place)
        tokenizer.save(tmp_path / place)
        again = Tokenizer(tmp_path / place)
        assert again.truncate_from == place
        assert again.fingerprint == tokenizer.fingerprint
        assert again.encode(TEXT, max_length=9) == tokenizer.encode(TEXT, max_length=9)
    assert Tokenizer(tmp_path / "left").fingerprint != Tokenizer(tmp_path / "right").fingerprint


def test_transformers_cuts_the_same_side(pretrained, tmp_path):
    transformers = pytest.importorskip("transformers")
    Tokenizer(pretrained, truncate_from="left").save(tmp_path)
    peer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    expected = peer(TEXT, truncation=True, max_length=9)["input_ids"]
    assert Tokenizer(tmp_path).encode(TEXT, max_length=9)[0] == expected


def test_another_place_is_refused(pretrained, tmp_path):
    with pytest.raises(ValueError, match="`truncate_from` must be one of .*'both'"):
        Tokenizer(pretrained, truncate_from="both")
    Tokenizer(pretrained).save(tmp_path)
    file = tmp_path / "tokenizer_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "truncation_side": "both"}))
    with pytest.raises(ValueError, match="truncation_side is 'both', not right, left"):
        Tokenizer(tmp_path)


def test_ids_are_cut_as_texts_are(pretrained):
    for place in ("right", "left", "middle"):
        tokenizer = Tokenizer(pretrained, truncate_from=place)
        given = {"tokenizer": tokenizer, "max_length": 9, "shuffle": False, "pad_to": 1}
        by_text, by_ids = (
            TextBatches(texts, **given)[0]["token_ids"]
            for texts in ([TEXT], [tokenizer.encode(TEXT)[0]])
        )
        np.testing.assert_array_equal(by_ids, by_text)


def test_vectors_of_both_ends_are_those_of_a_text_of_them(pretrained, tmp_path):
    ends = " ".join(f"w{n}" for n in (0, 1, 2, 3, 17, 18, 19))
    found = embed(pretrained, [TEXT], reading="ends", max_length=9, verbose=0)
    expected = embed(pretrained, [ends], verbose=0)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert np.abs(embed(pretrained, [TEXT], max_length=9, verbose=0) - expected).max() > 1e-3
    open_embedder(pretrained, reading="ends", max_length=9).save(tmp_path / "saved")
    np.testing.assert_allclose(embed(tmp_path / "saved", [TEXT], verbose=0), expected, atol=1e-6)
    with pytest.raises(ValueError, match="`reading` must be like 'whole', 'ends'"):
        embed(pretrained, [TEXT], reading="ends:9", verbose=0)


def test_a_cross_encoder_reads_both_ends_of_a_document(pretrained):
    scores = []
    for reading, max_length, text in (
        ("ends", 11, TEXT),
        ("whole", None, "w0 w1 w2 w17 w18 w19"),
        ("whole", 11, TEXT),
    ):
        keras.utils.set_random_seed(0)
        given = {"reading": reading, "max_length": max_length, "label_names": ["score"]}
        scores.append(Reranker(pretrained, **given).logits([("w1 w2", text)], verbose=0))
    np.testing.assert_allclose(scores[0], scores[1], atol=2e-7)
    assert np.abs(scores[0] - scores[2]).max() > 1e-6


@pytest.mark.parametrize("more", [{}, {"freeze": "encoder"}])
def test_a_model_is_trained_evaluated_and_used_on_both_ends(pretrained, tmp_path, more):
    """The label is the last word, which the first tokens do not have."""
    rng = np.random.default_rng(0)
    texts, labels = [], []
    for n in range(40):
        texts.append(" ".join(f"w{w}" for w in rng.integers(0, 20, 19)) + f" w{30 + n % 2}")
        labels.append("ab"[n % 2])
    out = tmp_path / "out"
    given = {"max_length": 9, "longer": "ends", "verbose": 0, **more}
    found = finetune(pretrained, (texts, labels), out, test=(texts, labels), **given)
    model = load_finetuned(out)
    assert model.tokenizer.truncate_from == "middle"
    changed = [text.replace("w30", "w31") for text in texts[:1]]
    assert np.abs(model.predict(texts[:1], 0) - model.predict(changed, 0)).max() > 1e-6
    assert found["test"]["documents"] == 40
    again = finetune(out, (texts, labels), tmp_path / "again", **given)
    assert again["train"]["documents"] == 40


def test_a_frozen_run_that_reads_all_takes_no_ends(pretrained, tmp_path):
    with pytest.raises(ValueError, match="takes no longer"):
        texts = ["w1 w2", "w3"] * 4, list("ab") * 4
        finetune(pretrained, texts, tmp_path / "out", freeze="encoder", longer="ends", verbose=0)
