"""The account of a load: what happened to every variable and to every tensor."""

import dataclasses

from keras_posenc.files.untrusted import shorten

SHOWN = 4  # names spelt out in an error; the account itself lists all


@dataclasses.dataclass
class Account:
    """What happened to every variable of a model and to every tensor of a checkpoint.

    `print(account)` shows all of it, `account.summary()` one line.

    Args:
        source: str. Path of the checkpoint.
        family: str. The model family whose names were used.
        loaded: list of (variable, tensor, note). The note names a transposition, reshape or row
            selection.
        unused: list of (tensor, reason). Tensors that are known and not needed.
        initialised: list of str. Variables that no checkpoint has; they keep their initial values.
        missing: list of str. Variables that the checkpoint should have and lacks.
        unexpected: list of str. Tensors that correspond to nothing in the model.
        wrong_shape: list of (variable, its shape, tensor, shape in the file).
        hints: list of str. Sentences on the likely cause of a mismatch.
        ignored: list of (tensor, pattern). Tensors that correspond to nothing and are left out on
            request.

    Example:

    >>> account = Account("model.safetensors", "bert", missing=["Pooler-Dense/bias"])
    >>> account.summary()
    'model.safetensors as bert: 0 loaded, 1 missing.'
    """

    source: str
    family: str
    loaded: list = dataclasses.field(default_factory=list)
    unused: list = dataclasses.field(default_factory=list)
    initialised: list = dataclasses.field(default_factory=list)
    missing: list = dataclasses.field(default_factory=list)
    unexpected: list = dataclasses.field(default_factory=list)
    wrong_shape: list = dataclasses.field(default_factory=list)
    hints: list = dataclasses.field(default_factory=list)
    ignored: list = dataclasses.field(default_factory=list)

    def summary(self):
        """Counts each kind, in one line."""
        kinds = ["unused", "ignored", "initialised", "missing", "unexpected", "wrong_shape"]
        counts = [f"{len(getattr(self, kind))} {kind.replace('_', ' ')}" for kind in kinds]
        counts = [count for count in counts if not count.startswith("0 ")]
        return f"{shorten(self.source)} as {self.family}: {', '.join([self._loaded(), *counts])}."

    def _loaded(self):
        return f"{len(self.loaded)} loaded"

    def __str__(self):
        misfits = [
            (variable, tensor, f"{model_shape} in the model, {file_shape} in the file")
            for variable, model_shape, tensor, file_shape in self.wrong_shape
        ]
        parts = [
            ("Loaded", self.loaded),
            ("Known and unused", self.unused),
            ("Ignored", self.ignored),
            ("Initialised", [(name,) for name in self.initialised]),
            ("Missing", [(name,) for name in self.missing]),
            ("Unexpected", [(name,) for name in self.unexpected]),
            ("Wrong shape", misfits),
        ]
        lines = [self.summary()]
        for title, rows in parts:
            if rows:
                lines += ["", f"{title} ({len(rows)})", *_columns(rows)]
        return "\n".join(lines + [""] * bool(self.hints) + self.hints)

    def problem(self, ignore_missing=False):
        """Describes all that does not fit in one message, or returns None if all fits.

        Args:
            ignore_missing: bool. Missing variables do not count.

        Returns:
            str or None.
        """
        misfits = [
            f"{variable} is {model_shape} in the model, "
            f"{shorten(tensor)} is {file_shape} in the file"
            for variable, model_shape, tensor, file_shape in self.wrong_shape
        ]
        of_a_type = any(" of " in file_shape for *_, file_shape in self.wrong_shape)
        kinds = [
            ("missing", [] if ignore_missing else self.missing),
            ("unexpected", self.unexpected),
            (f"of the wrong shape{' or type' * of_a_type}", misfits),
        ]
        problems = [f"{len(names)} {kind} ({_some(names)})" for kind, names in kinds if names]
        if not problems:
            return None
        message = (
            f"{shorten(self.source)} does not fit this {self.family} model: {'; '.join(problems)}."
        )
        return " ".join([message, "Nothing was loaded.", *self.hints])


def _some(names):
    more = [f"and {len(names) - SHOWN} more"] if len(names) > SHOWN else []
    return ", ".join([*map(shorten, names[:SHOWN]), *more])


def _columns(rows):
    rows = [[shorten(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = [[cell.ljust(n) for cell, n in zip(row, widths, strict=True)] for row in rows]
    return ["  " + "  ".join(row).rstrip() for row in padded]
