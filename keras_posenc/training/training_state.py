"""The state of a training in one file, which is replaced atomically.

The file is a zip of `record.json` and one `.npy` per variable, in the order of the model's and then
the optimizer's variables. Dropout's seed counters are variables of the model, so they are included.
"""

import contextlib
import io
import json
import math
import os
import shutil
import zipfile

import numpy as np
from keras import ops

from keras_posenc.checkpoints.archive import read_archive
from keras_posenc.checkpoints.checkpoint import mapped
from keras_posenc.files import saved_records as e
from keras_posenc.files.untrusted import MOST_JSON, check_inside, parse_json, shorten
from keras_posenc.files.writing import replacing

EXTRA = "arrays"  # key of the record: how many arrays follow those of the variables


def save_state(path, model, record, arrays=()):
    """Writes all variables of a compiled `model` and of its optimizer, `record`, which JSON can
    hold, and arrays, which `load_arrays` reads."""
    record = {**record, **({EXTRA: len(arrays)} if len(arrays) else {})}
    with replacing(path) as partial, zipfile.ZipFile(partial, "w") as archive:
        archive.writestr("record.json", json.dumps(record))
        for index, variable in enumerate((*_variables(model), *arrays)):
            with archive.open(f"{index}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, _written(variable))


def _written(variable):
    """A variable in a type that NumPy can write: bfloat16, which it lacks, as float32."""
    array = ops.convert_to_numpy(variable)
    return array if array.dtype.isbuiltin == 1 else array.astype("float32")


def check_space(folder, model):
    """Raises OSError unless a folder has room for what a training writes: two states, the one that
    replaces the other, and the model."""
    sizes = [math.prod(variable.shape) for variable in (*model.variables, *_variables(model))]
    needed, free = 2 * 4 * sum(sizes), shutil.disk_usage(folder).free
    if free < needed:
        raise OSError(
            f"{folder} has {free / 1e6:,.1f} MB left, and the states of this training take "
            f"{needed / 1e6:,.1f} MB: make room, or give another output."
        )


def _read(path):
    """The record, a function that gives the array of an index, and how many there are."""
    check_inside(path, os.path.dirname(path))
    buffer = mapped(path) if os.path.getsize(path) else np.zeros(0, "uint8")
    with _damage(path):
        archive = read_archive(buffer)
        record = parse_json(archive["record.json"].read(buffer, MOST_JSON), nan=True)
        arrays = [name for name in archive if name.endswith(".npy")]
        if not isinstance(record, dict) or len(archive) != 1 + len(arrays):
            raise ValueError("it holds something else")

    def array(index):
        data = archive[f"{index}.npy"].read(buffer, buffer.size)
        return np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)

    return record, array, len(archive) - 1


@contextlib.contextmanager
def _damage(path):
    """Names the file, whatever is the matter with it."""
    try:
        yield
    except Exception as error:  # of NumPy's header, which is Python: of any kind
        raise ValueError(
            f"{path} is not a state file of a training, or is damaged ({shorten(error)}). "
            "Delete it to train from the beginning."
        ) from None


def load_state(path, model, expected=e.anything):
    """Restores every variable of `save_state`; returns the record, which must be as `expected`."""
    (record, array, count), variables = _read(path), _variables(model)
    with _damage(path):
        expected(record, "")
        arrays = [array(index) for index in range(count - _extra(record, count))]
    # Both are compared before anything is assigned: a backend may refuse another type halfway.
    saved = [(array.shape, array.dtype) for array in arrays]
    wanted = [(array.shape, array.dtype) for array in map(_written, variables)]
    if saved != wanted:
        raise ValueError(
            f"{path} holds {len(saved)} variables of another model or optimizer: this one has "
            f"{len(wanted)}, or other shapes or types. Delete the file to train from the beginning."
        )
    for variable, array in zip(variables, arrays, strict=True):
        variable.assign(array)
    return record


def load_arrays(path):
    """Returns the further arrays of `save_state`."""
    record, array, count = _read(path)
    with _damage(path):
        return [array(index) for index in range(count - _extra(record, count), count)]


def _extra(record, count):
    """How many of the arrays are none of variables."""
    extra = record.get(EXTRA, 0)
    if type(extra) is not int or not 0 <= extra <= count:
        raise ValueError(f"its record has an impossible number of {EXTRA}")
    return extra


def _variables(model):
    return [*model.variables, *model.optimizer.variables]
