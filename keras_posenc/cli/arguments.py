"""The arguments of each command: an option is a keyword of the function that the command calls."""

import argparse
import difflib
import re
import sys
import textwrap

from keras_posenc.arguments.aliases import argument_here
from keras_posenc.cli.commands import COMMANDS, FLOAT, INT, PLOTS, SPECIAL
from keras_posenc.cli.options import FEWEST, GROUPS, number_or_none, numbers
from keras_posenc.cli.signatures import COMPUTED, REQUIRED, Keyword, constant, describe
from keras_posenc.files.untrusted import visible

# How an entry of `Args:` starts with a type, and what argparse takes for it.
TYPE = re.compile(
    r"(float or None|int|float|list of int|list of str|str|bool)"
    r"(?: or None| or path| or \"all\"| or `Source`| in .*?)?\. "
)
TYPES = {
    "int": INT,
    "float": FLOAT,
    "float or None": {"metavar": "X", "type": number_or_none},
    "list of int": {"metavar": "N,N,...", "type": numbers},
    "list of str": {"metavar": "NAME", "nargs": "+"},
}
# The whole entry of an argument that another run describes.
SHARED = re.compile(r"as in `(finetune|evaluate)`\.$")
CHOICES = re.compile(r"[Oo]ne of (\"[^.]*\")")
# A sentence that argparse's list of the choices makes superfluous.
ONLY_CHOICES = re.compile(r" One of (\"\w+\"(, | or |\.|$))+$")
MOVED = (
    "bench is no longer a command of the package: run python -m benchmarks.extrapolation in a "
    "clone of the repository"
)
MOST_DIFFERENT = 0.7  # the least likeness of an option to one that may be meant
# What happens without an argument, which is of no interest where it is required.
BY_DEFAULT = re.compile(r" By default [^.]*\.")
# References to Python, which a shell does not have.
IN_PYTHON = re.compile(
    r" \(see `\w+`\)|,? (?:see|as in|for) `(?:[A-Z]\w+|open_embedder|read_texts)`"
    r"|; or (?:what `open_embedder` returned|a `Reranker`), which takes [^.]*"
    r"|, which `\w+\.\w+` can write"
)


class _Parser(argparse.ArgumentParser):
    """A parser with one-line errors and without attributes for options that are not given."""

    def __init__(self, **options):
        super().__init__(argument_default=argparse.SUPPRESS, allow_abbrev=False, **options)
        # Positional arguments that may be left out: "?", or "*" if they may be repeated.
        self.left_over = {}
        # Keywords of its function: options, or words in capitals for positional arguments. Those of
        # `former` are left out of --help.
        self.keywords, self.former = {}, {}

    def parse_args(self, args=None, namespace=None):
        """As `ArgumentParser.parse_args`, but an unknown option is an error of its command."""
        args = list(sys.argv[1:] if args is None else args)
        if args[:1] == ["bench"]:
            self.error(MOVED)
        found, unknown = self.parse_known_args(args, namespace)
        command = self.commands.choices.get(found.command, self)
        if not any(each.startswith("-") for each in unknown):
            # argparse finds optional arguments only beside those before them.
            for name, count in command.left_over.items():
                if count == "*":
                    vars(found).setdefault(name, []).extend(unknown)
                    unknown = []
                elif unknown and name not in found:
                    setattr(found, name, unknown.pop(0))
        if unknown:
            self._refuse(unknown, command)
        return found

    def flags(self, name):
        """{keyword: option} of a command's --help, and of what only other commands have."""
        own, others = self.commands.choices[name].keywords, {}
        for command in self.commands.choices.values():
            others |= command.former | command.keywords
        return own, {keyword: flag for keyword, flag in others.items() if keyword not in own}

    @staticmethod
    def _refuse(unknown, command):
        flags = [each.partition("=")[0] for each in unknown if each.startswith("--")]
        known = re.findall(r"--[\w-]+", command.format_help())
        hints = []
        for flag in flags:
            found = argument_here(flag, command.keywords)
            near = difflib.get_close_matches(flag, known, 1, MOST_DIFFERENT)
            if found is not None and not found[1].startswith("="):
                option = command.keywords[found[0]]
                without = option if option.startswith("--") else f"{option} without {flag}"
                hints.append(f"give {without}{found[1]}")
            elif near:
                hints.append(f"did you mean {near[0]}?")
        hint = f": {'; '.join(hints)}" if hints else ""
        command.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")

    def error(self, message):
        self.exit(2, f"keras-posenc: error: {visible(message)} (see {self.prog} --help)\n")


def parser():
    """Makes the parser of the command line; options that are not given leave no attribute."""
    whole = _Parser(
        prog="keras-posenc",
        description="Pretrained encoders, extended past 512 tokens and fine-tuned on long texts.",
        epilog="Each command prints the Python that it runs. See COMMAND --help for its options.",
    )
    version = f"keras-posenc {constant('__version__')}"
    whole.add_argument("--version", action="version", version=version)
    commands = whole.add_subparsers(dest="command", metavar="COMMAND", required=True)
    whole.commands = commands
    dict(_add(commands, COMMANDS))
    what = "Draws what position encodings do (needs Matplotlib)"
    plot = commands.add_parser("plot", help=what, description=f"{what}.")
    plots = plot.add_subparsers(dest="what", metavar="WHAT", required=True)
    dict(_add(plots, PLOTS))
    return whole


