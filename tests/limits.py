"""A limit of processor time, for what takes hours where its time grows with a square."""

import contextlib
import signal


@contextlib.contextmanager
def processor_seconds(most):
    """Raises AssertionError in a block that uses more processor time than this.

    The limit is a hundred times what the block takes, so that it measures nothing.

    Args:
        most: int, seconds.
    """

    def stop(number, frame):
        raise AssertionError(f"more than {most} seconds of processor time")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, most)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
