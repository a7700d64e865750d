"""A step of each library: a function that computes once and returns the output.

`forward` gives the encoder's features (B, T, D), `train` the logits (B, classes) of a classifier
before it is trained further. Imports are inside the functions: each environment has one library.
"""

import dataclasses
import json
import pathlib
import subprocess
import tempfile
import time

import numpy as np

from benchmarks.steps import rows
from benchmarks.steps.rows import CLASSES, MODELS, VOCABULARY


@dataclasses.dataclass(frozen=True)
class Task:
    """What to time: a row of the table on one shape."""

    row: rows.Row
    mode: str
    model: str
    batch: int
    length: int
    dropout: float

    @property
    def sizes(self):
        return MODELS[self.model]

    @property
    def attention_dropout(self):
        return self.dropout if self.row.drops_attention else 0.0

    @property
    def positions(self):
        return max(512, self.length)

    @property
    def output_shape(self):
        if self.mode == "train":
            return (self.batch, CLASSES)
        return (self.batch, self.length, self.sizes["width"])

    def arrays(self):
        """Token ids without padding, and labels."""
        rng = np.random.default_rng(0)
        tokens = rng.integers(1000, VOCABULARY, (self.batch, self.length)).astype("int32")
        return tokens, rng.integers(0, CLASSES, self.batch).astype("int32")

    def config(self, positions):
        """The model as Hugging Face's and Google's config.json describe it."""
        return {
            "vocab_size": VOCABULARY,
            "type_vocab_size": 2,
            "hidden_size": self.sizes["width"],
            "num_hidden_layers": self.sizes["layers"],
            "num_attention_heads": self.sizes["heads"],
            "intermediate_size": self.sizes["inner"],
            "hidden_act": "gelu",
            "max_position_embeddings": positions,
            "hidden_dropout_prob": self.dropout,
            "attention_probs_dropout_prob": self.attention_dropout,
            "initializer_range": 0.02,
            "layer_norm_eps": 1e-12,
        }

    def check_dropout(self, hidden, attention):
        """Stops a comparison with a library that drops less, or more, than the others do."""
        found = (set(hidden), set(attention))
        if found != ({self.dropout}, {self.attention_dropout}):
            raise ValueError(
                f"{self.row.name} drops {found} of hidden layers and attention weights, not "
                f"{self.dropout} and {self.attention_dropout}."
            )


def keras_posenc(task):
    import keras

    from keras_posenc import build_transformer_model
    from keras_posenc.heads import classifier

    encoder = build_transformer_model(task.config(512), hierarchical_position=True)
    tokens, labels = task.arrays()
    inputs = {"token_ids": tokens, "segment_ids": np.zeros_like(tokens)}
    if task.mode == "forward":
        return _keras_forward(encoder, inputs, task)
    # From the first token, as the classifiers of the other libraries.
    model = classifier(encoder, CLASSES, pooling="cls", dropout_rate=task.dropout)
    rates = {layer.rate for layer in model.layers if isinstance(layer, keras.layers.Dropout)}
    attention = {layer.dropout for layer in model.layers if hasattr(layer, "key_dim")}
    task.check_dropout(rates, attention)
    return _keras_training(model, inputs, labels, task, keras)


def keras_hub(task):
    import keras
    import keras_hub

    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=VOCABULARY,
        num_layers=task.sizes["layers"],
        num_heads=task.sizes["heads"],
        hidden_dim=task.sizes["width"],
        intermediate_dim=task.sizes["inner"],
        dropout=task.dropout,
        max_sequence_length=task.positions,
    )
    tokens, labels = task.arrays()
    inputs = {
        "token_ids": tokens,
        "segment_ids": np.zeros_like(tokens),
        "padding_mask": np.ones_like(tokens),
    }
    if task.mode == "forward":
        encoder = keras.Model(backbone.input, backbone.output["sequence_output"])
        return _keras_forward(encoder, inputs, task)
    pooled = keras.layers.Dropout(task.dropout)(backbone.output["pooled_output"])
    model = keras.Model(backbone.input, keras.layers.Dense(CLASSES)(pooled))
    parts = list(backbone._flatten_layers())
    rates = {part.rate for part in parts if isinstance(part, keras.layers.Dropout)}
    attention = {p.dropout for p in parts if isinstance(p, keras.layers.MultiHeadAttention)}
    task.check_dropout(rates, attention)
    return _keras_training(model, inputs, labels, task, keras)


def bert4keras(task):
    from bert4keras.backend import keras, set_gelu
    from bert4keras.models import build_transformer_model

    set_gelu("erf")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "bert_config.json"
        path.write_text(json.dumps({**task.config(512), "max_position": 512}))
        encoder = build_transformer_model(str(path), hierarchical_position=True)
    tokens, labels = task.arrays()
    inputs = [tokens, np.zeros_like(tokens)]
    if task.mode == "forward":
        return _keras_forward(encoder, inputs, task)
    first = keras.layers.Lambda(lambda x: x[:, 0])(encoder.output)
    pooled = keras.layers.Dense(task.sizes["width"], activation="tanh")(first)
    logits = keras.layers.Dense(CLASSES)(keras.layers.Dropout(task.dropout)(pooled))
    model = keras.Model(encoder.inputs, logits)
    rates = {layer.rate for layer in model.layers if isinstance(layer, keras.layers.Dropout)}
    attention = {x.attention_dropout for x in model.layers if hasattr(x, "attention_dropout")}
    task.check_dropout(rates, attention)
    return _keras_training(model, inputs, labels, task, keras)


