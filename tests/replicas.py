"""The one-call functions on one device and on four, for numbers of texts that four do not divide.

Prints what both found, as JSON; the devices of JAX are made before all else, so this is a program.
"""

import json
import pathlib
import sys

import keras
import numpy as np

from keras_posenc import embed, finetune, predict, pretrain, stretch
from keras_posenc.training import Classify, Embed

CHECKPOINT, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])


def documents(count, length):
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice([f"w{n}" for n in range(35)], length)) for _ in range(count)]


def found(folder):
    """Numbers that do not depend on the number of devices."""
    texts = documents(37, 10)
    pairs = list(zip(texts, texts[1:] + texts[:1], strict=True))
    common = {"max_length": 12, "epochs": 1, "token_budget": 192, "verbose": 0}
    common |= {"dropout_rate": 0.0, "attention_dropout_rate": 0.0}
    numbers = {}
    for task, train in (
        (Classify(head_dropout=0.0), (texts, ["abc"[n % 3] for n in range(37)])),
        (Embed(), (pairs, [None] * 37)),
    ):
        output = folder / task.name
        metrics = finetune(CHECKPOINT, train, output, task=task, validation=train, **common)
        numbers[task.name] = [n for n in metrics["validation"].values() if isinstance(n, float)]
    for count in (1, 7):
        some = predict(folder / "classify", texts[:count], verbose=0)
        numbers[f"predict {count}"] = [each.probability for each in some]
    some = embed(CHECKPOINT, texts[:3], max_length=12, verbose=0)
    numbers["embed 3"] = some.ravel().tolist()
    settings = {"token_budget": 48, "dropout_rate": 0.0, "attention_dropout_rate": 0.0}
    metrics = pretrain(
        CHECKPOINT, texts, folder / "pretrained", max_length=12, steps=6, verbose=False, **settings
    )
    numbers["pretrain"] = [*metrics["losses"], metrics["before"]["loss"], metrics["after"]["loss"]]
    long = documents(1, 400)
    report = stretch(
        CHECKPOINT, long, folder / "long", max_length=24, steps=2, verbose=False
    ).report
    numbers["stretch"] = report["losses"]
    return numbers


one = found(FOLDER / "one")
keras.distribution.set_distribution(keras.distribution.DataParallel())
print(json.dumps([one, found(FOLDER / "four")]))
