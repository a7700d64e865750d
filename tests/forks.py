"""Python processes that need not import Keras: forks of one process that only imports.

A process that imports Keras takes seconds, and many tests need one of their own: to be killed, to
have other devices, to be measured. So one process imports Keras and the backend, computes nothing,
since threads of a backend would not be there in a fork, and each test gets a fork of it. That
process is itself a fork of the one that runs the tests, before it has computed anything.
"""

import atexit
import contextlib
import gc
import json
import logging
import os
import pathlib
import runpy
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import warnings

KINDS = {
    "code": lambda code: exec(textwrap.dedent(code), {"__name__": "__main__"}),
    "file": lambda path: runpy.run_path(path, run_name="__main__"),
    "module": lambda name: runpy.run_module(name, run_name="__main__", alter_sys=True),
}
_PARENTS = {}  # process id -> the process that forks for it


class Fork:
    """Runs Python in a fork; the attributes are those of `subprocess.Popen` as far as needed."""

    def __init__(self, kind, program, arguments=(), env=None, cwd=None):
        self._files = [tempfile.NamedTemporaryFile(mode="r+", encoding="utf-8") for _ in range(2)]
        self.returncode = None
        arguments = [str(argument) for argument in arguments]
        files = [file.name for file in self._files]
        env = dict(os.environ if env is None else env)
        request = {"kind": kind, "program": str(program), "arguments": arguments, "files": files}
        self.pid = _ask(request | {"env": env, "cwd": str(cwd or os.getcwd())})

    def poll(self):
        self.returncode = _ask({"poll": self.pid}) if self.returncode is None else self.returncode
        return self.returncode

    def wait(self):
        self.returncode = _ask({"wait": self.pid}) if self.returncode is None else self.returncode
        return self.returncode

    def send_signal(self, number):
        os.kill(self.pid, number)

    def communicate(self):
        """Waits for the end; returns what was written to stdout and to stderr."""
        self.wait()
        texts = [file.read() for file in self._files]
        for file in self._files:
            file.close()
        return texts


def run_fork(kind, program, arguments=(), **options):
    """Runs Python in a fork to its end, as `subprocess.run` does."""
    fork = Fork(kind, program, arguments, **options)
    stdout, stderr = fork.communicate()
    return subprocess.CompletedProcess(arguments, fork.returncode, stdout, stderr)


def _ask(request):
    """Has the process that forks do something; returns its answer."""
    parent = _PARENTS.get(os.getpid())
    if parent is None:  # of a fork that needs forks
        command = [sys.executable, "-P", __file__]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        parent = _PARENTS[os.getpid()] = subprocess.Popen(command, **pipes)
    parent.stdin.write(json.dumps(request) + "\n")
    parent.stdin.flush()
    return json.loads(parent.stdout.readline())


class _Parent:
    """The process that forks as a fork of this one; the attributes are those of `Popen`."""

    def __init__(self, filters):
        (requests, self.stdin), (self.stdout, answers) = os.pipe(), os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of JAX and of Python, about threads
            self.pid = os.fork()
        if self.pid == 0:
            with _to_its_end():
                _forget_the_tests(requests, answers, filters)
                _serve_and_become()
        os.close(requests)
        os.close(answers)
        self.stdin, self.stdout = open(self.stdin, "w"), open(self.stdout)

    def communicate(self):
        self.stdin.close()
        self.stdout.close()
        os.waitpid(self.pid, 0)


def prepare():
    """Imports what forks need, and tests too, and forks the process that forks from here on."""
    filters = warnings.filters[:]
    import_all()
    of_imports = [each for each in warnings.filters if each not in filters]
    _PARENTS[os.getpid()] = _Parent(of_imports + filters[-5:])  # the last are Python's


@contextlib.contextmanager
def _to_its_end():
    """Ends a fork as Python would, where there is Python below that is not for it."""
    try:
        yield
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except SystemExit as end:
        print(end.code, file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    else:
        os._exit(0)  # one that forks, when nobody asks any more
    leave(1)


def _forget_the_tests(requests, answers, filters):
    """Makes a fork of pytest what `python -P` starts: its files, paths, hooks and handlers."""
    warnings.filters[:] = filters
    os.dup2(requests, 0)
    os.dup2(answers, 1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    tests = pathlib.Path(__file__).parent
    ours = {"", *map(str, (tests, tests.parent, tests / "encodings"))}
    sys.path[:] = [
        *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)),
        *(path for path in sys.path if path not in ours),
    ]
    sys.meta_path[:] = [each for each in sys.meta_path if not _of_pytest(each)]
    for handler in filter(_of_pytest, logging.getLogger().handlers[:]):
        logging.getLogger().removeHandler(handler)


def _of_pytest(thing):
    return type(thing).__module__.startswith("_pytest")


def share_context_of_compilers():
    """Has JAX, where it runs, lower all programs of a thread in one context of MLIR. It makes one
    for each, and that is a fifth of the time in which a small program is compiled; tests compile
    thousands. Threads cannot share a context, because JAX makes it without locks."""
    if "jax" not in sys.modules:
        return
    from jax._src.interpreters import mlir

    if make := getattr(mlir, "make_ir_context", None):  # not a public name
        of_thread = threading.local()

        def context():
            if not hasattr(of_thread, "context"):
                of_thread.context = make()
            return of_thread.context

        mlir.make_ir_context = context


def close_forks():
    """Ends the process that forks, if there is one."""
    if parent := _PARENTS.pop(os.getpid(), None):
        parent.communicate()


def serve():
    """Answers requests until there are no more; returns what to run in a fork, or None."""
    for line in sys.stdin:
        request = json.loads(line)
        if "program" in request:
            pid = os.fork()
            if pid == 0:
                return request
            answer = pid
        else:
            found = request.get("poll") or request["wait"]
            options = os.WNOHANG if "poll" in request else 0
            pid, status = os.waitpid(found, options)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        print(json.dumps(answer), flush=True)
    return None


def become(request):
    """Makes this fork a new process: its environment, folder, files and arguments."""
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, path in enumerate(request["files"], start=1):
        os.dup2(os.open(path, os.O_WRONLY), number)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.alarm(600)  # ends a fork that hangs
    if request["kind"] == "file":
        sys.path.insert(0, os.path.dirname(request["program"]))
    else:  # as `python -c` and `python -m` do
        sys.path.insert(0, request["cwd"])
    sys.argv = [request["program"] if request["kind"] == "file" else "-c", *request["arguments"]]
    try:
        KINDS[request["kind"]](request["program"])
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        leave(end.code or 0)
    leave(0)


def leave(status):
    """Ends the fork as Python ends a process, except that it does not take apart what was imported:
    that takes two seconds, because no page of it is this fork's alone."""
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.flush()
    os._exit(status)


def import_all():
    """Imports what a fork would import."""
    import keras_posenc

    for name in keras_posenc.__all__:
        getattr(keras_posenc, name)  # imports it, so that the forks need not
    with contextlib.suppress(ImportError):
        import tensorflow  # noqa: F401  Keras would import it in each fork again


def _serve_and_become():
    share_context_of_compilers()
    gc.freeze()  # a fork that looks for garbage among the imports would copy their pages
    gc.enable()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of JAX and of Python, about threads, which are not there
        request = serve()
    if request is not None:
        become(request)


if __name__ == "__main__":
    gc.disable()
    import_all()
    _serve_and_become()
