"""The gallery: a page an encoding, from the code, its pictures, and what is said of it here."""

import json
import pathlib

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
LENGTH = 48

# Name -> the formula of a logit (or of what is said), and when to use the encoding. Q stands for
# the scaled product of query and key.
SAID = {
    "alibi": (
        r"\ell_{hij} = Q_{hij} - m_h\,(i - j), \qquad m_h = 2^{-8h/H}",
        "Causal models that are tested on texts longer than those of the training. Far keys count "
        "ever less, so it extrapolates by forgetting: do not expect it to find what is far away.",
    ),
    "cope": (
        r"\ell_{ij} = Q_{ij} + q_i^\top e\Big[\textstyle\sum_{k=j}^{i} \sigma(Q_{ik})\Big]",
        "When position means *the third item*, not *three tokens back*: counting, copying, the "
        "last of a kind. Measured to hold at several times the length of the training.",
    ),
    "deberta": (
        r"\ell_{ij} = \frac{q_i k_j + q_i K[\delta_{ij}] + k_j Q[\delta_{ji}]}{\sqrt{3D}}",
        "To load or build DeBERTa's attention. The most costly of all here.",
    ),
    "fire": (
        r"\ell_{ij} = Q_{ij} + f_\theta\!\left(\frac{\ln(c\,|i - j| + 1)}"
        r"{\ln(c\max(L, i) + 1)}\right)",
        "A learned bias that meets no new input at longer lengths: distances are measured relative "
        "to the query's position.",
    ),
    "forget_gate": (
        r"\ell_{ij} = Q_{ij} + \sum_{t=j+1}^{i} \ln \sigma(w^\top x_t + b)",
        "Causal language models: ALiBi whose slope each token sets, on the fused kernels.",
    ),
    "kerple": (
        r"\ell_{hij} = Q_{hij} - p_h \ln(1 + a_h |i - j|)",
        "A learned decay with two numbers a head; gentler than ALiBi on far keys.",
    ),
    "log_n": (
        r"\ell_{ij} = \frac{\ln n_i}{\ln m}\, Q_{ij}",
        "Beside another encoding, when texts get longer than the m tokens of the training: it "
        "keeps attention from spreading. Costs nothing and has no weights.",
    ),
    "nezha": (
        r"\ell_{ij} = \frac{q_i^\top (k_j + s_{j - i})}{\sqrt D}, \qquad"
        r" o_i = \sum_j A_{ij}\,(v_j + s_{j - i})",
        "To load or build NEZHA: Shaw's encoding with fixed sinusoids.",
    ),
    "rerope": (
        r"\ell_{ij} = \frac{q_i^\top R_{\min(i - j,\, w)}\, k_j}{\sqrt D}",
        "A trained rotary model on longer texts, without training. Measured to lose nothing at 8 "
        "times the length; with `log_n` it is its author's best setting.",
    ),
    "rotary": (
        r"\ell_{ij} = \frac{(R_i\, q_i)^\top (R_j\, k_j)}{\sqrt D} = "
        r"\frac{q_i^\top R_{j - i}\, k_j}{\sqrt D}",
        "The default for new models: relative, no weights, on the fused kernels. By itself it "
        "fails beyond the length of the training: add random ids, a window, ReRoPE or a `scaling`.",
    ),
    "rotary_bias": (
        r"\ell_{hij} = Q_{hij} + a_h^\top R_{j - i}\, b_h",
        "The additive bias of the gated attention unit; a learned function of the distance that "
        "rides in the heads.",
    ),
    "sandwich": (
        r"\ell_{hij} = Q_{hij} + \frac{H}{8h}\Big(\sum_k \cos\big((i - j)\,\omega_k\big) - "
        r"\frac S2\Big)",
        "A fixed decay without weights that looks both ways, on the fused kernels.",
    ),
    "selective": (
        r"\ell_{ij} = Q_{ij} - \sum_{k < i} \max(Q^{(0)}_{kj}, 0)",
        "Causal language models in which a token can dismiss an earlier one for good. It cannot "
        "decode from a cache.",
    ),
    "shaw": (
        r"\ell_{ij} = \frac{q_i^\top (k_j + a_c)}{\sqrt D}, \qquad"
        r" o_i = \sum_j A_{ij}\,(v_j + b_c), \qquad c = \mathrm{clip}(j - i, -k, k)",
        "When a few near distances matter, each with a vector of its own; beyond k all are one.",
    ),
    "squared_relu": (
        r"A_{ij} = \frac{\max(Q_{ij}, 0)^2}{n_i}",
        "In place of the softmax, as in the gated attention unit. It encodes no positions: put "
        "an encoding beside it.",
    ),
    "ssmax": (
        r"A_{ij} = \frac{n_i^{\,s_h Q_{ij}}}{\sum_k n_i^{\,s_h Q_{ik}}}",
        "As log-n, where the model is trained: each head learns how much it sharpens.",
    ),
    "stick_breaking": (
        r"A_{ij} = \sigma(Q_{ij}) \prod_{j < t < i} \big(1 - \sigma(Q_{it})\big)",
        "Causal models without position ids: nearer keys come first, each takes a share of what is "
        "left.",
    ),
    "t5": (
        r"\ell_{hij} = Q_{hij} + \mathrm{table}\big[\mathrm{bucket}(i - j),\, h\big]",
        "A learned bias for each bucket of distances; `shared=True` has one table for all layers. "
        "Beyond `max_distance` all keys are alike.",
    ),
    "temperature": (
        r"\ell_{ij} = c\, Q_{ij}",
        "Attention without positions on longer texts, T5's unscaled products, YaRN's factor.",
    ),
    "transformer_xl": (
        r"\ell_{ij} = \frac{(q_i + u)^\top k_j + (q_i + v)^\top W s_{i - j}}{\sqrt D}",
        "To build Transformer-XL: a memory of earlier segments goes in as keys with lower ids.",
    ),
    "window": (
        r"\ell_{ij} = \begin{cases} Q_{ij} & |i - j| < w \ \text{or}\ j < \text{sinks}\\"
        r" -\infty & \text{otherwise}\end{cases}",
        "Long texts on a budget, beside another encoding: time and memory grow with the window. "
        "Measured to extrapolate as well as anything on a small language model.",
    ),
    "xpos": (
        r"\ell_{ij} = \frac{q_i^\top R_{j - i}\, z^{(i - j)/B}\, k_j}{\sqrt D}, \qquad z_k < 1",
        "Causal models: rotary attention whose products decay with the distance.",
    ),
}


