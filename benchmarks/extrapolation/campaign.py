"""All runs of a benchmark in sequence, resumed where an earlier call was interrupted."""

import dataclasses
import itertools
import json
import pathlib
import time

from benchmarks.extrapolation.models import check_room
from benchmarks.extrapolation.perplexity_table import perplexity_table
from benchmarks.extrapolation.run import Contender
from benchmarks.extrapolation.scores import scores, trained_scores
from benchmarks.extrapolation.settings import (
    MODELS,
    ORDERED,
    Settings,
    encodings_of,
    file_name,
    positions_of,
    task_of,
    task_parts,
)
from benchmarks.extrapolation.table import to_table
from benchmarks.extrapolation.task_batches import TEST, TRIAL_TEST
from benchmarks.shared.kept import Study
from keras_posenc import encodings as position_encodings
from keras_posenc.arguments import checks
from keras_posenc.files.untrusted import read_json
from keras_posenc.files.writing import subfolder, write_text
from keras_posenc.folders.written import owned
from keras_posenc.tasks import TASKS
from keras_posenc.training.progress import printer

# Of the budget: what is left for reading, saving and noise.
RESERVE = 0.1
# Seeds from this one on are trials, by which settings are chosen.
FIRST_TRIAL = 1000


@dataclasses.dataclass(frozen=True)
class BenchmarkRun:
    """One run of a benchmark; its result depends on its fields and the settings alone."""

    task: str
    model: str
    encodings: str
    positions: str
    seed: int

    def __str__(self):
        return " ".join(map(str, dataclasses.astuple(self)))

    @property
    def file_name(self):
        return file_name("--".join(map(str, dataclasses.astuple(self))))


def runs_of(tasks, models, encodings, positions, seeds):
    """Lists all runs, those of one model in a row; recurrent models and CNNs have no encodings."""
    runs = []
    for task, model in itertools.product(tasks, models):
        task_parts(task)
        if model not in MODELS:
            raise ValueError(f"Unknown model {model!r}: there are {', '.join(sorted(MODELS))}.")
        pairs = itertools.product(encodings, positions)
        for pair in [("none", "consecutive")] if model in ORDERED else pairs:
            _check(task, *pair)
            runs += [BenchmarkRun(task, model, *pair, seed) for seed in seeds]
    return runs


def _check(task, encodings, positions):
    """Checks a run before any run begins, so that the last of many does not fail late."""
    kind = TASKS[task_parts(task)[0]]
    causal = kind.causal and not kind.bidirectional
    positions_of(positions, 512, 64)
    for spec in encodings_of(encodings, causal, 64)[1]:
        if position_encodings.get(spec).causal_only and not causal:
            raise ValueError(
                f"{spec['name']} is for causal attention, and {task} looks both ways: take a task "
                "such as flip_flop or language_model."
            )


def _check_room(runs, settings):
    """Checks before any run begins that every run has ids for its longest texts."""
    tasks = {name: task_of(name, settings.corpus) for name in {run.task for run in runs}}
    for name, encodings, positions in dict.fromkeys(
        (run.task, run.encodings, run.positions) for run in runs
    ):
        check_room(tasks[name], settings, encodings, positions)


def bench(
    tasks,
    models=("transformer",),
    encodings=("none",),
    positions=("consecutive",),
    seeds=(0, 1, 2),
    steps=None,
    budget=None,
    output="bench",
    verbose=True,
    **settings,
):
    """Trains models on short samples and tests them on long ones; a repeated call resumes.

    A run is one combination of task, model, encodings, positions and seed; all runs take the same
    number of steps. A finished run has a result in `output`/results.json and is not repeated. An
    interrupted one continues from its last state and ends with the same result, because weights,
    batches and dropout are functions of seed and step. Test batches are the same for all runs.

    Settings are chosen by trials. These are seeds from 1000 on with separate test samples, so no
    choice sees a seed or a sample of the table. Samples of each length are drawn until enough
    positions are scored. Up to four training lengths are tested, too.

    Args:
        tasks: list of str. Names in `keras_posenc.tasks.TASKS`, each optionally with arguments
            after a colon, such as even_pairs, counting:variables=3, language_model:unit=words.
        models: list of str. Any of "transformer", "gau", "rnn", "lstm", "stack_rnn", "tape_rnn",
            "cnn".
        encodings: list of str. Tried with each transformer and GAU: none, or names joined by +,
            with arguments after a colon, such as alibi, rotary+log_n, cope:npos_max=16; sinusoidal
            and learned are absolute.
        positions: list of str. Tried with each of the encodings: consecutive ids, or a method of
            `RandomPositionIds` for training (sorted, exponential, beta, pose, offset), with
            arguments after a colon.
        seeds: list of int. Seeds, one run per seed. Those from 1000 on are trials, by which
            settings are chosen, and have separate test samples.
        steps: int. Training steps of each run.
        budget: float. Minutes for all runs together, in place of `steps`. The time of a step and of
            a test is measured first. The resulting number of steps, the same for all runs, is
            stored in `output`/plan.json. It differs between machines and days.
        output: directory of results, tables and figures; created if missing.
        verbose: bool. Print the progress.
        **settings: fields of `Settings`.

    Returns:
        list of dict, one per run. They are also in `output`/results.json, and as a table in
            `output`/table.md. For causal language models there is also a table of perplexities.

    Raises:
        ValueError: if a name is unknown, the budget is too small, or texts are too long for their
            ids. If trials and other seeds are mixed, or both or none of `steps` and `budget` are
            given. If `output` has results under other settings.
        NotADirectoryError: if `output` is a file.
        BlockingIOError: if another run uses `output`.

    Example:

    >>> small = dict(layers=1, size=8, heads=2, batch_size=4, train_lengths=[8, 9])
    >>> results = bench(["parity_check"], encodings=["none", "rotary"], seeds=[0], steps=2,
    ...     verbose=False, test_lengths=[41], test_samples=4, test_scored=4, **small)
    >>> [(result["encodings"], list(result["accuracy"]["test"])) for result in results]
    [('none', ['8', '9', '41']), ('rotary', ['8', '9', '41'])]
    """
    if (steps is None) == (budget is None):
        raise ValueError("Give either steps or budget: how long a run trains, or minutes for all.")
    if budget is not None:
        checks.number("budget", budget, above=0, why="it is in minutes")
    if len({seed >= FIRST_TRIAL for seed in seeds}) > 1:
        raise ValueError(
            f"seeds {min(seeds)} and {max(seeds)}: those from {FIRST_TRIAL} on are trials, by "
            "which settings are chosen. Give one kind, and each kind its own output."
        )
    runs = runs_of(tasks, models, encodings, positions, seeds)
    settings = {
        name: tuple(value) if isinstance(value, (list, range)) else value
        for name, value in settings.items()
    }
    _check_room(runs, Settings(steps=steps or 1, **settings))
    with owned(pathlib.Path(output)):
        return _run_all(runs, settings, steps, budget, pathlib.Path(output), printer(verbose))


