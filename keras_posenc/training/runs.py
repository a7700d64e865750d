"""A run in a directory, which the same call continues after an interruption.

The directory is locked while the run is at work in it. recipe.json identifies the run,
state.zip is how far it has come, and the results replace those of an earlier run together.
"""

import contextlib
import datetime
import json
import math
import os
import pathlib
import re
import time

import keras

from keras_posenc.files import saved_records as e
from keras_posenc.files.untrusted import check_inside, quote, read_json, shorten
from keras_posenc.files.writing import is_same, write_text
from keras_posenc.folders.finetuned import BASELINES
from keras_posenc.folders.folder import Folder
from keras_posenc.folders.written import owned, replacing_together
from keras_posenc.models.extension import Extension
from keras_posenc.processes.together import by_first, is_first, together
from keras_posenc.training.progress import Progress, printer
from keras_posenc.training.training_state import load_state, save_state

# Seconds between two states on disk: what a kill can cost.
SAVE_EVERY = 30
REMEDY = "Give those settings, another output, or overwrite=True (--overwrite) to replace that run."
HELD_OUT = "held_out"  # the setting with the fraction of `train` that is the validation
IN_MEMORY = "in memory"  # the source of texts that are from no file
DIGEST = re.compile("[0-9a-f]{16}")
# Settings that records of earlier versions, and of runs without a task, lack, and their defaults.
# Those whose default is None need no entry.
ADDED = {
    "task": "classify",
    "longer": "cut",
    "pack": False,
    "schedule": "cosine",
    "warmup": 0.1,
    "weight_decay": 0.0,  # of `stretch`; the others always had it
    "clip": 1.0,
    "use_ema": False,
    "supervised_attention": 0.0,
}
RECORD = e.keys({"step": e.count, "losses": e.every(e.loss), "seconds": e.number})


def run_once(output, record, overwrite, verbose, prepare, keys, results=(), data=None):
    """Runs in a directory once; a call after the end reads the metrics, a dict, of that run.

    `record`: a dict for JSON that identifies this run. With `overwrite`, the old run is kept until
    the new one has passed its checks. `prepare`: refuses what cannot be run, and returns a run. Its
    `run(state, verbose)` does the work that the state does not contain yet and returns the metrics,
    which must have `keys`. Its `save(folder)` writes the other `results`. `data`: the source of the
    texts, as the report gives it; no part of the record, because the same texts may be moved.
    """
    if not os.fspath(output):  # as of a variable of a shell that is not set
        raise ValueError("`output` must be the path of a directory. Received: ''")
    place = _Directory(pathlib.Path(output), record, overwrite)
    with contextlib.ExitStack() as lock:
        finished = by_first(lambda: place.begin(lock, results))
        if overwrite or not finished:
            run = together(prepare)
            by_first(place.announce)
            metrics = run.run(place.state, verbose if is_first() else 0)
            by_first(lambda: place.write(run, metrics, data or {}))
        elif is_first():
            place.report_finished(printer(verbose))
        return by_first(lambda: place.end(keys))


class _Directory:
    """The files of a run, which one process of several writes."""

    def __init__(self, path, record, overwrite):
        self.path, self.record, self.overwrite = path, record, overwrite
        self.metrics, self.state = path / "metrics.json", path / "state.zip"
        self.recipe = path / "recipe.json"

    def begin(self, lock, results):
        """Takes the directory; returns whether the run is finished."""
        self._check_others()
        lock.enter_context(owned(self.path))
        if not self.overwrite:
            check_same_run(self.path, self.record)
        return all((self.path / name).exists() for name in ("metrics.json", *results))

    def _check_others(self):
        """Refuses a directory with weights that no run here made, before anything is written."""
        source = self.record.get("checkpoint")
        weights = self.record.get("weights")  # else the path leads to none, which opening it tells
        if weights is not None and is_same(self.path, Folder.of(source).path):
            raise ValueError(
                f"{self.path} holds the checkpoint that the run starts from: give another output."
            )
        if self.overwrite or self.recipe.exists():
            return
        folder = Folder.of(self.path)
        for file in folder.weights if folder.is_directory else ():
            raise ValueError(
                f"{self.path} holds a {file.name} without the recipe.json of its run: give another "
                "output, or overwrite=True (--overwrite) to replace it."
            )

    def announce(self):
        """Writes which run this is."""
        text = json.dumps(self.record, indent=1, ensure_ascii=False)
        if self.overwrite:  # not before: a mistake in a call must not delete an existing run
            for path in (self.metrics, self.state, self.recipe, self.path / BASELINES):
                path.unlink(missing_ok=True)
        write_text(self.recipe, text)

    def write(self, run, metrics, data):
        """Writes the results, which replace those of an earlier run together."""
        with replacing_together(self.path) as folder:
            run.save(folder)
            now = datetime.datetime.now().astimezone().isoformat(" ", "seconds")
            versions = {"keras": keras.__version__, "backend": keras.backend.backend()}
            more = {"versions": versions, "data": data, "finished": now}
            text = json.dumps(metrics | more, indent=1, ensure_ascii=False)
            write_text(folder / "metrics.json", text)

    def report_finished(self, print_line):
        """Prints that nothing is done."""
        when = read_json(self.metrics).get("finished")  # which those of earlier versions lack
        when = f" at {shorten(when)}" if when else ""
        print_line(
            f"{self.path} holds this run, finished{when}: nothing is trained again. To train "
            "again, give overwrite=True (--overwrite)."
        )

    def end(self, keys):
        """Removes the state, and reads the metrics."""
        self.state.unlink(missing_ok=True)
        return read_json(self.metrics, keys)