def _keras_forward(model, inputs, task):
    if task.row.library != "bert4keras":  # Keras 2 compiles with XLA only when asked to
        model.compile(jit_compile="auto" if task.row.jit is None else task.row.jit)
    return lambda: model.predict_on_batch(inputs)


def _keras_training(model, inputs, labels, task, keras):
    _assert_it_drops(lambda x: model(x, training=True), inputs)
    options = {} if task.row.library == "bert4keras" else {"jit_compile": task.row.jit}
    if task.row.backend != "tensorflow":
        options = {"jit_compile": "auto"}
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    if task.row.ours:
        from keras_posenc.training import FusedAdamW as AdamW
    else:
        AdamW = keras.optimizers.AdamW
    optimizer = AdamW(1e-4, weight_decay=0.01)
    model.compile(optimizer=optimizer, loss=loss, **options)

    def step():
        model.train_on_batch(inputs, labels)
        return _Shape(task.batch, model.output_shape[-1])

    return step


class _Shape:
    """The shape of an output that stays in the library."""

    def __init__(self, *shape):
        self.shape = shape


def _assert_it_drops(call, inputs):
    """Two passes of a model in training over a few tokens differ."""
    items = inputs.items() if isinstance(inputs, dict) else enumerate(inputs)
    few = {key: value[:1, :8] for key, value in items}
    few = few if isinstance(inputs, dict) else list(few.values())
    first, second = (_as_array(call(few)) for _ in range(2))
    if np.abs(first - second).max() < 1e-6:
        raise ValueError("Nothing is dropped in training.")


def _as_array(tensor):
    return tensor.detach().numpy() if hasattr(tensor, "detach") else np.asarray(tensor)


def transformers(task):
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertModel

    config = BertConfig(**task.config(task.positions), num_labels=CLASSES)
    tokens, labels = task.arrays()
    inputs = {"input_ids": torch.from_numpy(tokens.astype("int64"))}
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    if task.mode == "forward":
        encoder = BertModel(config, add_pooling_layer=False).eval()
        _check_kernel(encoder)

        def forward():
            with torch.inference_mode():
                return encoder(**inputs).last_hidden_state

        return forward
    model = BertForSequenceClassification(config).train()
    _check_kernel(model)
    within = [part.attention.self for part in model.bert.encoder.layer]
    attention = {part.dropout.p for part in within}
    parts = {p for p in model.modules() if isinstance(p, torch.nn.Dropout)}
    task.check_dropout({p.p for p in parts - {part.dropout for part in within}}, attention)
    _assert_it_drops(lambda x: model(**x).logits, inputs)
    targets = torch.from_numpy(labels.astype("int64"))
    # As transformers' Trainer makes it unless told otherwise.
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, weight_decay=0.01, fused=True)

    def step():
        optimizer.zero_grad()
        output = model(**inputs, labels=targets)
        output.loss.backward()
        optimizer.step()
        return output.logits

    return step


def _check_kernel(model):
    if model.config._attn_implementation != "sdpa":
        raise ValueError(f"transformers runs {model.config._attn_implementation}, not sdpa.")


def onnxruntime(task):
    import onnxruntime as ort

    session = ort.InferenceSession(onnx_file(task.model), providers=["CPUExecutionProvider"])
    tokens, _ = task.arrays()
    inputs = {"input_ids": tokens.astype("int64")}
    inputs["attention_mask"] = np.ones_like(inputs["input_ids"])
    return lambda: session.run(None, inputs)[0]


def onnx_file(model):
    """The encoder as an ONNX file, which the environment of transformers writes once."""
    path = rows.ENVIRONMENTS / f"{model}.onnx"
    if not path.exists():
        command = [rows.python_of("transformers"), "-m", "benchmarks.steps.export_onnx"]
        subprocess.run([*command, model, path], check=True, capture_output=True)
    return str(path)


def matmul_gflops(backend):
    """The best float32 matmul rate of a backend, in 1e9 operations a second."""
    rates = []
    for size in (1024, 2048, 3072):
        product = _product(backend, size)
        product()
        for _ in range(4):
            start = time.perf_counter()
            product()
            rates.append(2 * size**3 / (time.perf_counter() - start) / 1e9)
    return max(rates)


def _product(backend, size):
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(size, size)).astype("float32") for _ in range(2))
    if backend == "jax":
        import jax

        a, b, dot = jax.device_put(a), jax.device_put(b), jax.jit(jax.numpy.matmul)
        return lambda: dot(a, b).block_until_ready()
    if backend == "tensorflow":
        import tensorflow as tf

        a, b = tf.constant(a), tf.constant(b)
        return lambda: tf.matmul(a, b)
    if backend == "torch":
        import torch

        a, b = torch.from_numpy(a), torch.from_numpy(b)
        return lambda: a @ b
    return lambda: a @ b


LIBRARIES = {f.__name__: f for f in (keras_posenc, keras_hub, bert4keras, transformers)}
LIBRARIES["onnxruntime"] = onnxruntime
