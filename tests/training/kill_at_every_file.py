"""Kills a fine-tuning at each of its file operations, by turns, in forks of one process.

python tests/training/kill_at_every_file.py 1     # at each; 7: at each seventh
"""

import os
import pathlib
import shutil
import signal
import sys
import tempfile
import traceback

import keras
import numpy as np

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
    config = "{" + ", ".join(f'"{k}": {v!r}'.replace("'", '"') for k, v in SIZES.items()) + "}"
    (place / "config.json").write_text(config)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (place / "vocab.txt").write_text("\n".join(words) + "\n")
    return place


def run(source, documents, output, **more):
    options = {"max_length": 6, "epochs": 2, "token_budget": 64, "verbose": 0}
    return finetune(source, documents, output, **options, **more)


def forked(work):
    """Does some work in a fork; returns its exit status, or minus the signal that ended it."""
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


def weights(folder):
    model = load_finetuned(folder).model
    return [keras.ops.convert_to_numpy(each) for each in model.weights]


def same(one, other):
    return len(one) == len(other) and all(map(np.allclose, one, other))


def main():
    step, place = int(sys.argv[1]), pathlib.Path(tempfile.mkdtemp())
    source = pretrained(place / "pretrained")
    for name, documents in (("old", OLD), ("new", NEW)):
        assert forked(lambda d=documents, n=name: run(source, d, place / n)) == 0
    found = {name: weights(place / name) for name in ("old", "new")}
    labels = {name: load_finetuned(place / name).labels for name in found}
    for at in range(0, 1000, step):
        output = place / f"run-{at}"
        shutil.copytree(place / "old", output)

        def killed(output=output, at=at):
            killing(output, at)
            run(source, NEW, output, overwrite=True)

        status = forked(killed)
        assert status in (0, -signal.SIGKILL), (at, status)
        kept = [name for name in found if same(weights(output), found[name])]
        assert kept and load_finetuned(output).labels == labels[kept[0]], at
        assert predict(output, ["w4 w5"], verbose=0)[0].label in labels[kept[0]], at
        # The same call begins anew, for it is to overwrite; without that it goes on, or refuses.
        recipe = (output / "recipe.json").exists()
        again = forked(lambda o=output, r=recipe: run(source, NEW, o, overwrite=not r))
        if again:  # the old recipe is still there
            assert again == 2, at
            assert forked(lambda o=output: run(source, NEW, o, overwrite=True)) == 0, at
        assert same(weights(output), found["new"]) and not list(output.glob(".[prs]*")), at
        assert not (output / "state.zip").exists(), at
        shutil.rmtree(output)
        if status == 0:
            print(f"killed at every {step} of fewer than {at + 1} operations, every one resumed")
            shutil.rmtree(place)
            return
    raise AssertionError("no run came to its end")


if __name__ == "__main__":
    main()
