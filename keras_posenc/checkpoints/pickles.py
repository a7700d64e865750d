"""A restricted unpickler for torch files.

Python's own unpickler allocates whatever a pickle claims, calls whatever it names and hashes
whatever it nests. This one has only the instructions that `torch.save` writes, a subset of those of
`torch.load(weights_only=True)`, and calls only the functions that its caller provides.
"""

import dataclasses
import pickle
import struct

from keras_posenc.files.untrusted import quote, shorten

MOST_BYTES = 2**23
MOST_STEPS = 2**20  # some thirty make a tensor

KEYS = (str, int, float, bytes, type(None))  # not tuples: a nested one takes ages to hash


class RefusedError(ValueError):
    """A pickle that uses unsupported features, although it may be valid."""


@dataclasses.dataclass(frozen=True)
class Maker:
    """A function that a pickle may call."""

    make: object


class Unpickler:
    """Reads consecutive pickles.

    `data`: array of the file's bytes, or bytes. `names`: dict, (module, name) -> object; only a
    `Maker` can be called. `persistent`: function, persistent id -> object.
    """

    def __init__(self, data, names, persistent):
        self.data, self.names, self.persistent = data, names, persistent
        self.place = 0

    def load(self):
        """Reads the object of the next pickle.

        Raises RefusedError if torch's own `weights_only` refuses it too, or it is too long.
        """
        window = bytes(self.data[self.place : self.place + MOST_BYTES])
        run = _Run(window, self.names, self.persistent)
        try:
            value = run.run()
        except _EndError:
            if self.place + len(window) < len(self.data):
                raise RefusedError(f"its pickle is longer than {MOST_BYTES} bytes") from None
            raise
        self.place += run.place
        return value


class _EndError(ValueError):
    """The bytes end before the pickle does."""


class _Run:
    def __init__(self, data, names, persistent):
        self.data, self.names, self.persistent = data, names, persistent
        self.place, self.stack, self.marks, self.memo = 0, [], [], {}

    def run(self):
        for _ in range(MOST_STEPS):
            code = self.take(1)
            if code == pickle.STOP:
                return self.pop()
            if code not in INSTRUCTIONS:
                raise RefusedError(f"its pickle has the instruction {code!r}, which torch lacks")
            INSTRUCTIONS[code](self)
        raise RefusedError(f"its pickle takes more than {MOST_STEPS} steps")

    def take(self, count):
        self.place += count
        if self.place > len(self.data):
            raise _EndError("its pickle ends too early")
        return self.data[self.place - count : self.place]

    def number(self, layout):
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def line(self):
        end = self.data.find(b"\n", self.place)
        if end < 0:
            raise _EndError("its pickle ends too early")
        return self.take(end + 1 - self.place)[:-1].decode()

    def push(self, value):
        self.stack.append(value)

    def pop(self):
        if len(self.stack) == (self.marks[-1] if self.marks else 0):
            raise ValueError("its pickle takes what it has not put there")
        return self.stack.pop()

    def top(self, kind):
        value = self.pop()
        if not isinstance(value, kind):
            raise RefusedError(f"its pickle alters {quote(value)}")
        self.push(value)
        return value

    def since_mark(self):
        if not self.marks:
            raise ValueError("its pickle closes what it has not opened")
        start = self.marks.pop()
        values = self.stack[start:]
        del self.stack[start:]
        return values

    def tuple(self, count):
        values = [self.pop() for _ in range(count)]
        self.push(tuple(reversed(values)))

    def protocol(self):
        number = self.number("<B")
        if number != 2:
            raise RefusedError(f"it is a pickle of protocol {number}, and torch writes protocol 2")

    def name(self):
        module, name = self.line(), self.line()
        if (module, name) not in self.names:
            raise RefusedError(f"reading it would run {shorten(f'{module}.{name}')}")
        self.push(self.names[module, name])

    def call(self):
        arguments, function = self.pop(), self.pop()
        if not isinstance(function, Maker) or not isinstance(arguments, tuple):
            raise RefusedError(f"its pickle calls {quote(function)}")
        self.push(function.make(*arguments))

    def build(self):
        """A state dict carries versions of modules, of no use here; nothing else has a state."""
        state = self.pop()
        self.top(StateDict)
        if not isinstance(state, dict):
            raise ValueError("its pickle gives a dict a state that is none")

    def persist(self):
        self.push(self.persistent(self.pop()))

    def extend(self, values):
        self.top(list).extend(values)

    def store(self, values):
        target = self.top(dict)
        if len(values) % 2:
            raise ValueError("its pickle has a key without a value")
        for key, value in zip(values[::2], values[1::2], strict=True):
            if not isinstance(key, KEYS):
                raise RefusedError(f"its pickle has a key of the type {type(key).__name__}")
            if key in target:
                raise ValueError(f"it has {quote(key)} twice")
            target[key] = value

    def remember(self, index):
        self.memo[index] = self.top(object)

    def recall(self, index):
        if index not in self.memo:
            raise ValueError("its pickle recalls what it has not met")
        self.push(self.memo[index])


class StateDict(dict):
    """An `OrderedDict` of a pickle."""


def _state_dict():
    """Takes no pairs: a pickle could hand over the same ones again and again, each time a copy."""
    return StateDict()


STATE_DICT = Maker(_state_dict)

INSTRUCTIONS = {
    pickle.PROTO: _Run.protocol,
    pickle.MARK: lambda run: run.marks.append(len(run.stack)),
    pickle.GLOBAL: _Run.name,
    pickle.REDUCE: _Run.call,
    pickle.BUILD: _Run.build,
    pickle.BINPERSID: _Run.persist,
    pickle.APPEND: lambda run: run.extend([run.pop()]),
    pickle.APPENDS: lambda run: run.extend(run.since_mark()),
    pickle.SETITEM: lambda run: run.store([run.pop(), run.pop()][::-1]),
    pickle.SETITEMS: lambda run: run.store(run.since_mark()),
    pickle.TUPLE: lambda run: run.push(tuple(run.since_mark())),
    pickle.TUPLE1: lambda run: run.tuple(1),
    pickle.TUPLE2: lambda run: run.tuple(2),
    pickle.TUPLE3: lambda run: run.tuple(3),
    pickle.NONE: lambda run: run.push(None),
    pickle.NEWFALSE: lambda run: run.push(False),
    pickle.NEWTRUE: lambda run: run.push(True),
    pickle.EMPTY_TUPLE: lambda run: run.push(()),
    pickle.EMPTY_LIST: lambda run: run.push([]),
    pickle.EMPTY_DICT: lambda run: run.push({}),
    pickle.BININT: lambda run: run.push(run.number("<i")),
    pickle.BININT1: lambda run: run.push(run.number("<B")),
    pickle.BININT2: lambda run: run.push(run.number("<H")),
    pickle.BINFLOAT: lambda run: run.push(run.number(">d")),
    pickle.LONG1: lambda run: run.push(pickle.decode_long(run.take(run.number("<B")))),
    pickle.BINUNICODE: lambda run: run.push(run.take(run.number("<I")).decode()),
    pickle.SHORT_BINSTRING: lambda run: run.push(run.take(run.number("<B")).decode("ascii")),
    pickle.BINGET: lambda run: run.recall(run.number("<B")),
    pickle.LONG_BINGET: lambda run: run.recall(run.number("<I")),
    pickle.BINPUT: lambda run: run.remember(run.number("<B")),
    pickle.LONG_BINPUT: lambda run: run.remember(run.number("<I")),
}
