"""Loading of a checkpoint into the variables of a model: all of it or nothing."""

import fnmatch

import numpy as np

from keras_posenc.checkpoints.account import Account
from keras_posenc.checkpoints.checkpoint import forget, private
from keras_posenc.checkpoints.keras_hub.backbones import BACKBONES
from keras_posenc.checkpoints.mismatch_hints import hints
from keras_posenc.checkpoints.names import HEAD, MLM_BIAS, TOKENS, KerasNames, flat_shape, is_fresh
from keras_posenc.checkpoints.reader import open_checkpoint
from keras_posenc.checkpoints.table_rows import TableRows
from keras_posenc.files.untrusted import quote, shorten

READABLE = ("float16", "bfloat16", "float32", "float64")


def load_checkpoint(layers, checkpoint, table, *, ignore_missing=False, **rows):
    """Loads a checkpoint into layers, after checking that everything fits.

    Args:
        layers: dict, layer name -> built layer.
        checkpoint: `Checkpoint`, or anything that `open_checkpoint` opens.
        table: `Table` of the family, such as `keras_posenc.checkpoints.BERT`.
        ignore_missing: bool. Variables that the checkpoint lacks keep their initial values.
        **rows: which rows of the file's tables to read, as in `Loader`.

    Returns:
        `Account` of every variable and every tensor.

    Raises:
        FileNotFoundError: if there is no checkpoint.

    Example:

    >>> pooler = keras.layers.Dense(2, name="Pooler-Dense")
    >>> pooler.build((None, 2))
    >>> arrays = {"bert/pooler/dense/kernel": np.eye(2), "bert/pooler/dense/bias": np.zeros(2)}
    >>> print(load_checkpoint({"Pooler-Dense": pooler}, arrays, BERT).summary())
    a dict of arrays as bert: 2 loaded.
    """
    return Loader(checkpoint, table, **rows).load(layers, ignore_missing)


def compare_checkpoint(layers, checkpoint, table, **rows):
    """Reports what `load_checkpoint` would do, without loading or raising on a mismatch.

    Args:
        layers, checkpoint, table, **rows: as in `load_checkpoint`.

    Returns:
        `Account` of every variable and every tensor; `account.problem()` is the message that
            `load_checkpoint` would raise.

    Raises:
        FileNotFoundError: if there is no checkpoint.

    Example:

    >>> pooler = keras.layers.Dense(2, name="Pooler-Dense")
    >>> pooler.build((None, 2))
    >>> arrays = {"bert/pooler/dense/kernel": np.eye(2)}
    >>> compare_checkpoint({"Pooler-Dense": pooler}, arrays, BERT).missing
    ['Pooler-Dense/bias']
    """
    return Loader(checkpoint, table, **rows).match(layers)[0]


def variables_of(layers):
    """Collects the weights of layers under names that do not depend on prefix or parent model.

    Args:
        layers: dict, layer name -> built layer.

    Returns:
        dict, `"layer name/rest of the variable's path"` -> Keras variable.

    Example:

    >>> dense = keras.layers.Dense(2, name="my-pooler")
    >>> dense.build((None, 2))
    >>> list(variables_of({"Pooler-Dense": dense}))
    ['Pooler-Dense/kernel', 'Pooler-Dense/bias']
    """
    variables = {}
    for name, layer in layers.items():
        built_as = (layer.path or layer.name).rpartition("/")[2]  # it may have been renamed
        for variable in layer.weights:
            rest = f"/{variable.path}".rpartition(f"/{built_as}/")[2]
            variables[f"{name}/{rest}"] = variable
    return variables