def environment():
    """What decides the numbers of a run beside its settings."""
    return {"backend": keras.backend.backend(), "dtype_policy": keras.config.dtype_policy().name}


def whence(**sources):
    """Where the texts of a run are from: paths, shares and names of columns as they are."""
    named = {
        name: str(source) if isinstance(source, os.PathLike) else source
        for name, source in sources.items()
        if source is not None
    }
    return {n: source if _is_plain(source) else IN_MEMORY for n, source in named.items()}


def _is_plain(source):
    """Whether a source is a path, a share, or names of columns."""
    if isinstance(source, tuple):
        return all(isinstance(name, str) for name in source)
    return isinstance(source, (str, int, float))


def check_same_run(output, record, remedy=REMEDY):
    """Refuses a directory that holds another run; the error ends in `remedy`."""
    path = output / "recipe.json"
    if not path.exists():
        return
    check_inside(path, output)
    before, record = read_json(path), json.loads(json.dumps(record))
    added = ADDED | {name: record.get(name) for name in ("dtype_policy", "weights", HELD_OUT)}
    before = {key: value for key, value in added.items() if key in record} | before
    if "extension" in record and "extension" not in before:
        before = with_extension(before)
    before, record = _without_parts(before, record)
    other = [
        f"{shorten(place)} was {_shown(then)} and is now {_shown(now)}"
        for key in {**before, **record}
        for place, then, now in _differences(key, before.get(key), record.get(key))
    ]
    if other:
        raise ValueError(f"{output} holds a run with other settings: {'; '.join(other)}. {remedy}")


def _without_parts(before, record):
    """Two records without the digests that differ because another part of `train` is held out."""
    shares = before.get(HELD_OUT), record.get(HELD_OUT)
    same_seed = before.get("seed") == record.get("seed")
    records = ({key: each[key] for key in each if key != HELD_OUT} for each in (before, record))
    if shares == (None, None) or shares[0] == shares[1] and same_seed:
        return records
    return (
        {key: each[key] for key in each if key != "train"}
        | ({} if share is None else {"validation": share})
        for each, share in zip(records, shares, strict=True)
    )


def with_extension(record):
    """The record of a run by version 0.4 or earlier, with one `extension` in place of its parts."""
    record = dict(record)
    table = record.pop("start", None)  # its name until version 0.2
    table = record.pop("stretch", table)
    fields = {name: record.pop(name, None) for name in ("alpha", "kept_rows")}
    belongs = {"hierarchical": ("alpha", "kept_rows"), "tile": ("kept_rows",)}.get(table, ())
    fields = {name: fields[name] for name in belongs}
    return record | {"extension": table and Extension(table, **fields).get_config()}


def _shown(value):
    """A value of a record, as errors show it: texts and files are recorded as digests."""
    is_digest = isinstance(value, str) and DIGEST.fullmatch(value)
    return f"content with the digest {value}" if is_digest else quote(value)


def _differences(place, then, now):
    """Where two values that JSON can hold differ: (place, then, now), as far inside as possible."""
    if isinstance(then, dict) and isinstance(now, dict) and then.keys() == now.keys():
        parts = [(f"{place}.{key}", then[key], now[key]) for key in then]
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        parts = [(f"{place}[{n}]", *both) for n, both in enumerate(zip(then, now, strict=True))]
    else:
        return [] if then == now else [(place, then, now)]
    return [found for part in parts for found in _differences(*part)]


def check_loss(loss, place):
    """Raises ValueError if the loss after a step or an epoch shows that the training diverged."""
    if not math.isfinite(loss):
        raise ValueError(
            f"The loss after {place} is {loss}: the training has diverged, and is not saved. Lower "
            "learning_rate or train with a longer warm-up."
        )


def take_steps(model, steps, state, step, start, print_line):
    """Takes the training steps that a state, written about twice a minute, does not hold yet.

    `step` takes the step of the given number and returns the loss; `start` returns more of the
    record before the first step. Returns the record: `step`, `losses`, `seconds`, and what `start`
    returned.
    """
    if by_first(state.exists):
        record = together(lambda: load_state(state, model, RECORD))
        print_line(f"resuming after step {record['step']:,} of {steps:,}")
    else:
        record = {"step": 0, "losses": [], "seconds": 0.0, **start()}

    def save():
        save_state(state, model, record)

    saved, progress = time.perf_counter(), Progress(steps, record["step"], print_line)
    while record["step"] < steps:
        began = time.perf_counter()
        model.reset_metrics()  # Keras 3.12 gives the mean loss of all steps
        progress.begin()
        loss = step(record["step"])
        check_loss(loss, f"step {record['step'] + 1:,}")
        record["losses"].append(round(loss, 6))
        record["step"] += 1
        record["seconds"] += time.perf_counter() - began
        progress.step(record["losses"][-1])
        since = time.perf_counter() - saved
        if by_first(lambda since=since: since >= SAVE_EVERY):
            by_first(save)
            saved = time.perf_counter()
    by_first(save)
    # After the state: an interrupted run goes on with the weights, and not with their average.
    model.optimizer.finalize_variable_values(model.trainable_variables)
    return record
