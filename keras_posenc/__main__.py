"""`python -m keras_posenc` is the command `keras-posenc`."""

import sys

from keras_posenc.cli import main

if __name__ == "__main__":
    sys.exit(main())
