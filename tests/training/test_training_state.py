import io
import itertools
import json
import time
import types
import zipfile

import keras
import numpy as np
import pytest
from file_processes import start_process

from keras_posenc.files import saved_records as e
from keras_posenc.files.writing import replacing
from keras_posenc.training import runs, training_state


def compiled(units=3):
    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dropout(0.5, seed=1), keras.layers.Dense(units)]
    )
    model.compile(keras.optimizers.AdamW(1e-2), "mse")
    model.optimizer.build(model.trainable_variables)
    return model


def train(model, epochs):
    rng = np.random.default_rng(0)
    model.fit(
        rng.normal(size=(8, 4)), rng.normal(size=(8, 3)), epochs=epochs, shuffle=False, verbose=0
    )
    return model


def values(model):
    variables = [*model.variables, *model.optimizer.variables]
    return [keras.ops.convert_to_numpy(variable) for variable in variables]


def test_a_state_continues_as_if_never_stopped(tmp_path):
    straight = train(compiled(), 1)
    training_state.save_state(tmp_path / "state.zip", straight, {"epoch": 1})
    resumed = train(compiled(), 0)
    assert training_state.load_state(tmp_path / "state.zip", resumed) == {"epoch": 1}
    weights_alone = train(compiled(), 0)
    weights_alone.set_weights(straight.get_weights())
    expected = values(train(straight, 2))
    for one, other in zip(expected, values(train(resumed, 2)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    # Without the moments of the optimizer the training would be another.
    kernel = values(train(weights_alone, 2))[0]
    assert np.abs(kernel - expected[0]).max() > 1e-4


def test_the_seed_counters_and_the_optimizer_are_in_the_state(tmp_path):
    model = train(compiled(), 1)
    training_state.save_state(tmp_path / "state.zip", model, {})
    other = compiled()
    assert any((a != b).any() for a, b in zip(values(model), values(other), strict=True))
    training_state.load_state(tmp_path / "state.zip", other)
    assert int(other.optimizer.iterations) == 1
    assert all((a == b).all() for a, b in zip(values(model), values(other), strict=True))


def test_a_state_of_another_model_assigns_nothing(tmp_path):
    training_state.save_state(tmp_path / "state.zip", compiled(units=2), {})
    model = compiled()
    before = values(model)
    with pytest.raises(ValueError, match="of another model or optimizer: this one has"):
        training_state.load_state(tmp_path / "state.zip", model)
    assert all((a == b).all() for a, b in zip(before, values(model), strict=True))


OTHERS = {
    "float64": lambda array: array.astype("float64"),
    "another byte order": lambda array: array.astype(array.dtype.newbyteorder(">")),
    "complex": lambda array: array.astype("complex64"),
    "text": lambda array: array.astype("U8"),
    "booleans": lambda array: array.astype(bool),
    "records": lambda array: np.zeros(array.shape, [("x", array.dtype)]),
    "one more axis": lambda array: array[None],
    "flat": lambda array: array.reshape(-1) if array.ndim > 1 else array.reshape(-1, 1),
}


@pytest.mark.once
@pytest.mark.parametrize("other", OTHERS)
def test_a_state_of_other_types_or_shapes_assigns_nothing(tmp_path, other):
    """Each variable in turn is another; those before it are not assigned either."""
    training_state.save_state(tmp_path / "state.zip", train(compiled(), 1), {})
    with zipfile.ZipFile(tmp_path / "state.zip") as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    model = compiled()
    before = values(model)
    for index in range(len(before)):
        content = io.BytesIO()
        np.save(content, OTHERS[other](np.load(io.BytesIO(entries[f"{index}.npy"]))))
        path = tmp_path / f"{index}.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in (entries | {f"{index}.npy": content.getvalue()}).items():
                archive.writestr(name, data)
        with pytest.raises(ValueError, match=rf"{index}\.zip (holds|is not a state)"):
            training_state.load_state(path, model)
        assert all((a == b).all() for a, b in zip(before, values(model), strict=True))


@pytest.mark.once
@pytest.mark.parametrize("record", [{}, {"step": "1"}, {"step": None}, {"step": [1]}])
def test_a_record_without_what_a_run_needs(tmp_path, record):
    training_state.save_state(tmp_path / "state.zip", train(compiled(), 1), record)
    model = compiled()
    before = values(model)
    with pytest.raises(ValueError, match=r"state\.zip is .* damaged .(it lacks step|step should)"):
        training_state.load_state(tmp_path / "state.zip", model, e.keys({"step": e.count}))
    assert all((a == b).all() for a, b in zip(before, values(model), strict=True))


@pytest.mark.once
def test_the_state_is_written_about_twice_a_minute(tmp_path, monkeypatch):
    """Not at each step after the first half minute: a state may take as long as a step."""
    model, path, on_disk = compiled(), tmp_path / "state.zip", []
    clock = itertools.count(step=4)  # three readings a step: 12 s
    monkeypatch.setattr(runs, "time", types.SimpleNamespace(perf_counter=lambda: next(clock)))

    def step(number):
        on_disk.append(training_state.load_state(path, model)["step"] if path.exists() else 0)
        return 0.5

    runs.take_steps(model, 10, path, step, dict, print)
    assert on_disk == [0, 0, 0, 3, 3, 3, 6, 6, 6, 9]
    assert training_state.load_state(path, model)["step"] == 10


@pytest.mark.once
@pytest.mark.parametrize("keep", [0, 1, 100, -1])
def test_a_truncated_state_is_named(tmp_path, keep):
    path = tmp_path / "state.zip"
    training_state.save_state(path, compiled(), {})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match="state.zip is not a state file .* or is damaged"):
        training_state.load_state(path, compiled())


@pytest.mark.once
@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"more": b""}, "holds something else"),
        ({"record.json": b"[]"}, "holds something else"),
        ({"record.json": b'{"arrays": 99}'}, "an impossible number of arrays"),
        ({"record.json": b'{"arrays": true}'}, "an impossible number of arrays"),
    ],
)
def test_a_state_with_other_entries(tmp_path, files, message):
    path = tmp_path / "state.zip"
    training_state.save_state(path, compiled(), {})
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()} | files
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    with pytest.raises(ValueError, match=f"state.zip is not a state file.*{message}"):
        training_state.load_state(path, compiled())


