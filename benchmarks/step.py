"""Times one library on one shape, in a process of its own; prints a line of JSON.

    KERAS_BACKEND=tensorflow python benchmarks/step.py keras_posenc train 16 512 0.1 6

Every library gets the same sizes (MiniLM-L6), the same kind of step (classification, AdamW) and
random weights, on which the time of dense float32 arithmetic does not depend.
"""

import json
import os
import resource
import sys
import time

import numpy as np

LAYERS, WIDTH, HEADS, INNER, VOCABULARY, CLASSES = 6, 384, 12, 1536, 30522, 20
WARM_UP = 2


def main():
    library, mode, batch, length, dropout, repeats = sys.argv[1:]
    batch, length, dropout = int(batch), int(length), float(dropout)
    rng = np.random.default_rng(0)
    tokens = rng.integers(1000, VOCABULARY, (batch, length)).astype("int32")
    labels = rng.integers(0, CLASSES, batch).astype("int32")
    step = LIBRARIES[library](mode, dropout, tokens, labels)
    for _ in range(WARM_UP):
        step()
    seconds, busy = [], []
    for _ in range(int(repeats)):
        began, used, elsewhere = time.perf_counter(), _own_seconds(), _busy_seconds()
        step()
        seconds.append(time.perf_counter() - began)
        busy.append((_busy_seconds() - elsewhere - (_own_seconds() - used)) / seconds[-1])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    line = {"seconds": seconds, "peak_mb": round(peak), "others": round(float(np.mean(busy)), 2)}
    print(json.dumps(line))


def _own_seconds():
    return time.process_time()


def _busy_seconds():
    """Processor seconds that the whole machine has used, where the system says so."""
    try:
        with open("/proc/stat") as file:
            user, nice, system, _, _, *rest = (int(n) for n in file.readline().split()[1:])
    except OSError:
        return time.process_time()
    return (user + nice + system + sum(rest[:3])) / os.sysconf("SC_CLK_TCK")


def _keras_step(model, mode, inputs, labels):
    import keras

    if mode == "forward":
        return lambda: model.predict_on_batch(inputs)
    model.compile(
        keras.optimizers.AdamW(1e-4),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return lambda: model.train_on_batch(inputs, labels)


def keras_posenc(mode, dropout, tokens, labels):
    from keras_posenc import build_transformer_model, classifier

    encoder = build_transformer_model(
        {
            "vocab_size": VOCABULARY,
            "hidden_size": WIDTH,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS,
            "intermediate_size": INNER,
            "hidden_act": "gelu",
            "max_position": 512,
        },
        hierarchical_position=True,
        dropout_rate=dropout,
        attention_dropout_rate=dropout,
    )
    model = classifier(encoder, CLASSES)
    inputs = {"token_ids": tokens, "segment_ids": np.zeros_like(tokens)}
    return _keras_step(model, mode, inputs, labels)


def keras_hub(mode, dropout, tokens, labels):
    import keras
    import keras_hub

    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=VOCABULARY,
        num_layers=LAYERS,
        num_heads=HEADS,
        hidden_dim=WIDTH,
        intermediate_dim=INNER,
        dropout=dropout,
        max_sequence_length=max(512, tokens.shape[1]),
    )
    outputs = keras.layers.Dense(CLASSES)(backbone.output["pooled_output"])
    model = keras.Model(backbone.input, outputs)
    inputs = {
        "token_ids": tokens,
        "segment_ids": np.zeros_like(tokens),
        "padding_mask": np.ones_like(tokens),
    }
    return _keras_step(model, mode, inputs, labels)


def transformers(mode, dropout, tokens, labels):
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=INNER,
        max_position_embeddings=max(512, tokens.shape[1]),
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        num_labels=CLASSES,
    )
    model = BertForSequenceClassification(config)
    inputs = torch.from_numpy(tokens.astype("int64"))
    targets = torch.from_numpy(labels.astype("int64"))
    if mode == "forward":
        model.eval()

        def forward():
            with torch.inference_mode():
                return model(inputs).logits.numpy()

        return forward
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    model.train()

    def step():
        optimizer.zero_grad()
        loss = model(inputs, labels=targets).loss
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


LIBRARIES = {f.__name__: f for f in (keras_posenc, keras_hub, transformers)}

if __name__ == "__main__":
    main()
