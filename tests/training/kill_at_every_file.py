"""Kills a fine-tuning at each of its file operations, by turns, in forks of one process.

KERAS_BACKEND=jax python tests/training/kill_at_every_file.py 1     # at each; 7: at each seventh

The process that forks only imports: threads of a backend, which start with its first operation,
would not be there in a fork.
"""

import json
import os
import pathlib
import pickle
import shutil
import signal
import sys
import tempfile
import traceback
import warnings

import keras
import numpy as np
import tensorflow  # noqa: F401  Keras would import it in each fork anew

from keras_posenc.models.factory import build_transformer_model
from keras_posenc.training import finetune, load_finetuned, predict

WORDS = [f"w{number}" for number in range(6)]
SIZES = {"vocab_size": 11, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2}
SIZES |= {"intermediate_size": 4, "hidden_act": "relu", "max_position": 8}
OLD = (["w0 w1", "w2 w3", "w1"], ["a", "b", "a"])
NEW = (["w0 w1", "w2 w3", "w4", "w5 w4"], ["x", "y", "z", "y"])  # another number of labels
EVENTS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate")


def pretrained(place):
    place.mkdir()
    keras.utils.set_random_seed(0)
    build_transformer_model(dict(SIZES)).save(place / "model.keras")
    (place / "config.json").write_text(json.dumps(SIZES))
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (place / "vocab.txt").write_text("\n".join(words) + "\n")


def run(source, documents, output, **more):
    options = {"max_length": 6, "epochs": 2, "token_budget": 64, "verbose": 0}
    return finetune(source, documents, output, **options, **more)


def forked(work):
    """Does some work in a fork; returns its exit status, or minus the signal that ended it."""
    sys.stdout.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of JAX, which has no threads here yet
        pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        except ValueError as error:
            print(error)
            status = 2
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def killing(folder, at):
    """Has this process killed before its operation number `at` on files of a folder."""
    count = 0

    def hook(event, arguments):
        nonlocal count
        if event not in EVENTS or not isinstance(arguments[0], (str, os.PathLike)):
            return
        writes = event != "open" or (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if writes and str(arguments[0]).startswith(str(folder)):
            if count == at:
                os.kill(os.getpid(), signal.SIGKILL)
            count += 1

    sys.addaudithook(hook)


def found(folder, file):
    """Writes down the weights, the labels and an answer of a finished fine-tuning."""
    finetuned = load_finetuned(folder)
    weights = [keras.ops.convert_to_numpy(each) for each in finetuned.model.weights]
    answer = predict(folder, ["w4 w5"], verbose=0)[0].label
    file.write_bytes(pickle.dumps((weights, finetuned.labels, answer)))


def read(folder):
    file = folder.with_suffix(".found")
    assert forked(lambda: found(folder, file)) == 0, folder
    return pickle.loads(file.read_bytes())


def same(one, other):
    return len(one) == len(other) and all(map(np.allclose, one, other))


def main():
    step, place = int(sys.argv[1]), pathlib.Path(tempfile.mkdtemp())
    source = place / "pretrained"
    assert forked(lambda: pretrained(source)) == 0
    for name, documents in (("old", OLD), ("new", NEW)):
        assert forked(lambda d=documents, n=name: run(source, d, place / n)) == 0
    ends = {name: read(place / name) for name in ("old", "new")}
    for at in range(0, 1000, step):
        output = place / f"run-{at}"
        shutil.copytree(place / "old", output)

        def killed(output=output, at=at):
            killing(output, at)
            run(source, NEW, output, overwrite=True)

        status = forked(killed)
        assert status in (0, -signal.SIGKILL), (at, status)
        weights, labels, answer = read(output)
        kept = [name for name, end in ends.items() if same(weights, end[0])]
        assert kept and labels == ends[kept[0]][1] and answer in labels, at
        # The same call begins anew, for it is to overwrite; without that it goes on, or refuses.
        recipe = (output / "recipe.json").exists()
        again = forked(lambda o=output, r=recipe: run(source, NEW, o, overwrite=not r))
        if again:  # the old recipe is still there
            assert again == 2, at
            assert forked(lambda o=output: run(source, NEW, o, overwrite=True)) == 0, at
        assert same(read(output)[0], ends["new"][0]) and not list(output.glob(".[prs]*")), at
        assert not (output / "state.zip").exists(), at
        shutil.rmtree(output)
        if status == 0:
            print(f"killed at every {step} of fewer than {at + 1} operations, every one resumed")
            shutil.rmtree(place)
            return
    raise AssertionError("no run came to its end")


if __name__ == "__main__":
    main()
