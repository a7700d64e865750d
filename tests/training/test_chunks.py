"""Long documents read in chunks, whose probabilities are pooled."""

import numpy as np
import pytest

from keras_posenc.metrics.scores import softmax
from keras_posenc.training import evaluate, load_finetuned, predict

RNG = np.random.default_rng(0)
TEXTS = [" ".join(f"w{n}" for n in RNG.integers(0, 33, length)) for length in (37, 5, 14, 64, 15)]


@pytest.mark.once
@pytest.mark.parametrize("pool", ["mean", "max"])
def test_the_chunks_of_a_document_are_pooled(finetuned, pool):
    model = load_finetuned(finetuned, chunks=16, pool=pool)
    logits, lengths = model.judged(TEXTS, verbose=0)
    assert lengths.tolist() == [39, 7, 16, 66, 17]
    plain = load_finetuned(finetuned, max_length=16)
    for text, found in zip(TEXTS, softmax(logits), strict=True):
        words = text.split()
        parts = [" ".join(words[i : i + 14]) for i in range(0, len(words), 14)]
        each = softmax(plain.judged(parts, verbose=0)[0])
        tokens = [len(part.split()) + 2 for part in parts]
        mean = sum(n * row for n, row in zip(tokens, each, strict=True)) / sum(tokens)
        expected = mean if pool == "mean" else each.max(0) / each.max(0).sum()
        np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.once
def test_evaluate_and_predict_read_in_chunks(finetuned, corpus):
    labels = ["a", "b", "c", "a", "b"]
    chunked = evaluate(finetuned, (TEXTS, labels), chunks=16, verbose=0)["test"]
    assert sum(group["documents"] for group in chunked["by_length"]) == 5
    predictions = predict(finetuned, TEXTS, chunks=16, pool="max", verbose=0)
    logits, _ = load_finetuned(finetuned, chunks=16, pool="max").judged(TEXTS, verbose=0)
    assert [p.label for p in predictions] == ["abc"[i] for i in logits.argmax(-1)]


@pytest.mark.once
def test_what_chunks_cannot_be(finetuned):
    with pytest.raises(ValueError, match="`chunks` must be an integer of at least 3. Received: 2"):
        predict(finetuned, TEXTS, chunks=2)
    with pytest.raises(
        ValueError, match="`pool` must be one of .'mean', 'max', 'logits'.. Received: 'sum'"
    ):
        predict(finetuned, TEXTS, chunks=16, pool="sum")
    with pytest.raises(ValueError, match="give one of them. Received: chunks=16, max_length=20"):
        predict(finetuned, TEXTS, chunks=16, max_length=20)


@pytest.mark.once
def test_chunks_are_saved(finetuned, tmp_path):
    model = load_finetuned(finetuned, chunks=16, pool="max")
    model.save(tmp_path / "saved")
    again = load_finetuned(tmp_path / "saved")
    assert (again.chunks, again.pool) == (16, "max")
    np.testing.assert_array_equal(*(m.predict(TEXTS, verbose=0) for m in (model, again)))
    other = load_finetuned(tmp_path / "saved", chunks=12)
    assert (other.chunks, other.pool) == (12, "mean")
    cut = load_finetuned(tmp_path / "saved", max_length=20)
    assert (cut.chunks, cut.max_length) == (None, 20)
