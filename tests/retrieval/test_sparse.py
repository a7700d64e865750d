"""Sparse vectors against `SparseEncoder` of sentence-transformers, there and back."""

import json
import shutil

import keras
import numpy as np
import pytest

from keras_posenc import embed
from keras_posenc.heads import SparsePooling
from keras_posenc.retrieval import DenseEmbedder, SparseEmbedder, SparseVectors, open_embedder

TEXTS = ["Two text, three. (four)!", "five six seven " * 30, "nine"]


@pytest.fixture(scope="module")
def plain(tiny_model):
    return tiny_model("BertForMaskedLM")


@pytest.fixture(scope="module")
def published(plain, tmp_path_factory):
    """The same as sentence-transformers saves it, with other settings of its pooling."""
    from sentence_transformers import SparseEncoder

    folder = tmp_path_factory.mktemp("published") / "model"
    model = SparseEncoder(
        str(plain),
        device="cpu",
        local_files_only=True,
        prompts={"query": "who ", "document": "is "},
    )
    model[1].pooling_strategy, model[1].activation_function = "sum", "log1p_relu"
    model.save_pretrained(str(folder))
    return folder


def peer(folder):
    from sentence_transformers import SparseEncoder

    return SparseEncoder(str(folder), device="cpu", local_files_only=True)


def dense(tensor):
    return tensor.to_dense().numpy()


def test_equal_to_sentence_transformers(plain, published):
    for folder in (plain, published):
        ours, reference = SparseEmbedder(folder), peer(folder)
        for found, expected in (
            (ours.encode_queries(TEXTS, 0), reference.encode_query(TEXTS)),
            (ours.encode_documents(TEXTS, 0), reference.encode_document(TEXTS)),
        ):
            expected = dense(expected)
            assert 0.1 < np.mean(expected > 0) < 0.9
            # Those that are published here are sums over 48 tokens.
            rtol = 1e-5 if folder is published else 1e-6
            np.testing.assert_allclose(found.dense(), expected, atol=1e-5, rtol=rtol)
    assert ours.prompts == {"query": "who ", "document": "is "}


@pytest.mark.once
def test_only_the_largest_weights(plain):
    found = SparseEmbedder(plain, max_active=5).encode_documents(TEXTS, 0)
    assert np.diff(found.offsets).tolist() == [5, 5, 5]
    expected = dense(peer(plain).encode_document(TEXTS, max_active_dims=5))
    np.testing.assert_allclose(found.dense(), expected, atol=1e-5)
    ours, reference = SparseEmbedder(plain), peer(plain)
    terms = ours.terms(ours.encode_documents(TEXTS, 0), top_k=3)
    expected = reference.decode(reference.encode_document(TEXTS), top_k=3)
    assert [[t for t, _ in row] for row in terms] == [[t for t, _ in row] for row in expected]


@pytest.mark.once
def test_a_stretched_model_is_saved_in_the_published_format(plain, published, tmp_path):
    for number, folder in enumerate((plain, published)):
        model = SparseEmbedder(folder, max_length=128)
        assert str(tmp_path / str(number) / "config.json") in model.save(tmp_path / str(number))
        found = model.encode_documents(TEXTS, 0).dense()
        again = SparseEmbedder(tmp_path / str(number), max_length=128)
        np.testing.assert_allclose(again.encode_documents(TEXTS, 0).dense(), found, atol=1e-5)
        reference = peer(tmp_path / str(number))
        reference.max_seq_length = 128
        np.testing.assert_allclose(
            dense(reference.encode_document(TEXTS)), found, atol=1e-5, rtol=1e-6
        )


@pytest.mark.once
def test_embed_sparse(plain, tmp_path):
    found = embed(SparseEmbedder(plain), TEXTS, tmp_path / "sparse.npz", verbose=0)
    written = np.load(tmp_path / "sparse.npz")
    again = SparseVectors(**{name: written[name] for name in written})
    np.testing.assert_array_equal(again.dense(), found.dense())
    np.testing.assert_array_equal(
        found.dense(), SparseEmbedder(plain).encode_documents(TEXTS, 0).dense()
    )


@pytest.mark.once
@pytest.mark.parametrize("seed", range(4))
def test_products_of_sparse_vectors(seed):
    rng = np.random.default_rng(seed)
    a, b = (np.maximum(rng.normal(size=(n, 11)), 0).astype("float32") for n in (3, 6))
    b[[0, 3, 5]] = 0  # a text without any weight, at the ends too
    found = SparseVectors.of(a).products(SparseVectors.of(b))
    np.testing.assert_allclose(found, a @ b.T, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="of one vocabulary. Received: 11 and 4 tokens"):
        SparseVectors.of(a).products(SparseVectors.of(b[:, :4]))


@pytest.mark.parametrize("activation", ["relu", "log1p_relu"])
@pytest.mark.parametrize("pooling", ["max", "sum"])
def test_pooling_ignores_padding(pooling, activation):
    rng = np.random.default_rng(0)
    logits, lengths = rng.normal(size=(3, 5, 7)), np.array([5, 2, 1])
    layer = SparsePooling(pooling, activation)
    layer = SparsePooling.from_config(layer.get_config())
    found = layer(logits, mask=np.arange(5) < lengths[:, None])
    for row, length in enumerate(lengths):
        weights = np.log1p(np.maximum(logits[row, :length], 0))
        weights = np.log1p(weights) if activation == "log1p_relu" else weights
        expected = getattr(weights, pooling)(axis=0)
        np.testing.assert_allclose(keras.ops.convert_to_numpy(found)[row], expected, atol=1e-6)


@pytest.mark.once
def test_refusals(plain, published, tmp_path):
    with pytest.raises(ValueError, match="`pooling` must be one of .* Received: 'mean'"):
        SparsePooling("mean")
    with pytest.raises(ValueError, match="`activation` must be one of .* Received: 'gelu'"):
        SparsePooling(activation="gelu")
    with pytest.raises(ValueError, match="`max_active` must be a positive integer. Received: 0"):
        SparseEmbedder(plain, max_active=0)
    model = SparseEmbedder(plain)
    with pytest.raises(TypeError, match="Texts must be a list of str"):
        model.encode_queries([("a", "b")])
    with pytest.raises(ValueError, match="Text 1 is empty"):
        model.encode_queries(["one", " "])
    assert isinstance(open_embedder(published), SparseEmbedder)
    with pytest.raises(ValueError, match="is a sparse encoder, which takes no reading and no dim"):
        embed(published, ["one"], reading="late:4", dimension=3)
    with pytest.raises(ValueError, match="a sparse encoder, not an embedder: open it with Sparse"):
        DenseEmbedder(published)
    folder = tmp_path / "changed"
    shutil.copytree(published, folder)
    settings = folder / "1_SpladePooling" / "config.json"
    settings.write_text(json.dumps({"pooling_strategy": "mean"}))
    with pytest.raises(ValueError, match="pooling_strategy must be one of .* Found 'mean'"):
        SparseEmbedder(folder)
