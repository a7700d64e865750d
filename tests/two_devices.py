"""`devices=2`, then one device, then two again, in one process: prints what each found, as JSON.

Devices are made before all else, so this is a program; `tests/training/test_devices.py` runs it.
"""

import json
import sys

from keras_posenc import embed

TEXTS = ["w1 w2 w3", "w4 w5 w6", "w7 w8 w9"]
print(
    json.dumps(
        [
            embed(sys.argv[1], TEXTS, max_length=8, devices=devices, verbose=0).tolist()
            for devices in (2, None, 2)
        ]
    )
)
