import keras
import numpy as np
import oracles_structured as oracles
import pytest
from keras import ops

import keras_posenc
from keras_posenc import (
    ChainMarginals,
    ConditionalRandomField,
    MaximumEntropyMarkovModel,
    ViterbiDecoder,
)
from keras_posenc.losses import ConditionalRandomFieldLoss, MaximumEntropyMarkovLoss
from keras_posenc.metrics import ViterbiAccuracy
from keras_posenc.text import TagLabels, TextBatches, Tokenizer

RNG = np.random.default_rng(0)
# As many texts as tokens: a mask on a wrong axis would go unnoticed.
SIZE, TAGS = 4, 3
X = RNG.normal(size=(SIZE, SIZE, TAGS), scale=2).astype("float32")
KEEP = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [0, 1, 0, 1], [0, 0, 1, 1]], bool)
Y = RNG.integers(0, TAGS, (SIZE, SIZE))


def numpy(x):
    return ops.convert_to_numpy(x)


def number(x):
    return float(numpy(x))


def crf(**arguments):
    layer = ConditionalRandomField(**arguments)
    layer.build(X.shape)
    layer.set_weights([RNG.normal(size=w.shape).astype("float32") for w in layer.weights])
    return layer


def all_scores(layer, row, keep):
    """dict path -> score, by brute force, of the tokens of a text in the chain."""
    x = X[row][keep[row]].astype("float64")
    weights = [np.float64(numpy(w)) * layer.lr_multiplier for w in layer.weights]
    score = oracles.crf_score
    if isinstance(layer, MaximumEntropyMarkovModel):
        score = oracles.memm_score
        weights = weights if layer.rank is None else [weights[0] @ weights[1].T]
    return {path: score(path, x, *weights) for path in oracles.paths(len(x), TAGS)}


@pytest.mark.parametrize("boundaries", [True, False])
@pytest.mark.parametrize("keep", [None, KEEP])
def test_a_crf_sums_over_all_paths(boundaries, keep):
    layer = crf(boundaries=boundaries, lr_multiplier=1.0 if boundaries else 5.0)
    potentials = layer(X, mask=None if keep is None else ops.convert_to_tensor(keep))
    keep = np.ones_like(KEEP) if keep is None else keep
    tags = np.where(RNG.random(Y.shape) < 0.3, -100, Y)
    tags[0] = Y[0]  # one with no unknown tag
    losses = numpy(ConditionalRandomFieldLoss(reduction=None)(tags, potentials))
    best, shares = numpy(ViterbiDecoder()(potentials)), numpy(ChainMarginals()(potentials))
    for row in range(SIZE):
        scores = all_scores(layer, row, keep)
        expected = oracles.chain_loss(tags[row][keep[row]], scores)
        np.testing.assert_allclose(losses[row], expected, rtol=1e-5, atol=1e-5)
        assert tuple(best[row][keep[row]]) == max(scores, key=scores.get)
        assert (best[row][~keep[row]] == -1).all()
        expected = oracles.marginals(scores, TAGS)
        np.testing.assert_allclose(shares[row][keep[row]], expected, atol=1e-6)
        assert (shares[row][~keep[row]] == 0).all()


def test_a_crf_is_that_of_torchcrf():
    torch = pytest.importorskip("torch")
    torchcrf = pytest.importorskip("torchcrf")
    layer, keep = crf(), np.array([[1, 1, 1, 1], [1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]], bool)
    other = torchcrf.CRF(TAGS, batch_first=True)
    transitions, start, end = (torch.tensor(numpy(w)) for w in layer.weights)
    other.transitions.data, other.start_transitions.data = transitions, start
    other.end_transitions.data = end
    x, y, mask = torch.tensor(X), torch.tensor(Y), torch.tensor(keep)
    potentials = layer(X, mask=ops.convert_to_tensor(keep))
    losses = numpy(ConditionalRandomFieldLoss(reduction=None)(Y, potentials))
    expected = -other(x, y, mask, reduction="none").detach().cpu().numpy()
    np.testing.assert_allclose(losses, expected, rtol=1e-5, atol=1e-5)
    best = numpy(ViterbiDecoder()(potentials))
    assert [row[row >= 0].tolist() for row in best] == other.decode(x, mask)


