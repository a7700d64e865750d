"""Chips that exist for XLA's compiler only: TPUs by libtpu, GPUs by JAX's plugin for CUDA.

    pip install ".[jax,aot]"                                        # TPUs
    pip install --no-deps jax-cuda12-plugin==V jax-cuda12-pjrt==V   # GPUs; V is JAX's version

Import it before JAX and Keras: it sets their environment.
"""

import os

os.environ["KERAS_BACKEND"] = "jax"
os.environ["JAX_PLATFORMS"] = "cpu"
# libtpu would otherwise ask a metadata server which machine this is.
os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
os.environ.setdefault("TPU_ACCELERATOR_TYPE", "v5litepod-4")
os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")  # several processes may compile at once

# What tries kernels on the device, which is not there.
GPU_FLAGS = "--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false"
# XLA's GpuTargetConfig.
TARGET = """
gpu_device_info {{
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: 49152
  shared_memory_per_core: {core_shared}
  threads_per_core_limit: {threads}
  core_count: {cores}
  fpus_per_core: {fpus}
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  memory_bandwidth: {bandwidth}
  l2_cache_size: {l2}
  clock_rate_ghz: {clock}
  device_memory_size: {memory}
  shared_memory_per_block_optin: {optin}
  cuda_compute_capability {{ major: {major} minor: {minor} }}
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 8 }}
runtime_version {{ major: 12 minor: 8 patch: 0 }}
device_description_str: "{name}"
"""
GPUS = {
    "h100": {
        "core_shared": 233472,
        "threads": 2048,
        "cores": 132,
        "fpus": 128,
        "bandwidth": 3352320000000,
        "l2": 52428800,
        "clock": 1.98,
        "memory": 84929347584,
        "optin": 232448,
        "major": 9,
        "minor": 0,
        "name": "NVIDIA H100 80GB HBM3",
    },
    "t4": {
        "core_shared": 65536,
        "threads": 1024,
        "cores": 40,
        "fpus": 64,
        "bandwidth": 320064000000,
        "l2": 4194304,
        "clock": 1.59,
        "memory": 15843721216,
        "optin": 65536,
        "major": 7,
        "minor": 5,
        "name": "Tesla T4",
    },
}


def environment(chip):
    """The environment of a process that compiles for a chip."""
    if chip not in GPUS:
        return dict(os.environ)
    return {**os.environ, "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {GPU_FLAGS}"}


def platform(chip):
    """What JAX calls the platform of a chip when it lowers a program."""
    return "cuda" if chip in GPUS else "tpu"


def device(chip):
    """A device: the name of a GPU, or one chip of a topology of TPUs such as "v5e:2x2"."""
    from jax.experimental import topologies

    if chip not in GPUS:
        return topologies.get_topology_desc(platform="tpu", topology_name=chip).devices[0]
    from jax._src import xla_bridge

    # https://github.com/jax-ml/jax/issues/23971: without a device, JAX takes "gpu" for no platform.
    known = xla_bridge.canonicalize_platform
    xla_bridge.canonicalize_platform = lambda p: "cuda" if p in ("gpu", "cuda") else known(p)
    topology = topologies.get_topology_desc(
        platform="cuda",
        topology_name="",
        topology="1x1x1",
        target_config=TARGET.format(**GPUS[chip]),
    )
    return topology.devices[0]


def answer_for_cudnn(chip):
    """Lets JAX lower cuDNN's attention for a GPU that is not there, by cuDNN 9.10.

    It would put three questions to the device.
    """
    from jax._src.cudnn import fused_attention_stablehlo as cudnn

    capability = float(f"{GPUS[chip]['major']}.{GPUS[chip]['minor']}")
    answers = {
        "check_cudnn_version": lambda: 91000,
        "check_compute_capability": lambda least: capability >= float(least),
        "is_cuda_compute_capability_equal": lambda other: capability == float(other),
    }
    for name, answer in answers.items():
        setattr(cudnn, name, answer)