def _run_all(runs, settings, steps, budget, output, print_line):
    steps = steps or _planned(output, runs, settings, budget, print_line)
    settings = Settings(steps=steps, **settings)
    contenders, states = {}, subfolder(output, "states")

    def measure(**fields):
        run = BenchmarkRun(**fields)
        prefix = f"[{runs.index(run) + 1}/{len(runs)}] {run}: "
        kind = dataclasses.replace(run, seed=0)
        if kind not in contenders:  # of which one at a time is in memory
            contenders.clear()
            contenders[kind] = _contender(run, settings)
        state = states / f"{run.file_name}.zip"
        return _measured(run, contenders[kind], state, lambda words: print_line(prefix + words))

    study = Study(output / "results.json")
    results = study.run(map(dataclasses.asdict, runs), measure, None, _recorded(settings))
    for run in runs:
        (states / f"{run.file_name}.zip").unlink(missing_ok=True)
    tables = filter(None, (to_table(results), perplexity_table(results)))
    write_text(output / "table.md", "\n\n".join(tables) + "\n")
    return results


def _contender(run, settings):
    return Contender(run.task, settings, run.model, run.encodings, run.positions)


def _measured(run, contender, state, print_line):
    record = contender.train(run.seed, state, print_line)
    started = time.perf_counter()
    compiled = contender.clock.compiling()
    measured = contender.test(TRIAL_TEST if run.seed >= FIRST_TRIAL else TEST)
    seconds = {
        "training": record["seconds"],
        "testing": time.perf_counter() - started,
        "compiling": record["compiling"] + max(contender.clock.compiling() - compiled, 0.0),
    }
    result = {
        **measured,
        "chance": contender.task.chance,
        "losses": record["losses"],
        "validation": record["validation"],
        "steps": record["step"],
        "train_lengths": [min(contender.train_lengths), max(contender.train_lengths)],
        "parameters": contender.model.count_params(),
        "seconds": {name: round(value, 2) for name, value in seconds.items()},
    }
    print_line(f"accuracy {_accuracies(result)}")
    return result


def _accuracies(result):
    """Of each split the mean accuracy at the trained lengths, and at the longer ones."""
    means = []
    for split in result["accuracy"]:
        (trained,), (longer,) = trained_scores([result], split), scores([result], split)
        means.append(f"{split} {trained:.1%}, longer {longer:.1%}")
    return "; ".join(means)


def _recorded(settings):
    """The settings as a result file holds them: of the corpus the name alone, not where it lies."""
    fields = json.loads(json.dumps(dataclasses.asdict(settings)))
    return {**fields, "corpus": settings.corpus and pathlib.Path(settings.corpus).name}


def _planned(output, runs, settings, budget, print_line):
    """How many steps fit into the budget, once for all."""
    path = output / "plan.json"
    if path.exists():
        plan = read_json(path, ("budget", "steps"))
        if plan["budget"] != budget:
            raise ValueError(
                f"{path} was made for a budget of {plan['budget']} minutes, not {budget}: give "
                f"another output, or --steps {plan['steps']}."
            )
        return plan["steps"]
    started, step, fixed = time.perf_counter(), 0.0, 0.0
    for what in dict.fromkeys(dataclasses.replace(run, seed=0) for run in runs):
        print_line(f"measuring {what.task} {what.model} {what.encodings} {what.positions}")
        costs = _contender(what, Settings(steps=10**6, **settings)).cost()
        count = sum(dataclasses.replace(run, seed=0) == what for run in runs)
        step += count * costs[0]
        fixed += count * costs[1] + costs[2]
    left = (1 - RESERVE) * 60 * budget - (time.perf_counter() - started) - fixed
    steps = int(left / step)
    if steps < 1:
        needed = (60 * budget - left) / (1 - RESERVE) / 60
        raise ValueError(
            f"budget={budget}: compiling and testing {len(runs)} runs alone take {needed:.1f} "
            "minutes. Give more, or fewer runs, test_lengths or test_samples."
        )
    plan = {"budget": budget, "steps": steps, "seconds_a_step": step / len(runs)}
    write_text(path, json.dumps(plan, indent=1))
    print_line(f"{steps:,} steps for each of {len(runs)} runs")
    return steps
