"""Directories that `finetune` and `TextModel.save` write: a model, a tokenizer and settings."""

from keras_posenc.files import saved_records as e
from keras_posenc.files.untrusted import read_json
from keras_posenc.folders.download import from_hub

# Where a directory has the settings: of a model for a task, and of any other.
LABELS, SETTINGS = "labels.json", "text_model.json"
MODEL, BASELINES = "model.keras", "baselines.json"
FILES = (MODEL, LABELS)
SIDES = ("query", "document")
TASKS = ("classify", "multilabel", "regress", "tag", "qa", "embed")
POOLS = ("mean", "max", "logits")
# What was not written where it is the default, or by earlier versions.
DEFAULTS = {"stride": None, "prompt": "", "pad_id": None, "prompts": None, "words": None}
READ = ("labels", "max_length", "token_budget", "task", "chunks", "pool", *DEFAULTS)
OPTIONAL = {
    "prompt": e.string,
    "stride": e.maybe(e.count),
    "pad_id": e.maybe(e.count),
    "prompts": e.maybe(e.keys(dict.fromkeys(SIDES, e.string))),
    "chunks": e.maybe(e.positive),
    "pool": e.one_of(POOLS),
    "words": e.one_of([True]),
}
NEEDED = {"max_length": e.maybe(e.positive), "token_budget": e.positive}
NAMES = e.every(e.string)
EXPECTED = {
    LABELS: e.keys({"labels": NAMES, **NEEDED}, {**OPTIONAL, "task": e.one_of(TASKS)}),
    SETTINGS: e.keys({"labels": e.maybe(NAMES), **NEEDED}, {**OPTIONAL, "task": e.one_of([None])}),
}


def is_finetuned(folder):
    """Whether a directory holds a model that `finetune` saved."""
    return folder.is_directory and all(folder.has(folder.newest(name)) for name in FILES)


def saved_settings(folder, name=LABELS):
    """The settings of a saved model: arguments of `TextModel`, and `pad_id`."""
    content = read_json(folder.place(folder.newest(name)))
    saved = e.checked(folder.path / name, content, EXPECTED[name])
    # Before there were tasks, all was classification.
    task = "classify" if name == LABELS else None
    return {"task": task, **DEFAULTS} | {key: saved[key] for key in saved if key in READ}


def read_finetuned(folder):
    """The settings of a model that `finetune` saved; {} if a directory holds none."""
    return saved_settings(folder) if is_finetuned(folder) else {}


def check_finished(folder):
    """Raises FileNotFoundError if a directory does not hold a model that `finetune` saved."""
    check_files(folder, FILES, "the output of a finished fine-tuning")


def check_files(folder, names, what):
    """Raises FileNotFoundError if a directory lacks a file that a model is loaded from."""
    if not folder.is_directory:  # beside a missing one may be the files of another model
        raise FileNotFoundError(
            f"There is no directory {folder} to load a model from.{from_hub(folder)}"
        )
    newest = {name: folder.newest(name) for name in names}
    for name in newest.values():
        folder.place(name)
    lacking = [name for name in names if not folder.has(newest[name])]
    if lacking:
        begun = folder.has_any("recipe.json")
        hint = " The run is not finished: give the same command or call again." if begun else ""
        raise FileNotFoundError(f"{folder} is not {what}: it lacks {' and '.join(lacking)}.{hint}")
