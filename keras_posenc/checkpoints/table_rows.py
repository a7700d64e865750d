"""Selection of table rows while loading: rows are skipped, kept or appended."""

import numpy as np


class TableRows:
    """The rows of a checkpoint's table that a variable gets.

    Args:
        skip: int. Number of rows to drop from the start.
        keep: list of int or None. The row numbers to keep, in this order; None keeps all.
        compound: list. Rows to append, each the mean of some rows after `keep`: a list of row
            numbers, or a tuple of row numbers and weights.
        columns: bool. Whether the rows are the variable's columns, as in a head of tokens.
    """

    def __init__(self, skip=0, keep=None, compound=None, columns=False):
        if skip < 0:
            raise ValueError(f"position_offset must not be negative. Received: {skip}")
        self.skip, self.columns = skip, columns
        self.keep = None if keep is None else _row_numbers("keep_tokens", keep)
        self.compound = [_compound(item) for item in compound or ()]

    @property
    def note(self):
        """The note in an account; empty if all rows are taken unchanged."""
        notes = [f"first {self.skip} rows dropped"] if self.skip else []
        notes += [f"{len(self.keep)} rows kept"] if self.keep is not None else []
        notes += [f"{len(self.compound)} rows appended"] if self.compound else []
        return ", ".join(notes)

    def check(self, count):
        """Raises ValueError if a row number is outside a table of `count` rows."""
        count -= self.skip
        if count < 1:
            raise ValueError(
                f"position_offset={self.skip} leaves no row of a table of {count + self.skip}."
            )
        if self.keep is not None:
            _check_bound("keep_tokens", self.keep, count, "the checkpoint's token table")
            count = len(self.keep)
        for rows, _ in self.compound:
            _check_bound("compound_tokens", rows, count, "the table after keep_tokens")

    def count(self, count):
        """Returns the number of rows that are left of `count` rows."""
        selected = count - self.skip if self.keep is None else len(self.keep)
        return selected + len(self.compound)

    def shape(self, shape):
        """Returns the shape of the variable, given that in the file."""
        first, *others = shape[::-1] if self.columns else shape
        self.check(first)
        selected = (self.count(first), *others)
        return selected[::-1] if self.columns else selected

    def apply(self, table):
        """Returns the rows of the variable, given those of the file."""
        if self.columns:
            return self._selected(table.T).T
        return self._selected(table)

    def _selected(self, table):
        table = table[self.skip :]
        if self.keep is not None:
            table = table[self.keep]
        if self.compound:
            means = [np.average(table[rows], axis=0, weights=each) for rows, each in self.compound]
            table = np.concatenate([table, np.stack(means).astype(table.dtype)])
        return table


def _row_numbers(argument, rows):
    numbers = np.asarray(rows)
    if numbers.ndim != 1 or not numbers.size or numbers.dtype.kind not in "iu":
        raise ValueError(
            f"{argument} must list row numbers, a flat list of one or more integers. "
            f"Received: {rows!r}"
        )
    if numbers.min() < 0:
        raise ValueError(f"{argument} holds {numbers.min()}; row numbers begin with 0.")
    return numbers


def _compound(item):
    rows, weights = item if isinstance(item, tuple) else (item, None)
    rows = _row_numbers("compound_tokens", rows)
    if weights is None:
        return rows, None
    weights = np.asarray(weights, "float64")
    if weights.shape != rows.shape or weights.sum() == 0:
        raise ValueError(
            f"compound_tokens needs a weight for each row, with a sum other than 0. "
            f"Received {len(rows)} rows and the weights {weights.tolist()}."
        )
    return rows, weights


def _check_bound(argument, rows, count, what):
    if rows.max() >= count:
        raise ValueError(f"{argument} asks for row {rows.max()}; {what} has {count} rows.")
