"""CoSENT and Matryoshka against their formulas and against sentence-transformers; scales."""

import keras
import numpy as np
import pytest

from keras_posenc.losses import (
    CoSENT,
    CosineRegression,
    ListwiseKL,
    MarginMSE,
    Matryoshka,
    MultipleNegativesRanking,
    PassageRanking,
)

RNG = np.random.default_rng(0)
PAIRS = RNG.normal(size=(6, 2, 8)).astype("float32")
TRIPLES = RNG.normal(size=(6, 4, 8)).astype("float32")
SCORES = np.array([0.1, 0.9, 0.5, 0.5, -0.3, 1.0], "float32")
TEACHER = RNG.normal(size=(6, 3)).astype("float32")


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def cosines(pairs):
    return (unit(pairs[:, 0]) * unit(pairs[:, 1])).sum(-1)


def test_cosent():
    cos = cosines(PAIRS)
    gaps = [7 * (cos[j] - cos[i]) for i in range(6) for j in range(6) if SCORES[i] > SCORES[j]]
    expected = np.log(1 + np.exp(gaps).sum())
    for scores in (SCORES, SCORES[:, None], np.float32([0, 3, 1, 1, -0.9, 4])):
        np.testing.assert_allclose(float(CoSENT(7.0)(scores, PAIRS)), expected, rtol=1e-5)


def test_rows_that_fill_a_batch_up_are_no_pairs():
    weights = np.append(np.ones(6), 0).astype("float32")
    loss = CoSENT(reduction="mean_with_sample_weight")
    expected = float(CoSENT()(SCORES, PAIRS))
    for row in range(6):
        filled = np.concatenate([PAIRS, PAIRS[row : row + 1]])
        scores = np.append(SCORES, -2).astype("float32")
        found = float(loss(scores, filled, sample_weight=weights))
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    # The nearest pair with the lowest score that counts changes the loss.
    filled = np.concatenate([PAIRS, PAIRS[[np.argmax(cosines(PAIRS))]]])
    scores = np.append(SCORES, -1).astype("float32")
    assert float(loss(scores, filled, sample_weight=weights)) > expected + 1


@pytest.mark.parametrize(
    "loss, y_true, vectors",
    [
        (MultipleNegativesRanking(), np.arange(6), TRIPLES),
        (CoSENT(), SCORES, PAIRS),
        (MarginMSE(scale=3.0), TEACHER, TRIPLES),
    ],
)
def test_matryoshka_is_the_sum_of_the_loss_of_the_first_numbers(loss, y_true, vectors):
    parts = [loss(y_true, unit(vectors[..., :size])) for size in (8, 3)]
    found = Matryoshka(loss, [8, 3], weights=[1, 0.5])(y_true, vectors)
    np.testing.assert_allclose(float(found), float(parts[0] + 0.5 * parts[1]), rtol=1e-5)


@pytest.mark.parametrize(
    "loss, y_true, vectors",
    [
        (MultipleNegativesRanking(), np.arange(6), TRIPLES),
        (CoSENT(), SCORES, PAIRS),
        (CosineRegression(), SCORES, PAIRS),
        (Matryoshka(MultipleNegativesRanking(), [8, 3]), np.arange(6), TRIPLES),
        (Matryoshka(PassageRanking(), [8, 3]), np.arange(6), TRIPLES),
    ],
)
def test_a_zero_vector_has_a_finite_gradient(loss, y_true, vectors):
    """Such as that of a passage that is not there, or of a sparse encoder."""
    size = vectors[0].size
    model = keras.Sequential(
        [keras.Input((size,)), keras.layers.EinsumDense("bi,i->bi", size, name="scale"),
         keras.layers.Reshape(vectors.shape[1:])]
    )  # fmt: skip
    model.layers[0].set_weights([np.ones(size, "float32")])
    model.compile(keras.optimizers.SGD(1e-3), loss)
    vectors = vectors.copy()
    vectors[0, -1] = 0
    model.train_on_batch(vectors.reshape(len(vectors), -1), y_true)
    assert np.isfinite(model.get_weights()[0]).all()


@pytest.mark.parametrize("loss", [MarginMSE, ListwiseKL])
def test_a_scale_is_that_of_the_scores(loss):
    larger = TRIPLES * np.array([5, 1, 1, 1], "float32")[:, None]
    found, expected = loss(scale=5.0)(TEACHER, TRIPLES), loss()(TEACHER, larger)
    np.testing.assert_allclose(float(found), float(expected), rtol=1e-5)


