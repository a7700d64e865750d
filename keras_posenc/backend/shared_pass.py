"""What is the same for all layers of a pass, such as waves of positions, computed once."""

import contextlib
import contextvars

import keras

if keras.backend.backend() == "torch":
    from torch.compiler import is_compiling
else:
    is_compiling = bool  # False

_PASS = contextvars.ContextVar("_PASS", default=None)


@contextlib.contextmanager
def sharing():
    """A pass through a model, whose layers share what `shared` computes."""
    # What is computed twice, compilers find.
    if is_compiling() or keras.backend.backend() != "torch":
        yield
        return
    token = _PASS.set({})
    try:
        yield
    finally:
        _PASS.reset(token)


def this_pass():
    """What is known in this pass, a dict, or None outside of one."""
    return None if is_compiling() else _PASS.get()


def shared(key, tensors, compute):
    """The result of a function, from an earlier call of the same pass if there is one.

    `key`: hashable. What the result depends on beside the tensors. `tensors`: tuple of the tensors
    that it depends on. Other tensors with the same numbers are other tensors. `compute`: function
    without arguments.
    """
    known = this_pass()
    if known is None:
        return compute()
    key = key, *map(id, tensors)
    if key not in known:
        known[key] = compute(), tensors  # kept, so that no other tensor gets the id of one
    return known[key][0]
