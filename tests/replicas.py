"""The one-call functions on one device and on several, for numbers of texts that do not divide.

Prints what both found, as JSON; devices are made before all else, so this is a program.
"""

import contextlib
import json
import pathlib
import sys

import keras
import numpy as np

from keras_posenc import embed, finetune, predict, pretrain, rerank, stretch
from keras_posenc.training import Classify, Embed, Optimizer, Regress, Tag

CHECKPOINT, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])


def documents(count, length):
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice([f"w{n}" for n in range(35)], length)) for _ in range(count)]


def found(folder):
    """Numbers that do not depend on the number of devices."""
    texts = documents(37, 10)
    pairs = list(zip(texts, texts[1:] + texts[:1], strict=True))
    common = {"max_length": 12, "epochs": 1, "token_budget": 192, "verbose": 0}
    # Each replica of TensorFlow clips for itself.
    common |= {"dropout_rate": 0.0, "attention_dropout_rate": 0.0}
    common["optimizer"] = Optimizer(clip=None)
    classes = ["abc"[n % 3] for n in range(37)]
    words = [text.split()[: 1 + n % 9] for n, text in enumerate(texts)]
    tags = [["O" if word < "w2" else "B-X" for word in text] for text in words]
    numbers = {}
    # TensorFlow takes seconds to trace the gradient of an encoder for each replica, so one task
    # trains all of it, and two are measured: the others differ in labels, weights and losses.
    for task, train, is_whole, is_measured in (
        (
            Classify(head_dropout=0.0, class_weight={"a": 5.0, "b": 0.5, "c": 1.0}),
            (texts, classes),
            False,
            True,
        ),
        (Embed(), (pairs, [None] * 37), True, False),
        (Regress(head_dropout=0.0), (pairs, np.linspace(0, 1, 37).tolist()), False, False),
        (
            Tag(head_dropout=0.0, class_weight={"O": 0.1, "B-X": 4.0}),
            (words, tags),
            False,
            True,
        ),
    ):
        output = folder / task.name
        options = {
            "validation": train if is_measured else None,
            "freeze": None if is_whole else "*",
        }
        metrics = finetune(CHECKPOINT, train, output, task=task, **options, **common)
        if is_measured:
            measured = metrics["validation"].values()
            numbers[task.name] = [n for n in measured if isinstance(n, float)]
        steps = (output / "steps.csv").read_text().splitlines()[1:]
        numbers[f"losses of {task.name}"] = [float(step.split(",")[1]) for step in steps]
    best = rerank(folder / "regress", texts[0], texts[:5], verbose=0)
    numbers["rerank"] = sorted(each["score"] for each in best)
    (one,) = predict(folder / "classify", texts[:1], verbose=0)
    numbers["predict 1"] = [one.probability]
    some = embed(CHECKPOINT, texts[:3], max_length=12, verbose=0)
    numbers["embed 3"] = some.ravel().tolist()
    # Fewer texts than devices, and more; each is a program of its own.
    for reading, count in (("chunks:6", 1), ("late:3", 3), ("late:4,overlap=1", 7)):
        vectors = embed(CHECKPOINT, texts[:count], reading=reading, verbose=0)
        vectors = getattr(vectors, "vectors", vectors)
        numbers[f"{reading} of {count}"] = vectors.ravel().tolist()
    settings = common | {"steps": 6, "token_budget": 48, "verbose": False}
    metrics = pretrain(CHECKPOINT, texts, folder / "pretrained", **settings)
    numbers["pretrain"] = [*metrics["losses"], metrics["before"]["loss"], metrics["after"]["loss"]]
    long = documents(1, 400)
    report = stretch(
        CHECKPOINT, long, folder / "long", max_length=24, steps=2, verbose=False
    ).report
    numbers["stretch"] = report["losses"]
    return numbers


def several():
    """The scope of several devices: four of JAX, two replicas of TensorFlow."""
    if keras.backend.backend() == "jax":
        keras.distribution.set_distribution(keras.distribution.DataParallel())
        return contextlib.nullcontext()
    import tensorflow as tf

    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope()


if keras.backend.backend() == "tensorflow":
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    # What several devices are compared with need not be compiled; gathering across them must be.
    tf.config.run_functions_eagerly(True)
one = found(FOLDER / "one")
if keras.backend.backend() == "tensorflow":
    tf.config.run_functions_eagerly(False)
with several():
    print(json.dumps([one, found(FOLDER / "several")]))
