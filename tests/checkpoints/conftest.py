"""Small checkpoints made by the libraries that define their formats, and models to load into."""

import keras
import numpy as np
import pytest

from keras_posenc.checkpoints import variables_of
from keras_posenc.models.factory import build_transformer_model

# Hugging Face's own conversion to Google's names (convert_bert_pytorch_checkpoint_to_original_tf).
HEADS_OF_GOOGLE = {
    "cls.predictions.bias": "cls/predictions/output_bias",
    "cls.seq_relationship.weight": "cls/seq_relationship/output_weights",
    "cls.seq_relationship.bias": "cls/seq_relationship/output_bias",
}
TO_GOOGLE = (
    ("layer.", "layer_"),
    ("embeddings.weight", "embeddings"),
    (".", "/"),
    ("LayerNorm/weight", "LayerNorm/gamma"),
    ("LayerNorm/bias", "LayerNorm/beta"),
    ("weight", "kernel"),
)
TRANSPOSED = ("dense.weight", "query.weight", "key.weight", "value.weight")


@pytest.fixture
def make(tiny_config):
    """Builds the tiny BERT with random weights; keywords are those of the factory."""
    return lambda **arguments: build_transformer_model(
        tiny_config, return_keras_model=False, **arguments
    )


@pytest.fixture
def values():
    """Copies of all weights of some layers, under the library's names."""
    return lambda layers: {
        name: np.array(keras.ops.convert_to_numpy(variable))
        for name, variable in variables_of(layers).items()
    }


@pytest.fixture
def pretraining(tiny_config):
    """The tiny BERT of transformers with both heads of pretraining."""
    return huggingface("BertForPreTraining", "BertConfig", tiny_config)


@pytest.fixture
def roberta(tiny_config):
    """The tiny RoBERTa of transformers with its MLM head; two rows before position 0."""
    changes = {"model_type": "roberta", "type_vocab_size": 1, "pad_token_id": 1}
    changes["max_position_embeddings"] = 2 + tiny_config["max_position_embeddings"]
    return huggingface("RobertaForMaskedLM", "RobertaConfig", tiny_config | changes)


def huggingface(model, config, values):
    import torch
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, config)(**values, attn_implementation="eager")
    model = getattr(transformers, model)(config).eval()
    with torch.no_grad():  # so that no two weights are alike, biases and norms included
        for weight in model.parameters():
            weight.normal_(std=0.2)
    return model


@pytest.fixture
def arrays(pretraining):
    """All tensors of the tiny BERT under Hugging Face's names, tied copies included."""
    return {name: tensor.numpy().copy() for name, tensor in pretraining.state_dict().items()}


@pytest.fixture
def google(arrays):
    """The same under Google's names."""
    named = {HEADS_OF_GOOGLE[name]: arrays[name] for name in HEADS_OF_GOOGLE}
    for name, array in arrays.items():
        if name not in HEADS_OF_GOOGLE and "decoder" not in name:
            array = array.T if name.endswith(TRANSPOSED) else array
            for reference, googles in TO_GOOGLE:
                name = name.replace(reference, googles)
            named[name] = np.ascontiguousarray(array)
    return named


@pytest.fixture
def save_tensorflow():
    """Writes a TensorFlow checkpoint with the Saver of TensorFlow 1, as Google's code did."""

    def save(prefix, arrays, train=None):
        import tensorflow as tf

        tf1 = tf.compat.v1
        with tf.Graph().as_default(), tf1.Session() as session:
            variables = {
                name: tf1.get_variable(name, initializer=tf.constant(array))
                for name, array in arrays.items()
            }
            if train:
                loss = tf.reduce_sum(variables[train] ** 2)
                step = tf1.train.get_or_create_global_step()
                tf1.train.AdamOptimizer().minimize(loss, step, [variables[train]])
            session.run(tf1.global_variables_initializer())
            tf1.train.Saver().save(session, str(prefix), write_meta_graph=False)
        return prefix

    return save


def outputs(model, ids):
    """NSP and MLM logits of one of our models, or of one of transformers."""
    if isinstance(model, keras.Model):
        found = model({"token_ids": ids, "segment_ids": np.zeros_like(ids)})
        return [keras.ops.convert_to_numpy(each) for each in found]
    import torch

    with torch.no_grad():
        found = model(torch.tensor(ids))
    return [found.seq_relationship_logits.numpy(), found.prediction_logits.numpy()]


@pytest.fixture
def same_outputs():
    """Holds that two models with both heads of pretraining give the same logits."""

    def same(ours, reference, tolerance=1e-5):
        ids = np.random.default_rng(0).integers(5, 40, (2, 9))
        for our, their in zip(outputs(ours, ids), outputs(reference, ids), strict=True):
            assert np.abs(our - their).max() <= tolerance

    return same
