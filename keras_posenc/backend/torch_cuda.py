"""torch on CUDA: what its kernels can do, and dropout inside of them by seeds of the host.

See `keras_posenc.backend` for what each function does.
"""

import contextlib

import torch
from keras import ops
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.weak import WeakTensorKeyDictionary

from keras_posenc.backend.cuda_alone import keeps_float32
from keras_posenc.backend.keras_names import scope, tensor_of

# Type of a device -> the compute capability with which tests have it stand for one of CUDA, so that
# a machine without a GPU can count what is dispatched.
STANDS_FOR = {}
# The state of a seed generator, or the steps of an optimizer -> its version when it was read or
# moved on, and its numbers.
STATES = WeakTensorKeyDictionary()
# Odd, so that no two seeds, draws and blocks give one number.
FACTORS = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def on_cuda(x):
    """Whether a tensor is computed on CUDA."""
    return x.device.type == "cuda" or x.device.type in STANDS_FOR


def capability(x):
    """The compute capability of the device of CUDA that has a tensor."""
    return STANDS_FOR.get(x.device.type) or torch.cuda.get_device_capability(x.device)


def inference_dtype():
    """The dtype in which this device computes texts with a model of float32."""
    x = ops.zeros(())
    if keeps_float32() or not on_cuda(x):
        return "float32"
    major, _ = capability(x)
    return "bfloat16" if major >= 8 else "float16" if major == 7 else "float32"


def kernels_drop(x):
    """Whether kernels drop what they compute by random numbers of their own."""
    return on_cuda(x)


def next_seed(generator, by_kernel=True):
    """Two integers, as those of `generator.next()`; for a kernel, without waiting for the device.

    For a compiled kernel None: it draws by the state of the device.
    """
    compiling = torch.compiler.is_compiling()
    if compiling and by_kernel:
        return None
    if not compiling and (not by_kernel or scope("stateless_scope") is not None):
        seeds = generator.next()
        return tuple(seeds.tolist()) if by_kernel else seeds
    state = tensor_of(generator.state)
    if compiling:  # `next` would break the graph
        seeds = state.clone()
        with torch.no_grad():
            state[1] += 1
        return seeds
    version, *numbers = STATES.get(state, (None,))
    if version != state._version:
        numbers = state.tolist()
    with torch.no_grad():
        state[1] += 1
    STATES[state] = state._version, numbers[0], numbers[1] + 1
    return tuple(numbers)


def steps_done(iterations):
    """The number of steps of an optimizer, without waiting for the device.

    It is known from the step before, if nothing but Keras' increment has been written since.
    """
    if not on_cuda(iterations):
        return int(iterations)
    version, done = STATES.get(iterations, (None, None))
    since = None if version is None else iterations._version - version
    done = done + since if since in (0, 1) else int(iterations)
    STATES[iterations] = iterations._version, done
    return done


@contextlib.contextmanager
def _seeded(device, seed):
    """A context in which the device draws by a tuple of integers, and after which as before."""
    cuda = device.type == "cuda"
    if seed is None or (cuda and torch.cuda.is_current_stream_capturing()):
        yield
        return
    number = sum(n * factor for n, factor in zip(seed, FACTORS, strict=False)) % 2**63
    generator = torch.default_generator
    if cuda:
        generator = torch.cuda.default_generators[torch.cuda._utils._get_device_index(device)]
    state = generator.get_state()
    generator.manual_seed(number)
    try:
        yield
    finally:
        generator.set_state(state)


def drop_features(x, rate, seed):
    """x with a share of its numbers dropped, and the others divided by 1 - rate."""
    with _seeded(x.device, seed):
        return torch.native_dropout(x, rate, True)[0]


FUSED = [SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]


def fused_alone(wanted=True):
    """A context in which torch's kernel that materialises the matrix is not taken, if `wanted`."""
    return sdpa_kernel(FUSED) if wanted else contextlib.nullcontext()


def attention(q, k, v, bias, mask, scale, is_causal, flash, rate, seed):
    """`shared.dot_product_attention` by the kernels of CUDA, which read q, k and v as they are."""
    if mask is not None:
        bias = additive(mask, q.dtype)
    heads, few = q.shape[2], k.shape[2]
    # Of the kernels that take a bias, or float32, none serves groups of heads.
    grouped = bias is None and q.dtype != torch.float32 and capability(q) >= (8, 0)
    if heads > few and not grouped:
        k, v = (x.repeat_interleave(heads // few, 2) for x in (k, v))
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    options = {"is_causal": is_causal, "scale": scale, "enable_gqa": heads > few and grouped}
    with _seeded(q.device, seed), fused_alone(bool(flash)):
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, bias, dropout_p=rate, **options
        ).transpose(1, 2)


def additive(mask, dtype):
    """What Keras adds to logits: 0, or less than any of them where a mask is False."""
    return torch.where(mask, 0.0, LEAST[dtype == torch.float16]).to(dtype)


# By whether logits are of float16.
LEAST = {False: -0.7 * 3.38953e38, True: -0.7 * 65500.0}
