"""Kills a training at each of its file operations, by turns, in forks of one process.

KERAS_BACKEND=jax python tests/training/kill_at_every_file.py 1     # at each; 7: at each seventh
KERAS_BACKEND=jax python tests/training/kill_at_every_file.py 1 pretrain   # not a fine-tuning

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

os.environ.setdefault("OMP_NUM_THREADS", "1")  # a fork has no copy of the threads of its parent

import keras
import numpy as np
import tensorflow  # noqa: F401  Keras would import it in each fork anew

from keras_posenc.models.factory import build_transformer_model
from keras_posenc.training import finetune, load_finetuned, predict, pretrain

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


class FineTuning:
    def run(self, source, documents, output, **more):
        options = {"max_length": 6, "epochs": 2, "token_budget": 64, "verbose": 0}
        return finetune(source, documents, output, **options, **more)

    def end(self, folder):
        """The same, of a model that answers with one of its labels."""
        weights, labels = self.state(folder)
        assert predict(folder, ["w4 w5"], verbose=0)[0].label in labels
        return weights, labels

    def state(self, folder):
        """The weights, and what else belongs to them: the labels."""
        finetuned = load_finetuned(folder)
        return arrays(finetuned.model), finetuned.label_names


class Pretraining:
    def run(self, source, documents, output, **more):
        options = {"max_length": 6, "steps": 3, "token_budget": 32, "validation": ["w1 w2"]}
        return pretrain(source, documents[0], output, verbose=False, **options, **more)

    def end(self, folder):
        return arrays(build_transformer_model(folder, with_mlm=True)), None

    state = end


JOBS = {"finetune": FineTuning(), "pretrain": Pretraining()}


def arrays(model):
    return [keras.ops.convert_to_numpy(each) for each in model.weights]


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


def end_of(job, folder):
    """The end that a run came to: its weights, and what belongs to them."""
    file = folder.with_suffix(".end")
    assert forked(lambda: file.write_bytes(pickle.dumps(job.end(folder)))) == 0, folder
    return pickle.loads(file.read_bytes())


def same(one, other):
    return len(one) == len(other) and all(map(np.allclose, one, other))


def main(step, job="finetune"):
    step, job, place = int(step), JOBS[job], pathlib.Path(tempfile.mkdtemp())
    source, documents = place / "pretrained", {"old": OLD, "new": NEW}
    assert forked(lambda: pretrained(source)) == 0
    for name in documents:
        assert forked(lambda n=name: job.run(source, documents[n], place / n)) == 0
    ends = {name: end_of(job, place / name) for name in documents}
    assert not same(ends["old"][0], ends["new"][0])
    for at in range(0, 1000, step):
        output = place / f"run-{at}"
        shutil.copytree(place / "old", output)

        def killed(output=output, at=at):
            killing(output, at)
            job.run(source, NEW, output, overwrite=True)

        status = forked(killed)
        assert status in (0, -signal.SIGKILL), (at, status)
        weights, labels = end_of(job, output)
        kept = [name for name, end in ends.items() if same(weights, end[0])]
        assert kept and labels == ends[kept[0]][1], at
        # The same call begins anew, for it is to overwrite; without that it goes on, or refuses.
        recipe = (output / "recipe.json").exists()
        again = forked(lambda o=output, r=recipe: job.run(source, NEW, o, overwrite=not r))
        if again:  # the old recipe is still there
            assert again == 2, at
            assert forked(lambda o=output: job.run(source, NEW, o, overwrite=True)) == 0, at
        weights, _ = end_of(job, output)
        assert same(weights, ends["new"][0]) and not list(output.glob(".[prs]*")), at
        assert not (output / "state.zip").exists(), at
        shutil.rmtree(output)
        if status == 0:
            print(f"killed at every {step} of fewer than {at + 1} operations, every one resumed")
            shutil.rmtree(place)
            return
    raise AssertionError("no run came to its end")


if __name__ == "__main__":
    main(*sys.argv[1:])
