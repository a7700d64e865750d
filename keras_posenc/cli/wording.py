"""Errors and warnings of the library, in which arguments of Python become options of a command."""

import contextlib
import functools
import logging
import re
import sys
import warnings

from keras_posenc.files.untrusted import visible_lines

# What errors write behind an argument: `text` (--text-column), overwrite=True (--overwrite).
WITH_OPTION = re.compile(r"[\w=`\"]+ \((--[\w -]+)\)")
# `max_length`, max_length=512, and a name that is no English word.
NAMED = re.compile(
    r"`(?P<quoted>\w+)`|(?<![\w/.-])(?:(?P<true>[a-z]\w*)=True\b"
    r"|(?P<given>[a-z]\w*)=(?P<value>\S)?|(?P<bare>[a-z]+_\w+)(?![/.]\w))"
)


def in_options(text, flags):
    """Words about arguments of Python as a user of the command line reads them.

    `flags` are two dicts from keywords to options: those of the command, and others, which are
    meant only where they stand as `name`.

    Example:

    >>> in_options("raise `max_length`: chunks=2 is few", ({"max_length": "--max-length"}, {}))
    'raise --max-length: chunks=2 is few'
    """
    of_command, others = flags

    def option(found):
        name = next(filter(None, found.group("quoted", "true", "given", "bare")))
        flag = of_command.get(name, others.get(found["quoted"]))
        return found[0] if flag is None else f"{flag} {found['value'] or ''}".rstrip()

    return NAMED.sub(option, WITH_OPTION.sub(r"\1", text))


@contextlib.contextmanager
def warning_in_options(flags):
    """Words warnings, and what is logged, for the command line while a command runs.

    Args:
        flags: pair of dicts, as for `in_options`.
    """
    logger = logging.getLogger("keras_posenc")
    handler = logging.Filter()
    handler.filter = functools.partial(_word_record, flags=flags)
    show = warnings.showwarning

    def show_warning(message, category, *place):
        if not issubclass(category, UserWarning):
            return show(message, category, *place)
        text = visible_lines(in_options(str(message), flags))
        print(f"keras-posenc: warning: {text}", file=sys.stderr)

    logger.addFilter(handler)
    with warnings.catch_warnings():
        warnings.showwarning = show_warning
        try:
            yield
        finally:
            logger.removeFilter(handler)


def _word_record(record, flags):
    record.msg, record.args = visible_lines(in_options(record.getMessage(), flags)), ()
    return True
