"""The arguments of each command: an option is a keyword of the function that the command calls."""

import argparse
import sys

import keras_posenc
from keras_posenc.cli.benchmarks import BENCHMARKS
from keras_posenc.cli.files import FILES
from keras_posenc.cli.options import columns
from keras_posenc.cli.plots import PLOTS
from keras_posenc.cli.training import TRAINING


class _Parser(argparse.ArgumentParser):
    """A parser with one-line errors and without attributes for options that are not given."""

    def __init__(self, **options):
        super().__init__(argument_default=argparse.SUPPRESS, allow_abbrev=False, **options)

    def parse_known_args(self, args=None, namespace=None):
        """Reads a command of two words, `bench passkey`, as one."""
        args = list(sys.argv[1:] if args is None else args)
        if " ".join(args[:2]) in {name for name, *_ in COMMANDS}:
            args[:2] = [" ".join(args[:2])]
        return super().parse_known_args(args, namespace)

    def error(self, message):
        self.exit(2, f"keras-posenc: error: {message} (see {self.prog} --help)\n")


# (command, what it does, positional arguments, options): a name, its help, and what argparse takes.
COMMANDS = [
    *TRAINING,
    *FILES,
    *BENCHMARKS,
    (
        "list",
        "print a table of all position encodings",
        [],
        [],
    ),
    (
        "describe",
        "show what a position encoding does, its arguments, and what it learns",
        [("name", "as `keras-posenc list` prints it", {})],
        [],
    ),
]


def parser():
    """Makes the parser of the command line; options that are not given leave no attribute."""
    whole = _Parser(
        prog="keras-posenc",
        description="Pretrained BERTs, stretched past 512 tokens and fine-tuned on long text.",
        epilog="Each command prints the Python that it runs. See COMMAND --help for its options.",
    )
    version = f"keras-posenc {keras_posenc.__version__}"
    whole.add_argument("--version", action="version", version=version)
    commands = whole.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in _add(commands, COMMANDS):
        if name == "predict":
            source = command.add_mutually_exclusive_group(required=True)
            source.add_argument(
                "--text", dest="texts", action="append", help="a text; may be repeated"
            )
            source.add_argument(
                "--file", help="a file of texts: .txt (one a line), .tsv, .jsonl, ..."
            )
            command.add_argument("--question", help="for qa: about each --text")
            column = {"dest": "text", "type": columns, "metavar": "NAME"}
            command.add_argument("--text-column", **column, help="of --file; or columns, as a,b")
    what = "draw what position encodings do (needs Matplotlib)"
    plot = commands.add_parser("plot", help=what, description=f"{what[0].upper()}{what[1:]}.")
    plots = plot.add_subparsers(dest="what", metavar="WHAT", required=True)
    dict(_add(plots, PLOTS))
    return whole


def _add(commands, table):
    """Adds the commands of a table; yields name and parser of each."""
    for name, what, positional, options in table:
        command = commands.add_parser(name, help=what, description=f"{what[0].upper()}{what[1:]}.")
        for flag, words, more in [*positional, *options]:
            command.add_argument(flag, help=words, **_metavar(flag, more))
        command.add_argument("--debug", action="store_true", help="show the traceback of an error")
        yield name, command


def _metavar(flag, more):
    """Options of argparse in which a value is shown by its type, and a place by its name."""
    if {"choices", "action", "metavar"} & set(more):
        return more
    names = {int: "N", float: "X"}
    if flag.startswith("--"):
        return {**more, "metavar": names.get(more.get("type"), flag[2:].upper())}
    return {**more, "metavar": flag.upper()}
