"""The console script `keras-posenc`.

It stands outside the package, because importing `keras_posenc` imports Keras, which takes seconds,
and `--help` must answer at once.
"""

import importlib.util
import sys


def main():
    """Runs the command line, which reads its arguments before the package itself is imported."""
    spec = importlib.util.find_spec("keras_posenc")
    package = importlib.util.module_from_spec(spec)
    sys.modules["keras_posenc"] = package  # keras_posenc.cli can be imported, and needs no Keras
    from keras_posenc.cli import main

    return main(load=lambda: spec.loader.exec_module(package))


if __name__ == "__main__":
    sys.exit(main())
