"""Damages files of every kind that is read, and holds that each is read rightly or refused.

    python tests/fuzz.py --seconds 3600 --seed 1     # prints the number of each case that fails
    python tests/fuzz.py --seed 1 --only 12345       # one case again, with its traceback

A case follows from the seed and its number alone. Rightly: the numbers are those that the format's
own library reads, or, of TensorFlow's, whose checksums are checked, those of the sound file.
Refused: by one error, of a line of bounded length, that names the file. Both within a bound of
memory and one of time.
"""

import argparse
import io
import json
import pathlib
import pickle
import random
import resource
import signal
import struct
import sys
import tempfile
import time
import traceback
import zipfile

import fuzz_tokenizers
import numpy as np
from crafted import HEADER, SIX, archive, block, entry, pickled, sealed, table, tensor
from mutations import NUMBERS, damaged, damaged_json

MOST_SECONDS = 10  # of a case, of the processor's time
LONGEST_WAIT = 120  # seconds of a case that waits for something, on a busy machine
MOST_MEMORY = 2**30  # beyond what was there before
MOST_TEXT = 800  # characters of an error, without the folder
REFUSALS = (ValueError, FileNotFoundError)

# Readers: each has a function that writes a case into a folder, and one that reads and judges it.


def _arrays(path):
    from keras_posenc.checkpoints import open_checkpoint

    checkpoint = open_checkpoint(path)
    return {name: np.array(checkpoint[name]) for name in checkpoint}


def _same(ours, reference):
    """Also where both are NaN, and of types that NumPy alone lacks."""
    assert ours.keys() == reference.keys(), (list(ours)[:9], list(reference)[:9])
    for name, array in ours.items():
        assert array.shape == tuple(reference[name].shape), name
        assert array.tobytes() == reference[name].tobytes(), name