class Loader:
    """Loads a checkpoint in two steps: into weights as they are created, then into the others.

    Args:
        checkpoint, table: as in `load_checkpoint`.
        keep_tokens: list of int or None. The rows of the token table (and of the MLM head) to keep;
            None keeps all.
        compound_tokens: list. Rows to append, each the mean of rows that were kept: a list of row
            numbers, or a tuple of row numbers and weights.
        position_offset: int. Number of rows to drop from the start of the file's position table.
        ignore: list of str. Patterns of tensors that the model has no place for and that are left
            out, such as "cls.chain.*". Each must match at least one tensor.
        new: list of str. Layers of a head that is to be trained. The first is not read, and the
            others only if the checkpoint has them.
    """

    def __init__(
        self,
        checkpoint,
        table,
        *,
        keep_tokens=None,
        compound_tokens=None,
        position_offset=0,
        ignore=None,
        new=(),
    ):
        self.checkpoint = open_checkpoint(checkpoint)
        self.ignore = [] if ignore is None else read_patterns(ignore, self.checkpoint)
        self.edits = {}
        if keep_tokens is not None or compound_tokens:
            tokens = TableRows(keep=keep_tokens, compound=compound_tokens)
            of_head = TableRows(keep=keep_tokens, compound=compound_tokens, columns=True)
            self.edits = {TOKENS: tokens, MLM_BIAS: tokens, HEAD: of_head}
        if position_offset:
            self.edits["Embedding-Position/embeddings"] = TableRows(position_offset)
        self.table, self.new = table, tuple(new)
        if self.checkpoint.format == "keras":  # saved after all that
            self.table, self.edits = KerasNames(table), {}
        elif self.checkpoint.format == "keras_hub":
            self.table = BACKBONES[self.checkpoint.backbone].table(table.family)
            self.edits.pop("Embedding-Position/embeddings", None)  # it has no rows below 0
        self.assigned = set()
        self.places, self.steps = {}, {}  # our name -> what `_places_of` and `_step` return
        self.loaded = False

    def initial(self, name, shape):
        """Returns the stored numbers of a new weight, once; None where nothing fits.

        `name`: str such as `"Transformer-3-FeedForward/output/kernel"`. Returns float32 array of
        this shape, or None. After `load` always None.
        """
        places = [] if self.loaded or name in self.assigned else self._places_of(name)
        step = self._step(name, places[0], shape) if places else None
        if step is None or not step.fits:
            return None
        self.assigned.add(name)
        return step.read()

    def load(self, layers, ignore_missing=False):
        """Loads the weights that `initial` did not, after checking that everything fits.

        Args, Returns, Raises: as in `load_checkpoint`.
        """
        account, steps = self.match(layers)
        problem = account.problem(ignore_missing)
        if problem:
            raise ValueError(problem)
        left = [(variable, step) for name, variable, step in steps if name not in self.assigned]
        for _, step in left:
            step.check()
        for variable, step in left:
            variable.assign(step.read())
        self.loaded, self.checkpoint = True, None
        self.places, self.steps = {}, {}  # the layers hold this loader, and steps the checkpoint
        return account

    def match(self, layers):
        """Returns the account of a load, and its steps: (our name, variable, step)."""
        checkpoint, table = self.checkpoint, self.table
        has_mlm = "MLM-Activation" in layers or "MLM-Bias" in layers
        untied = "MLM-Output" in layers
        account, steps, seen = Account(str(checkpoint), table.family), [], set()
        for name, variable in variables_of(layers).items():
            places = self._places_of(name)
            if not places:
                fresh = is_fresh(name) and not table.has(name)
                fresh = fresh or name.rpartition("/")[0] in self.new
                (account.initialised if fresh else account.missing).append(name)
                continue
            if name == TOKENS and not untied:  # what an untied head would read is a copy
                places = [*places, *self._places_of(HEAD)]
            seen.update(place.name for place in places)
            place, *copies = places
            tensor = place.name
            needed = has_mlm and not (untied and name == MLM_BIAS)
            self._compare_copies(account, tensor, copies, needed)
            step = self._step(name, place, tuple(variable.shape))
            if step.fits:
                account.loaded.append((name, tensor, step.note))
                steps.append((name, variable, step))
            else:
                account.wrong_shape.append((name, str(step.target), tensor, step.holds))
        for tensor in checkpoint.keys() - seen:
            reason = table.why_unused(tensor, layers)
            if reason:
                account.unused.append((tensor, reason))
            else:
                self._leave_out(account, tensor, tensor)
        account.unused.sort()
        account.ignored.sort()
        account.unexpected.sort()
        if account.problem():
            account.hints = hints(account, checkpoint, table)
        return account, steps

    def _leave_out(self, account, tensor, words):
        """Records a tensor as ignored, or with other words as unexpected."""
        pattern = next((p for p in self.ignore if fnmatch.fnmatchcase(tensor, p)), None)
        if pattern is None:
            account.unexpected.append(words)
        else:
            account.ignored.append((tensor, f"by {quote(pattern)}"))

    def _compare_copies(self, account, tensor, copies, needed):
        """Checks that repeated tensors, such as the decoder of a masked LM, are equal."""
        for copy, *_ in copies:
            if not needed or np.array_equal(self.checkpoint[tensor], self.checkpoint[copy]):
                account.unused.append((copy, f"copy of {tensor}" if needed else "not asked for"))
            else:
                self._leave_out(account, copy, f"{copy}, which differs from {tensor},")

    def _places_of(self, name):
        """The places of a variable in the checkpoint, looked up once. The first is read."""
        if name not in self.places:
            new = name.rpartition("/")[0] in self.new[:1]
            places = [] if new else self.table.names(name)
            self.places[name] = [place for place in places if place.name in self.checkpoint]
        return self.places[name]

    def _step(self, name, place, target):
        """The step of a variable, made once unless its shape differs."""
        step = self.steps.get(name)
        if step is None or step.target != target:
            step = _Step(self.checkpoint, place, self.edits.get(name), name, target)
            self.steps[name] = step
        return step


