"""Tasks to train short and test long on. NumPy only: integers in, integers out.

>>> task = get("reverse_string")
>>> tokens, targets, mask = task.sample(batch_size=128, length=40, seed=0)
>>> task.inputs(tokens).shape  # 40 tokens and 40 placeholders
(128, 80)
>>> round(accuracy(1 - targets, targets, mask), 1)
0.0
"""

import difflib

from keras_posenc.keras_support.lazy import names_on_request
from keras_posenc.tasks.content_tasks import FlipFlop, SelectiveCopy
from keras_posenc.tasks.context_free import (
    ModularArithmeticBrackets,
    ReverseString,
    SolveEquation,
    StackManipulation,
)
from keras_posenc.tasks.context_sensitive import (
    BinaryAddition,
    BinaryMultiplication,
    BucketSort,
    ComputeSqrt,
    DuplicateString,
    MissingDuplicateString,
    OddsFirst,
)
from keras_posenc.tasks.counting import Counting
from keras_posenc.tasks.curricula import CURRICULA
from keras_posenc.tasks.language import Corpus, LanguageModel, MaskedLanguageModel, far_tokens
from keras_posenc.tasks.regular import CycleNavigation, EvenPairs, ModularArithmetic, ParityCheck
from keras_posenc.tasks.scoring import accuracy, correct, mean_by_place, right_by_span
from keras_posenc.tasks.synthetic_task import TEST_LENGTHS, TRAIN_LENGTHS, Task

# name -> class, every task.
KINDS = [
    BinaryAddition, BinaryMultiplication, BucketSort, ComputeSqrt, Counting, CycleNavigation,
    DuplicateString, EvenPairs, FlipFlop, LanguageModel, MaskedLanguageModel,
    MissingDuplicateString, ModularArithmetic, ModularArithmeticBrackets, OddsFirst,
    ParityCheck, ReverseString, SelectiveCopy, SolveEquation, StackManipulation,
]  # fmt: skip
TASKS = {kind.name: kind for kind in KINDS}

# The fifteen of the Chomsky hierarchy benchmark.
CHOMSKY = tuple(name for name, task in TASKS.items() if task.level)

__all__ = [
    "CHOMSKY", "CURRICULA", "TASKS", "TEST_LENGTHS", "TRAIN_LENGTHS", "Corpus", "Task", "accuracy",
    "correct", "curriculum", "far_tokens", "get", "mean_by_place", "right_by_span",
]  # fmt: skip


def get(name, **arguments):
    """Makes a task by name.

    Args:
        name: a name in `TASKS`.
        **arguments: arguments of its class, such as `variant`, `split`, `corpus`.

    Returns:
        A `Task`.

    Example:

    >>> get("odds_first", variant="paper").variant
    'paper'
    """
    return _named(name, TASKS, "task")(**arguments)


def curriculum(name, **arguments):
    """Makes a length curriculum by name: a function (step, seed) -> length.

    `keras_posenc.training.CurriculumBatches` trains with it in `fit`.

    Args:
        name: a name in `CURRICULA`.
        **arguments: arguments of its class.

    Returns:
        A callable `(step, seed=0) -> int`.

    Example:

    >>> curriculum("fixed", length=40)(step=0)
    40
    """
    return _named(name, CURRICULA, "curriculum")(**arguments)


def _named(name, table, kind):
    if name not in table:
        near = difflib.get_close_matches(str(name), table, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(table)}."
        raise ValueError(f"Unknown {kind} {name!r}: {hint}")
    return table[name]


names_on_request(__name__)
