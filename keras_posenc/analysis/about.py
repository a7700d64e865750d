"""The facts about a run in its report: its model, its data, its command and its date."""

import dataclasses
import inspect
import json
import pathlib

from keras_posenc.analysis import plot
from keras_posenc.analysis.page import code, escaped, pairs, picture, section, table, write_page
from keras_posenc.analysis.run_files import read_recipe
from keras_posenc.models.extension import Extension
from keras_posenc.training import Optimizer, Source, contextualize, finetune, stretch
from keras_posenc.training.contextual.contextualize import ContextualRecipe
from keras_posenc.training.finetuning.frozen import chunk_size, is_frozen
from keras_posenc.training.finetuning.recipe import FinetuneRecipe
from keras_posenc.training.finetuning.tasks import task_of_record
from keras_posenc.training.runs import IN_MEMORY, with_extension
from keras_posenc.training.stretching.stretch_recipe import StretchRecipe

FUNCTIONS = {each.__name__: each for each in (contextualize, finetune, stretch)}
RECIPES = {"contextualize": ContextualRecipe, "finetune": FinetuneRecipe, "stretch": StretchRecipe}
REPORTS = {"contextualize": "write_contextual_report", "stretch": "write_stretch_report"}
ROLES = {"train": "training data", "texts": "texts", "validation": "validation", "test": "test"}


def write_run_page(name, directory, path, title, report, parts):
    """Writes the page of a run without labels: its results (`parts`, HTML), losses, call and
    settings; returns the path."""
    recipe = read_recipe(directory)
    parts = [
        *parts,
        section("Training", _training(report)),
        section("About this run", about(name, str(directory), recipe, report)),
        section("Settings", settings({title: recipe}, [report])),
    ]
    path = pathlib.Path(directory, "report.html") if path is None else pathlib.Path(path)
    write_page(path, title, parts, REPORTS[name])
    return path


def _training(report):
    if not report["losses"]:
        return ""
    steps = f"{len(report['losses']):,} steps in {report['seconds']:,.0f} s"
    words = "; ".join(filter(None, [steps, report.get("targets")]))
    losses = picture("Loss of every step.", plot.losses, report["losses"], size=(8.6, 2.8))
    return losses + f"<p class=note>{escaped(words)}.</p>"


def about(name, directory, recipe, metrics):
    """A table, in HTML, about a run of one of `FUNCTIONS`."""
    data = metrics.get("data", {})
    rows = [("model", recipe.get("checkpoint"))]
    rows += [(title, _described(data[role])) for role, title in ROLES.items() if role in data]
    rows.append(("date", metrics.get("finished")))
    rows.append(("versions", versions(metrics)))
    facts = pairs([(title, value) for title, value in rows if value is not None])
    if not {"train", "texts"} & data.keys():  # of an earlier version
        return facts
    return facts + code(_call(name, directory, recipe, data))


def settings(recipes, metrics):
    """A table, in HTML, of the settings of runs by name, with the versions that they were computed
    with.

    What no run has set is left out.
    """
    runs = recipes.values()
    # A digest of documents that are named elsewhere would mislead as their name.
    keys = dict.fromkeys(
        key for recipe in runs for key, value in recipe.items()
        if value is not None and key not in ROLES
    )  # fmt: skip
    rows = [(key, *(_setting(key, recipe.get(key)) for recipe in runs)) for key in keys]
    names = recipes if len(recipes) > 1 else ["value"]
    computed_by = "; ".join(dict.fromkeys(map(versions, metrics)))
    return table(["setting", *names], rows) + f"<p class=note>{escaped(computed_by)}</p>"


def _setting(key, value):
    """A setting as a call has it; one that was not set is a dash."""
    if value is None:
        return "–"
    if key == "extension":
        return str(Extension.of(value))
    return value if isinstance(value, str) else repr(value)


def versions(metrics):
    """The versions in metrics, as words."""
    return ", ".join(f"{name} {version}" for name, version in metrics["versions"].items())


def _described(source):
    return f"{source:.0%} of the training data" if isinstance(source, float) else source


def _call(name, directory, recipe, data):
    """The call of Python, with what differs from the defaults; texts in memory by their keyword."""
    function = FUNCTIONS[name]
    if "extension" not in recipe:
        recipe = with_extension(recipe)
    recipe = recipe | _values(name, recipe)
    given = {**recipe, **data, "output": directory}  # a recipe has digests in place of data
    if len(stages := given.get("lengths") or []) == 1:
        (given["max_length"], given["epochs"]), given["lengths"] = *stages, None
        if is_frozen(given.get("freeze")):  # which has no epochs, and cuts nothing off in chunks
            given["epochs"] = None
            given["max_length"] = None if chunk_size(given["freeze"]) else given["max_length"]
    parts = []
    for key, parameter in inspect.signature(function).parameters.items():
        value = given.get(key)
        if key == "extension" and value is not None:
            # A recipe has the numbers that a short form leaves out.
            extension = Extension.of(value)
            usual = Extension.of(parameter.default).get_config()
            value = parameter.default if extension.get_config() == usual else str(extension)
        if key == "optimizer" and isinstance(value, Optimizer):
            value = str(value)
        written = key if value == IN_MEMORY else _literal(value)
        if parameter.default is parameter.empty:
            parts.append(written)
        elif key in given and value != parameter.default:
            parts.append(f"{key}={written}")
    return f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + ")"


def _values(name, recipe):
    """The arguments whose parts are settings of their own in a record, and tokens to serve."""
    values = {"max_length": recipe.get("max_length", recipe.get("length"))}
    if not isinstance(recipe.get("optimizer"), dict):  # an object of Keras
        values["optimizer"] = Optimizer.of_record(recipe, RECIPES[name].usual(recipe))
    fields = [field.name for field in dataclasses.fields(Source)]
    source = Source(**{key: recipe.get(key) for key in fields})
    if source != Source(source.checkpoint):
        values["checkpoint"] = source
    if name == "finetune":
        values["task"] = task_of_record(recipe)
    return values


def _literal(value):
    """Strings in double quotes, and lists of pairs as JSON kept them."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (str, list)) else repr(value)
