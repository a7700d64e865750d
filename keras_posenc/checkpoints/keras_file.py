"""`.keras` files: looked through before Keras makes what they name.

Keras' own `safe_mode` refuses code in a file, but what else a file may ask for (other files, the
network, any class of Keras) has been found again and again. Here a file may name what is in a table
or registered in this program, and its weights lie in it.
"""

import io

from keras_posenc.checkpoints.archive import read_archive
from keras_posenc.checkpoints.checkpoint import mapped
from keras_posenc.files.untrusted import MOST_JSON, check_file, parse_json, quote, shorten

ENTRIES = {"metadata.json", "config.json", "model.weights.h5"}
MOST_OBJECTS = 2**17  # groups and datasets of the weights

# What a config may name, by the module that Keras writes beside it.
CLASSES = {
    "keras": "Model Sequential Functional DTypePolicy",
    "keras.models": "Model Sequential Functional",
    "keras.src.models.functional": "Functional",
    "keras.src.models.sequential": "Sequential",
    "keras.dtype_policies": """
        AWQDTypePolicy DTypePolicy DTypePolicyMap GPTQDTypePolicy Int4DTypePolicy
        QuantizedDTypePolicy QuantizedFloat8DTypePolicy""",
    "keras.layers": """
        Activation Add AdditiveAttention Attention Average AveragePooling1D BatchNormalization
        Bidirectional Concatenate Conv1D Cropping1D Dense DepthwiseConv1D Dot Dropout ELU
        EinsumDense Embedding Flatten GRU GRUCell GaussianDropout GaussianNoise
        GlobalAveragePooling1D GlobalMaxPooling1D GroupNormalization GroupQueryAttention Identity
        InputLayer InputSpec LSTM LSTMCell LayerNormalization LeakyReLU Masking MaxPooling1D
        Maximum Minimum MultiHeadAttention Multiply PReLU Permute RMSNormalization RNN ReLU
        RepeatVector Rescaling Reshape SeparableConv1D SimpleRNN SimpleRNNCell Softmax
        SpatialDropout1D StackedRNNCells Subtract TimeDistributed UnitNormalization UpSampling1D
        ZeroPadding1D""",
    "keras.initializers": """
        Constant GlorotNormal GlorotUniform HeNormal HeUniform Identity LecunNormal LecunUniform
        Ones Orthogonal OrthogonalInitializer RandomNormal RandomUniform TruncatedNormal
        VarianceScaling Zeros""",
    "keras.regularizers": "L1 L2 L1L2 OrthogonalRegularizer",
    "keras.constraints": "MaxNorm MinMaxNorm NonNeg UnitNorm",
    "keras.quantizers": """
        AWQConfig AbsMaxQuantizer Float8QuantizationConfig GPTQConfig Int4QuantizationConfig
        Int8QuantizationConfig""",
    "keras.random": "SeedGenerator",
    "keras.src.random.seed_generator": "SeedGenerator",
}
# Of Keras' operations those that compute of arrays alone.
OPERATIONS = ("keras.src.ops.numpy", "keras.src.ops.nn", "keras.src.ops.core")
NO_OPERATIONS = {"Map", "Scan", "WhileLoop", "Cond", "VectorizedMap", "CustomGradient", "PyFunc"}
# What Keras writes of values that JSON has no word for, and needs no class of the file's choice.
VALUES = {"__keras_tensor__", "__ellipsis__", "__slice__", "__tuple__", "__set__"}


def load_keras(path):
    """The model of a `.keras` file, uncompiled. Returns `keras.Model`."""
    import keras

    from keras_posenc.keras_support.nested_layers import numbers_come_later

    check_file(path)
    try:
        writer = check_keras(mapped(path))
    except RefusedModelError as error:
        raise ValueError(
            f"{path} is refused: {shorten(error)}. Of a .keras file from elsewhere only layers and "
            "weights are read: register what is your own, or give a safetensors file."
        ) from None
    except Exception as error:  # a damaged archive may fail in any way
        raise ValueError(f"{path} is damaged ({shorten(error)}). Download it again.") from None
    try:
        with numbers_come_later():
            model = keras.saving.load_model(path, compile=False, safe_mode=True)
    except Exception as error:  # Keras raises what JSON, HDF5 or a layer happens to raise
        raise ValueError(
            f"{path}, written by Keras {writer}, cannot be loaded by Keras {keras.__version__}: "
            f"{shorten(error)}"
        ) from None
    if not isinstance(model, keras.Model):  # Keras returns any object that the file describes
        raise ValueError(
            f"{path} holds a {type(model).__name__}, not a model. Save a keras.Model of it first."
        )
    return model


