"""CoPE's counting task: how often a variable was incremented since it was set."""

import numpy as np

from keras_posenc.tasks.content_tasks import NextToken

PAD, START, SET, END, INCREMENT, PASS, PRINT, NUMBER = range(8)
MOST = 10
VARIABLE = NUMBER + MOST + 1
SET_WEIGHT, INCREMENT_WEIGHT, PASS_WEIGHT = 1, 7, 50

# The words of a statement; VARIABLE stands for a name, NUMBER for 0 or for the answer.
WORDS = np.zeros((PRINT + 1, 4), int)
WORDS[SET] = VARIABLE, SET, NUMBER, END
WORDS[INCREMENT, :2] = VARIABLE, INCREMENT
WORDS[PASS, 0] = PASS
WORDS[PRINT, :3] = PRINT, VARIABLE, NUMBER
SIZE = (WORDS != PAD).sum(1)


class Counting(NextToken):
    """The value of a variable after a program of "v = 0 ;", "v ++;" and "pass;".

    At the end "print v" asks for a variable that was set, chosen uniformly; its value is the only
    answer. Statements are drawn with weights 1 (set), 7 (increment) and 50 (pass). An increment of
    a variable that is not set, or has the value 10, is drawn again.

    The token ids are those of the published code. Tokens 2 to 6 are "=", ";", "++;", "pass;" and
    "print". Tokens 7 to 17 are the values 0 to 10, and the variables follow. Token 0 is padding,
    and 1 is the start token, which is never used.

    The length is the number of tokens, 512 in the paper. The number of steps of a program is
    uniform from 3 to the length, and the program is padded on the right. In the variant "whole", a
    program that is too long loses its last steps. In "code", as in the paper, it loses its first
    tokens. Then the answer may depend on removed tokens (in one row of 250 with 5 variables), and
    `solve` refuses it. The values are not uniform: a third of the answers are 0 at 40 tokens, and a
    fifth are 10 at 512.

    `split`: "train" (weight 50 of pass), "sparse" (200) or "dense" (10). The last two are not in
    the paper. `variables`: int. Number of variables; 1, 3 and 5 in the paper. `variant`: "whole" or
    "code".

    Example:

    >>> task = Counting(variables=1)
    >>> tokens = [[18, 2, 7, 3, 5, 18, 4, 5, 6, 18, 8, 0]]  # a = 0 ; pass; a ++; pass; print a 1
    >>> targets, mask = task.solve(tokens)
    >>> int(targets[mask == 1][0]) - 7
    1
    """

    name, chance = "counting", 1 / (MOST + 1)
    splits = {"train": PASS_WEIGHT, "sparse": 4 * PASS_WEIGHT, "dense": PASS_WEIGHT // 5}
    variants = ("whole", "code")
    paper = "https://arxiv.org/abs/2405.18719"

    def __init__(self, split="train", variables=3, variant=None):
        super().__init__(split, variant)
        if variables < 1:
            raise ValueError(f"{self.name}: variables={variables}; give at least 1.")
        self.variables = variables
        self.vocabulary_size = self.classes = VARIABLE + variables

    def _draw(self, rng, batch_size, length):
        shortest = SIZE[SET] + SIZE[PRINT]
        if length < shortest:
            raise ValueError(
                f"{self.name}: length={length}; the shortest program and its question have "
                f"{shortest} tokens: give at least {shortest}."
            )
        tokens = np.zeros((batch_size, length), "int32")
        rows = np.arange(batch_size)
        # A program whose steps are cut off may set no variable.
        while rows.size:
            drawn, answerable = self._programs(rng, rows.size, length)
            tokens[rows] = drawn
            rows = rows[~answerable]
        return tokens

    def _programs(self, rng, rows, length):
        """Draws rows of tokens, and marks the rows that set a variable."""
        steps, first_set = self._steps(rng, rows, length)
        kind, variable, value = self._statements(rng, first_set, int(steps.max()))
        kind = np.where(np.arange(kind.shape[1]) < steps, kind, PAD)
        size = SIZE[kind]
        if self.variant == "whole":
            kind[np.cumsum(size, axis=1) > length - SIZE[PRINT]] = PAD
            size = SIZE[kind]
        known = np.full((rows, self.variables), -1)
        for number in range(self.variables):
            about = (variable == number) & ((kind == SET) | (kind == INCREMENT))
            latest = np.where(about, np.arange(kind.shape[1]), -1).max(1)
            known[:, number] = np.where(latest >= 0, value[np.arange(rows), latest], -1)
        asked = _pick(known >= 0, rng.random(rows))
        # Statements, then the question as a last one, spread over the tokens.
        kind = np.concatenate([kind, np.full((rows, 1), PRINT)], axis=1)
        variable = np.concatenate([variable, asked[:, None]], axis=1)
        size = SIZE[kind]
        start = np.cumsum(size, axis=1) - size
        total = size.sum(1)
        text = np.zeros((rows, int(total.max()) + 1), "int32")
        for words in range(WORDS.shape[1]):
            row, column = np.nonzero(size > words)
            word = WORDS[kind[row, column], words]
            named = np.where(word == VARIABLE, VARIABLE + variable[row, column], word)
            text[row, start[row, column] + words] = named
        row = np.arange(rows)
        text[row, total - 1] = NUMBER + known[row, asked]
        # Truncated on the left, as in the published code, or not at all.
        shift = np.maximum(total - length, 0)[:, None]
        place = np.minimum(np.arange(length) + shift, text.shape[1] - 1)
        return np.take_along_axis(text, place, 1), (known >= 0).any(1)

    def _steps(self, rng, rows, length):
        """Draws the number of steps, and the first step that sets a variable: (rows, 1) each.

        As in the paper, a program that sets none is drawn again, its number of steps too. Until a
        variable is set, a statement is a set or a pass, so that both have a closed form.
        """
        passes = self.splits[self.split]
        logarithm = np.log(passes / (passes + SET_WEIGHT))
        lengths = np.arange(3, length + 1)
        some_set = -np.expm1(lengths * logarithm)
        index = rng.choice(len(lengths), (rows, 1), p=some_set / some_set.sum())
        first_set = np.log1p(-some_set[index] * rng.random((rows, 1))) / logarithm
        return lengths[index], np.minimum(first_set.astype(int), lengths[index] - 1)

    def _statements(self, rng, first_set, steps):
        """Draws kind, variable and new value of the statements, (rows, steps) each.

        It draws a third more proposals than needed, and then some, so that enough are left when
        those to be drawn again are dropped.
        """
        rows = len(first_set)
        shape = rows, steps + steps // 3 + 60
        weights = np.array([SET_WEIGHT, INCREMENT_WEIGHT, self.splits[self.split]], "float64")
        edges = np.cumsum(weights / weights.sum())[:-1]
        kind = np.array([SET, INCREMENT, PASS])[np.searchsorted(edges, rng.random(shape), "right")]
        place = np.arange(shape[1])
        kind = np.where(place < first_set, PASS, np.where(place == first_set, SET, kind))
        fraction = rng.random(shape)
        variable = (fraction * self.variables).astype(int)
        value = np.zeros(shape, int)
        now = np.full((rows, self.variables), -1)
        # Only statements other than "pass" need a loop, which takes the n-th of all rows together.
        events = np.argsort(kind == PASS, axis=1, kind="stable")
        count = (kind != PASS).sum(1)
        for number in range(int(count.max(initial=0))):
            row = np.flatnonzero(count > number)
            column = events[row, number]
            sets = kind[row, column] == SET
            existing = _pick(now[row] >= 0, fraction[row, column])
            chosen = np.where(sets, variable[row, column], existing)
            old = now[row, chosen]
            new = np.where(sets, 0, old + 1)
            refused = ~sets & ((old < 0) | (old == MOST))
            now[row, chosen] = np.where(refused, old, new)
            kind[row[refused], column[refused]] = PAD
            variable[row, column], value[row, column] = chosen, new
        order = np.argsort(kind == PAD, axis=1, kind="stable")[:, :steps]
        return (np.take_along_axis(array, order, axis=1) for array in (kind, variable, value))

    def solve(self, tokens):
        self._verify(self._checked(tokens))
        return super().solve(tokens)

    def _answer(self, tokens):
        following = self._next(tokens)
        return following, np.roll(tokens == PRINT, 1, axis=1)

    def _verify(self, tokens):
        rows, length = tokens.shape
        asked = tokens == PRINT
        at = asked.argmax(1)
        rule = "is statements, then print, a variable and its value, then padding (0)"
        self._require((asked.sum(1) == 1) & (at + 2 < length), rule)
        row = np.arange(rows)
        variable, answer = tokens[row, at + 1], tokens[row, at + 2] - NUMBER
        place = np.arange(length)
        before, after = place < at[:, None], place > at[:, None] + 2
        fits = (tokens == PAD) == after
        self._require(fits.all(1) & (variable >= VARIABLE), rule)
        # The last "v =" before the question, and the "v ++;" after it.
        following = self._next(tokens)
        named = (tokens == variable[:, None]) & before
        sets = named & (following == SET)
        latest = np.where(sets, place, -1).max(1)
        self._require(latest >= 0, "sets the variable that it prints")
        counted = named & (following == INCREMENT) & (place > latest[:, None])
        self._require(counted.sum(1) == answer, "prints the value of the variable")


def _pick(allowed, fraction):
    """Chooses one of the allowed columns of each row uniformly; 0 where there is none."""
    number = np.floor(fraction * allowed.sum(1))
    return (np.cumsum(allowed, axis=1) > number[:, None]).argmax(1)
