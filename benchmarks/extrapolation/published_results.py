"""What the papers of the tasks report, to be shown beside the results of the same model.

All was transcribed by hand, partly from figures: look a number up before you quote it. The tables
of the Chomsky tasks, with the rows left out here, give the gain of 12.0 points that their abstract
names.
"""

CHOMSKY = (
    "Ruoss et al., [2305.16843](https://arxiv.org/abs/2305.16843), table 1: Transformers, "
    "2,000,000 steps. Delétang et al., [2207.02098](https://arxiv.org/abs/2207.02098), table 2: "
    "recurrent models, 1,000,000 steps. Both train on lengths 1 to 40 and report the mean of 41 to "
    "500. It is the best of 10 seeds and 3 learning rates. The models have five layers of 64 "
    "features, or 256 recurrent units, and batches of 128 texts."
)
_COPE = "Golovneva et al., [2405.18719](https://arxiv.org/abs/2405.18719), read from its figures."
_ABSOLUTE = "Its absolute positions are listed in the row of sinusoidal ones."
_STEPS = "The number of steps was not transcribed."
FLIP_FLOP = (
    f"{_COPE} A small model of four layers is tested at the training length, 512 tokens, on texts "
    f"like those of the training and on sparser ones. {_ABSOLUTE} {_STEPS}"
)
SELECTIVE_COPY = (
    f"{_COPE} 128 tokens are copied, with as many blanks, half and twice as many. The figures may "
    f"count whole texts, because 0 is below a guess. {_ABSOLUTE} {_STEPS}"
)
COUNTING = (
    f"{_COPE} Programs have up to 512 operations, within the training length. The model has four "
    "layers of 256 features and three seeds. It is trained for 100 epochs of 10,000 programs, in "
    f"batches of 64 (15,700 steps). {_ABSOLUTE}"
)

COLUMNS = (
    ("none", "consecutive"),
    ("sinusoidal", "consecutive"),
    ("transformer_xl", "consecutive"),
    ("alibi", "consecutive"),
    ("rotary", "consecutive"),
    ("learned", "consecutive"),
    ("sinusoidal", "sorted"),
    ("transformer_xl", "sorted"),
    ("alibi", "sorted"),
    ("rotary", "sorted"),
    ("learned", "sorted"),
)
TRANSFORMERS = {
    "even_pairs": (50.4, 50.9, 96.4, 67.3, 51.0, 50.7, 100, 100, 81.5, 100, 97.5),
    "modular_arithmetic": (20.1, 20.5, 21.8, 24.2, 21.6, 20.2, 25.7, 28.1, 21.2, 25.5, 21.1),
    "parity_check": (51.9, 50.5, 51.8, 51.7, 51.3, 50.3, 52.6, 52.2, 50.3, 52.3, 52.6),
    "cycle_navigation": (61.9, 26.3, 23.0, 37.6, 23.6, 24.2, 59.0, 58.8, 29.8, 73.6, 49.7),
    "stack_manipulation": (50.3, 50.1, 53.6, 57.5, 51.2, 49.2, 72.8, 77.9, 70.6, 68.2, 69.1),
    "reverse_string": (52.8, 50.6, 58.3, 62.3, 51.9, 50.7, 75.6, 95.1, 77.1, 69.9, 52.9),
    "duplicate_string": (52.8, 50.7, 51.7, 51.3, 50.9, 50.8, 72.4, 75.1, 68.9, 68.9, 53.0),
    "missing_duplicate_string": (52.5, 51.3, 54.0, 54.3, 56.5, 51.0, 52.5, 100, 79.7, 88.7, 52.7),
    "odds_first": (52.8, 51.6, 52.7, 51.4, 51.3, 50.6, 65.9, 69.3, 64.7, 65.6, 52.7),
    "bucket_sort": (23.7, 30.1, 91.9, 38.8, 30.6, 25.9, 100, 100, 99.6, 99.6, 99.5),
}
RECURRENT = ("rnn", "stack_rnn", "tape_rnn", "lstm")
RECURRENT_MODELS = {
    "even_pairs": (100, 100, 100, 100),
    "parity_check": (100, 100, 100, 100),
    "cycle_navigation": (100, 100, 100, 100),
    "reverse_string": (62.0, 100, 100, 60.9),
    "duplicate_string": (50.3, 52.8, 100, 57.6),
    "missing_duplicate_string": (52.3, 55.2, 100, 54.3),
    "odds_first": (51.0, 51.9, 100, 55.6),
    "bucket_sort": (27.9, 78.1, 70.7, 99.3),
}
# Encoding -> task -> split -> accuracy.
CONTEXTUAL = {
    "sinusoidal": {
        "flip_flop": {"train": 93.2, "sparse": 78.3},
        "selective_copy": {"train": 83.1, "dense": 74.4, "sparse": 14.8},
        "counting:variables=1": {"train": 94.7},
        "counting:variables=3": {"train": 32.4},
        "counting:variables=5": {"train": 28.5},
    },
    "rotary": {
        "flip_flop": {"train": 98.2, "sparse": 79.7},
        "selective_copy": {"train": 59.9, "dense": 0.0, "sparse": 0.0},
    },
    "cope": {
        "flip_flop": {"train": 100.0, "sparse": 95.1},
        "selective_copy": {"train": 100.0, "dense": 100.0, "sparse": 100.0},
        "counting:variables=1": {"train": 100.0},
        "counting:variables=3": {"train": 98.8},
        "counting:variables=5": {"train": 92.6},
    },
}
SOURCES = {
    **dict.fromkeys([*TRANSFORMERS, *RECURRENT_MODELS], CHOMSKY),
    "flip_flop": FLIP_FLOP,
    "selective_copy": SELECTIVE_COPY,
    "counting": COUNTING,
}


def published(result, split="test"):
    """The published accuracy in % of the model that made this result, or None.

    Args:
        result: dict with `task`, `model`, `encodings` and `positions`.
        split: one of the splits of its task.

    Returns:
        float or None.

    Example:

    >>> run = {"task": "cycle_navigation", "model": "transformer", "encodings": "rotary"}
    >>> published({**run, "positions": "sorted"})
    73.6
    """
    task, model = result["task"], result["model"]
    if model in RECURRENT and task in RECURRENT_MODELS:
        return RECURRENT_MODELS[task][RECURRENT.index(model)]
    if model != "transformer":
        return None
    column = result["encodings"], result["positions"]
    if task in TRANSFORMERS:
        return TRANSFORMERS[task][COLUMNS.index(column)] if column in COLUMNS else None
    encoding, _, given = result["encodings"].partition(":")
    # Gates of another kind are another model; the number of positions is not given.
    if result["positions"] != "consecutive" or "gate=" in given:
        return None
    return CONTEXTUAL.get(encoding, {}).get(task, {}).get(split)


def source(result):
    """What the published figure of a result's task is of, and how it came about.

    Args:
        result: dict with `task`.

    Returns:
        str, empty if none is known.

    Example:

    >>> source({"task": "even_pairs"})[:13]
    'Ruoss et al.,'
    """
    return SOURCES.get(result["task"].partition(":")[0], "")
