import keras
import numpy as np
import pytest

from benchmarks.extrapolation.models import build_model
from benchmarks.extrapolation.settings import Settings
from benchmarks.extrapolation.task_batches import padded
from keras_posenc import tasks

SMALL = Settings(steps=1, layers=1, size=8, heads=2, max_position=64, train_lengths=(6,))


@pytest.mark.once
@pytest.mark.parametrize(
    ("name", "model", "encodings"),
    [
        ("reverse_string", "transformer", "learned+alibi+log_n"),
        ("flip_flop", "transformer", "cope+sinusoidal"),
        ("reverse_string", "gau", "rotary"),
        ("reverse_string", "rnn", "none"),
        ("reverse_string", "lstm", "none"),
        ("reverse_string", "stack_rnn", "none"),
        ("reverse_string", "cnn", "none"),
    ],
)
def test_padding_changes_no_answer(name, model, encodings):
    task = tasks.get(name)
    built = build_model(task, SMALL, model, encodings)
    tokens, _, _ = task.sample(3, 10, 0)
    plain, (wide, answers) = task.inputs(tokens), padded(task, tokens)
    assert wide.shape[1] > plain.shape[1]
    expected = built.predict_on_batch(plain)[:, answers]
    np.testing.assert_allclose(built.predict_on_batch(wide)[:, answers], expected, atol=1e-5)


@pytest.mark.once
def test_what_each_position_sees():
    """A language model sees no later token, the others do."""
    ids = np.array([[0, 4, 2, 3, 1, 4]])
    changed = np.array([[0, 4, 2, 3, 1, 3]])
    for name, sees in (("flip_flop", False), ("bucket_sort", True)):
        built = build_model(tasks.get(name), SMALL)
        one, other = built.predict_on_batch(ids), built.predict_on_batch(changed)
        assert (np.abs(one - other)[:, :-1].max() > 1e-4) == sees


@pytest.mark.once
def test_random_ids_reach_tables_and_attention():
    for encodings in ("learned", "rotary"):
        built = build_model(tasks.get("even_pairs"), SMALL, "transformer", encodings, "sorted")
        ids = np.array([[0, 1, 0, 0, 1, 2, 3, 3]])
        one, other = (built.predict_on_batch(ids) for _ in range(2))
        assert np.abs(one - other).max() > 1e-6


def test_a_tape_model_trains():
    """The one model whose state is used by index, on every backend."""
    built = build_model(tasks.get("reverse_string"), SMALL, "tape_rnn")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    built.compile(keras.optimizers.SGD(0.1), loss)
    ids = np.array([[0, 1, 2, 2], [1, 1, 2, 2]])
    first = float(built.train_on_batch(ids, ids % 2))
    for _ in range(5):
        last = float(built.train_on_batch(ids, ids % 2))
    assert last < first