@pytest.mark.once
def test_equal_to_sentence_transformers():
    import torch
    from sentence_transformers.sentence_transformer import losses

    sides = [torch.tensor(unit(TRIPLES[:, side])) for side in range(4)]
    pair = [torch.tensor(PAIRS[:, side]) for side in range(2)]
    scores, teacher = torch.tensor(SCORES), torch.tensor(TEACHER)
    reference = {
        "cosent": losses.CoSENTLoss(None, scale=20.0).compute_loss_from_embeddings(pair, scores),
        "margins": losses.MarginMSELoss(None).compute_loss_from_embeddings(sides, teacher),
        "kl": losses.DistillKLDivLoss(None, temperature=2.0).compute_loss_from_embeddings(
            sides, teacher
        ),
    }
    vectors = unit(TRIPLES)
    ours = {
        "cosent": CoSENT()(SCORES, PAIRS),
        "margins": MarginMSE()(TEACHER, vectors),
        "kl": ListwiseKL(2.0)(TEACHER, vectors),
    }
    for name, expected in reference.items():
        np.testing.assert_allclose(float(ours[name]), float(expected), rtol=1e-5, err_msg=name)


@pytest.mark.once
def test_matryoshka_is_equal_to_sentence_transformers():
    import torch
    from sentence_transformers.sentence_transformer.losses import (
        MatryoshkaLoss,
        MultipleNegativesRankingLoss,
    )

    class Given(torch.nn.Module):
        """A model whose embeddings are its input."""

        def forward(self, features):
            return dict(features)

        def get_embedding_dimension(self):
            return 8

    model = Given()
    inner = MultipleNegativesRankingLoss(model)
    reference = MatryoshkaLoss(model, inner, [8, 4, 2], matryoshka_weights=[1, 2, 0.5])
    columns = [{"sentence_embedding": torch.tensor(TRIPLES[:, side])} for side in range(4)]
    expected = float(reference(columns, None))
    ours = Matryoshka(MultipleNegativesRanking(), [8, 4, 2], [1, 2, 0.5])
    np.testing.assert_allclose(float(ours(np.arange(6), TRIPLES)), expected, rtol=1e-5)


@pytest.mark.once
def test_they_are_saved_with_their_arguments():
    loss = Matryoshka(ListwiseKL(2.0, scale=3.0), [8, 3], weights=[1, 0.5])
    again = keras.losses.deserialize(keras.losses.serialize(loss))
    assert again.get_config() == loss.get_config()
    assert (again.loss.temperature, again.loss.scale, again.weights) == (2.0, 3.0, [1, 0.5])
    assert keras.losses.deserialize(keras.losses.serialize(CoSENT(3.0))).scale == 3.0


@pytest.mark.once
@pytest.mark.parametrize(
    "make, error, message",
    [
        (lambda: CoSENT(0), ValueError, "`scale` must be a positive number. Received: 0"),
        (lambda: MarginMSE(scale=-1), ValueError, "`scale` must be a positive number"),
        (lambda: ListwiseKL(scale=0), ValueError, "`scale` must be a positive number"),
        (lambda: Matryoshka("cosent", [4]), TypeError, "`loss` must be a loss of Keras"),
        (lambda: Matryoshka(CoSENT(), 4), TypeError, "`dimensions` must be a list of dimensions"),
        (lambda: Matryoshka(CoSENT(), []), ValueError, "must have one dimension or more"),
        (lambda: Matryoshka(CoSENT(), [4, 4]), ValueError, "each once. Received: .4, 4."),
        (lambda: Matryoshka(CoSENT(), [4, 0]), ValueError, "must be a positive integer. Rec"),
        (lambda: Matryoshka(CoSENT(), [4], 1), TypeError, "`weights` must be a list of numbers"),
        (lambda: Matryoshka(CoSENT(), [4], [1, 2]), ValueError, "one number per dimension, 1"),
        (lambda: Matryoshka(CoSENT(), [4], [0]), ValueError, "`weights` must be a positive numb"),
        (
            lambda: MultipleNegativesRanking()(TEACHER.astype("int32"), PAIRS),
            ValueError,
            r"one number per row, or one for each of its 2 texts. Received: .* shape \(6, 3\)",
        ),
        (
            lambda: Matryoshka(CoSENT(), [9])(SCORES, PAIRS),
            ValueError,
            "`dimensions` must be at most 8, the numbers of a vector. Received: .9.",
        ),
    ],
)
def test_refusals(make, error, message):
    with pytest.raises(error, match=message):
        make()
