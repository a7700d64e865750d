"""Which cases run on every backend."""

import pytest


def on_all(everywhere, cases):
    """The cases as parameters of a test: those not in `everywhere` run `once`."""

    def param(case):
        values = case if isinstance(case, tuple) else (case,)
        return pytest.param(*values, marks=() if case in everywhere else pytest.mark.once)

    return [param(case) for case in cases]