@pytest.mark.parametrize("rank", [None, 2])
def test_a_memm_is_that_of_bert4keras(rank):
    layer = MaximumEntropyMarkovModel(rank=rank, lr_multiplier=3.0)
    layer.build(X.shape)
    potentials = layer(X, mask=ops.convert_to_tensor(KEEP))
    loss = number(MaximumEntropyMarkovLoss()(Y, potentials))
    best = numpy(ViterbiDecoder()(potentials))
    total = 0.0
    for row in range(SIZE):
        scores = all_scores(layer, row, KEEP)
        total -= scores[tuple(Y[row][KEEP[row]])]
        assert tuple(best[row][KEEP[row]]) == max(scores, key=scores.get)
    assert loss == pytest.approx(total / KEEP.sum(), rel=1e-5)
    # A tag that is not known takes along what would follow from it, and nothing else.
    terms = numpy(MaximumEntropyMarkovLoss(reduction=None)(Y, potentials))
    one_less = np.where(np.arange(SIZE * SIZE).reshape(Y.shape) == 2, -1, Y)
    left = KEEP & (np.arange(SIZE * SIZE).reshape(Y.shape) // 2 != 1)
    loss = number(MaximumEntropyMarkovLoss()(one_less, potentials))
    assert loss == pytest.approx((terms * left).sum() / left.sum(), rel=1e-5)


def tagger(head, tags=TAGS, **embedding):
    """Tokens -> potentials; the table of embeddings is the table of scores."""
    tokens = keras.Input((None,), dtype="int32")
    scores = keras.layers.Embedding(SIZE * SIZE + 1, tags, mask_zero=True, **embedding)(tokens)
    return keras.Model(tokens, head(scores))


TOKENS = np.where(KEEP, np.arange(1, SIZE * SIZE + 1).reshape(KEEP.shape), 0)


def test_fit_follows_the_gradient_and_the_model_is_saved_with_its_loss(tmp_path):
    layer = crf()
    model = tagger(layer)
    table = np.concatenate([np.zeros((1, TAGS)), X.reshape(-1, TAGS)])
    model.layers[1].set_weights([table])
    model.compile(
        keras.optimizers.SGD(1.0), ConditionalRandomFieldLoss(), metrics=[ViterbiAccuracy()]
    )
    scores = [all_scores(layer, row, KEEP) for row in range(SIZE)]
    losses = [oracles.chain_loss(Y[r][KEEP[r]], scores[r]) for r in range(SIZE)]
    best = [max(each, key=each.get) for each in scores]
    right = sum((np.array(best[r]) == Y[r][KEEP[r]]).sum() for r in range(SIZE))
    weights = np.array([1.0, 2.0, 0.0, 0.5])
    history = model.fit(TOKENS, Y, batch_size=SIZE, verbose=0).history
    assert history["loss"][0] == pytest.approx(np.mean(losses), rel=1e-5)
    assert history["viterbi_accuracy"][0] == pytest.approx(right / KEEP.sum())
    # The gradient of the scores is their marginals less the tags.
    step = np.zeros((SIZE, SIZE, TAGS))
    for row in range(SIZE):
        given = np.eye(TAGS)[Y[row][KEEP[row]]]
        step[row][KEEP[row]] = (given - oracles.marginals(scores[row], TAGS)) / SIZE
    moved = numpy(model.layers[1].embeddings) - table
    np.testing.assert_allclose(moved[1:], step.reshape(-1, TAGS), atol=1e-5)

    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert isinstance(again.loss, ConditionalRandomFieldLoss)
    np.testing.assert_allclose(
        again.evaluate(TOKENS, Y, sample_weight=weights, verbose=0),
        model.evaluate(TOKENS, Y, sample_weight=weights, verbose=0),
        rtol=1e-6,
    )
    losses = [
        oracles.chain_loss(Y[r][KEEP[r]], all_scores(again.layers[-1], r, KEEP))
        for r in range(SIZE)
    ]
    decoder = keras.Model(again.input, ViterbiDecoder()(again.output))
    longer = np.pad(TOKENS, [(0, 0), (1, 2)])  # another length, and padding moves nothing
    before, after = (decoder.predict(x, verbose=0) for x in (TOKENS, longer))
    np.testing.assert_array_equal(after[:, 1:-2], before)


def test_sample_weights_are_one_a_text_or_one_a_token():
    potentials, loss = crf()(X), ConditionalRandomFieldLoss()
    each = numpy(ConditionalRandomFieldLoss(reduction=None)(Y, potentials))
    weights = np.array([1.0, 2.0, 0.0, 0.5], "float32")
    expected = pytest.approx((each * weights).mean(), rel=1e-5)
    assert number(loss(Y, potentials, weights)) == expected
    assert number(loss(Y, potentials, weights[:, None])) == expected
    assert number(loss(Y, potentials, np.ones((SIZE, SIZE)) * weights[:, None])) == expected
    message = r"weight per text, \(B,\), or one per token, .* 4 tokens. Received: \(4, 3\)"
    with pytest.raises(ValueError, match=message):
        loss(Y, potentials, np.ones((SIZE, 3)))


def test_a_token_of_weight_0_stands_in_the_chain_with_any_tag():
    potentials = crf()(X)
    known = np.where(KEEP, Y, -1)
    loss = ConditionalRandomFieldLoss(reduction=None)
    expected = numpy(loss(known, potentials)) * [3, 3, 3, 3]
    np.testing.assert_allclose(numpy(loss(Y, potentials, 3.0 * KEEP)), expected, rtol=1e-5)


@pytest.mark.once
def test_the_accuracy_is_of_the_known_tags_of_the_chain():
    potentials = crf()(X, mask=KEEP)
    best = numpy(ViterbiDecoder()(potentials))
    wrong, unknown = np.zeros((2, SIZE, SIZE), bool)
    wrong[0, 1] = wrong[3, 3] = unknown[0, 2] = unknown[2, 1] = True
    tags = np.where(unknown, -1, np.where(wrong, (best + 1) % TAGS, np.where(KEEP, best, 0)))
    for weights in (None, np.array([1.0, 2.0, 0.0, 0.5], "float32")):
        counts = (KEEP & ~unknown) * (1 if weights is None else weights[:, None])
        metric = ViterbiAccuracy()
        metric.update_state(tags, potentials, weights)
        assert number(metric.result()) == pytest.approx((counts * ~wrong).sum() / counts.sum())


@pytest.mark.once
def test_a_field_learns_tags_of_words_from_batches_of_texts():
    """Words of two pieces, and a tag that only the transitions tell: I-X follows B-X alone."""
    words = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abc", "##c"])}
    tokenizer = Tokenizer(vocabulary=words)
    rng = np.random.default_rng(0)
    texts = [[["a", "bc", "b"][k] for k in rng.integers(0, 3, 6)] for _ in range(48)]
    tags = [
        ["B-X" if word == "a" else "I-X" if before == "a" else "O" for before, word in pairs]
        for pairs in (zip(["b", *text], text, strict=False) for text in texts)
    ]
    labels = TagLabels(tags)
    batches = TextBatches(texts, labels, tokenizer, token_budget=64, pad_to=1)
    names = ("token_ids", "segment_ids")
    inputs = {name: keras.Input((None,), name=name, dtype="int32") for name in names}
    scores = keras.layers.Embedding(8, 3, mask_zero=True)(inputs["token_ids"])
    # Keras 3.12 refuses a model that has an input without using it.
    segments = keras.layers.Embedding(1, 3)(inputs["segment_ids"])
    scores = keras.layers.Add()([scores, segments])
    potentials = ConditionalRandomField(lr_multiplier=10)(scores)
    model = keras.Model(inputs, potentials)
    model.compile(
        keras.optimizers.Adam(0.1),
        ConditionalRandomFieldLoss(),
        weighted_metrics=[ViterbiAccuracy()],
    )
    logs = model.fit(batches, epochs=12, verbose=0).history
    assert logs["viterbi_accuracy"][-1] > 0.95 > logs["viterbi_accuracy"][0]


def test_sums_are_float32_whatever_the_policy():
    full = crf()
    half = ConditionalRandomField(dtype="mixed_bfloat16")
    half.build(X.shape)
    half.set_weights(full.get_weights())
    x = ops.cast(X, "bfloat16")
    potentials = half(x)
    assert potentials.dtype == full(X).dtype
    assert numpy(half.transitions).dtype == np.float32
    np.testing.assert_array_equal(numpy(potentials), numpy(full(ops.cast(x, "float32"))))
    symbolic = half(keras.Input((None, TAGS), dtype="bfloat16"))
    assert symbolic.shape == (None, None, TAGS, TAGS) and symbolic.dtype == "float32"
    assert ViterbiDecoder()(symbolic).shape == (None, None)
    assert ChainMarginals()(symbolic).shape == (None, None, TAGS)


@pytest.mark.once
def test_nothing_is_lost_in_a_long_text():
    """Without transitions the tags are independent: the loss is a sum of cross-entropies."""
    x = RNG.normal(size=(1, 512, TAGS), scale=60).astype("float32")
    tags = x.argmax(-1)
    layer = ConditionalRandomField(boundaries=False, initializer="zeros")
    loss = number(ConditionalRandomFieldLoss()(tags, layer(x)))
    expected = -oracles.log_softmax(x.astype("float64")).max(-1).sum()
    assert loss == pytest.approx(expected, rel=1e-4)


@pytest.mark.once
def test_scores_that_all_tags_share_change_nothing_in_a_long_text():
    """The sum over the tokens is two million, where neighbouring float32 are 1/4 apart."""
    rng, length, level = np.random.default_rng(1), 2000, 1024
    x = rng.integers(-64, 64, (1, length, TAGS)).astype("float32") / 32
    layer = ConditionalRandomField(boundaries=False, initializer="zeros")
    layer.build(x.shape)
    moves = rng.integers(-64, 64, (TAGS, TAGS)).astype("float32") / 32
    layer.set_weights([moves])
    potentials = layer(x + np.float32(level))
    best = numpy(ViterbiDecoder()(potentials))[0]
    sums = [x[0, 0].astype("float64")]
    for scores in x[0, 1:]:
        sums.append((sums[-1][:, None] + moves).max(axis=0) + scores)
    assert oracles.crf_score(best, x[0].astype("float64"), moves) == sums[-1].max()
    plain = layer(x)
    # One step rounds as float32 does near the level.
    np.testing.assert_allclose(
        numpy(ChainMarginals()(potentials)), numpy(ChainMarginals()(plain)), atol=4 * level * 2**-24
    )
    tags, loss = x.argmax(-1), ConditionalRandomFieldLoss()
    assert number(loss(tags, potentials)) == pytest.approx(number(loss(tags, plain)), rel=1e-4)


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="the program of JAX can be read")
def test_the_program_does_not_grow_with_the_text():
    import jax

    def program(length):
        potentials = ops.zeros((2, length, TAGS, TAGS))
        loss = ConditionalRandomFieldLoss()

        def of(potentials):
            return loss(np.zeros((2, length), "int32"), potentials)

        return str(jax.make_jaxpr(jax.grad(of))(potentials)).count(" = ")

    assert program(8) == program(512)


