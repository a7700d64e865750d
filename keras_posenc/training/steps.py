"""A run of training steps that a kill interrupts and the same call goes on with."""

import json
import time

from keras_posenc.checkpoints.folder import owned, replacing_together
from keras_posenc.training.recipe import open_output
from keras_posenc.training.state import load_state, save_state
from keras_posenc.untrusted import read_json
from keras_posenc.writing import write_text

# Seconds between two states on disk: what a kill can cost.
SAVE_EVERY = 30
RECORD = {"step": int, "losses": list, "seconds": (int, float)}


def once(output, settings, overwrite, prepare, keys):
    """Does some work in a directory once: a call after its end reads what it found.

    Args:
        output: `pathlib.Path` of the directory.
        settings: dict that JSON can hold, which tells this work from others.
        overwrite: bool. Start anew, whatever run is already there; it is kept until what it takes
            to start has been found in order.
        prepare: function without arguments, of all that may be refused. Returns two functions: one
            of the path of the state, which does the work and returns a report that JSON can hold;
            and one that writes the other results into a directory.
        keys: tuple of str, what the report holds.

    Returns:
        dict, the report, which is the content of metrics.json.

    Raises:
        NotADirectoryError, BlockingIOError, ValueError: as `owned` and `open_output` do.
    """
    with owned(output):
        open_output(output, settings, overwrite)
        files = {name: output / name for name in ("metrics.json", "state.zip", "recipe.json")}
        if overwrite or not files["metrics.json"].exists():
            work, save = prepare()
            if overwrite:
                for path in files.values():
                    path.unlink(missing_ok=True)
            write_text(files["recipe.json"], json.dumps(settings, indent=1, ensure_ascii=False))
            report = work(files["state.zip"])
            with replacing_together(output) as folder:
                save(folder)
                write_text(folder / "metrics.json", json.dumps(report, indent=1))
        files["state.zip"].unlink(missing_ok=True)
        return read_json(files["metrics.json"], keys)


def take_steps(model, steps, state, step, start, tell):
    """Takes the training steps that a state does not hold yet.

    Args:
        model: a compiled `keras.Model`.
        steps: int.
        state: path of the state, written about twice a minute and at the end.
        step: function of the number of a step, which takes it and returns the loss.
        start: function that returns more of the record before the first step.
        tell: function of str, told where the run stands.

    Returns:
        dict, the record: `step`, `losses`, `seconds`, and what `start` returned.
    """
    if state.exists():
        record = load_state(state, model, RECORD)
    else:
        record = {"step": 0, "losses": [], "seconds": 0.0, **start()}
    saved = time.perf_counter()
    while record["step"] < steps:
        began = time.perf_counter()
        record["losses"].append(round(step(record["step"]), 6))
        record["step"] += 1
        record["seconds"] += time.perf_counter() - began
        tell(_progress(record, steps))
        if time.perf_counter() - saved >= SAVE_EVERY:
            save_state(state, model, record)
            saved = time.perf_counter()
    save_state(state, model, record)
    return record


def told(verbose):
    """The function that tells a run's progress: `print` at once, or nothing."""
    return (lambda words: print(words, flush=True)) if verbose else lambda words: None


def _progress(record, steps):
    step, seconds = record["step"], record["seconds"]
    left = (steps - step) * seconds / step
    return (
        f"step {step:,} of {steps:,}, loss {record['losses'][-1]:.4f}, "
        f"{_minutes(seconds)} so far, about {_minutes(left)} left"
    )


def _minutes(seconds):
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.1f} min"
