"""Sentence embeddings: an encoder, pooled, and what sentence-transformers puts behind it."""

import keras

from keras_posenc.arguments import checks
from keras_posenc.checkpoints.reader import open_checkpoint
from keras_posenc.files.untrusted import shorten
from keras_posenc.folders.folder import Folder
from keras_posenc.folders.sentence_transformers import Module, check_activation, read_pooling
from keras_posenc.layers.activations import rounded_tanh
from keras_posenc.layers.dropout import Dropout
from keras_posenc.layers.norm import UnitLength
from keras_posenc.models.factory import build_transformer_model
from keras_posenc.models.heads import features_of
from keras_posenc.models.model import model_on
from keras_posenc.models.pooling import LeadingDimensions, MaskedPooling

NORMALIZE = Module("Normalize", None, {})
TANH = "torch.nn.modules.activation.Tanh"


def embedder(source, pooling=None, normalize=None, **arguments):
    """Builds a model that turns a text into a vector.

    In a directory of sentence-transformers, `modules.json` determines the pooling, dense layers
    with their weights, the normalisation, and their order.

    Args:
        source: A directory of sentence-transformers; or a directory of an encoder, whose features
            are averaged; or a model from `build_transformer_model` with features (B, T, D) as
            output.
        pooling: A pooling of `MaskedPooling`, or a list of them to concatenate. Default: that of
            the directory, else "mean".
        normalize: bool. Whether the vectors have length 1. Default: as in the directory; True for a
            model.
        **arguments: Further arguments of `build_transformer_model` if `source` is a directory, such
            as hierarchical_position=True or rope_scaling=...

    Returns:
        A `keras.Model` with the encoder's inputs, and float32 vectors (B, D) as output.

    Raises:
        FileNotFoundError: if the directory or a part of it is missing.

    Example:

    >>> model = embedder("all-MiniLM-L6-v2", hierarchical_position=True)
    >>> token_ids = np.full((2, 1536), 2146)
    >>> vectors = model.predict([token_ids, 0 * token_ids], verbose=0)
    >>> vectors.shape, np.linalg.norm(vectors, axis=1).round(4).tolist()
    ((2, 384), [1.0, 1.0])

    Reference: [Sentence-BERT](https://arxiv.org/abs/1908.10084).
    """
    if isinstance(source, keras.Model):
        if arguments:
            raise TypeError(
                f"{', '.join(arguments)} are for building an encoder, and `source` is one: give "
                "them to build_transformer_model."
            )
        encoder, modules = source, []
        normalize = True if normalize is None else normalize
    else:
        first, *modules = Folder.of(source).modules
        encoder = build_transformer_model(first.folder, **arguments)
    features = features_of(encoder, "An embedder")
    poolings = pooling or (read_pooling(modules[0])[0] if modules else "mean")
    x = _pooled(features, [poolings] if isinstance(poolings, str) else poolings)
    chosen = [m for m in modules[1:] if m.kind != "Normalize" or normalize is not False]
    if normalize and not (modules and modules[-1].kind == "Normalize"):
        chosen.append(NORMALIZE)
    return with_modules(encoder, x, chosen, "embedder")


def with_modules(encoder, x, modules, name):
    """The model of an encoder with modules of sentence-transformers behind x, with their weights.

    `x`: tensor of its graph, (B, D) or (B, T, D). `modules`: list of `Module`. Returns
    `keras.Model`; its layers are named by the kind of the module and its number.
    """
    weights = []
    for number, module in enumerate(modules):
        x = _MAKE[module.kind](x, module, f"{module.kind}-{number}", weights)
    model = model_on(encoder, x, name)
    for layer, arrays in weights:
        layer.set_weights(arrays)
    return model


def with_dimension(model, dimension):
    """An embedder whose vectors are cut to their first numbers.

    `model`: `keras.Model` of an embedder. `dimension`: int. If the vectors have length 1, the cut
    ones have it, too. Returns `keras.Model` with the same weights.
    """
    checks.whole("dimension", dimension, most=model.output_shape[-1])
    last = model.layers[-1]
    vectors = keras.tree.flatten(last.input)[0] if normalizes(model) else model.output
    cut = LeadingDimensions(dimension, dtype="float32", name="Cut")(vectors)
    if normalizes(model):
        cut = UnitLength(dtype="float32", name="Cut-Normalize")(cut)
    return model_on(model, cut, model.name)


def normalizes(model):
    """Whether the last layer of a model gives vectors of length 1."""
    return isinstance(model.layers[-1], keras.layers.UnitNormalization)


# Poolings, dense layers and norms are small, and in float32 under every policy of the encoder.
def _pooled(x, poolings):
    names = ["Pooling"] if len(poolings) == 1 else [f"Pooling-{name}" for name in poolings]
    pooled = [
        MaskedPooling(pooling, dtype="float32", name=name)(x)
        for pooling, name in zip(poolings, names, strict=True)
    ]
    if len(pooled) == 1:
        return pooled[0]
    return keras.layers.Concatenate(dtype="float32", name="Pooling")(pooled)


def _dense(x, module, name, weights):
    arrays = _arrays(module, {"linear.weight", "linear.bias"})
    kernel, bias = arrays["linear.weight"].T, arrays.get("linear.bias")
    units = kernel.shape[-1]
    _check_shapes(module, arrays, {"linear.weight": (units, x.shape[-1]), "linear.bias": (units,)})
    layer = keras.layers.Dense(
        units,
        check_activation(module.config.get("activation_function", TANH), module.folder),
        use_bias=bias is not None,
        dtype="float32",
        name=name,
    )
    weights.append((layer, [kernel] if bias is None else [kernel, bias]))
    return layer(x)


def _layer_norm(x, module, name, weights):
    arrays = _arrays(module, {"norm.weight", "norm.bias"})
    _check_shapes(module, arrays, dict.fromkeys(arrays, (x.shape[-1],)))
    layer = keras.layers.LayerNormalization(epsilon=1e-5, dtype="float32", name=name)
    weights.append((layer, [arrays["norm.weight"], arrays["norm.bias"]]))
    return layer(x)


def _normalized(x, module, name, weights):
    return UnitLength(dtype="float32", name=name)(x)


def _dropout(x, module, name, weights):
    return Dropout(module.config.get("dropout", 0.2), dtype="float32", name=name)(x)


def _quantized(x, module, name, weights):
    return keras.layers.Activation(rounded_tanh, dtype="float32", name=name)(x)


_MAKE = {
    "Dense": _dense,
    "LayerNorm": _layer_norm,
    "Normalize": _normalized,
    "Dropout": _dropout,
    "FlexibleQuantizer": _quantized,
}


def _arrays(module, names):
    """The weights of a module, by these names; a dense layer's bias may be missing."""
    if module.arrays is not None:
        return module.arrays
    checkpoint = open_checkpoint(module.folder)
    if not names - {"linear.bias"} <= set(checkpoint) <= names:
        raise ValueError(
            f"{checkpoint} holds {shorten(', '.join(sorted(checkpoint)))}, and a {module.kind} has "
            f"{', '.join(sorted(names))}."
        )
    return {name: checkpoint[name] for name in checkpoint}


def _check_shapes(module, arrays, wanted):
    for name, array in arrays.items():
        if array.shape != wanted[name]:
            raise ValueError(
                f"{module.folder}: {name} has the shape {array.shape}, and {wanted[name]} fits "
                "what comes before."
            )
