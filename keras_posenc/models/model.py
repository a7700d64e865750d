"""A functional model that remembers, also in a `.keras` file, what the transformer in it is."""

import dataclasses
import json
import re
import warnings

import keras
from keras import ops

from keras_posenc import backend
from keras_posenc.backend.keras_names import has, input_list, layers_in, save_zero_points, scope
from keras_posenc.backend.seeding import without_tensorflow
from keras_posenc.encodings import spec_of
from keras_posenc.models.calibration import CALIBRATED, stages
from keras_posenc.models.direct import Steps
from keras_posenc.models.inputs import CheckedInputs, check_inputs, fill

NO_HDF5 = (
    "A TransformerModel cannot be loaded from a whole-model HDF5 file, so it is not written: save "
    "the model as .keras, or its weights alone by save_weights to a .weights.h5 file. {}"
)
_OF_BACKEND = re.compile(r"keras\.src\.backend\.\w+\.optimizers\.\w+")  # Keras names its own class


@keras.saving.register_keras_serializable(package="keras_posenc")
class TransformerModel(CheckedInputs, keras.Model):
    """A functional `keras.Model` that contains a transformer and saves its config.

    `keras.saving.load_model` returns it with its `transformer`. So `save_checkpoint` works on a
    model that was saved, or fine-tuned, or that has further layers on the features.

    Ids are checked before a program runs: arrays as a whole, batches of a `PyDataset` or of a
    generator one by one. Other datasets, and steps that you compile yourself, are not checked.
    There PyTorch and TensorFlow raise an error, and JAX and XLA read the nearest row. A call that
    is refused or interrupted leaves the weights unchanged. `predict` may be called from several
    threads, while no `fit` is running.

    Args:
        *args: Inputs and outputs, as of `keras.Model`: (B, T) and (B, ...).
        transformer: `Transformer`, or None.
        about: str. The description of the transformer in a saved file.
        **kwargs: `name` and others of `keras.Model`.

    Attributes:
        transformer: `Transformer`. A loaded model has a `LoadedTransformer` instead, with the
            same `config`, `layers`, `table` and `account`.

    Example:

    >>> encoder = build_transformer_model("bert")
    >>> model = classifier(encoder, num_classes=2)
    >>> model.save("model.keras")
    >>> again = keras.saving.load_model("model.keras")
    >>> again.transformer.config == encoder.transformer.config
    True
    """

    # By these names Keras 3.12 and 3.15 alike know the constructor of a functional model.
    def __init__(self, *args, transformer=None, about=None, **kwargs):
        super().__init__(*args, **kwargs)
        self._transformer, self._about = transformer, about
        if backend.TRAITS.eager:  # here, and not within a program that is traced
            self._steps = Steps(self)

    def call(self, inputs, training=None, mask=None, **kwargs):
        # Keras leaves out what a model has no input for: texts of a packed row would meet.
        if isinstance(inputs, dict) and "position_ids" in inputs:
            if not any(each.name.endswith("position_ids") for each in self.inputs):
                raise ValueError(
                    "The inputs have `position_ids`, and the model has no such input: build it "
                    "with packed=True for rows of several texts (`pack=True`), or with "
                    "custom_position_ids=True for ids of your own."
                )
        masked = any(each is not None for each in keras.tree.flatten(mask))
        if backend.TRAITS.eager and has("graphs") and not (masked or kwargs):
            tensors = input_list(self, inputs)
            if backend.is_plain(self, tensors[0]):
                return self._outputs_of(tensors, training)
        return super().call(inputs, training=training, mask=mask, **kwargs)

    def _outputs_of(self, tensors, training):
        outputs = self.program(self._steps.run)(tensors, training=training)
        one = isinstance(outputs, (list, tuple)) and len(outputs) == 1
        return outputs[0] if one else outputs

    def _predictions(self, x):
        """As of `SafeTrainer`. Keras' call of a functional model takes as much work as its calls of
        ten layers."""
        if type(self) is not TransformerModel or not has("graphs") or not fill(x, self.inputs):
            return None
        x = check_inputs(self._id_inputs, x)
        tensors = [ops.convert_to_tensor(x[each.name], each.dtype) for each in self.inputs]
        return self._outputs_of(tensors, False) if backend.is_plain(self, tensors[0]) else None

    def export(self, filepath, format="tf_saved_model", **kwargs):
        """As `keras.Model.export`; also on JAX, all inputs of a SavedModel have one free length."""
        free = format == "tf_saved_model" and kwargs.get("input_signature") is None
        options = backend.saved_model_options(self.inputs) if free and len(self.inputs) > 1 else {}
        return super().export(filepath, format, **{**options, **kwargs})

    @property
    def transformer(self):
        """The `Transformer`, or what a file keeps of it; None if it is not known."""
        if self._transformer is None and self._about is not None:
            # All families are read only for a model that needs its own.
            from keras_posenc.models.loaded_transformer import loaded_transformer

            self._transformer = loaded_transformer(self, self._about)
        return self._transformer

    def save(self, filepath, *args, **kwargs):
        """Saves the model as a `.keras` file, as `keras.Model.save` does."""
        if str(filepath).endswith((".h5", ".hdf5")):
            raise ValueError(NO_HDF5.format(f"Received: filepath={str(filepath)!r}"))
        with without_tensorflow():
            return super().save(filepath, *args, **kwargs)

    def quantize(self, mode=None, config=None, filters=None, **kwargs):
        """Quantizes the weights, as `keras.Model.quantize` does; warns of "int8" on a CPU.

        By "gptq" and "awq", which need calibration data, the dense layers of all blocks are
        quantized if there are no `filters`. Token tables are then int8, as by "int4".
        """
        if mode == "int8" and not backend.on_accelerator(ops.zeros(())):
            warnings.warn(
                "On a CPU, a model quantized to int8 takes less memory and is slower than float32, "
                "up to 15 times. For speed, export the float32 model instead: export_model(model, "
                '"model.onnx", quantize="int8") runs in onnxruntime.',
                stacklevel=2,
            )
        mode = getattr(config, "mode", None) if mode is None else mode
        if mode in CALIBRATED and filters is None:
            filters = _calibrated(self)
        chosen = {} if filters is None else {"filters": filters}  # Keras 3.12 does not have it
        # Keras' sums over calibration data would keep all that they are made of.
        with without_tensorflow(), backend.without_gradients():
            super().quantize(mode, config=config, **chosen, **kwargs)
        for layer in layers_in(self):
            save_zero_points(layer)

    def get_quantization_layer_structure(self, mode=None):
        """The embeddings and the blocks, for GPTQ and AWQ; None for another `mode`."""
        return stages(self) if mode in CALIBRATED else None

    def get_config(self):
        if has("scopes") and scope("use_legacy_config"):  # by save_model, or in a model
            raise ValueError(NO_HDF5.format(f"Received: {self!r} in an HDF5 file"))
        about = self._about if self._transformer is None else _about(self._transformer)
        return {**super().get_config(), **({} if about is None else {"about": about})}

    def compile_from_config(self, config):
        """Compiles the model as it was, also with an optimizer that another backend saved."""
        optimizer = _OF_BACKEND.sub("keras.optimizers", json.dumps(config.get("optimizer")))
        super().compile_from_config({**config, "optimizer": json.loads(optimizer)})


