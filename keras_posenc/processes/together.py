"""Several processes that share texts, or train one model: one writes, and all agree."""

import contextlib
import re

import keras

from keras_posenc import backend

# At the beginning of a message: elsewhere, a text that a user gave may hold such words.
NUMBERED = re.compile(r"^((?:A span of t|T)ext) (\d+)\b")


def check_processes(function):
    """Refuses several processes that would not train one model, before anything is written."""
    count = backend.launched_processes()
    if count == 1:
        return
    what = f"{function} in {count} processes"
    if reason := backend.TRAITS.processes_apart:
        raise ValueError(f"{what} is not supported: {reason}. Start one process.")
    distribution = keras.distribution.distribution()
    is_parallel = isinstance(distribution, keras.distribution.DataParallel)
    if not is_parallel or distribution.auto_shard_dataset:
        raise ValueError(
            f"{what} needs the distribution DataParallel(auto_shard_dataset=False): each process "
            "reads its share of a batch by itself. Call keras.distribution.set_distribution with "
            f"it first. Received: {distribution!r}"
        )


def check_shared(name, folder):
    """Refuses a temporary folder where several processes need one that all of them see."""
    count = backend.processes()[1]
    if folder is None and count > 1:
        raise ValueError(
            f"`{name}` must be a folder that all processes see. Received: None, with {count} "
            "processes"
        )


def is_first():
    """Whether this process is the one that writes."""
    return backend.processes()[0] == 0


def by_first(function):
    """Calls a function in the first process alone; every process returns, or raises, what it did
    there, which can be pickled."""
    if backend.processes()[1] == 1:
        return function()
    return _or_raise(backend.gather(_attempt(function) if is_first() else None)[0])


def together(function):
    """Calls a function in every process, and raises in all what it raises in one."""
    if backend.processes()[1] == 1:
        return function()
    result, error = _attempt(function)
    errors = [each for each in backend.gather(error) if each is not None]
    return _or_raise((result, error or (errors[0] if errors else None)))


def _attempt(function):
    try:
        return function(), None
    except Exception as error:
        return None, error


def _or_raise(attempt):
    result, error = attempt
    if error is not None:
        raise error
    return result


def read_shard(shard):
    """Reads `shard`, "i/n", as a function that takes the i-th of n equal parts of a list."""
    if shard is None:
        return lambda items: items
    numbers = str(shard).split("/")
    if len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
        raise ValueError(f'`shard` must be "i/n", such as "1/4". Received: {shard!r}')
    number, count = map(int, numbers)
    if not 1 <= number <= count:
        raise ValueError(f'`shard` must be "i/n" with i from 1 to n. Received: {shard!r}')

    def part(items):
        found = items[(number - 1) * len(items) // count : number * len(items) // count]
        if len(items) and not len(found):
            raise ValueError(
                f"`shard` is of no text: {len(items)} texts have at most {len(items)} parts. "
                f"Received: {shard!r}"
            )
        return found

    return part


@contextlib.contextmanager
def counted_from(first, step=1):
    """Errors about a text of a part give its number among all texts, of which every `step`-th from
    `first` on is in the part."""
    try:
        yield
    except (TypeError, ValueError) as error:
        message = str(error)
        counted = NUMBERED.sub(lambda f: f"{f[1]} {first + step * int(f[2])}", message, count=1)
        if counted == message or type(error) not in (TypeError, ValueError):
            raise
        raise type(error)(counted) from None
