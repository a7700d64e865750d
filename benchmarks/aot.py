"""Compiles attention for a TPU that is not there, and records the memory that its compiler counts.

    pip install ".[jax,aot]"
    python benchmarks/aot.py                                # all cases, in a few minutes
    python benchmarks/aot.py --lengths 8192 --encodings none --topology v6e:2x2
    python benchmarks/aot.py --lengths 256 --encodings all --modes train --dtypes bfloat16

One attention layer of BERT-base's sizes, forward and training (with attention dropout 0.1 and
without), in bfloat16 and float32. XLA compiles for real hardware on a machine that has only CPUs:
bytes are the compiler's, nothing is run. `jax_optimization_level=O0` compiles in seconds and counts
up to a tenth more temporaries than the default. The kernels are those of splash attention in the
program. Results go to benchmarks/results/aot.json.
"""

import argparse
import importlib.metadata
import itertools
import json
import os
import pathlib

os.environ["KERAS_BACKEND"] = "jax"
os.environ["JAX_PLATFORMS"] = "cpu"
# libtpu would otherwise ask a metadata server which machine this is.
os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
os.environ.setdefault("TPU_ACCELERATOR_TYPE", "v5litepod-4")
os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")  # several processes may compile at once

import jax
import keras
from jax.experimental import topologies

from keras_posenc import PositionalAttention
from keras_posenc.encodings import ENCODINGS

RESULTS = pathlib.Path(__file__).parent / "results" / "aot.json"
HEADS, HEAD_SIZE = 12, 64
SOME = ["none", "rotary", "alibi", "t5", "deberta", "cope"]
# Those that a name alone does not make.
ARGUMENTS = {"window": {"window": 256}}
MODES = {"forward": 0.0, "train": 0.0, "train with dropout": 0.1}
MB = 2**20


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topology", default="v5e:2x2", help="one chip of it is used")
    parser.add_argument("--lengths", nargs="+", type=int, default=[8192])
    parser.add_argument("--encodings", nargs="+", default=SOME, choices=["all", "none", *ENCODINGS])
    parser.add_argument("--modes", nargs="+", default=list(MODES), choices=MODES)
    parser.add_argument("--dtypes", nargs="+", default=["bfloat16", "float32"])
    parser.add_argument("--results", default=RESULTS, type=pathlib.Path)
    arguments = parser.parse_args()
    device = tpu(arguments.topology)
    jax.config.update("jax_optimization_level", "O0")
    lines = []
    encodings = list(ENCODINGS) if "all" in arguments.encodings else arguments.encodings
    cases = (encodings, arguments.lengths, arguments.modes, arguments.dtypes)
    for encoding, length, mode, dtype in itertools.product(*cases):
        line = {"encoding": encoding, "length": length, "mode": mode, "dtype": dtype}
        lines.append(line | compiled(device, encoding, length, mode, dtype))
        print(json.dumps(lines[-1]), flush=True)
        versions = {name: importlib.metadata.version(name) for name in ("jax", "libtpu", "keras")}
        found = {"device": device.device_kind, "versions": versions, "rows": lines}
        arguments.results.write_text(json.dumps(found, indent=1) + "\n")


def tpu(topology):
    """A chip of a topology, which exists for the compiler only."""
    return topologies.get_topology_desc(platform="tpu", topology_name=topology).devices[0]


def compiled(device, encoding, length, mode, dtype):
    """The megabytes of a layer's program, or the error of the compiler where it does not fit."""
    layer = PositionalAttention(
        HEADS,
        HEAD_SIZE,
        encodings=[] if encoding == "none" else [{"name": encoding, **ARGUMENTS.get(encoding, {})}],
        dropout=MODES[mode],
        dtype=dtype,
    )
    width = HEADS * HEAD_SIZE
    layer.build((1, length, width), (1, length, width))
    place = jax.sharding.SingleDeviceSharding(device)

    def shapes(variables):
        return [jax.ShapeDtypeStruct(v.shape, v.dtype, sharding=place) for v in variables]

    weights, fixed = shapes(layer.trainable_variables), shapes(layer.non_trainable_variables)
    x = jax.ShapeDtypeStruct((1, length, width), dtype, sharding=place)
    causal = bool(layer.hooks.causal_only)

    def output(weights, fixed, x):
        training = mode != "forward"
        y, _ = layer.stateless_call(weights, fixed, x, x, use_causal_mask=causal, training=training)
        return y if mode == "forward" else y.astype("float32").sum()

    function = output if mode == "forward" else jax.grad(output, argnums=(0, 2))
    with jax.default_device(device):  # which is how the library learns the platform
        program = jax.jit(function).trace(weights, fixed, x)
    try:
        program = program.lower(lowering_platforms=("tpu",)).compile()
    except jax.errors.JaxRuntimeError as error:
        return {"fits": False, "error": str(error)[:200]}
    memory = program.memory_analysis()
    return {
        "fits": True,
        "temporary_mb": round(memory.temp_size_in_bytes / MB),
        "argument_mb": round(memory.argument_size_in_bytes / MB),
        "output_mb": round(memory.output_size_in_bytes / MB),
        "kernels": program.as_text().count('custom_call_target="tpu_custom_call"'),
    }


if __name__ == "__main__":
    keras.utils.set_random_seed(0)
    main()
