"""The models of `gpu.py`, of this library and of KerasHub, and what they read."""

import numpy as np

from benchmarks.steps import libraries, rows

MODERNBERT = {
    "model_type": "modernbert",
    "vocab_size": 50368,
    "hidden_size": 768,
    "num_hidden_layers": 22,
    "num_attention_heads": 12,
    "intermediate_size": 1152,
    "max_position_embeddings": 16384,
    "pad_token_id": 0,
}
LLAMA = {
    "model_type": "llama",
    "vocab_size": 32000,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "intermediate_size": 2048,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
}
PROMPT = 64
BERT, MODERN = "bert-base", "modernbert-base"


def config_of(model, row, length, rate, layers):
    if model == "llama":
        config = dict(LLAMA)
    elif model == MODERN:
        config = {**MODERNBERT, "attention_dropout": rate}
    else:
        config = libraries.Task(row, "", model, 1, length, 0.1).config(
            512 if row.ours else max(512, length)
        )
        config["attention_probs_dropout_prob"] = rate
    config["num_hidden_layers"] = layers or config["num_hidden_layers"]
    return config


def arrays(config, batch, length):
    """Token ids without padding, and labels."""
    rng = np.random.default_rng(0)
    tokens = rng.integers(1000, config["vocab_size"], (batch, length)).astype("int32")
    return tokens, rng.integers(0, rows.CLASSES, batch).astype("int32")


def inputs_of(model, tokens):
    """The inputs of a model, by name, for tokens of which none is padding."""
    named = {
        "token_ids": tokens,
        "segment_ids": np.zeros_like(tokens),
        "padding_mask": np.ones_like(tokens),
    }
    return {each.name: named[each.name] for each in model.inputs}


def posenc(mode, config, length):
    """An encoder, a classifier, or a `Generator` of `length` new tokens."""
    import keras

    from keras_posenc import Generator, build_transformer_model
    from keras_posenc.heads import classifier

    keras.config.set_dtype_policy("mixed_bfloat16")
    if mode == "decode":
        model = build_transformer_model(config, with_mlm="linear")
        return Generator(model, max_length=length)
    encoder = build_transformer_model(
        config, hierarchical_position=None if "model_type" in config else True
    )
    if mode == "train":
        return classifier(encoder, rows.CLASSES, pooling="cls")
    if mode == "embed":
        pooled = keras.layers.GlobalAveragePooling1D()(encoder.output)
        return type(encoder)(encoder.inputs, pooled)
    return encoder


def hub(mode, config, length):
    """The same of KerasHub; to decode, its `LlamaCausalLM`."""
    import keras
    import keras_hub

    keras.config.set_dtype_policy("mixed_bfloat16")
    sizes = {
        "vocabulary_size": config["vocab_size"],
        "num_layers": config["num_hidden_layers"],
        "hidden_dim": config["hidden_size"],
        "intermediate_dim": config["intermediate_size"],
    }
    if mode == "decode":
        backbone = keras_hub.models.LlamaBackbone(
            **sizes,
            num_query_heads=config["num_attention_heads"],
            num_key_value_heads=config["num_key_value_heads"],
            layer_norm_epsilon=config["rms_norm_eps"],
        )
        model = keras_hub.models.LlamaCausalLM(backbone)
        model.compile(sampler="greedy")
        return model
    backbone = keras_hub.models.BertBackbone(
        **sizes,
        num_heads=config["num_attention_heads"],
        dropout=config["attention_probs_dropout_prob"],
        max_sequence_length=max(512, length),
    )
    output = backbone.output["sequence_output"]
    if mode == "embed":
        output = keras.layers.GlobalAveragePooling1D()(output)
    if mode == "train":
        output = keras.layers.Dense(rows.CLASSES)(backbone.output["pooled_output"])
    return keras.Model(backbone.input, output)
