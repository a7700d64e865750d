"""One of two processes of JAX that train together; `tests/training/test_processes.py` runs it.

    KERAS_BACKEND=jax KERAS_DISTRIBUTION_JOB_ADDRESSES=127.0.0.1:1234,127.0.0.1:1235 \\
        KERAS_DISTRIBUTION_NUM_PROCESSES=2 KERAS_DISTRIBUTION_PROCESS_ID=0 \\
        python two_processes.py CHECKPOINT FOLDER

Prints a line of JSON: losses, and what the model says of some texts.
"""

import json
import os
import sys

import keras
import numpy as np

from keras_posenc import embed, finetune, predict, pretrain, stretch
from keras_posenc.training import Classify

if "KERAS_DISTRIBUTION_NUM_PROCESSES" in os.environ:
    keras.distribution.initialize()
    keras.distribution.set_distribution(keras.distribution.DataParallel(auto_shard_dataset=False))

rng = np.random.default_rng(0)
texts = [" ".join(rng.choice([f"w{n}" for n in range(35)], 10)) for _ in range(13)]
labels = ["abc"[n % 3] for n in range(13)]
metrics = finetune(
    sys.argv[1],
    (texts, labels),
    sys.argv[2],
    validation=(texts, labels),
    max_length=12,
    epochs=1,
    token_budget=96,
    dropout_rate=0.0,
    attention_dropout_rate=0.0,
    task=Classify(head_dropout=0.0),
    verbose=0,
)
results = predict(sys.argv[2], texts[:3], verbose=0)
vectors = embed(sys.argv[1], texts[:3], max_length=12, verbose=0)
of_chunks = embed(sys.argv[1], texts[:3], reading="late:5", max_length=12, verbose=0).vectors
rates = {"dropout_rate": 0.0, "attention_dropout_rate": 0.0}
pretrained = pretrain(
    sys.argv[1],
    texts,
    f"{sys.argv[2]}-pretrained",
    max_length=12,
    token_budget=96,
    validation=texts[:5],
    verbose=0,
    **rates,
)
tagged = [text.split() for text in texts]
tags = tagged, [["B-X" if word < "w2" else "O" for word in words] for words in tagged]
# Tags are predicted after each epoch, between two that train on both.
tagger = finetune(
    sys.argv[1],
    tags,
    f"{sys.argv[2]}-tagged",
    task="tag",
    validation=tags,
    max_length=12,
    epochs=2,
    token_budget=96,
    dropout_rate=0.0,
    attention_dropout_rate=0.0,
    verbose=0,
)
long = [" ".join(rng.choice([f"w{n}" for n in range(35)], 60)) for _ in range(3)]
stretched = stretch(
    sys.argv[1], long, f"{sys.argv[2]}-stretched", max_length=24, steps=2, verbose=False
).report
numbers = [metrics["validation"]["loss"], *(each.probability for each in results)]
numbers += [*pretrained["losses"], *pretrained["after"].values()]
numbers += [tagger["validation"]["loss"], tagger["validation"]["f1"]]
numbers += [*stretched["losses"], stretched["within"]["after"]]
numbers += [*vectors[:, 0], *of_chunks[:, 0]]
print(json.dumps([float(number) for number in numbers]))
