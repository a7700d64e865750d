"""The command of the shell that makes a result again."""

import json
import pathlib
import shlex

from benchmarks.extrapolation.settings import Settings


def commands_of(results):
    """The commands that these results come from, one for all that have the same settings and seeds.

    Args:
        results: list of dict, as `bench` returns.

    Returns:
        str, lines for a shell.

    Example:

    >>> run = {"task": "even_pairs", "model": "lstm", "encodings": "none", "seed": 0}
    >>> run |= {"positions": "consecutive", "settings": {"steps": 9}, "train_lengths": [1, 40]}
    >>> print(commands_of([{**run, "versions": {"backend": "jax"}}]))
    KERAS_BACKEND=jax python -m benchmarks.extrapolation even_pairs \\
        --models lstm --encodings none --seeds 0 --steps 9
    """
    alike, seeds = {}, {}
    for one in results:
        seeds.setdefault(_row(one), []).append(one["seed"])
    for one in results:
        same = one["settings"], one["versions"]["backend"], one["train_lengths"]
        key = json.dumps([*same, sorted(seeds[_row(one)])])
        alike.setdefault(key, []).append(one)
    return "\n".join(_command(several) for several in alike.values())


def _row(result):
    return tuple(result[name] for name in ("task", "model", "encodings", "positions"))


def _command(results):
    def distinct(name):
        return list(dict.fromkeys(str(one[name]) for one in results))

    defaults = Settings(steps=1)
    words = ["python", "-m", "benchmarks.extrapolation", *distinct("task")]
    if (models := distinct("model")) != ["transformer"]:
        words += ["--models", *models]
    words += ["--encodings", *distinct("encodings")]
    if (positions := distinct("positions")) != ["consecutive"]:
        words += ["--positions", *positions]
    words += ["--seeds", ",".join(distinct("seed"))]
    for name, value in results[0]["settings"].items():
        if value is None or value == getattr(defaults, name):
            continue
        value = _listed(value) if isinstance(value, list) else str(value)
        value = pathlib.PurePath(value).name if name == "corpus" else value
        words += [f"--{name.replace('_', '-')}", value]
    words.insert(0, f"KERAS_BACKEND={results[0]['versions']['backend']}")
    return _wrapped(words)


def _listed(numbers):
    """Writes lengths as a range, such as 1-20, if they have no gaps, else as a list."""
    if len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]}-{numbers[-1]}"
    return ",".join(map(str, numbers))


def _wrapped(words, width=76):
    """A command in lines of the shell, options together with their values."""
    parts = []
    for word in words:
        if word.startswith("--") or len(parts) == 0:
            parts.append(shlex.quote(word) if word[0] == "-" else word)
        else:
            parts[-1] += f" {shlex.quote(word)}"
    lines = [parts[0]]
    for part in parts[1:]:
        if len(lines[-1]) + 1 + len(part) <= width:
            lines[-1] += f" {part}"
        else:
            lines.append(f"    {part}")
    return " \\\n".join(lines)