def _add(commands, table):
    """Adds the commands of a table; yields name and parser of each."""
    for entry in table:
        sources = [describe(name) for name in entry.functions]
        what = entry.summary or sources[0].summary
        command = commands.add_parser(
            entry.name,
            help=what,
            description=textwrap.fill(f"{what}.", 78),
            epilog=entry.example and f"example:\n  keras-posenc {entry.example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        keywords, positional = _keywords(entry, sources), entry.positional.split()
        flags = {
            name: name.upper() if name in positional else _flag(name, entry.more.get(name, {}))
            for name in keywords
        }
        for name, flag in flags.items():
            hidden = entry.more.get(name, {}).get("help") is argparse.SUPPRESS
            (command.former if hidden else command.keywords)[name] = flag
        groups = _groups(command, [name for name in keywords if name not in positional])
        if len(keywords) >= FEWEST:
            required = [name for name in entry.more if entry.more[name].get("required")]
            required = [f"{flags[name]} {name.upper()}" for name in required]
            words = [*map(str.upper, positional), *required, "[OPTIONS]"]
            command.usage = " ".join(["keras-posenc", entry.name, *words])
        for name, keyword in keywords.items():
            more = entry.more.get(name, {})
            options = _options(name, keyword, flags, more, positional)
            if name in positional:
                command.left_over |= {name: options["nargs"]} if "nargs" in options else {}
                command.add_argument(name, **{**options, "metavar": name.upper()})
                if "former" in more:
                    command.add_argument(more["former"], dest=name, help=argparse.SUPPRESS)
            else:
                groups[name].add_argument(flags[name], dest=name, **options)
        command.add_argument("--debug", action="store_true", help="Show the traceback of an error")
        yield entry.name, command


def _groups(command, names):
    """{keyword: what its option is added to}; few options are in one group."""
    found = dict.fromkeys(names, command)
    for title, members in GROUPS.items() if len(names) >= FEWEST else ():
        if members := [name for name in members if name in found]:
            found |= dict.fromkeys(members, command.add_argument_group(title))
    return found


def _keywords(command, sources):
    """{name: `Keyword`} of a command, those of its positional arguments first."""
    found = {}
    for source in sources:
        for name, keyword in source.keywords.items():
            if shared := SHARED.match(keyword.text):
                text = describe(f"training.{shared[1]}").keywords[name].text
                keyword = keyword._replace(text=text)
            if found.setdefault(name, keyword).text.startswith("as in"):
                found[name] = found[name]._replace(text=keyword.text)
    names = dict.fromkeys([*command.positional.split(), *found, *command.more])
    left_out = {"verbose", *command.without}
    return {name: found.get(name, Keyword(None, "")) for name in names if name not in left_out}


def _flag(name, more):
    options = {"flag": f"--{name.replace('_', '-')}", **SPECIAL.get(name, {}), **more}
    return options["flag"]


def _options(name, keyword, flags, more, positional=()):
    """What argparse takes for a keyword; `more` has the last word."""
    more = SPECIAL.get(name, {}) | more
    if name in positional or more.get("required"):
        keyword = keyword._replace(text=BY_DEFAULT.sub("", keyword.text))
    kind = TYPE.match(keyword.text)
    options = {"help": _help(keyword, kind, flags)}
    if choices := CHOICES.search(keyword.text):
        options["choices"] = re.findall(r'"(.*?)"', choices[1])
    if isinstance(keyword.default, bool):
        options["action"] = argparse.BooleanOptionalAction if keyword.default else "store_true"
    else:
        text = keyword.text[kind.end() if kind else 0 :].lower()
        is_path = text.startswith(("path", "directory"))
        options["metavar"] = "PATH" if is_path else name.replace("_", "-").upper()
        options |= TYPES.get(kind and kind[1], {})
    options |= {key: more[key] for key in more if key not in ("flag", "former")}
    unwanted = ["metavar"] * ("choices" in options or "action" in options)
    unwanted += ["choices", "type"] * (options.get("action") not in (None, "append"))
    return {key: value for key, value in options.items() if key not in unwanted}


def _help(keyword, kind, flags):
    """The entry of `Args:` in the words of the command line, with the default."""
    text = ONLY_CHOICES.sub("", keyword.text[kind.end() if kind else 0 :])
    text = IN_PYTHON.sub("", text)
    text = re.sub(r"`(\w+)`/", lambda name: f"{name[1].upper()}/", text)
    text = re.sub(r"`(\w+)`", lambda name: flags.get(name[1], name[1]), text)
    text = re.sub(r"`([^`]*)`", r"\1", text).replace("None", "none").rstrip(".").replace("%", "%%")
    return f"{text[:1].upper()}{text[1:]}{_default(keyword.default)}"


def _default(value):
    if any(value is each for each in (REQUIRED, COMPUTED, None, False)):
        return ""
    return f" (default: {'yes' if value is True else value})"
