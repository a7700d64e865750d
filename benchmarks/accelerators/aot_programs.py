"""Whole programs of small models for TPUs that are not there: what `make test-aot` bounds.

    pip install ".[jax,aot]"
    python -m benchmarks.accelerators.aot_programs                       # JSON, a minute

| program | of |
|---|---|
| finetune | a training step of a classifier, as Keras' trainer: optimizer, weights, metrics |
| late interaction | a training step of `MaxSimRanking` on queries and documents |
| decoder | a prompt and new tokens of a model with 8 heads, of which 2 have keys |
| texts over chips | a training step of attention with T5's bias, a text on each of eight chips |

A row has the megabytes of the largest array of the traced program, and of what its loops carry from
turn to turn. The last is compiled, too: its loops, and the collectives inside them. Nothing is run.
"""

import json
import math

# Before JAX and Keras: it sets their environment.
from benchmarks.accelerators import aot_devices  # noqa: F401  # isort: skip
import jax
import keras
from jax.experimental import topologies
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

from benchmarks.accelerators.aot_chips import traffic
from benchmarks.accelerators.aot_models import draw_nothing
from benchmarks.accelerators.aot_traced import MB, jaxprs, largest_array
from keras_posenc import PositionalAttention, build_transformer_model
from keras_posenc.heads import classifier
from keras_posenc.losses import MaxSimRanking
from keras_posenc.models.generation import Generator
from keras_posenc.retrieval.late_interaction.training_model import late_interaction
from keras_posenc.training import FusedAdamW

BATCH, LENGTH, NEW = 4, 2048, 64
BERT = {
    "vocab_size": 400,
    "hidden_size": 256,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "intermediate_size": 512,
    "hidden_act": "gelu",
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
}
QWEN = BERT | {
    "model_type": "qwen3",
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "hidden_act": "silu",
    "rope_theta": 1e6,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 4096,
}


def main():
    jax.config.update("jax_optimization_level", "O0")
    draw_nothing()
    chips = topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x4").devices
    place = SingleDeviceSharding(chips[0])
    found = {
        "finetune": finetune(place),
        "late interaction": of_late_interaction(place),
        "decoder": decoder(place),
        "texts over chips": over_chips(chips),
    }
    rows = {}
    for name, (function, arguments) in found.items():
        with jax.default_device(chips[0]):  # which is how the library learns the platform
            traced = function.trace(*arguments)
        jaxpr = traced.jaxpr.jaxpr
        rows[name] = {"largest_mb": largest_array(jaxpr) / MB, "carried_mb": carried(jaxpr) / MB}
    program = traced.lower(lowering_platforms=("tpu",)).compile().as_text()
    inside = {kind: row for kind, row in traffic(program).items() if kind.endswith("in loops")}
    rows[name] |= {"loops": program.count(" while("), "collectives in loops": inside}
    print(json.dumps(rows))


def carried(jaxpr):
    """The bytes that the largest `while_loop` carries from turn to turn."""
    sizes = [0]
    for equation in jaxpr.eqns:
        if equation.primitive.name == "while":
            arrays = [each.aval for each in equation.outvars]
            sizes.append(sum(math.prod(x.shape) * x.dtype.itemsize for x in arrays))
        sizes += map(carried, jaxprs(equation.params))
    return max(sizes)


def shapes(variables, place):
    return [jax.ShapeDtypeStruct(v.shape, v.dtype, sharding=place) for v in variables]


def step_of(model, loss, x, y, place, **arguments):
    """The training step of Keras' trainer, and its arguments."""
    model.compile(FusedAdamW(1e-4), loss, **arguments)
    model.optimizer.build(model.trainable_variables)
    weights = [model.trainable_variables, model.non_trainable_variables]
    groups = [*weights, model.optimizer.variables, model.metrics_variables]
    state = [shapes(group, place) for group in groups]
    sample_weights = jax.ShapeDtypeStruct(y.shape[:1], "float32", sharding=place)
    return jax.jit(model.train_step, donate_argnums=0), (state, (x, y, sample_weights))


def finetune(place):
    model = classifier(build_transformer_model(BERT, hierarchical_position=True), 2)
    ids = jax.ShapeDtypeStruct((BATCH, LENGTH), "int32", sharding=place)
    labels = jax.ShapeDtypeStruct((BATCH,), "int32", sharding=place)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return step_of(model, loss, {x.name: ids for x in model.inputs}, labels, place)


def of_late_interaction(place):
    """64 queries, cut to 32 tokens, and their documents of 256."""
    encoder = build_transformer_model(BERT)
    model = late_interaction(encoder, 0, [], 0, 32, 2)
    ids = jax.ShapeDtypeStruct((64, 2, 256), "int32", sharding=place)
    labels = jax.ShapeDtypeStruct((64,), "int32", sharding=place)
    return step_of(model, MaxSimRanking(), {x.name: ids for x in model.inputs}, labels, place)


def decoder(place):
    model = Generator(build_transformer_model(QWEN, application="lm"), max_length=NEW)
    ids = jax.ShapeDtypeStruct((BATCH, LENGTH), "int32", sharding=place)
    groups = [model.trainable_variables, model.non_trainable_variables]
    arguments = *(shapes(group, place) for group in groups), {"token_ids": ids}
    return jax.jit(model.stateless_call), arguments


def over_chips(chips):
    mesh = keras.distribution.DeviceMesh((len(chips),), ["batch"], list(chips))
    layer = PositionalAttention(4, 64, encodings=["t5"], dropout=0.1)
    shape = len(chips), 4 * LENGTH, 256
    layer.build(shape, shape)

    def place(*axes):
        return NamedSharding(mesh.backend_mesh, PartitionSpec(*axes))

    def loss(weights, fixed, x):
        with keras.distribution.DataParallel(device_mesh=mesh).scope():
            y, _ = layer.stateless_call(weights, fixed, x, x, training=True)
        return (y**2).sum()

    x = jax.ShapeDtypeStruct(shape, "float32", sharding=place("batch"))
    groups = [layer.trainable_variables, layer.non_trainable_variables]
    return jax.jit(jax.grad(loss)), (*(shapes(group, place()) for group in groups), x)


if __name__ == "__main__":
    main()
