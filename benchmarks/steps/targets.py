"""What the figures of peers.json are held to: a ratio of two rows, and its bound."""

import math

from benchmarks.steps.rows import SHAPES

OURS = ("posenc-jax", "posenc-tf", "posenc-tf-jit", "posenc-torch")
HUB_TF = ("kerashub-tf", "kerashub-tf-jit")
PEERS = ("kerashub-jax", *HUB_TF, "transformers", "onnxruntime", "bert4keras")

# what, mode, length, quantity, our rows, theirs, the least ratio theirs / ours
RATIOS = [
    ("forward as fast as onnxruntime, JAX", "forward", 128, "time", OURS[:1], PEERS[4:5], 1.0),
    ("forward as fast as onnxruntime, TF", "forward", 128, "time", OURS[1:3], PEERS[4:5], 1.0),
    ("forward as fast as onnxruntime, JAX", "forward", 512, "time", OURS[:1], PEERS[4:5], 1.0),
    ("forward as fast as onnxruntime, TF", "forward", 512, "time", OURS[1:3], PEERS[4:5], 1.0),
    ("forward against the best peer", "forward", 2048, "time", OURS, PEERS, 1.35),
    ("forward against the best peer", "forward", 4096, "time", OURS, PEERS, 1.2),
    ("forward against KerasHub on JAX", "forward", 2048, "time", OURS, PEERS[:1], 4.0),
    ("forward against KerasHub on JAX", "forward", 4096, "time", OURS, PEERS[:1], 6.0),
    ("step on JAX against KerasHub on JAX", "train", 2048, "time", OURS[:1], PEERS[:1], 4.0),
    ("step on TF against KerasHub's best TF", "train", 2048, "time", OURS[1:3], HUB_TF, 1.3),
    ("best step against transformers", "train", 2048, "time", OURS, PEERS[3:4], 3.0),
    ("memory on JAX against KerasHub's", "train", 2048, "memory", OURS[:1], PEERS[:1], 4.0),
    ("memory on TF against KerasHub's", "train", 2048, "memory", OURS[1:2], HUB_TF[:1], 4.0),
    (
        "memory against transformers without attention dropout",
        "train",
        2048,
        "memory",
        OURS,
        ("transformers-nodrop",),
        1 / 1.3,
    ),
    *(
        (
            f"attention dropout against none, whole step, {backend}",
            "train",
            length,
            "time",
            (f"posenc-{backend}",),
            (f"posenc-{backend}-nodrop",),
            1 / 1.15,
        )
        for backend in ("jax", "tf", "torch")
        for length in (512, 2048)
    ),
]
# Why one is missed, as far as known.
REASONS = {
    "forward as fast as onnxruntime, JAX": "XLA's dense layers run at two thirds of "
    "TensorFlow's rate on a CPU (`parts.py`).",
    "forward against the best peer": "Without dropout, both use PyTorch's fused attention "
    "kernel and the same dense layers. Keras adds the calls of 91 layers and keeps each "
    "output until the last layer, which is 5% of the time at 4,096 tokens "
    "(docs/notes/LOG.md).",
    "forward against KerasHub on JAX": "XLA's dense layers, as in the step below.",
    "step on JAX against KerasHub on JAX": "Both use XLA's dense layers, which run at two "
    "thirds of TensorFlow's rate on a CPU (`parts.py`). The faster the attention is, the "
    "larger is their part of the time.",
    "best step against transformers": "Products of heads with 32 features are bound by "
    "memory. Several operations still pass over the attention matrix, one after the other.",
    "memory on TF against KerasHub's": "Steps of 8 tokens already need 1.3 GB, as much as "
    "the target. It is TensorFlow, the weights, their moments and gradients (`step.py "
    "posenc-tf train minilm 1 8`).",
    "memory against transformers without attention dropout": "A process with Keras imported "
    "takes 0.47 GB, because Keras imports JAX if it is installed. With PyTorch and "
    "transformers it takes 0.24 GB (VmHWM of /proc/self/status after the imports).",
    "attention dropout against none, whole step, tf": "An earlier run gave 0.89x. Dropout "
    "takes about 13 ms for 50 MB of an attention matrix, forward and backward, which is a "
    "tenth of a step. The fraction grows as the rest gets faster (docs/notes/LOG.md).",
    "step on TF against KerasHub's best TF": "An earlier run gave 1.36x. KerasHub keeps "
    "its attention matrices, and here they are computed again in the backward pass. That "
    "takes seven products of heads instead of six, which are nearly half of the step "
    "(docs/notes/LOG.md).",
    "attention dropout against none, whole step, torch": "Without dropout, PyTorch uses its "
    "fused kernel, which materialises no attention matrix and has no dropout.",
}
GROWTH = 1.2  # the largest exponent of peak memory over the lengths of one text


def section(lines):
    """The table of targets, for those whose rows were measured; MiniLM."""
    text = ["## Targets", "", "| what | length | target | measured | |", "|---|---|---|---|---|"]
    missed = []
    for what, mode, length, quantity, ours, others, least in RATIOS:
        mine, other = (best(lines, mode, length, quantity, names) for names in (ours, others))
        if mine and other:
            ratio = other / mine
            verdict = "met" if ratio >= least else "missed"
            if ratio < least and what in REASONS:
                missed.append(f"- {what}: {REASONS[what]}")
            text.append(f"| {what} | {length} | {least:.2f}x | {ratio:.2f}x | {verdict} |")
    for name in OURS:
        found = growth(lines, name)
        if found is not None:
            first, last, exponent = found
            verdict = "met" if exponent <= GROWTH else "missed"
            what = f"memory of a training step, {name}, exponent"
            text.append(f"| {what} | {first:,}-{last:,} | {GROWTH} | {exponent:.2f} | {verdict} |")
    if missed:
        reasons = "Reasons for missed targets, as far as they are known:"
        text += ["", reasons, "", *dict.fromkeys(missed)]
    return "\n".join(text) if len(text) > 4 else ""


def best(lines, mode, length, quantity, names):
    """The least time or memory among rows, or None."""
    key = {"time": "seconds", "memory": "peak_mb"}[quantity]
    return min(
        (
            line[key]
            for line in lines
            if line["row"] in names
            and (line["mode"], line["model"]) == (mode, "minilm")
            and (line["batch"], line["length"]) in SHAPES
            and line["length"] == length
            and key in line
        ),
        default=None,
    )


def growth(lines, name):
    """The first and the last length of a single text, and the exponent of peak memory between."""
    peaks = {
        line["length"]: line["peak_mb"]
        for line in lines
        if (line["row"], line["mode"], line["model"]) == (name, "train", "minilm")
        and line["batch"] == 1
        and "peak_mb" in line
    }
    if len(peaks) < 2:
        return None
    first, last = min(peaks), max(peaks)
    return first, last, math.log(peaks[last] / peaks[first]) / math.log(last / first)