@pytest.mark.once
def test_a_damaged_variable_is_named(tmp_path):
    path = tmp_path / "state.zip"
    training_state.save_state(path, compiled(), {})
    with zipfile.ZipFile(path) as archive:
        value = archive.read("1.npy")[-20:]  # the end of the kernel
    content = path.read_bytes()
    assert content.count(value) == 1
    path.write_bytes(content.replace(value, bytes(20)))
    with pytest.raises(ValueError, match="or is damaged .the checksum of its entry 1.npy is wrong"):
        training_state.load_state(path, compiled())


@pytest.mark.once
def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path):
    (tmp_path / "old.json").write_text("old")
    with pytest.raises(RuntimeError), replacing(tmp_path / "old.json") as partial:
        partial.write_text("half")
        raise RuntimeError
    assert [path.name for path in tmp_path.iterdir()] == ["old.json"]
    assert (tmp_path / "old.json").read_text() == "old"


@pytest.mark.once
def test_a_reader_never_sees_half_a_file_though_the_writer_is_killed(tmp_path):
    code = """
        import json, itertools, sys
        from keras_posenc.files.writing import write_text
        for count in itertools.count():
            write_text(sys.argv[1], json.dumps([count] * 20000))
        """
    for _ in range(2):
        process = start_process(code, tmp_path / "file.json")
        deadline = time.time() + 60
        while not (tmp_path / "file.json").exists() and time.time() < deadline:
            time.sleep(0.05)
        time.sleep(0.05)
        process.kill()
        process.communicate()
        content = json.loads((tmp_path / "file.json").read_text())
        assert len(content) == 20000 and len(set(content)) == 1