@pytest.mark.once
def test_adam_moves_the_transitions_as_many_times_faster():
    moved = []
    for times in (1.0, 100.0):
        layer = ConditionalRandomField(lr_multiplier=times, initializer="zeros")
        model = tagger(layer)
        model.compile(keras.optimizers.Adam(1e-3), ConditionalRandomFieldLoss())
        model.train_on_batch(TOKENS, Y)
        moved.append(np.abs(numpy(layer.transitions)).max())
    np.testing.assert_allclose(moved, [1e-3, 1e-1], rtol=1e-2)


def test_what_is_closed_or_no_number_is_not_taken_for_padding():
    x = X.copy()
    x[0, 1, 2], x[1, 2] = -np.inf, np.nan
    losses = numpy(ConditionalRandomFieldLoss(reduction=None)(Y * 0, crf()(x)))
    np.testing.assert_array_equal(np.isnan(losses), [False, True, False, False])
    assert np.isfinite(losses[0])


def test_errors():
    potentials, loss = crf()(X), ConditionalRandomFieldLoss()
    with pytest.raises(ValueError, match=r"Tag 3 does not exist: they run from 0 to 2\. Negative"):
        loss(Y * 0 + 3, potentials)
    message = (
        r"Each of the 4 tokens of a text needs one tag.*Received tags of shape \(4, 5\) for "
        r"potentials \(4, 4, 3, 3\)"
    )
    with pytest.raises(ValueError, match=message):
        loss(np.zeros((4, 5)), potentials)
    with pytest.raises(ValueError, match="one-hot tags need an argmax"):
        loss(np.zeros((4, 4, 3)), potentials)
    with pytest.raises(ValueError, match=r"Expected potentials \(B, T, N, N\)"):
        loss(Y, X)
    with pytest.raises(ValueError, match=r"Expected potentials .*Received: \(4, 4, 3\)"):
        ViterbiDecoder()(X)
    with pytest.raises(ValueError, match=r"takes the scores \(B, T, N\) of N tags, at least 2"):
        ConditionalRandomField()(X[..., :1])
    with pytest.raises(ValueError, match="`lr_multiplier` must be a positive number. Received: 0"):
        ConditionalRandomField(lr_multiplier=0)
    with pytest.raises(ValueError, match="`rank` must be a positive integer. Received: 0"):
        MaximumEntropyMarkovModel(rank=0)


def test_a_tag_that_does_not_exist_does_not_go_unnoticed_in_fit():
    model = tagger(keras_posenc.ConditionalRandomField())
    model.compile("sgd", ConditionalRandomFieldLoss())
    try:
        loss = model.train_on_batch(TOKENS, Y * 0 + 3)
    except Exception as error:
        assert "does not exist" in str(error)
    else:
        assert np.isnan(loss)  # XLA on TensorFlow drops the check
