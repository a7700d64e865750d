"""Readings of texts, drawn anew each day, against their definitions in NumPy."""

import dataclasses
import os
import pathlib

import keras
import pytest
import readings_draws
from attention_draws import seed_of_the_day
from forks import run_fork

from keras_posenc.metrics.scores import unit_rows
from keras_posenc.models.model import model_on
from keras_posenc.models.pooling import LeadingDimensions
from keras_posenc.retrieval import Passages
from keras_posenc.retrieval.dense import embedder, late_chunking, titles
from keras_posenc.retrieval.opening import side_prompt
from keras_posenc.text import TextBatches

SEED = seed_of_the_day()


@pytest.mark.once
def test_readings_are_those_of_the_definition():
    """Another draw: `python tests/readings_draws.py --seed N`, or SEED=N in the environment."""
    number, failures, pairs = readings_draws.run(SEED, most=40)
    assert failures == [], f"seed {SEED}"
    assert len(pairs.missing()) < 0.5 * len(pairs.all), f"seed {SEED}"


@pytest.mark.skipif(keras.backend.backend() == "torch", reason="a process per device")
def test_readings_on_one_device_and_on_two():
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    program = pathlib.Path(__file__).parents[1] / "readings_draws.py"
    tests = {"PYTHONPATH": f"{program.parent}:{os.environ.get('PYTHONPATH', '')}"}
    most = 8 if keras.backend.backend() == "jax" else 4
    arguments = ["--most", most, "--seed", SEED, "--devices", 2]
    done = run_fork("file", program, arguments, env=os.environ | tests | {"XLA_FLAGS": flags})
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


STARTS, IN_PROMPT = late_chunking.window_starts, late_chunking._in_prompt
SPANS, TITLE = titles.chunk_spans, titles.title_at


def last_without_overlap(*given):
    *spans, (start, end) = SPANS(*given)
    return [*spans, (max([start, *(end for _, end in spans)]), end)]


def first_titles(reading, rows):
    return dataclasses.replace(reading, titles=reading.titles[: rows.stop - rows.start])


def cut_after_length(model, size):
    return model_on(model, LeadingDimensions(size)(model.output), model.name)


# What is planted: where, what takes its place, and options that meet it.
FAULTS = {
    "hops of windows": (
        *(late_chunking, "window_starts", lambda count, size, hop: STARTS(count, size, hop + 1)),
        ["late"],
    ),
    "a prompt in a chunk": (
        *(late_chunking, "_in_prompt", lambda *given: max(0, IN_PROMPT(*given) - 1)),
        ["late", "prompt"],
    ),
    "no overlap at the end": (titles, "chunk_spans", last_without_overlap, ["passages"]),
    "cut vectors are shorter": (embedder, "with_dimension", cut_after_length, ["dimension"]),
    "a sum of unequal lengths": (
        *(titles, "_sum", lambda one, other: unit_rows(one + other)),
        ["windows"],
    ),
    "title of the neighbour": (
        *(titles, "title_at", lambda headings, place: TITLE(headings, place + 1)),
        ["passages", "headings"],
    ),
    "titles of the first part": (Passages, "part", first_titles, ["titles", "parts"]),
    "order of batches": (TextBatches, "restore_order", lambda _, rows: rows, ["passages"]),
    "prompt of the other side": (
        *(
            embedder,
            "side_prompt",
            lambda folder, prompt, side: side_prompt(folder, prompt, "query"),
        ),
        ["late"],
    ),
}


@pytest.mark.once
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(name, monkeypatch):
    *place, options = FAULTS[name]
    monkeypatch.setattr(*place)
    with pytest.raises(AssertionError, match="off by|places"):
        for number in range(30):
            readings_draws.check_one(1, number, options)