def page(name):
    """The Markdown of the page of an encoding; its pictures lie beside it."""
    from keras_posenc.analysis import facts

    formula, when = SAID[name]
    found = facts(name)
    separable = {True: "yes", False: "no, it needs the map", None: "it only closes cells"}
    learned = [f"`{variable}` {shape}" for variable, shape in found["learned"].items()]
    drawn = ", with a random table" if name == "cope" else ", as initialised"
    rows = [
        ("class", f"[`keras_posenc.{found['class']}`](../api/encodings.md)"),
        ("acts on", ", ".join(f"`{hook}`" for hook in found["acts_on"])),
        ("learned, in 8 heads of 64", ", ".join(learned) or "nothing"),
        ("separable (on fused kernels)", separable[found["separable"]]),
        ("causal only", "yes" if found["causal_only"] else "no"),
        ("paper", f"<{found['paper']}>"),
    ]
    table = "\n".join(["| | |", "|---|---|", *(f"| {a} | {b} |" for a, b in rows)])
    return f"""# {name}

$${formula}$$

$Q_{{ij}} = q_i^\\top k_j / \\sqrt D$ is the logit before positions act, $i$ the query, $j$ the key.

**When to use it.** {when}

{table}

## What it does

![Logit and weight of a key by its distance, {name} and no encoding]({name}-decay.svg)

*Equal tokens: logit and weight of a key by its distance alone, mean of 8 heads{drawn}.*

![Attention maps of four heads, {name}]({name}-map.svg)

*Random content, {LENGTH} tokens, causal: weights of four heads{drawn}.*

## Cost

{cost(name)}

## Arguments

::: keras_posenc.{found["class"]}
    options:
      heading_level: 3
      members: false
"""


def cost(name):
    """Time and memory beside plain attention, from benchmarks/results/attention.json."""
    path = ROOT / "benchmarks" / "results" / "attention.json"
    found = {}
    for backend, lines in json.loads(path.read_text("utf-8")).items():
        for line in lines:
            if line["encoding"] == name:
                found.setdefault((line["length"], line["dropout"]), {})[backend] = line
    if not found:
        return "Not measured."
    backends = ("torch", "jax", "tensorflow")
    rows = [f"| tokens, dropout | {' | '.join(backends)} |", "|---|---|---|---|"]
    for (length, dropout), by_backend in sorted(found.items()):
        cells = [
            f"{line['ratio']:.2f} x, {line['maps at peak']:.1f} maps"
            if (line := by_backend.get(backend))
            else "–"
            for backend in backends
        ]
        rows.append(f"| {length:,}, {dropout} | {' | '.join(cells)} |")
    rows += [
        "",
        "Forward and backward, causal, 12 heads of 64: time in plain attention's on the same "
        "backend, and memory at the peak in maps of T x T numbers a head. "
        "[More](../performance/encodings.md).",
    ]
    return "\n".join(rows)


def pictures(name):
    """dict file name -> SVG, the decay and the map of an encoding."""
    import keras

    from keras_posenc.analysis import decay_curve
    from keras_posenc.analysis.pictures import decay_curves
    from keras_posenc.analysis.plot import to_svg

    keras.utils.set_random_seed(0)
    curves = {"none": decay_curve([], LENGTH), name: decay_curve([shown(name)], LENGTH)}
    return {
        f"{name}-decay.svg": to_svg(decay_curves(curves, size=(7.2, 3.2))),
        f"{name}-map.svg": to_svg(_maps(name)),
    }


def shown(name):
    """The encoding as its pictures show it: with a small window or distance where it has one, and
    with a random table where it starts with zeros."""
    from keras_posenc.encodings import get

    if name == "cope":  # whose table is zero at first
        encoding = get(name)
        encoding.build((1, LENGTH, 8, 64))
        rng = np.random.default_rng(0)
        for variable in encoding.trainable_variables:
            variable.assign(rng.normal(0, 0.3, variable.shape))
        return encoding
    small = {
        "window": {"window": 12, "sinks": 1},
        "rerope": {"window": 12},
        "log_n": {"train_length": 16},
        "ssmax": {"train_length": 16},
        "temperature": {"value": 2.0},
        "xpos": {"scale_base": 32.0},
    }
    return {"name": name, **small.get(name, {})}


def _maps(name):
    from keras_posenc.analysis import attention_map
    from keras_posenc.analysis.plot import styled

    rng = np.random.default_rng(0)
    q, k = rng.normal(size=(2, 1, LENGTH, 8, 64))
    weights = attention_map([shown(name)], q, k, causal=True)["weights"][0]

    @styled
    def draw(figure):
        for axes, head in zip(figure.subplots(1, 4), (0, 2, 4, 7), strict=True):
            axes.imshow(weights[head], cmap="Blues", vmin=0, vmax=0.5)
            axes.set(title=f"head {head + 1}", xlabel="key")
            axes.grid(False)
        figure.axes[0].set_ylabel("query")

    return draw(size=(7.2, 2.4))