def write_safetensors(rng, folder):
    data = {"a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}
    data |= {"b": {"dtype": "I64", "shape": [2], "data_offsets": [16, 32]}}
    data |= {"__metadata__": {"k": "v"}}
    text = damaged_json(rng, data).encode() if rng.random() < 0.7 else json.dumps(data).encode()
    whole = struct.pack("<Q", len(text)) + text + np.arange(8, dtype="float32").tobytes()
    (folder / "x.safetensors").write_bytes(whole if rng.random() < 0.7 else damaged(rng, whole))


def read_safetensors(folder):
    import safetensors.numpy

    found = _arrays(folder / "x.safetensors")
    _same(found, safetensors.numpy.load_file(folder / "x.safetensors"))


def write_torch(rng, folder):
    parts = dict(
        count=rng.choice((2, *NUMBERS)), offset=rng.choice((0, 0, 0, *NUMBERS)), key="0",
        shape=tuple(rng.choice((1, 2, 2, *NUMBERS)) for _ in range(rng.choice((0, 1, 1, 2)))),
        strides=tuple(rng.choice((0, 1, 1, *NUMBERS)) for _ in range(rng.choice((0, 1, 1, 2)))),
    )  # fmt: skip
    made = tensor() if rng.random() < 0.5 else tensor(**parts)
    data = pickled(a=made, b=tensor(shape=(1,)))
    data = damaged(rng, data) if rng.random() < 0.6 else data
    if rng.random() < 0.3:
        start = [pickle.dumps(each, 2) for each in (0x1950A86A20F9469CFC6C, 1001, {})]
        data = data.replace(b"tQ", b"NtQ")
        numbers = struct.pack("<qff", 2, 1, 1)
        whole = b"".join([*start, data, pickle.dumps(["0"], 2)]) + numbers
    else:
        whole = archive(folder / "x.bin", data).read_bytes()
    (folder / "x.bin").write_bytes(whole if rng.random() < 0.6 else damaged(rng, whole))


def read_torch(folder):
    import torch

    found = _arrays(folder / "x.bin")
    reference = torch.load(folder / "x.bin", weights_only=True, map_location="cpu")
    for key in ("state_dict", "model_state_dict", "model"):
        reference = reference[key] if isinstance(reference.get(key), dict) else reference
    _same(found, {name: each.detach().contiguous().numpy() for name, each in reference.items()})


def write_tensorflow(rng, folder):
    items = [HEADER, (b"a", entry()), (b"b", entry(size=24))]
    if rng.random() < 0.6:  # what the file's own checksums vouch for
        which = rng.randrange(3)
        items[which] = items[which][0], damaged(rng, items[which][1])
    data = block(*items)
    if rng.random() < 0.3:
        data = sealed(damaged(rng, data[:-13]))
    index = table(data)
    numbers = SIX.tobytes()
    index = damaged(rng, index) if rng.random() < 0.3 else index
    (folder / "x.ckpt.index").write_bytes(index)
    numbers = damaged(rng, numbers) if rng.random() < 0.3 else numbers
    (folder / "x.ckpt.data-00000-of-00001").write_bytes(numbers)


def read_tensorflow(folder):
    for array in _arrays(folder / "x.ckpt").values():
        if array.dtype == "float32" and array.size == 6:
            assert array.tobytes() == SIX.tobytes()


def write_shards(rng, folder):
    places = {"weight_map": {"a": "a.safetensors", "b": "b.safetensors"}, "metadata": {"size": 8}}
    text = damaged_json(rng, places)
    (folder / "model.safetensors.index.json").write_text(text, "utf-8", "replace")
    for name in "ab":
        head = {name: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}
        text = json.dumps(head).encode()
        data = struct.pack("<Q", len(text)) + text + bytes(4)
        (folder / f"{name}.safetensors").write_bytes(data)


def read_shards(folder):
    for array in _arrays(folder / "model.safetensors.index.json").values():
        assert array.tolist() == [0]


def write_keras(rng, folder):
    old = zipfile.ZipFile(io.BytesIO(_model()))
    with zipfile.ZipFile(folder / "x.keras", "w") as new:
        which = rng.choice(old.namelist())
        for name in old.namelist():
            data = old.read(name)
            if name == which:
                config = name.endswith(".json") and rng.random() < 0.7
                data = damaged_json(rng, json.loads(data)) if config else damaged(rng, data)
            new.writestr(name, data)
    if rng.random() < 0.3:
        path = folder / "x.keras"
        path.write_bytes(damaged(rng, path.read_bytes()))


_MODEL = []


def _model():
    if not _MODEL:
        import keras

        from keras_posenc.models.factory import build_transformer_model

        config = dict(vocab_size=9, hidden_size=4, num_hidden_layers=1, num_attention_heads=2)
        model = build_transformer_model(config | {"intermediate_size": 8, "hidden_act": "gelu"})
        with tempfile.TemporaryDirectory() as folder:
            model.save(f"{folder}/x.keras")
            _MODEL.append(pathlib.Path(f"{folder}/x.keras").read_bytes())
        keras.backend.clear_session()
    return _MODEL[0]


def read_keras(folder):
    for array in _arrays(folder / "x.keras").values():
        assert array.dtype == "float32"


CONFIG = {
    "model_type": "bert",
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "hidden_act": "gelu",
    "max_position_embeddings": 12,
    "pad_token_id": 0,
    "position_embedding_type": "absolute",
}


def write_config(rng, folder):
    (folder / "config.json").write_text(damaged_json(rng, dict(CONFIG)), "utf-8", "replace")


def read_config(folder):
    from keras_posenc.models.config_file import read_config

    config = read_config(folder)
    assert config.vocab_size > 0 and config.key_size > 0


TABLE = 'text\tlabel\none "two"\tx\n"three\tfour"\ty\nfive\tz\n'


def write_texts(rng, folder):
    lines = [{"text": "one", "label": "x"}, {"text": "two", "label": 3}]
    if rng.random() < 0.4:
        lines = [damaged_json(rng, line) for line in lines]
        (folder / "x.jsonl").write_text("\n".join(lines), "utf-8", "replace")
        return
    kind = rng.choice(("tsv", "csv", "tab", "txt"))
    head = "text\tlabel\ns\td\nmeta\tclass\n" if kind == "tab" else ""
    data = (head + TABLE).replace("\t", "," if kind == "csv" else "\t")
    (folder / f"x.{kind}").write_bytes(damaged(rng, data.encode()))


def read_texts(folder):
    from keras_posenc.text import read_texts

    (path,) = folder.iterdir()
    found = read_texts(path)
    assert len(found.texts) == len(found.lines) > 0 and all(text.strip() for text in found.texts)


def write_run(rng, folder):
    metrics = dict.fromkeys(("labels", "train", "validation", "test", "versions"))
    (folder / "metrics.json").write_text(damaged_json(rng, metrics), "utf-8", "replace")
    (folder / "recipe.json").write_text(damaged_json(rng, {"seed": 0}), "utf-8", "replace")
    for name in ("history.csv", "steps.csv"):
        (folder / name).write_bytes(damaged(rng, b"epoch,loss\n1,0.5\n2,\n"))


def read_run(folder):
    from keras_posenc.analysis.report import read_run

    assert isinstance(read_run(folder).metrics, dict)


def write_state(rng, folder):
    with zipfile.ZipFile(folder / "state.zip", "w") as new:
        new.writestr("record.json", damaged_json(rng, {"epoch": 1, "history": [{"loss": 0.5}]}))
        memory = io.BytesIO()
        np.lib.format.write_array(memory, SIX)
        new.writestr("0.npy", damaged(rng, memory.getvalue()))
    if rng.random() < 0.5:
        path = folder / "state.zip"
        path.write_bytes(damaged(rng, path.read_bytes()))


class _Model:
    """A model of one variable of six numbers, and an optimizer without any."""

    def __init__(self):
        self.variables, self.optimizer, self.shape = [self], type("", (), {"variables": []}), (6,)

    def assign(self, array):
        self.array = array


def read_state(folder):
    from keras_posenc.training.training_state import load_state

    model = _Model()
    load_state(folder / "state.zip", model)
    assert model.array.shape == (6,)


READERS = {
    "safetensors": (write_safetensors, read_safetensors),
    "torch": (write_torch, read_torch),
    "tensorflow": (write_tensorflow, read_tensorflow),
    "shards": (write_shards, read_shards),
    "keras": (write_keras, read_keras),
    "config": (write_config, read_config),
    **fuzz_tokenizers.READERS,
    "texts": (write_texts, read_texts),
    "run": (write_run, read_run),
    "state": (write_state, read_state),
}


def judge(name, seed, number, folder):
    """What is wrong with how a case is read, or None; and whether it was refused."""
    write, read = READERS[name]
    rng = random.Random(f"{name} {seed} {number}")
    write(rng, folder)
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    signal.alarm(LONGEST_WAIT)
    try:
        read(folder)
    except REFUSALS as error:
        text = str(error)
        shown = text.replace(str(folder), "")
        if type(error) not in REFUSALS or text == shown or "\n" in shown or len(shown) > MOST_TEXT:
            return f"{type(error).__name__} of {len(shown)} characters: {shown[:MOST_TEXT]!r}", True
        return None, True
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{where.filename}:{where.lineno}"
        return f"{type(error).__name__}: {str(error)[:300]!r} at {place}", True
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
    return None, False


def _too_long(*_):
    raise TimeoutError(f"more than {MOST_SECONDS} s of work, or {LONGEST_WAIT} s of waiting")


def _bound_memory():
    """Beyond what the libraries took, which the first cases loaded."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MOST_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int)
    parser.add_argument("--readers", nargs="+", default=list(READERS), choices=list(READERS))
    arguments = parser.parse_args()
    for kind in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(kind, _too_long)
    read, refused, wrong, number = 0, 0, 0, arguments.only or 0
    with tempfile.TemporaryDirectory() as place:
        started = None
        while started is None or time.monotonic() - started < arguments.seconds:
            for name in arguments.readers:
                folder = pathlib.Path(place) / f"{number}"
                folder.mkdir()
                # Before the case, so that one that kills the process is known.
                pathlib.Path(place, "now").write_text(f"{name} {number}")
                print(f"\r{name} {number}", end="", file=sys.stderr, flush=True)
                problem, was_refused = judge(name, arguments.seed, number, folder)
                read, refused = read + (not was_refused), refused + was_refused
                if problem:
                    wrong += 1
                    what = f"--seed {arguments.seed} --only {number} --readers {name}"
                    print(f"\n{what}: {problem}", flush=True)
                for path in sorted(folder.rglob("*")):
                    path.unlink()
                folder.rmdir()
            if arguments.only is not None:
                break
            if started is None:
                _bound_memory()
                started = time.monotonic()
            number += 1
    print(f"\n{read} files read rightly, {refused} refused, {wrong} wrong")
    return 1 if wrong or not refused else 0


if __name__ == "__main__":
    sys.exit(main())
