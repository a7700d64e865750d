"""A training step of BERT-base on one long text over eight TPU chips, compiled and not run.

    pip install ".[jax,aot]"
    python -m benchmarks.accelerators.aot_chips                          # 131,072 tokens, minutes
    python -m benchmarks.accelerators.aot_chips --layers 1 2 --length 65536

The mesh has the axis "sequence" alone: each chip has an eighth of the text, and all weights
(context parallelism). AdamW, dropout 0.1 and mixed bfloat16, as in aot_steps.py. `--layers 1 2`
compiles models of one and two layers, and takes each further layer to need as much as these differ
by. Collectives are counted by kind, with the megabytes of their results; those in loops would be
sent once a turn. Results go to benchmarks/results/aot_chips.json.
"""

import argparse
import importlib.metadata
import json
import math
import pathlib
import re

# Before JAX and Keras: it sets their environment.
from benchmarks.accelerators import aot_devices  # noqa: F401  # isort: skip
import jax
import keras
from jax.experimental import topologies
from jax.sharding import NamedSharding, PartitionSpec

from benchmarks.accelerators.aot_models import LAYERS, draw_nothing
from benchmarks.accelerators.aot_steps import extrapolated, model_of, sizes_of, training_step
from benchmarks.accelerators.aot_traced import MB

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "aot_chips.json"
KINDS = "all-gather|all-reduce|reduce-scatter|collective-permute|all-to-all"
COLLECTIVE = re.compile(rf"= (\S.*?) ({KINDS})(?:-start)?\(.*")
BYTES = {"bf16": 2, "f32": 4, "s32": 4, "u32": 4, "pred": 1}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topology", default="v5e:2x4")
    parser.add_argument("--length", type=int, default=131072)
    parser.add_argument("--layers", nargs="+", type=int, default=[LAYERS])
    parser.add_argument("--results", default=RESULTS, type=pathlib.Path)
    arguments = parser.parse_args()
    jax.config.update("jax_optimization_level", "O0")
    keras.config.set_dtype_policy("mixed_bfloat16")
    draw_nothing()
    chips = topologies.get_topology_desc(platform="tpu", topology_name=arguments.topology).devices
    rows = []
    for layers in arguments.layers:
        program = step_over(chips, arguments.length, layers).compile()
        row = {"layers": layers, "length": arguments.length, **sizes_of(program.memory_analysis())}
        rows.append(row | {"collectives": traffic(program.as_text())})
        print(json.dumps(rows[-1]), flush=True)
    versions = {name: importlib.metadata.version(name) for name in ("jax", "libtpu", "keras")}
    found = {"topology": arguments.topology, "versions": versions, "programs": rows}
    found["mb"] = round(extrapolated(arguments.layers, [row["mb"] for row in rows]))
    found["layers"] = LAYERS
    arguments.results.write_text(json.dumps(found, indent=1) + "\n")


def step_over(chips, length, layers):
    """A training step, lowered for chips that share one text."""
    model, optimizer = model_of("keras_posenc", length, layers)
    mesh = keras.distribution.DeviceMesh((len(chips),), ["sequence"], list(chips))
    layouts = keras.distribution.LayoutMap(mesh)
    split = keras.distribution.ModelParallel(layout_map=layouts, batch_dim_name="batch")

    def place(*axes):
        return NamedSharding(mesh.backend_mesh, PartitionSpec(*axes))

    def shapes(variables):
        return [jax.ShapeDtypeStruct(v.shape, v.dtype, sharding=place()) for v in variables]

    state = [model.trainable_variables, model.non_trainable_variables, optimizer.variables]
    ids = jax.ShapeDtypeStruct((1, length), "int32", sharding=place(None, "sequence"))
    targets = jax.ShapeDtypeStruct((1,), "int32", sharding=place())
    step = jax.jit(training_step(model, optimizer), donate_argnums=0)
    with split.scope(), jax.default_device(chips[0]):
        inputs = {x.name: ids for x in model.inputs}
        traced = step.trace([shapes(group) for group in state], inputs, targets)
    return traced.lower(lowering_platforms=("tpu",))


def traffic(program):
    """Kind -> [number of collectives, megabytes of their results], those of loops apart."""
    found = {}
    for match in COLLECTIVE.finditer(program):
        size = 0
        for kind, shape in re.findall(rf"({'|'.join(BYTES)})\[([\d,]*)\]", match[1]):
            size += BYTES[kind] * math.prod(int(n) for n in shape.split(",") if n)
        key = match[2] + (" in loops" if "/while/" in match[0] else "")
        count, mb = found.get(key, (0, 0))
        found[key] = count + 1, round(mb + size / MB, 3)
    return found


if __name__ == "__main__":
    main()
