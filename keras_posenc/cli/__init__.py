"""The command `keras-posenc`. Each command is a small Python program, which is printed, then run.

Nothing heavy is imported before a program runs, so that --help answers immediately.
"""

import os
import sys

from keras_posenc.cli.arguments import parser
from keras_posenc.cli.guards import check_files, interruptible
from keras_posenc.cli.programs import PROGRAMS
from keras_posenc.cli.wording import in_options, warning_in_options
from keras_posenc.files.untrusted import check_name, shorten, visible_lines
from keras_posenc.files.writing import check_place, named
from keras_posenc.keras_support.lazy import import_keras

DIVIDE = "--xla_force_host_platform_device_count"
STDOUT, STDERR = "standard output", "standard error"
MOST_ERROR = 4000  # characters
MISTAKES = (ValueError, TypeError, OSError, ImportError)
AGAIN = {
    "finetune": "; the same command goes on after the last finished epoch, if there is one",
    "pretrain": "; the same command goes on after the last state, at most half a minute back",
    "contextualize": "; the same command goes on after the last state, at most half a minute back",
    "stretch": "; the same command goes on after the last state, at most half a minute back",
}


def main(argv=None, load=import_keras):
    """Runs one command and returns the exit status: 0; 2 for a mistake of the user's (one line on
    stderr); 130 for Ctrl-C. `load` imports Keras and the package, once the arguments are read.

    Example:

    >>> main(["predict", "out", "--text", "w1 w4 w7 w10"])  # prints label and probability
    row...
    0
    """
    _open_closed_streams()
    whole = parser()
    arguments = vars(whole.parse_args(argv))
    command, debug = arguments.pop("command"), arguments.pop("debug", False)
    anew, flags = arguments.get("overwrite", False), whole.flags(command)
    try:
        with interruptible(), warning_in_options(flags):
            _run(command, arguments, load)
    except BrokenPipeError:  # The reader of a pipe, such as `head`, has seen enough.
        _print_no_more()
    except (KeyboardInterrupt, Exception) as error:
        if _is_interrupt(error):
            again = AGAIN.get(command, "")
            if anew:
                again = again.replace("the same command", "the same command without --overwrite")
            return _fail(f"interrupted{again}.", 130)
        if isinstance(error, OSError) and error.filename == STDOUT:
            _print_no_more()
        if debug or not isinstance(error, MISTAKES):
            raise
        return _fail(f"error: {_one_line(error, flags)}", 2)
    return 0


def _run(command, arguments, load):
    if "output" in arguments:  # which is printed at the end
        check_name(arguments["output"])
    check_files(arguments)
    if command in ("predict", "evaluate") and "output" in arguments:  # before hours of computing
        check_place(arguments["output"], [arguments.get("file"), arguments.get("data")])
    devices = arguments.get("devices")
    source = PROGRAMS[command](arguments)
    # Results of `predict` are data for another program: nothing else goes to its output.
    stream, name = (sys.stderr, STDERR) if command == "predict" else (sys.stdout, STDOUT)
    with named(name):
        print(f"# In Python:\n{source}\n# Output:", file=stream, flush=True)
    # TensorFlow's notes on the processor would hide a one-line error.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    _divide_processor(devices)
    load()
    from keras_posenc import backend
    from keras_posenc.backend.seeding import without_tensorflow

    backend.cache_programs()
    names = {"__name__": "__main__", "print": _print}
    with without_tensorflow():
        exec(compile(source, f"<keras-posenc {command}>", "exec"), names)
    with named(STDOUT):
        sys.stdout.flush()


def _print(*values):
    """`print` of the programs: what files contain cannot act on the terminal."""
    with named(STDOUT):
        print(*(visible_lines(str(value)) for value in values))


def _print_no_more():
    """What could not be printed is not tried again when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _open_closed_streams():
    """Opens streams that a shell has closed (`>&-`), so that what is printed goes nowhere.

    Python has None for them. The next file that is opened would get the number of the stream, and
    with it what libraries print.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))


def _divide_processor(devices):
    """Lets JAX divide a processor into so many devices, which it does only before it is imported;
    GPUs and TPUs stay as they are."""
    flags = os.environ.get("XLA_FLAGS", "")
    if isinstance(devices, int) and devices > 1 and DIVIDE not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {DIVIDE}={devices}".strip()


def _is_interrupt(error):
    """Whether `error` comes of Ctrl-C: what is closed on its way out may raise an error of its own,
    as a zip file does that is open for writing."""
    while error and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _fail(message, status):
    print(f"keras-posenc: {message}", file=sys.stderr)
    return status


def _one_line(error, flags):
    if isinstance(error, OSError) and error.strerror and error.filename:
        return shorten(f"{error.filename}: {error.strerror}", MOST_ERROR)
    return shorten(in_options(str(error).strip(), flags), MOST_ERROR) or type(error).__name__
