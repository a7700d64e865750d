"""Processes that only handle files: they import no Keras, and start in milliseconds."""

import pathlib
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).parents[1]

# Packages without their `__init__`, which would import Keras.
PACKAGES = f"""
import sys, types
for name in ("keras_posenc", "keras_posenc.checkpoints"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [{str(ROOT)!r} + "/" + name.replace(".", "/")]
"""


def start_process(code, *arguments, **options):
    """Starts Python with some code, which may import modules that need no Keras."""
    command = [sys.executable, "-c", PACKAGES + textwrap.dedent(code), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
