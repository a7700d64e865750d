"""The tasks again, slowly: strings, Python's own parser, loops. Imports nothing of the package.

Each oracle takes one row of tokens, a list of ints, and gives the targets and how many places of
them, from the first on, are scored. It raises where the row is not of the language.
"""

import ast
import math

MODULUS = 5


def ones_and_zeros(row):
    assert set(row) <= {0, 1}
    return row


def even_pairs(row):
    text = "".join(map(str, ones_and_zeros(row)))
    pairs = sum(text[i : i + 2] in ("01", "10") for i in range(len(text)))
    return [pairs % 2], 1


def parity_check(row):
    return [ones_and_zeros(row).count(1) % 2], 1


def cycle_navigation(row, steps=(-1, 0, 1)):
    place = 0
    for token in row:
        place = (place + steps[token]) % 5
    return [place], 1


def cycle_navigation_paper(row):
    return cycle_navigation(row, steps=(0, 1, -1))


def python_value(text):
    """The value of an expression, by Python's parser. A bracket with nothing or a tuple fails."""
    value = eval(compile(ast.parse(text, mode="eval"), "expression", "eval"), {})
    assert isinstance(value, int)
    return value % MODULUS


def modular_arithmetic(row):
    text = "".join("01234+-*"[token] for token in row)
    assert len(text) % 2 and all(c.isdigit() == (i % 2 == 0) for i, c in enumerate(text))
    return [python_value(text)], 1


def modular_arithmetic_brackets(row):
    return [python_value("".join("01234+-*()"[token] for token in row))], 1


def solve_equation(row):
    if len(row) < 3:
        assert not any(row)
        return [0], 1
    left, right = "".join("01234+-()x="[token] for token in row).split("=")
    assert left.count("x") == 1 and len(right) == 1
    roots = [d for d in range(5) if python_value(left.replace("x", str(d))) == int(right)]
    assert len(roots) == 1
    return roots, 1


def is_drawn_expression(text, operators):
    """Whether the published grammar makes the text, by trying every way to split it."""
    if len(text) <= 4:
        core = text[1:-1] if text.startswith("(") else text
        signed = core[1:] if core.startswith("-") else core
        return signed.isdigit() and len(signed) == 1 and (core == text or text.endswith(")"))
    if not (text.startswith("(") and text.endswith(")")):
        return False
    depth = 0
    for place, character in enumerate(text[1:-1], 1):
        depth += (character == "(") - (character == ")")
        if depth == 0 and character in operators and place > 1:
            left, right = text[1:place], text[place + 1 : -1]
            if right and is_drawn_expression(left, operators):
                if is_drawn_expression(right, operators):
                    return True
    return False


def reverse_string(row):
    return list(reversed(ones_and_zeros(row))), len(row)


def stack_manipulation(row):
    actions = [token >= 2 for token in row]
    assert actions == sorted(actions) and not actions[0]
    stack = []
    for token in row:
        if token == 2:
            if stack:
                stack.pop()
        else:
            stack.append({0: 0, 1: 1, 3: 0, 4: 1}[token])
    answer = [*reversed(stack), 2]
    return answer + [0] * (len(row) + 1 - len(answer)), len(answer)


def duplicate_string(row):
    return ones_and_zeros(row) * 2, 2 * len(row)


def missing_duplicate_string(row):
    if len(row) == 1:
        assert row == [1]
        return [1], 1
    half = len(row) // 2
    assert row.count(2) == 1 and row[2 * half :] == [3] * (len(row) % 2)
    for bit in (0, 1):
        full = [bit if token == 2 else token for token in row[: 2 * half]]
        if full[:half] == full[half:]:
            return [bit], 1
    raise AssertionError("not the same twice")


def odds_first(row):
    return [t for i, t in enumerate(row) if i % 2 == 1] + [
        t for i, t in enumerate(row) if i % 2 == 0
    ], len(row)


def odds_first_paper(row):
    return [t for i, t in enumerate(row, 1) if i % 2 == 1] + [
        t for i, t in enumerate(row, 1) if i % 2 == 0
    ], len(row)


def number_of(bits):
    return int("".join(map(str, reversed(bits))), 2)


def ended(number, width):
    answer = [int(bit) for bit in reversed(f"{number:b}")] + [2]
    return answer + [0] * (width - len(answer)), len(answer)


def two_numbers(row):
    place = row.index(2)
    assert row.count(2) == 1
    return number_of(row[:place]), number_of(row[place + 1 :])


def binary_addition(row):
    if len(row) < 3:
        return ended(number_of(row), len(row) + 1)
    return ended(sum(two_numbers(row)), len(row) + 1)


def binary_multiplication(row):
    if len(row) < 3:
        assert 2 not in row
        return ([2], 1) if len(row) == 1 else ([0, 2], 2)
    first, second = two_numbers(row)
    return ended(first * second, len(row))


def compute_sqrt(row):
    root = math.isqrt(int("".join(map(str, row)), 2))
    width = math.ceil(len(row) / 2)
    return [int(bit) for bit in f"{root:0{width}b}"], width


def compute_sqrt_paper(row):
    targets, scored = compute_sqrt(row[::-1])
    return targets[::-1], scored


def bucket_sort(row):
    return [value for value in range(5) for token in row if token == value], len(row)


def flip_flop(row):
    """The scored places and what is right there, as a dict."""
    assert len(row) % 2 == 0 and row[0] == 0
    memory, right = None, {}
    for place in range(0, len(row), 2):
        instruction, bit = row[place : place + 2]
        assert instruction in (0, 1, 2) and bit in (3, 4)
        if instruction == 0:
            memory = bit
        elif instruction == 1:
            right[place] = memory
            assert bit == memory
    return right


def selective_copy(row):
    text, copy = row[: row.index(17)], row[row.index(17) + 1 :]
    assert [token for token in text if token != 16] == copy
    return {len(text) + i: token for i, token in enumerate(copy)}


def counting(row):
    """Runs the program in Python, statement by statement."""
    words = {2: "=", 3: ";", 4: "++;", 5: "pass;", 6: "print"}
    words |= {7 + value: str(value) for value in range(11)}
    text = " ".join(words.get(token, f"v{token}") for token in row if token != 0)
    program, question = text.split("print")
    state = {}
    for statement in program.split(";")[:-1]:
        match statement.split():
            case ["pass"]:
                pass
            case [name, "++"]:
                state[name] += 1
                assert state[name] <= 10
            case [name, "=", "0"]:
                state[name] = 0
            case other:
                raise AssertionError(other)
    name, value = question.split()
    assert state[name] == int(value)
    return {row.index(6) + 1: 7 + state[name]}
