"""The output of `finetune` in search: read as it was trained, with its length and positions."""

import numpy as np
import pytest

from keras_posenc import build_transformer_model, embed
from keras_posenc.models.heads import features_before_head
from keras_posenc.models.model import model_on
from keras_posenc.retrieval import Reranker, embed_spans, open_embedder
from keras_posenc.training import Classify, Regress, finetune, load_finetuned, pretrain

# What they read from a directory is the same on every backend.
pytestmark = pytest.mark.once

LONG = " ".join(f"w{n % 35}" for n in range(46))  # 48 tokens; the checkpoint has 16 positions
OPTIONS = {"epochs": 1, "token_budget": 1024, "verbose": 0}


def features(directory, text):
    """The features (T, D) of the trained model, by Keras alone."""
    trained = load_finetuned(directory)
    encoder = model_on(trained.model, features_before_head(trained.model), "features")
    inputs, _ = trained.batches([text], [trained.label_names[0]])[0]
    return encoder.predict_on_batch({each.name: inputs[each.name] for each in encoder.inputs})[0]


def test_a_classifier_embeds_all_that_it_was_trained_to_read(finetuned, caplog):
    assert open_embedder(finetuned).max_length == 48
    expected = features(finetuned, LONG)
    assert expected.shape[0] == 48
    (vector,) = embed(finetuned, [LONG], verbose=0)
    np.testing.assert_allclose(vector, expected.mean(axis=0), rtol=1e-4, atol=1e-5)
    (late,) = embed_spans(open_embedder(finetuned), [LONG], [[(0, len(LONG))]], verbose=0).vectors
    np.testing.assert_allclose(late, vector, rtol=1e-4, atol=1e-5)
    assert caplog.text == ""
    assert embed(finetuned, [LONG], max_length=16, verbose=0).shape == vector[None].shape
    assert "cut off" in caplog.text and "not trained" not in caplog.text


@pytest.mark.parametrize("stretch", ["hierarchical", "tile", "interpolate", "fresh"])
def test_so_does_its_encoder(pretrained, tmp_path, stretch):
    """`build_transformer_model` reads the positions of the training, too."""
    labelled = ([LONG, "w1 w2"], ["a", "b"])
    extension = stretch + (":0.3" if stretch == "hierarchical" else "")
    options = {"max_length": 48, "extension": extension, **OPTIONS}
    finetune(pretrained, labelled, tmp_path / "out", **options)
    trained = load_finetuned(tmp_path / "out")
    inputs, _ = trained.batches([LONG], ["a"])[0]
    encoder = build_transformer_model(tmp_path / "out")
    found = encoder.predict_on_batch({each.name: inputs[each.name] for each in encoder.inputs})[0]
    np.testing.assert_allclose(found, features(tmp_path / "out", LONG), rtol=1e-4, atol=1e-5)
    name = "Embedding-Position"
    settings = [model.get_layer(name).get_config() for model in (encoder, trained.model)]
    for each in settings:
        del each["embeddings_initializer"]
    assert settings[0] == settings[1]


@pytest.mark.parametrize("stretch", ["hierarchical", "tile", "interpolate", "fresh"])
def test_training_goes_on_with_its_positions(pretrained, tmp_path, stretch):
    labelled = ([LONG, "w1 w2"], ["a", "b"])
    extension = stretch + (":0.3" if stretch == "hierarchical" else "")
    first = {"max_length": 48, "extension": extension, **OPTIONS}
    finetune(pretrained, labelled, tmp_path / "first", **first)
    finetune(tmp_path / "first", labelled, tmp_path / "next", **first)
    layers = [
        load_finetuned(tmp_path / name).model.get_layer("Embedding-Position").get_config()
        for name in ("first", "next")
    ]
    for each in layers:
        del each["embeddings_initializer"]
    assert layers[0] == layers[1]
    other = "tile" if stretch == "hierarchical" else "hierarchical"
    needed = f"give extension='{extension}'. Received: extension='{other}'"
    with pytest.raises(ValueError, match=needed):
        finetune(tmp_path / "first", labelled, tmp_path / "other", **first | {"extension": other})
    settings = {"max_length": 48, "extension": other, "steps": 1, "verbose": 0}
    with pytest.raises(ValueError, match=needed):
        pretrain(tmp_path / "first", [LONG] * 8, tmp_path / "other", **settings)