class RefusedModelError(ValueError):
    """A file that may be sound, but asks for what is not done."""


def check_keras(buffer):
    """Raises unless the file holds a model of known classes, and its own weights.

    `buffer`: array of the file's bytes. Returns the version of Keras that wrote it, as the file
    has it. Raises RefusedModelError if it asks for more.
    """
    archive = read_archive(buffer)
    for name in sorted(archive.keys() - ENTRIES):
        raise RefusedModelError(f"it has an entry {quote(name)}, beside a model")
    if "config.json" not in archive or "model.weights.h5" not in archive:
        raise ValueError("it lacks config.json or model.weights.h5")
    _check_config(parse_json(archive["config.json"].read(buffer, MOST_JSON)))
    _check_weights(archive["model.weights.h5"].read(buffer, buffer.size))
    if "metadata.json" not in archive:
        return "?"
    metadata = parse_json(archive["metadata.json"].read(buffer, MOST_JSON))
    return shorten(metadata.get("keras_version", "?"), 20)


def _check_config(config):
    if not isinstance(config, dict) or "class_name" not in config:
        raise ValueError("its config.json describes no model")
    # How it was compiled is not read, as `load_model(compile=False)` leaves it out.
    pending = [{key: value for key, value in config.items() if key != "compile_config"}]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            # Keras decides by these words alone whether to make something of a dict.
            if {"class_name", "registered_name", "module"} & value.keys():
                _check_object(value)
            pending += value.values()
        elif isinstance(value, list):
            pending += value


def _check_object(value):
    import keras

    name, module = value.get("class_name"), value.get("module")
    registered = value.get("registered_name") or name
    sound = all(isinstance(each, (str, type(None))) for each in (name, module, registered))
    if not sound or name is None:
        raise ValueError(f"its config.json describes {quote(value)}")
    if name == "function":
        name = registered = value.get("config")  # by which Keras looks functions up
        if not isinstance(name, str):
            raise ValueError(f"its config.json describes {quote(value)}")
        if module in ("builtins", None) and _is_activation(name):
            return
    found = keras.saving.get_registered_object(registered)
    # The name of the class must be that of what Keras makes.
    if name in VALUES or (found is not None and name in (registered, found.__name__)):
        return
    table = CLASSES.get(module, "").split()
    plain = registered in (None, name)
    operation = module in OPERATIONS and name not in NO_OPERATIONS
    if not plain or not (name in table or operation):
        raise RefusedModelError(f"its config.json names {quote(f'{module}.{name}')}")


def _is_activation(name):
    import keras

    return name.isidentifier() and callable(getattr(keras.activations, name, None))


def _check_weights(data):
    import h5py

    with h5py.File(io.BytesIO(data), "r") as file:
        check_numbers(file, len(data))


def check_numbers(file, size):
    """Raises RefusedModelError unless every number lies in an open `h5py.File` of so many bytes, as
    it is: no link, other file or filled-up shape."""
    import h5py

    groups, count, reached = [file], 0, 0
    seen = set()
    while groups:
        group = groups.pop()
        for name in group:
            count += 1
            if count > MOST_OBJECTS:
                raise RefusedModelError(f"its weights are more than {MOST_OBJECTS} objects")
            link = group.get(name, getlink=True)
            if not isinstance(link, h5py.HardLink):
                raise RefusedModelError(f"its weights have a link, {quote(name)}")
            item = group[name]
            address = h5py.h5o.get_info(item.id).addr
            if address in seen:
                raise RefusedModelError(f"its weights have {quote(name)} twice")
            seen.add(address)
            if isinstance(item, h5py.Group):
                groups.append(item)
                continue
            if not isinstance(item, h5py.Dataset) or item.external or item.is_virtual:
                raise RefusedModelError(f"its weights {quote(name)} lie in another file")
            if item.dtype.kind not in "biufV" or item.dtype.hasobject:
                raise RefusedModelError(f"its weights {quote(name)} are no numbers")
            reached += item.size * item.dtype.itemsize
            if item.id.get_create_plist().get_nfilters() or reached > size:
                raise RefusedModelError(
                    f"its weights {quote(name)} are compressed, or more than the file"
                )
