"""What the fuzzer does to files: damage at random, as a function of a random generator alone."""

import copy
import json

NUMBERS = [0, 1, -1, 2, 127, 255, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**64]
VALUES = [None, True, -1.5, 1e400, "", "x", "\ud800", "../x", "/dev/zero", "x" * 2**16, [], {}]
VALUES += [*NUMBERS, [[[[]]]], [-1], [2**62, 4], {"class_name": "Lambda", "config": {}}]


def _flip(rng, data, place):
    data[place] ^= 1 << rng.randrange(8)


def _byte(rng, data, place):
    data[place] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))


def _integer(rng, data, place):
    size = rng.choice((2, 4, 8))
    number = rng.choice(NUMBERS) & (256**size - 1)
    data[place : place + size] = number.to_bytes(size, rng.choice(("little", "big")))


def _cut(rng, data, place):
    del data[place : place + rng.choice((1, 2, 8, len(data)))]


def _copy(rng, data, place):
    other = rng.randrange(len(data))
    data[place:place] = data[other : other + rng.choice((1, 4, 64, 4096))]


def damaged(rng, data):
    """Bytes with one to six of the mutations."""
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 6))):
        if data:
            # Where formats keep what they say of themselves: at both ends.
            place = rng.choice((rng.randrange(len(data)), rng.randrange(min(len(data), 256))))
            place = len(data) - 1 - place if rng.random() < 0.3 else place
            rng.choice((_flip, _byte, _integer, _cut, _copy))(rng, data, place)
    return bytes(data)


def damaged_json(rng, value):
    """A JSON value with another one somewhere in it, as text that any JSON reader may meet."""
    places, found = [], [value]
    while found:
        each = found.pop()
        keys = range(len(each)) if isinstance(each, list) else ()
        keys = list(each) if isinstance(each, dict) else keys
        places += [(each, key) for key in keys]
        found += [each[key] for key in keys]
    for _ in range(rng.choice((1, 1, 3))):
        each, key = rng.choice(places)
        other, other_key = rng.choice(places)
        try:
            new = copy.deepcopy(rng.choice((rng.choice(VALUES), other[other_key])))
            if isinstance(each, dict) and rng.random() < 0.3:
                each[rng.choice(("", "x" * 999, str(other_key), "__metadata__"))] = new
            elif rng.random() < 0.1:
                del each[key]
            else:
                each[key] = new
            text = json.dumps(value)
        except LookupError:  # it went before
            return "[" * rng.choice((10, 10**5))
    return text if rng.random() < 0.9 else damaged(rng, text.encode()).decode("utf-8", "replace")
