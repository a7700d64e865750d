"""From a checkpoint into the variables of a model, all of it or nothing."""

import numpy as np

from keras_posenc.checkpoints.account import Account
from keras_posenc.checkpoints.checkpoint import forget, private
from keras_posenc.checkpoints.hints import hints
from keras_posenc.checkpoints.names import OwnNames, flat_shape, is_fresh
from keras_posenc.checkpoints.reader import open_checkpoint
from keras_posenc.checkpoints.rows import Rows

READABLE = ("float16", "bfloat16", "float32", "float64")


def load_checkpoint(layers, checkpoint, table, *, ignore_missing=False, **rows):
    """Loads a checkpoint into layers, after everything has been found to fit.

    Args:
        layers: dict from layer names to built layers.
        checkpoint: `Checkpoint`, or anything that `open_checkpoint` opens.
        table: `Table` of the family, from `keras_posenc.checkpoints.names`.
        ignore_missing: bool; True leaves what the checkpoint lacks at its initial values.
        **rows: which rows of the file's tables to take, as in `Loader`.

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
    return Loader(checkpoint, table, **rows).load(layers, ignore_missing)


def compare_checkpoint(layers, checkpoint, table, **rows):
    """Says what `load_checkpoint` would do, without loading and without complaint.

    Args:
        layers, checkpoint, table, **rows: as in `load_checkpoint`.

    Returns:
        `Account` of every variable and every tensor; `account.problem()` is what would be raised.
    """
    return Loader(checkpoint, table, **rows).match(layers)[0]


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


class Loader:
    """A checkpoint on its way into a model: into weights as they are made, then into the others.

    Args:
        checkpoint, table: as in `load_checkpoint`.
        keep_tokens: list of the rows of the token table (and of the MLM bias) to keep; None: all.
        compound_tokens: list of rows to append to them, each the mean of rows that were kept: a
            list of row numbers, or a tuple of row numbers and weights.
        position_offset: int, how many rows at the front of the file's position table to drop.
    """

    def __init__(
        self, checkpoint, table, *, keep_tokens=None, compound_tokens=None, position_offset=0
    ):
        self.checkpoint = open_checkpoint(checkpoint)
        tokens, positions = Rows(keep=keep_tokens, compound=compound_tokens), Rows(position_offset)
        self.edits = {
            "Embedding-Token/embeddings": tokens,
            "MLM-Bias/bias": tokens,
            "Embedding-Position/embeddings": positions,
        }
        self.table = table
        if self.checkpoint.format == "keras":  # saved after all that
            self.table, self.edits = OwnNames(table), {}
        self.given = set()
        self.loaded = False

    def initial(self, name, shape):
        """The numbers that a new weight is made of, once; None where nothing fits.

        Args:
            name: str such as `"Transformer-3-FeedForward/output/kernel"`.
            shape: tuple of int.

        Returns:
            float32 array of this shape, or None. After `load` always None.
        """
        found = [] if self.loaded or name in self.given else self._found(name)
        step = self._step(name, found[0], shape) if found else None
        if step is None or not step.fits:
            return None
        self.given.add(name)
        return step.read()

    def load(self, layers, ignore_missing=False):
        """Fills what was not made of the checkpoint, once all is found to fit, and gives it up.

        Args, Returns, Raises: as in `load_checkpoint`.
        """
        account, steps = self.match(layers)
        problem = account.problem(ignore_missing)
        if problem:
            raise ValueError(problem)
        left = [(variable, step) for name, variable, step in steps if name not in self.given]
        for _, step in left:
            step.check()
        for variable, step in left:
            variable.assign(step.read())
        self.loaded, self.checkpoint = True, None
        return account

    def match(self, layers):
        """The account of a load, and its steps: (our name, variable, what reads its array)."""
        checkpoint, table = self.checkpoint, self.table
        account, steps, seen = Account(str(checkpoint), table.family), [], set()
        for name, variable in variables_of(layers).items():
            found = self._found(name)
            if not found:
                fresh = is_fresh(name) and not table.has(name)
                (account.initialised if fresh else account.missing).append(name)
                continue
            seen.update(place.name for place in found)
            place, *copies = found
            tensor = place.name
            _compare_copies(account, checkpoint, place, copies, _has_mlm(layers))
            step = self._step(name, place, tuple(variable.shape))
            if step.fits:
                account.loaded.append((name, tensor, step.note))
                steps.append((name, variable, step))
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

    def _found(self, name):
        return [place for place in self.table.names(name) if place.name in self.checkpoint]

    def _step(self, name, place, target):
        return _Step(self.checkpoint, place, self.edits.get(name), name, target)


def _has_mlm(layers):
    return "MLM-Activation" in layers or "MLM-Bias" in layers


def _compare_copies(account, checkpoint, place, copies, needed):
    """A file may repeat a tensor, as the decoder of a masked LM: then it must be the same."""
    tensor = place.name
    for copy, *_ in copies:
        if needed and not np.array_equal(checkpoint[tensor], checkpoint[copy]):
            account.unexpected.append(f"{copy}, which differs from {tensor},")
        else:
            account.unused.append((copy, f"copy of {tensor}"))


class _Step:
    """One tensor on its way into one variable: what is done to it, and whether it fits then."""

    def __init__(self, checkpoint, place, rows, name, target):
        self.checkpoint, self.target = checkpoint, target
        self.tensor, self.transposed, self.cut = tensor, transposed, _ = place
        self.rows = rows
        shape, dtype = checkpoint.shape(tensor), checkpoint.dtype(tensor)
        self.holds = str(shape) if dtype.name in READABLE else f"{shape} of {dtype}"
        shape = shape[::-1] if transposed else shape
        shape = self.cut.shape(shape) if self.cut else shape
        if rows is not None and shape:
            rows.check(shape[0])
            shape = (rows.count(shape[0]), *shape[1:])
        self.reshaped = shape != target
        self.fits = dtype.name in READABLE and shape in (target, flat_shape(name, target))

    @property
    def note(self):
        done = ["transposed"] * self.transposed + ["reshaped"] * self.reshaped
        done += [f"part {self.cut.part + 1} of {self.cut.parts}"] if self.cut else []
        return ", ".join(done + ([self.rows.note] if self.rows and self.rows.note else []))

    def check(self):
        """Raises ValueError if the checkpoint knows that the numbers are damaged."""
        forget(self.checkpoint[self.tensor])

    def read(self):
        """A private float array: a backend may keep it, and the file may change afterwards."""
        stored = self.checkpoint[self.tensor]
        array = stored.T if self.transposed else stored
        array = self.cut.of(array, self.target) if self.cut else array
        array = array if self.rows is None else self.rows.apply(array)
        array = private(array).reshape(self.target)
        forget(stored)
        return array
