import dataclasses

import numpy as np
import pytest
from selection import on_all

from benchmarks.extrapolation.run import Clock, Contender
from benchmarks.extrapolation.settings import Settings
from benchmarks.extrapolation.task_batches import TEST, train_batch

SMALL = Settings(steps=20, layers=1, size=8, heads=2, batch_size=4, train_lengths=(3,))


@pytest.mark.once
def test_a_contender_begins_anew_with_every_seed():
    contender = Contender("bucket_sort", SMALL, "transformer", "rotary", "sorted")

    def losses(seed):
        contender.begin(seed)
        return contender.steps(seed, 0, 3)

    first, other, again = losses(0), losses(1), losses(0)
    np.testing.assert_allclose(first, again, rtol=1e-5)
    assert abs(first[0] - other[0]) > 1e-4


@pytest.mark.once
@pytest.mark.parametrize("model", ["transformer", "lstm"])
def test_the_loss_is_the_mean_over_the_places_that_count(model):
    """Padding is masked in a transformer and not in an LSTM; neither may weigh in."""
    settings = dataclasses.replace(SMALL, dropout=0.0)
    contender = Contender("reverse_string", settings, model, "none", "consecutive")
    contender.begin(0)
    ids, targets, weights = train_batch(contender.task, contender.curriculum, 4, 0, 0, 10)
    assert (ids == contender.task.input_size).any()
    logits = contender.model.predict_on_batch(ids).astype("float64")
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    losses = -np.take_along_axis(log_p, targets[..., None], -1)[..., 0]
    assert contender.steps(0, 0, 1) == pytest.approx([losses[weights == 1].mean()], rel=1e-5)


@pytest.mark.parametrize("model", on_all(["transformer"], ["transformer", "stack_rnn"]))
def test_many_steps_are_as_many_single_ones(model):
    """In one program where the backend can, of which the steps beyond `count` are not taken."""
    settings = dataclasses.replace(SMALL, dropout=0.0)
    contender = Contender("bucket_sort", settings, model, "none", "consecutive")
    batches = [
        train_batch(contender.task, contender.curriculum, 4, 0, step, contender.wide)
        for step in range(3)
    ]
    contender.begin(0)
    losses = [float(np.ravel(contender.model.train_on_batch(*batch))[0]) for batch in batches]
    weights = [np.array(w) for w in contender.model.get_weights()]
    contender.begin(0)
    assert contender.steps(0, 0, 3) == pytest.approx(losses, rel=1e-5)
    for one, other in zip(weights, contender.model.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    assert int(contender.model.optimizer.iterations) == 3


@pytest.mark.once
def test_the_loss_of_the_trained_lengths():
    settings = dataclasses.replace(SMALL, train_lengths=(2, 5), dropout=0.5)
    contender = Contender("even_pairs", settings, "transformer", "rotary", "consecutive")
    for variable in contender.model.trainable_variables:
        if "answer" in variable.path:
            variable.assign(np.zeros(variable.shape))
    assert contender.validate() == pytest.approx(np.log(2), rel=1e-6)


@pytest.mark.once
def test_a_run_ends_at_a_plateau(tmp_path):
    settings = dataclasses.replace(SMALL, steps=300, learning_rate=1e-9, patience=100)
    contender = Contender("bucket_sort", settings, "transformer", "none", "consecutive")
    record = contender.train(0, tmp_path / "state.zip", lambda words: None)
    assert record["step"] == 200 and len(record["validation"]) == 2
    # Nor does one go on that was killed after it.
    again = contender.train(0, tmp_path / "state.zip", lambda words: None)
    assert again == record


@pytest.mark.once
def test_the_clock_tells_compiling_from_running():
    clock = Clock()
    clock.times = {("train", 1): [5.0, 1.0, 1.0, 2.0], ("test", 1): [9.0], ("test", 2): [1.0, 1.5]}
    assert clock.compiling() == 4.0
    assert clock.steady("train", 1) == 1.0
    with clock("train", 3):
        pass
    assert 0 <= clock.times["train", 3][0] < 1


@pytest.mark.once
@pytest.mark.parametrize("encodings", ["window:window=1", "sinusoidal"])
def test_losses_by_context_are_of_the_same_tokens(tmp_path, encodings):
    """One that sees a token alone loses the same at every length, and no other does."""
    (tmp_path / "text.txt").write_text("to be or not to be, that is the question. " * 20)
    settings = dataclasses.replace(
        SMALL, corpus=str(tmp_path / "text.txt"), test_lengths=(4, 11, 40), train_lengths=(6, 8)
    )
    contender = Contender("language_model", settings, "transformer", encodings, "consecutive")
    contender.begin(0)
    task = contender.splits["test"]
    losses = contender.losses_by_context(task, TEST)
    assert list(losses) == ["8", "11", "40"]
    tokens, targets, _ = task.sample(1000, 40, (TEST, 40, 0, 2))
    for length, loss in losses.items():
        logits = contender.model.predict_on_batch(tokens[:, -int(length) :])[:, -2:]
        log_p = logits - np.log(np.exp(logits.astype("float64")).sum(-1, keepdims=True))
        log_likelihood = np.take_along_axis(log_p, targets[:, -2:, None], -1)
        assert loss == pytest.approx(-log_likelihood.mean(), abs=2e-5)
    same = np.ptp(list(losses.values())) < 2e-5
    assert same == (encodings != "sinusoidal")