def test_positions_that_are_given_replace_those_of_the_training(finetuned):
    layer = build_transformer_model(finetuned).get_layer("Embedding-Position")
    assert layer.alpha == 0.4 and layer.max_position == 256
    layer = build_transformer_model(finetuned, extension="hierarchical:0.2").get_layer(
        "Embedding-Position"
    )
    assert layer.alpha == 0.2 and layer.max_position == 256
    tiled = build_transformer_model(finetuned, extension="tile:kept_rows=1")
    assert tiled.get_layer("Embedding-Position").kept_rows == 1
    plain = build_transformer_model(finetuned, max_position=16)
    with pytest.raises(ValueError, match="positions run from 0 to 15"):
        plain.predict([np.ones((1, 20), int)] * 2, verbose=0)
    without = build_transformer_model(finetuned, absolute_positions=False, encodings=["rotary"])
    assert "Embedding-Position" not in [layer.name for layer in without.layers]


def test_so_do_a_tagger_and_the_head_of_the_family(pretrained, tmp_path):
    words = LONG.split()
    tagged = ([words, words[::-1]], [["O", "B-X"] * 23, ["B-X", "O"] * 23])
    finetune(pretrained, tagged, tmp_path / "tag", task="tag", max_length=48, **OPTIONS)
    labelled = ([LONG, "w1 w2"], ["a", "b"])
    finetune(
        pretrained,
        labelled,
        tmp_path / "head",
        task=Classify(pooling="head"),
        max_length=48,
        **OPTIONS,
    )
    expected = features(tmp_path / "head", LONG).mean(axis=0)
    (vector,) = embed(tmp_path / "head", [LONG], verbose=0)
    np.testing.assert_allclose(vector, expected, rtol=1e-4, atol=1e-5)
    assert open_embedder(tmp_path / "tag").max_length == 48
    assert embed(tmp_path / "tag", [LONG], verbose=0).shape == vector[None].shape


def test_what_would_change_its_positions_is_refused(finetuned):
    with pytest.raises(ValueError, match="fine-tuned at its length: leave extension out"):
        embed(finetuned, [LONG], extension="tile", verbose=0)
    with pytest.raises(ValueError, match="fine-tuned at its length: leave label_names out"):
        Reranker(finetuned, label_names=["score"])


@pytest.mark.parametrize("pooling", ["mean", "head"])
def test_a_model_of_pairs_reranks_long_documents(pretrained, tmp_path, pooling):
    pairs = ([("w1", LONG), ("w2", LONG[::-1])], [1.0, 0.0])
    finetune(
        *(pretrained, pairs, tmp_path / "out"),
        **{**OPTIONS, "task": Regress(pooling=pooling), "max_length": 56},
    )
    reranker = Reranker(tmp_path / "out")
    assert reranker.max_length == 56
    expected = load_finetuned(tmp_path / "out").predict([("w1", LONG)], verbose=0)
    found = reranker.rank("w1", [LONG], verbose=0)
    np.testing.assert_allclose(found[0]["score"], expected.item(), rtol=1e-4, atol=1e-5)
    assert reranker.predict([("w1", LONG)], verbose=0).shape == (1,)


def test_a_tagger_reranks_nothing(pretrained, tmp_path):
    tagged = ([["w1", "w2"], ["w3", "w4"]], [["O", "B-X"], ["B-X", "O"]])
    finetune(pretrained, tagged, tmp_path / "tag", task="tag", max_length=16, **OPTIONS)
    with pytest.raises(ValueError, match="holds a model of the task 'tag', not a cross-encoder"):
        Reranker(tmp_path / "tag")
