"""`python -m keras_posenc` is the command `keras-posenc`, after the import of Keras."""

import sys

from keras_posenc.cli import main

if __name__ == "__main__":
    sys.exit(main())
