"""Draws combinations of all that attention takes, and compares each with the reference in NumPy.

    python tests/attention_draws.py --seconds 3600 --seed 1    # prints what fails
    python tests/attention_draws.py --seed 1 --only "12: cope + causal (short)"    # one again
    python tests/attention_draws.py --table    # which pairs of options met, or are refused

A case has two to six options: of the constructor, of the call, encodings with some of their
arguments, lengths around the bounds at which the code chooses another path. Which pairs of options
have met is counted, and the next case is of pairs that have not.
"""

import argparse
import collections
import itertools
import math
import os
import re
import sys
import time

import numpy as np
from attention_cases import LENGTHS, OPTIONS, REFUSED, draw, exclude
from attention_checks import Refused, check


class Pairs:
    """Counts how often two options have met, except those that are excluded.

    Args:
        rng: of the cases.
        names: list of str, the options.
        excluded: function of two options, whether they never meet.
        most: int. Number of options that join a pair.

    Attributes:
        met: Counter of frozensets of two options.
    """

    def __init__(self, rng, names=OPTIONS, excluded=None, most=4):
        self.rng, self.met, self.tries = rng, collections.Counter(), collections.Counter()
        self.names, self.most = names, most
        self.excluded = excluded or (lambda *pair: exclude(*pair) or refused(*pair))
        pairs = itertools.combinations(names, 2)
        self.all = [frozenset(pair) for pair in pairs if not self.excluded(*pair)]

    def missing(self):
        return [pair for pair in self.all if not self.met[pair]]

    def options(self):
        """Two to six options, with as many pairs as possible that have not met."""
        missing = self.missing() or self.all
        fewest = min(self.tries[pair] for pair in missing)
        missing = [pair for pair in missing if self.tries[pair] == fewest]
        chosen = sorted(missing[self.rng.integers(len(missing))])
        self.tries[frozenset(chosen)] += 1
        # A pair that was refused in company is tried alone.
        for _ in range(int(self.rng.integers(self.most + 1)) if fewest < 2 else 0):
            fits = [
                option
                for option in self.rng.permutation(self.names)
                if not any(option == each or self.excluded(option, each) for each in chosen)
            ][:12]
            if not fits:
                break
            new = [
                sum(not self.met[frozenset((option, each))] for each in chosen) for option in fits
            ]
            chosen.append(fits[int(np.argmax(new))])
        return [str(each) for each in chosen]

    def count(self, options):
        self.met.update(map(frozenset, itertools.combinations(options, 2)))


def refused(one, other):
    """The words in which a pair of options is refused, or None."""
    return REFUSED.get((one, other)) or REFUSED.get((other, one))


def case_of(seed, number, options, lengths):
    """The case of a seed and its number."""
    return draw(np.random.default_rng([seed, number]), options, lengths)


def run(seed, seconds=math.inf, most=math.inf, report=print, every=1, long=0.15, until_met=False):
    """Draws and checks cases; returns (number of cases, failures, `Pairs`, refusals).

    Args:
        seconds, most: bounds of the time and of the number of cases.
        every: int. The gradients of every so many are compared.
        long: float. Share of cases of more than 256 tokens.
        until_met: bool. Stop when all pairs have met.
    """
    rng = np.random.default_rng(seed)
    pairs, failures, number, start = Pairs(rng), [], 0, time.monotonic()
    messages, kinds = collections.Counter(), list(LENGTHS)
    shares = [0.9 - long, 0.1, long * 0.8, long * 0.2]
    while time.monotonic() - start < seconds and number < most:
        if until_met and not pairs.missing():
            break
        options, lengths = pairs.options(), str(rng.choice(kinds, p=shares))
        number += 1
        try:
            check(case_of(seed, number, options, lengths), number % every == 0)
            pairs.count(options)
        except Refused as error:
            messages[str(error)] += 1
        except Exception as error:
            line = f"{number}: {' + '.join(options)} ({lengths}): {type(error).__name__} {error}"
            failures.append(line[:600])
            report(line[:600])
    return number, failures, pairs, messages


def table(pairs):
    """The lines of a table of how often options met."""
    lines = [f"{len(pairs.all) - len(pairs.missing())} of {len(pairs.all)} pairs have met"]
    for option in OPTIONS:
        counts = [pairs.met[pair] for pair in pairs.all if option in pair]
        closed = [other for other in OPTIONS if refused(option, other)]
        lines.append(
            f"{option:22} {sum(c > 0 for c in counts):3} of {len(counts):3} met, {sum(counts):5} "
            f"times; refused: {', '.join(closed) or '-'}"
        )
    return lines


def seed_of_the_day():
    """The seed in the environment, SEED, or the number of the day."""
    return int(os.environ.get("SEED", time.time() // 86400))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--only", help="the beginning of a line of a case that failed")
    parser.add_argument("--long", type=float, default=0.15, help="share of long cases")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--messages", action="store_true")
    arguments = parser.parse_args()
    seed = seed_of_the_day() if arguments.seed is None else arguments.seed
    print(f"seed {seed}")
    if arguments.only:
        number, options, lengths = re.match(r"(\d+): (.*) \((\w+)\)", arguments.only).groups()
        case = case_of(seed, int(number), options.split(" + "), lengths)
        print(case.layer, {n: getattr(x, "shape", x) for n, x in case.call.items()}, case.steps)
        return check(case)
    number, failures, pairs, messages = run(seed, arguments.seconds, long=arguments.long)
    missing = [" + ".join(sorted(pair)) for pair in pairs.missing()]
    print(f"{number} cases, {len(failures)} wrong, {len(missing)} pairs have not met")
    for line in table(pairs) if arguments.table else []:
        print(line)
    for message, count in messages.most_common() if arguments.messages else []:
        print(count, message)
    for pair in missing if len(missing) < 99 else []:
        print("not met:", pair)
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
