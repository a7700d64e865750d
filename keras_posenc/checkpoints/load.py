"""From a checkpoint into the variables of a model, all of it or nothing."""

import numpy as np

from keras_posenc.checkpoints.account import Account
from keras_posenc.checkpoints.hints import hints
from keras_posenc.checkpoints.names import OwnNames, flat_shape, is_fresh
from keras_posenc.checkpoints.reader import open_checkpoint
from keras_posenc.checkpoints.rows import Rows

READABLE = ("float16", "bfloat16", "float32", "float64")


def load_checkpoint(
    layers,
    checkpoint,
    table,
    *,
    keep_tokens=None,
    compound_tokens=None,
    position_offset=0,
    ignore_missing=False,
):
    """Loads a checkpoint into layers, after everything has been found to fit.

    Args:
        layers: dict from layer names to built layers.
        checkpoint: `Checkpoint`, or anything that `open_checkpoint` opens.
        table: `Table` of the family, from `keras_posenc.checkpoints.names`.
        keep_tokens: list of the rows of the token table (and of the MLM bias) to keep; None: all.
        compound_tokens: list of rows to append to them, each the mean of rows that were kept: a
            list of row numbers, or a tuple of row numbers and weights.
        position_offset: int, how many rows at the front of the file's position table to drop.
        ignore_missing: bool; True leaves what the checkpoint lacks at its initial values.

    Returns:
        `Account` of every variable and every tensor.

    Raises:
        ValueError: something is missing, unexpected or of the wrong shape; nothing is loaded then.

    Example:

    ```python
    account = load_checkpoint(transformer.layers, "model.safetensors", BERT)
    print(account)
    ```
    """
    account, steps = _match(
        layers, checkpoint, table, keep_tokens, compound_tokens, position_offset
    )
    problem = account.problem(ignore_missing)
    if problem:
        raise ValueError(problem)
    for variable, read in steps:
        variable.assign(read())
    return account


def compare_checkpoint(
    layers, checkpoint, table, *, keep_tokens=None, compound_tokens=None, position_offset=0
):
    """Says what `load_checkpoint` would do, without loading and without complaint.

    Args:
        layers, checkpoint, table, keep_tokens, compound_tokens, position_offset: as in
            `load_checkpoint`.

    Returns:
        `Account` of every variable and every tensor; `account.problem()` is what would be raised.
    """
    return _match(layers, checkpoint, table, keep_tokens, compound_tokens, position_offset)[0]


def variables_of(layers):
    """All weights of some layers under names that hold for every prefix and parent model.

    Args:
        layers: dict from layer names to built layers.

    Returns:
        dict from `"layer name/rest of the variable's path"` to Keras variables.
    """
    variables = {}
    for name, layer in layers.items():
        for variable in layer.weights:
            rest = f"/{variable.path}".rpartition(f"/{layer.name}/")[2]
            variables[f"{name}/{rest}"] = variable
    return variables


def _match(layers, checkpoint, table, keep_tokens, compound_tokens, position_offset):
    """The account of a load, and its steps: pairs of a variable and what reads its array."""
    checkpoint = open_checkpoint(checkpoint)
    tokens, positions = Rows(keep=keep_tokens, compound=compound_tokens), Rows(position_offset)
    edits = {
        "Embedding-Token/embeddings": tokens,
        "MLM-Bias/bias": tokens,
        "Embedding-Position/embeddings": positions,
    }
    if checkpoint.format == "keras":  # saved after all that
        table, edits = OwnNames(table), {}
    account, steps, seen = Account(str(checkpoint), table.family), [], set()
    for name, variable in variables_of(layers).items():
        found = [each for each in table.names(name) if each[0] in checkpoint]
        if not found:
            (account.initialised if is_fresh(name) else account.missing).append(name)
            continue
        seen.update(tensor for tensor, _ in found)
        (tensor, transposed), *copies = found
        _compare_copies(account, checkpoint, tensor, copies, "MLM-Bias" in layers)
        step = _Step(checkpoint, tensor, transposed, edits.get(name), name, tuple(variable.shape))
        if step.fits:
            account.loaded.append((name, tensor, step.note))
            steps.append((variable, step.read))
        else:
            account.wrong_shape.append((name, str(step.target), tensor, step.holds))
    for tensor in checkpoint.keys() - seen:
        reason = table.why_unused(tensor, layers)
        account.unused += [(tensor, reason)] if reason else []
        account.unexpected += [] if reason else [tensor]
    account.unused.sort()
    account.unexpected.sort()
    account.hints = hints(account, checkpoint, table)
    return account, steps


def _compare_copies(account, checkpoint, tensor, copies, needed):
    """A file may repeat a tensor, as the decoder of a masked LM: then it must be the same."""
    for copy, _ in copies:
        if needed and not np.array_equal(checkpoint[tensor], checkpoint[copy]):
            account.unexpected.append(f"{copy}, which differs from {tensor},")
        else:
            account.unused.append((copy, f"copy of {tensor}"))


class _Step:
    """One tensor on its way into one variable: what is done to it, and whether it fits then."""

    def __init__(self, checkpoint, tensor, transposed, rows, name, target):
        self.checkpoint, self.tensor, self.target = checkpoint, tensor, target
        self.transposed, self.rows = transposed, rows
        shape, dtype = checkpoint.shape(tensor), checkpoint.dtype(tensor)
        self.holds = str(shape) if dtype.name in READABLE else f"{shape} of {dtype}"
        shape = shape[::-1] if transposed else shape
        if rows is not None and shape:
            rows.check(shape[0])
            shape = (rows.count(shape[0]), *shape[1:])
        self.reshaped = shape != target
        self.fits = dtype.name in READABLE and shape in (target, flat_shape(name, target))

    @property
    def note(self):
        done = ["transposed"] * self.transposed + ["reshaped"] * self.reshaped
        return ", ".join(done + ([self.rows.note] if self.rows and self.rows.note else []))

    def read(self):
        """A private float array: a backend may keep it, and the file may change afterwards."""
        array = self.checkpoint[self.tensor]
        array = array.T if self.transposed else array
        array = array if self.rows is None else self.rows.apply(array)
        return np.array(array, "float32", order="C").reshape(self.target)
