"""Kills a training at each of its file operations, by turns, in forks of one process.

python tests/training/kill_at_every_file.py 1              # at each; 7: at each seventh
python tests/training/kill_at_every_file.py 1 pretrain     # a pretraining, not a fine-tuning
"""

import os
import pathlib
import shutil
import signal
import sys
import tempfile
import traceback

os.environ.setdefault("OMP_NUM_THREADS", "1")  # a fork has no copy of the threads of its parent

import keras
import numpy as np

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
    config = "{" + ", ".join(f'"{k}": {v!r}'.replace("'", '"') for k, v in SIZES.items()) + "}"
    (place / "config.json").write_text(config)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (place / "vocab.txt").write_text("\n".join(words) + "\n")
    return place


class FineTuning:
    def run(self, source, documents, output, **more):
        options = {"max_length": 6, "epochs": 2, "token_budget": 64, "verbose": 0}
        return finetune(source, documents, output, **options, **more)

    def weights(self, folder):
        return arrays(load_finetuned(folder).model)

    def check(self, folder, documents):
        """What lies in a folder is one run's, which learned from these documents."""
        labels = sorted(set(documents[1]))
        assert load_finetuned(folder).labels == labels
        assert predict(folder, ["w4 w5"], verbose=0)[0].label in labels


class Pretraining:
    def run(self, source, documents, output, **more):
        options = {"length": 6, "steps": 3, "token_budget": 32, "validation": ["w1 w2"]}
        return pretrain(source, documents[0], output, verbose=False, **options, **more)

    def weights(self, folder):
        return arrays(build_transformer_model(folder, with_mlm=True))

    def check(self, folder, documents):
        """The weights were read as a whole, which is all that there is."""


JOBS = {"finetune": FineTuning(), "pretrain": Pretraining()}


def arrays(model):
    return [keras.ops.convert_to_numpy(each) for each in model.weights]


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


def same(one, other):
    return len(one) == len(other) and all(map(np.allclose, one, other))


def main(step, job="finetune"):
    step, job, place = int(step), JOBS[job], pathlib.Path(tempfile.mkdtemp())
    source, documents = pretrained(place / "pretrained"), {"old": OLD, "new": NEW}
    for name in documents:
        assert forked(lambda n=name: job.run(source, documents[n], place / n)) == 0
    found = {name: job.weights(place / name) for name in documents}
    assert not same(found["old"], found["new"])
    for at in range(0, 1000, step):
        output = place / f"run-{at}"
        shutil.copytree(place / "old", output)

        def killed(output=output, at=at):
            killing(output, at)
            job.run(source, NEW, output, overwrite=True)

        status = forked(killed)
        assert status in (0, -signal.SIGKILL), (at, status)
        kept = [name for name in found if same(job.weights(output), found[name])]
        assert kept, at
        job.check(output, documents[kept[0]])
        # The same call begins anew, for it is to overwrite; without that it goes on, or refuses.
        recipe = (output / "recipe.json").exists()
        again = forked(lambda o=output, r=recipe: job.run(source, NEW, o, overwrite=not r))
        if again:  # the old recipe is still there
            assert again == 2, at
            assert forked(lambda o=output: job.run(source, NEW, o, overwrite=True)) == 0, at
        assert same(job.weights(output), found["new"]) and not list(output.glob(".[prs]*")), at
        assert not (output / "state.zip").exists(), at
        shutil.rmtree(output)
        if status == 0:
            print(f"killed at every {step} of fewer than {at + 1} operations, every one resumed")
            shutil.rmtree(place)
            return
    raise AssertionError("no run came to its end")


if __name__ == "__main__":
    main(*sys.argv[1:])