def _calibrated(model):
    """A filter for the layers inside the blocks of a model, and its tables of ids."""
    inside = {id(x) for block in stages(model)["sequential_blocks"] for x in layers_in(block)}
    return lambda layer: id(layer) in inside or isinstance(layer, keras.layers.Embedding)


def model_on(encoder, outputs, name):
    """A model of an encoder's inputs and of other outputs, which knows the encoder's transformer.

    `encoder`: a `keras.Model`, of `build_transformer_model` or any other. `outputs`: tensors of the
    functional graph that begins with the encoder's inputs. Returns `keras.Model`.
    """
    transformer = getattr(encoder, "transformer", None)
    return TransformerModel(encoder.inputs, outputs, name=name, transformer=transformer)


def _about(transformer):
    """The description of a transformer for a file, as JSON, without what only classes can hold."""
    options, config = transformer.options, transformer.config
    named = options.encodings if options.swapped else ()
    try:
        specs = [[spec_of(encoding) for encoding in layer] for layer in named]
    except ValueError:
        return None
    about = {
        "family": transformer.family,
        "config": config.to_huggingface(specs),
        "layers": {name: layer.name for name, layer in transformer.layers.items()},
        "account": transformer.account and dataclasses.asdict(transformer.account),
        "packed": options.packed,
    }
    return json.dumps(about)
