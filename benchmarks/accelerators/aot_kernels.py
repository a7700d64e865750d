"""What a program that XLA compiled launches and moves: kernels, and the bytes they read and write.

The compiler's own count is missing for GPUs, and it takes the body of a loop once. Here a loop
counts as often as it runs. A kernel reads its operands and writes its results, once each; of an
array of which it only takes or replaces a slice, it moves that slice.
"""

import collections
import dataclasses
import functools
import math
import re

INSTRUCTION = re.compile(r"^\s+(ROOT )?%([\w.\-]+) = (.+?) ([\w\-]+)\((.*)$")
COMPUTATION = re.compile(r"^(ENTRY )?%([\w.\-]+) \(.*\{$")
ARRAY = re.compile(r"\b(pred|[a-z]+\d+)[a-z0-9]*\[([\d,]*)\]")
WORKSPACE = re.compile(r", [su]8\[[^)]*(?=\)$)")
NAME = re.compile(r"%([\w.\-]+)")
TURNS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
CALLED = re.compile(r"(?:calls|to_apply|body)=%([\w.\-]+)")
BRANCHES = re.compile(r"(?:branch_computations=\{([^}]*)\}|(?:true|false)_computation=(%[\w.\-]+))")
FREE = set(
    "parameter constant tuple get-tuple-element bitcast after-all copy-done opt-barrier "
    "async-done async-update partition-id replica-id".split()
)
SLICES = {"dynamic-slice", "slice", "gather"}
REPLACES = {"dynamic-update-slice": 1, "scatter": 2}  # the operand that holds what is written
PASSED_ON = {"bitcast", "reshape", "convert", "copy", "transpose"}


@dataclasses.dataclass(frozen=True)
class Cost:
    """What a computation launches and moves."""

    kernels: int = 0
    bytes: int = 0

    def __add__(self, other):
        return Cost(self.kernels + other.kernels, self.bytes + other.bytes)

    def times(self, turns):
        return Cost(self.kernels * turns, self.bytes * turns)


@dataclasses.dataclass(frozen=True)
class Instruction:
    name: str
    shape: str
    opcode: str
    operands: tuple
    rest: str
    is_root: bool


class Program:
    """A compiled program, read from its text.

    Attributes:
        entry: str. The name of the computation that is run.
    """

    def __init__(self, text):
        self.computations, instructions = {}, None
        for line in text.splitlines():
            if found := COMPUTATION.match(line):
                instructions = self.computations[found[2]] = {}
                if found[1]:
                    self.entry = found[2]
            elif instructions is not None and (found := INSTRUCTION.match(line)):
                root, name, shape, opcode, rest = found.groups()
                end = _closing(rest)
                operands = tuple(NAME.findall(rest[:end]))
                instructions[name] = Instruction(
                    name, shape, opcode, operands, rest[end:], bool(root)
                )
        self.cost_of = functools.cache(self._cost_of)

    def cost(self):
        """The `Cost` of a run; a loop whose turns are not known is one turn."""
        return self.cost_of(self.entry)

    def turn(self):
        """The `Cost` of a turn of the loop in which one turn moves most."""
        found = [
            self.cost_of(CALLED.search(each.rest)[1])
            for instructions in self.computations.values()
            for each in instructions.values()
            if each.opcode == "while"
        ]
        return max(found, key=lambda cost: cost.bytes)

    def by_name(self, computation=None, turns=1):
        """Counter of the bytes of kernels by what JAX called the operation."""
        found = collections.Counter()
        for each in self.computations[computation or self.entry].values():
            inner = CALLED.search(each.rest)
            if each.opcode in ("while", "call"):
                found += self.by_name(inner[1], turns * self._turns(each))
            elif each.opcode not in FREE:
                name = re.search(r'op_name="([^"]*)"', each.rest)
                name = each.opcode + " " + (name[1] if name else each.name)
                moved = self._instruction(computation or self.entry, each).bytes
                found[name, each.shape.split("{")[0]] += turns * moved
        return found

    def _turns(self, instruction):
        found = TURNS.search(instruction.rest.replace(" ", ""))
        return int(found[1]) if found else 1

    def _cost_of(self, name):
        costs = (self._instruction(name, each) for each in self.computations[name].values())
        return sum(costs, Cost())

    def _instruction(self, computation, each):
        if each.opcode in FREE:
            return Cost()
        if each.opcode in ("while", "call", "async-start"):
            return self.cost_of(CALLED.search(each.rest)[1]).times(self._turns(each))
        if each.opcode == "conditional":
            branches = NAME.findall(" ".join(map("".join, BRANCHES.findall(each.rest))))
            return max(map(self.cost_of, branches), key=lambda cost: cost.bytes)
        of_operands = [self._size(computation, name) for name in dict.fromkeys(each.operands)]
        # What a kernel of a library needs besides is bytes without a meaning.
        written = _bytes(WORKSPACE.sub("", each.shape))
        if each.opcode == "fusion":
            of_operands, written = self._fusion(CALLED.search(each.rest)[1])
        elif each.opcode in SLICES:
            of_operands = [written]
        elif each.opcode in REPLACES:
            written = self._size(computation, each.operands[REPLACES[each.opcode]])
            of_operands = [written]
        return Cost(1, sum(of_operands) + written)

    def _size(self, computation, name):
        return _bytes(self.computations[computation][name].shape)

    def _fusion(self, name):
        """The bytes that each operand of a fusion is read for, and those that are written."""
        inner = self.computations[name]
        users = collections.defaultdict(list)
        for each in inner.values():
            for operand in each.operands:
                users[operand].append(each)
        inputs = (each for each in inner.values() if each.opcode == "parameter")
        sizes = [self._read(name, each, users) for each in inputs]
        (root,) = (each for each in inner.values() if each.is_root)
        roots = [inner[x] for x in root.operands] if root.opcode == "tuple" else [root]
        return sizes, sum(self._written(name, each) for each in roots)

    def _read(self, name, value, users):
        """The bytes of a value inside a fusion that are read."""
        total = 0
        for user in users[value.name]:
            if user.opcode in SLICES and user.operands[0] == value.name:
                total += _bytes(user.shape)
            elif user.opcode in REPLACES and user.operands[0] == value.name:
                pass
            elif user.opcode in PASSED_ON and users[user.name]:
                total += self._read(name, user, users)
            else:
                return _bytes(value.shape)
        return min(total, _bytes(value.shape))

    def _written(self, name, value):
        inner, source = self.computations[name], value
        while source.opcode in PASSED_ON:
            source = inner[source.operands[0]]
        if source.opcode in REPLACES:
            return self._size(name, source.operands[REPLACES[source.opcode]])
        return _bytes(value.shape)


def _closing(text):
    """The index of the parenthesis that closes one before the text."""
    depth = 1
    for i, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if not depth:
            return i
    return len(text)


def _bytes(shape):
    """The bytes of an array, or of all arrays of a tuple."""
    total = 0
    for dtype, sizes in ARRAY.findall(shape):
        bits = 8 if dtype == "pred" else int(re.search(r"\d+", dtype)[0])
        total += math.prod(int(n) for n in sizes.split(",") if n) * max(1, bits // 8)
    return total