def read_patterns(ignore, names):
    """The patterns of tensors to leave out, as a list."""
    if isinstance(ignore, str) or not all(isinstance(pattern, str) for pattern in ignore):
        raise TypeError(f"`ignore` must be a list of patterns of names. Received: {quote(ignore)}")
    for pattern in ignore:
        if not any(fnmatch.fnmatchcase(name, pattern) for name in names):
            raise ValueError(
                f"`ignore` has {quote(pattern)}, which matches none of the {len(names)} tensors of "
                f"{shorten(names)}; print(inspect_checkpoint(path, full=True)) lists them."
            )
    return list(ignore)


class _Step:
    """The loading of one tensor into one variable: its transformations, and whether it fits."""

    def __init__(self, checkpoint, place, rows, name, target):
        self.checkpoint, self.target = checkpoint, target
        self.tensor, self.transposed, self.cut = tensor, transposed, _ = place
        self.rows = rows
        shape, dtype = checkpoint.shape(tensor), checkpoint.dtype(tensor)
        self.holds = str(shape) if dtype.name in READABLE else f"{shape} of {dtype}"
        shape = shape[::-1] if transposed else shape
        shape = self.cut.shape(shape) if self.cut else shape
        if rows is not None and shape:
            shape = rows.shape(shape)
        self.reshaped = shape != target
        self.fits = dtype.name in READABLE and shape in (target, flat_shape(name, target))

    @property
    def note(self):
        done = ["transposed"] * self.transposed + ["reshaped"] * self.reshaped
        done += [f"part {self.cut.part + 1} of {self.cut.parts}"] if self.cut else []
        return ", ".join(done + ([self.rows.note] if self.rows else []))

    def check(self):
        """Raises ValueError if a checksum does not match the numbers."""
        forget(self.checkpoint[self.tensor])

    def read(self):
        """Returns a copy as a float32 array, which does not depend on the file."""
        stored = self.checkpoint[self.tensor]
        array = stored.T if self.transposed else stored
        array = self.cut.of(array, self.target) if self.cut else array
        array = array if self.rows is None else self.rows.apply(array)
        array = private(array).reshape(self.target)
        forget(stored)
        return array
