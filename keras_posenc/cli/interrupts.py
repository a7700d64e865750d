"""How Ctrl-C, and the SIGTERM of schedulers, end a command."""

import contextlib
import signal
import sys
import threading

# Time for what closes files on its way out.
AGAIN_AFTER = 5


@contextlib.contextmanager
def interruptible():
    """Makes SIGINT and SIGTERM raise KeyboardInterrupt until it takes effect.

    One raise is not enough. Python drops what is raised in callbacks of its garbage collector, and
    Keras has an `except:` where it inspects the inputs of a model, so the training would continue.
    If the system has SIGALRM, the interrupt is raised again after `AGAIN_AFTER` seconds, without a
    message about the one that was dropped.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signals = [signal.SIGTERM]
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # nohup has it ignored
        signals.append(signal.SIGINT)
    again = hasattr(signal, "SIGALRM")
    signals += [signal.SIGALRM] if again else []

    def interrupt(number, frame):
        if again:
            signal.alarm(AGAIN_AFTER)
        raise KeyboardInterrupt

    def dropped(found):
        if found.exc_type is not KeyboardInterrupt:
            default_hook(found)

    before = {number: signal.signal(number, interrupt) for number in signals}
    default_hook = sys.unraisablehook
    if again:
        sys.unraisablehook = dropped
    try:
        yield
    finally:
        sys.unraisablehook = default_hook
        if again:
            signal.alarm(0)
        for number, handler in before.items():
            signal.signal(number, handler)
