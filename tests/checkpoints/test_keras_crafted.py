""".keras files made to do harm: refused before Keras makes anything of them."""

import io
import json
import re
import zipfile

import h5py
import keras
import numpy as np
import pytest
from crafted import SIX

from keras_posenc.checkpoints import keras_file, open_checkpoint
from keras_posenc.training import load_finetuned

pytestmark = pytest.mark.once


def layer(module, name, **config):
    return {"module": module, "class_name": name, "config": config, "registered_name": None}


def function(module, name):
    kind = {"class_name": "function", "registered_name": "function"}
    return {"module": module, "config": name, **kind}


def rewritten(path, source, change=None, weights=None, compression=zipfile.ZIP_STORED, **more):
    """Writes a copy of a .keras file with another config, other weights or more entries."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w", compression) as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "config.json" and change is not None:
                data = json.dumps(change(json.loads(data)))
            if name == "model.weights.h5" and weights is not None:
                data = weights
            new.writestr(name, more.pop(name, data))
        for name, data in more.items():
            new.writestr(name, data)
    return path


def first_layer(made):
    """Puts an object in place of the first layer that Keras itself has."""

    def change(config):
        config["config"]["layers"][0] = made
        return config

    return change


def nested(made):
    """Puts an object into the config of a layer."""

    def change(config):
        config["config"]["layers"][-1]["config"]["more"] = [{"deep": made}]
        return config

    return change


NAMED = {
    # Found in Keras 3.0 to 3.14: CVE-2025-1550, 9906, 8747, 12058, 49655, 2026-1462 and alike.
    "a module of Python": (layer("os", "system", command="x"), r"os\.system"),
    "a function of Python": (function("builtins", "exec"), r"builtins\.exec"),
    "a switch of Keras": (
        function("keras.config", "enable_unsafe_deserialization"),
        r"keras\.config\.enable_unsafe",
    ),
    "a download": (function("keras.utils", "get_file"), r"keras\.utils\.get_file"),
    "a Lambda": (layer("keras.layers", "Lambda", function="x"), r"keras\.layers\.Lambda"),
    "bytecode": ({"class_name": "__lambda__", "config": {"value": "x"}}, r"None\.__lambda__"),
    "a vocabulary of a file": (
        layer("keras.layers", "StringLookup", vocabulary="/etc/passwd"),
        r"keras\.layers\.StringLookup",
    ),
    "a module of torch": (
        layer("keras.layers", "TorchModuleWrapper", lazy="x"),
        r"keras\.layers\.TorchModuleWrapper",
    ),
    "a saved model": (layer("keras.layers", "TFSMLayer", filepath="x"), r"TFSMLayer"),
    "a private module": (layer("keras.src.saving.saving_lib", "load_model"), "saving_lib"),
    "another name": (
        layer("keras.layers", "Dense") | {"registered_name": "x>Dense"},
        r"keras\.layers\.Dense",
    ),
    "a class of another name": (
        layer("os", "system") | {"registered_name": "keras_posenc>EachToken"},
        r"os\.system",
    ),
    "a type of NumPy": ({"class_name": "__numpy__", "config": {"dtype": "O"}}, "__numpy__"),
    "a type of TensorFlow": ({"class_name": "__typespec__", "config": []}, "__typespec__"),
    "an operation that calls": (layer("keras.src.ops.core", "Map", function="x"), r"core\.Map"),
    "no module": ({"class_name": "Dense", "config": {}}, r"None\.Dense"),
    "a module of a megabyte": (layer("x" * 2**20, "x"), "xxx"),
}


@pytest.mark.parametrize("place", [first_layer, nested])
@pytest.mark.parametrize("case", NAMED)
def test_classes_of_a_file(tmp_path, pretrained, case, place):
    made, message = NAMED[case]
    path = rewritten(tmp_path / "x.keras", pretrained / "model.keras", place(made))
    with pytest.raises(ValueError, match=f"x.keras is refused: .* names .*{message}") as caught:
        open_checkpoint(path)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 700


def test_a_config_that_is_none(tmp_path, pretrained):
    path = tmp_path / "x.keras"
    for config in ([], {}, {"class_name": 3}, {"class_name": "function", "config": 3}):
        rewritten(path, pretrained / "model.keras", lambda _, made=config: made)
        with pytest.raises(ValueError, match=r"x\.keras is damaged \(its config\.json describes"):
            open_checkpoint(path)


def weights(**datasets):
    """An HDF5 file: datasets by name, or functions that put something there."""
    memory = io.BytesIO()
    with h5py.File(memory, "w") as file:
        for name, data in datasets.items():
            if callable(data):
                data(file, name)
            else:
                file[f"group/{name}"] = data
    return memory.getvalue()


def external(file, name):
    file.create_dataset(name, (4,), "f4", external=[("/etc/passwd", 0, 16)])


def virtual(file, name):
    layout = h5py.VirtualLayout((4,), "f4")
    layout[:] = h5py.VirtualSource("/etc/passwd", "x", (4,))
    file.create_virtual_dataset(name, layout)


def compressed(file, name):
    file.create_dataset(name, (2**20,), "f4", compression="gzip", fillvalue=0)


def unwritten(file, name):
    file.create_dataset(name, (2**40,), "f4", chunks=(2**10,))


def linked(link):
    def put(file, name):
        file[name] = link

    return put


def round_(file, name):
    group = file.create_group(name)
    group["again"] = group


WEIGHTS = {
    "in another file": (external, "lie in another file"),
    "pieced together of another file": (virtual, "lie in another file"),
    "a link to another file": (linked(h5py.ExternalLink("/etc/passwd", "x")), "have a link, 'x'"),
    "a link within": (linked(h5py.SoftLink("/group")), "have a link, 'x'"),
    "compressed": (compressed, "are compressed, or more than the file"),
    "a terabyte that is not there": (unwritten, "are compressed, or more than the file"),
    "texts": (np.array([b"x"], dtype=object), "are no numbers"),
    "a group in itself": (round_, "have 'again' twice"),
}


@pytest.mark.parametrize("case", WEIGHTS)
def test_weights_that_do_not_lie_in_the_file(tmp_path, pretrained, case):
    made, message = WEIGHTS[case]
    data = weights(x=made)
    path = rewritten(tmp_path / "x.keras", pretrained / "model.keras", weights=data)
    with pytest.raises(ValueError, match=rf"x\.keras is refused: its weights .*{message}"):
        open_checkpoint(path)


def test_weights_of_too_many_objects(tmp_path, pretrained, monkeypatch):
    path, data = tmp_path / "x.keras", weights(a=SIX, b=SIX)
    rewritten(path, pretrained / "model.keras", weights=data)
    for most, message in ((3, "cannot be loaded by Keras"), (2, "weights are more than 2 objects")):
        monkeypatch.setattr(keras_file, "MOST_OBJECTS", most)  # the group, and what is in it
        with pytest.raises(ValueError, match=message):
            open_checkpoint(path)


def test_an_archive_around_it(tmp_path, pretrained):
    source, path = pretrained / "model.keras", tmp_path / "x.keras"
    rewritten(path, source, **{"assets/vocabulary.txt": "x"})
    with pytest.raises(ValueError, match="has an entry 'assets/vocabulary.txt', beside a model"):
        open_checkpoint(path)
    rewritten(path, source, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(ValueError, match="is compressed or encrypted"):
        open_checkpoint(path)
    with pytest.raises(ValueError, match=r"x\.keras is damaged \(.*file signature not found"):
        open_checkpoint(rewritten(path, source, weights=b"x" * 99))
    damaged = dict(weights=weights(a=np.ones(2, "f4")))
    here = re.escape(keras.__version__)
    for metadata, version in ({}, here), ({"metadata.json": '{"keras_version": "9.1"}'}, "9.1"):
        with pytest.raises(ValueError, match=f"by Keras {version}, cannot .* by Keras {here}: "):
            open_checkpoint(rewritten(path, source, **damaged, **metadata))
    for name in ("config.json", "model.weights.h5"):
        with zipfile.ZipFile(path, "w") as file:
            file.writestr(name, "{}")
        with pytest.raises(ValueError, match=r"\(it lacks config\.json or model\.weights\.h5\)"):
            keras_file.load_keras(path)


def test_a_flipped_bit_of_the_weights(tmp_path, pretrained):
    """Anywhere in them: the checksum of the archive is wrong before HDF5 is looked at."""
    whole = (pretrained / "model.keras").read_bytes()
    with zipfile.ZipFile(pretrained / "model.keras") as archive:
        entry = archive.getinfo("model.weights.h5")
    for share in (0.1, 0.5, 0.9):
        data = bytearray(whole)
        data[entry.header_offset + int(share * entry.file_size)] ^= 1
        (tmp_path / "x.keras").write_bytes(data)
        with pytest.raises(ValueError, match="the checksum of its entry model.weights.h5 is wrong"):
            open_checkpoint(tmp_path / "x.keras")


def test_what_fine_tuning_saved_is_looked_through_too(tmp_path, finetuned):
    for name in ("labels.json", "tokenizer.json"):
        (tmp_path / name).write_bytes((finetuned / name).read_bytes())
    made = first_layer(layer("keras.layers", "Lambda", function="x"))
    rewritten(tmp_path / "model.keras", finetuned / "model.keras", made)
    with pytest.raises(ValueError, match=r"model\.keras is refused: .*keras\.layers\.Lambda"):
        load_finetuned(tmp_path)


def test_layers_of_keras_and_of_this_program_are_read(tmp_path):
    import keras

    @keras.saving.register_keras_serializable(package="crafted")
    class Doubled(keras.layers.Layer):
        def call(self, inputs):
            return 2 * inputs

    inputs = keras.Input((4,))
    dense = keras.layers.Dense(3, activation="gelu", kernel_regularizer="l2")
    hidden = keras.ops.tanh(Doubled()(dense(inputs))) + 1.0
    model = keras.Model(inputs, keras.ops.concatenate([hidden, hidden[:, 1:]], axis=-1))
    model.compile("adam", "mse")
    model.save(tmp_path / "x.keras")
    found = open_checkpoint(tmp_path / "x.keras")
    kernel = next(found[name] for name in found if name.endswith("kernel"))
    assert np.array_equal(kernel, keras.ops.convert_to_numpy(dense.kernel))
