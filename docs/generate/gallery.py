"""The gallery: a page per encoding, from the code, its figures, and the texts below."""

import json
import pathlib
import re
import typing

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
LENGTH = 48
ZERO_AT_FIRST = ("content_bias", "cope")  # whose tables are


class Page(typing.NamedTuple):
    """What a page has besides what the code knows; in a formula Q is the scaled product of query
    and key."""

    title: str
    intuition: str
    formula: str  # of a logit, in most pages
    when: str


PAGES = {
    "alibi": Page(
        "ALiBi: attention with linear biases",
        "Each head subtracts a penalty that grows linearly with the distance, so near keys "
        "count more.",
        r"\ell_{hij} = Q_{hij} - m_h\,(i - j), \qquad m_h = 2^{-8h/H}",
        "In causal models that read longer texts than in training. Distant keys count less and "
        "less, so do not expect it to find what is far away.",
    ),
    "content_bias": Page(
        "Content-conditioned relative bias",
        "The hidden state of each query mixes learned profiles of the distance into a bias.",
        r"\ell_{hij} = Q_{hij} + (W_h x_i)^\top P_{i - j}, \qquad P_r = 0 \ \text{for}\ |r| \ge R",
        "When some tokens need more distant context than others, as in the model Inkling. All "
        "distances from R on have no bias, so longer texts bring no new distances.",
    ),
    "cope": Page(
        "CoPE: contextual position encoding",
        "Each query decides which tokens count, and positions are counts of those tokens "
        "instead of all tokens.",
        r"\ell_{ij} = Q_{ij} + q_i^\top e\Big[\textstyle\sum_{k=j}^{i} \sigma(Q_{ik})\Big]",
        "When position means *the third item*, not *three tokens back*: to count, to copy, or to "
        "find the last of a kind. In measurements it works at four times the training length.",
    ),
    "dape": Page(
        "DAPE: data-adaptive position encoding",
        "A small network reads the logits of all heads and a bias of the distance, and adapts the "
        "bias to the content.",
        r"\ell'_{ij} = \ell_{ij} + b_{i-j} + V^\top\, \mathrm{lrelu}\big(W^\top [\ell_{ij}, "
        r"b_{i-j}] + u\big), \qquad \ell_{ij},\, b_{i-j} \in \mathbb R^H",
        "As a baseline: papers on length extrapolation often compare with it. It is one of the "
        "most expensive encodings, because the network runs on each pair of query and key.",
    ),
    "deberta": Page(
        "DeBERTa: disentangled relative attention",
        "Content and relative position have separate projections, and attention adds "
        "content-to-position and position-to-content terms.",
        r"\ell_{ij} = \frac{q_i k_j + q_i K[\delta_{ij}] + k_j Q[\delta_{ji}]}{\sqrt{3D}}",
        "To load or build DeBERTa's attention. It is one of the most expensive encodings.",
    ),
    "dual_chunk": Page(
        "Dual chunk attention",
        "Positions start again in each chunk, and keys in other chunks get distances that a "
        "chunk, or two adjacent ones, would have.",
        r"\ell_{ij} = \frac{q_i^\top R_{r'}\, k_j}{\sqrt D}, \quad r' = \begin{cases} i - j & "
        r"\text{one chunk}\\ \min(i \bmod s + s, c) - j \bmod s & \text{the chunk before}\\ "
        r"\min(2s - 1, c) - j \bmod s & \text{earlier} \end{cases}",
        "To use a trained rotary model on texts of any length without training, as in Qwen2.5-1M. "
        "Far keys keep an order only within their chunk.",
    ),
    "fire": Page(
        "FIRE: functional interpolation for relative positions",
        "A small network maps the distance, relative to the position of the query, to a bias.",
        r"\ell_{ij} = Q_{ij} + f_\theta\!\left(\frac{\ln(c\,|i - j| + 1)}"
        r"{\ln(c\max(L, i) + 1)}\right)",
        "For a learned bias whose inputs stay in the same range on longer texts.",
    ),
    "forget_gate": Page(
        "Forget gate",
        "Each token sets how much of the earlier text is forgotten, and the logits decrease "
        "by the sum of the forgetting.",
        r"\ell_{ij} = Q_{ij} + \sum_{t=j+1}^{i} \ln \sigma(w^\top x_t + b)",
        "In causal language models: like ALiBi with a slope per token, and on fused kernels. In "
        "encoders, `bidirectional=True` adds gates for the keys after a query; it needs the "
        "attention matrix.",
    ),
    "kerple": Page(
        "KERPLE: kernelized relative positions",
        "The bias decreases with the logarithm of the distance, with two learned numbers per head.",
        r"\ell_{hij} = Q_{hij} - p_h \ln(1 + a_h |i - j|)",
        "For a learned decay that is gentler than ALiBi on distant keys.",
    ),
    "log_cpb": Page(
        "Log-CPB: log-spaced continuous position bias",
        "A small network maps the signed logarithm of the distance to a bias, so far distances lie "
        "close to trained ones.",
        r"\ell_{hij} = Q_{hij} + B\,\sigma\!\Big(V_h^\top \max\big(w\,x + u,\, 0\big)\Big), "
        r"\qquad x = \operatorname{sign}(i - j)\, \frac{\ln(1 + c\,|i - j|)}{\ln(1 + c\,N)}",
        "For a learned bias of any shape, on both sides, as in Swin v2. It costs as much as T5's "
        "bias, and more if position ids are not consecutive.",
    ),
    "log_n": Page(
        "Log-n scaling",
        "Logits grow with the logarithm of the number of visible keys, so that attention "
        "does not spread as texts grow.",
        r"\ell_{ij} = \frac{\ln n_i}{\ln m}\, Q_{ij}",
        "Together with another encoding, when texts are longer than the m tokens of training. "
        "It costs almost nothing and has no weights.",
    ),
    "nezha": Page(
        "NEZHA: functional relative positions",
        "Fixed sinusoids of the clipped distance are added to the keys and values.",
        r"\ell_{ij} = \frac{q_i^\top (k_j + s_{j - i})}{\sqrt D}, \qquad"
        r" o_i = \sum_j A_{ij}\,(v_j + s_{j - i})",
        "To load or build NEZHA, whose encoding is Shaw's with fixed sinusoids.",
    ),
    "path": Page(
        "PaTH: accumulated Householder transformations",
        "Each token between a key and a query reflects the key along a direction of its own, so "
        "tokens can swap and overwrite what others mean.",
        r"\ell_{ij} = \frac{1}{\sqrt D}\, q_i^\top H_i H_{i-1} \cdots H_{j+1}\, k_j, \qquad "
        r"H_t = I - \beta_t\, w_t w_t^\top, \quad \lVert w_t \rVert = 1",
        "For causal models that must track a state which tokens change, such as flip-flops and "
        "permutations. It multiplies much more than attention itself, and decodes slowly.",
    ),
    "pope": Page(
        "PoPE: polar coordinate position embedding",
        "Each feature is the length of an arrow whose angle is the position, so content and "
        "position can be matched independently.",
        r"\ell_{hij} = \frac{1}{\sqrt D} \sum_c \sigma_+(q_{ic})\, \sigma_+(k_{jc}) "
        r"\cos\big((i - j)\,\theta_c - \varphi_{hc}\big), \qquad \sigma_+(x) = \ln(1 + e^x)",
        "Instead of `rotary` in a new model that must find tokens by content alone or by position "
        "alone. It makes queries and keys twice as wide.",
    ),
    "rerope": Page(
        "ReRoPE: rectified rotary positions",
        "Distances beyond a window are all treated as the window's width, so no new "
        "distance ever appears.",
        r"\ell_{ij} = \frac{q_i^\top R_{\min(i - j,\, w)}\, k_j}{\sqrt D}",
        "To use a trained rotary model on longer texts without training. In measurements it loses "
        "nothing at 8 times the length; combine it with `log_n`.",
    ),
    "rotary": Page(
        "Rotary position embedding (RoPE)",
        "Queries and keys are rotated by angles that grow with their position, so their "
        "product depends on the distance.",
        r"\ell_{ij} = \frac{(R_i\, q_i)^\top (R_j\, k_j)}{\sqrt D} = "
        r"\frac{q_i^\top R_{j - i}\, k_j}{\sqrt D}",
        "As the default for new models: it is relative, has no weights and runs on fused kernels. "
        "By itself it fails beyond the training length, so add random ids, a window, ReRoPE or a "
        "`scaling`. With `learned=True` its frequencies are trained.",
    ),
    "rotary_bias": Page(
        "Rotary bias",
        "Two learned vectors per head are rotated like queries and keys, and their product "
        "is a bias of the distance.",
        r"\ell_{hij} = Q_{hij} + a_h^\top R_{j - i}\, b_h",
        "For a learned bias on fused kernels: it is the additive bias of the gated attention unit, "
        "folded into the queries and keys.",
    ),
    "sandwich": Page(
        "Sandwich",
        "The bias of the distance is the product of two sinusoidal position embeddings.",
        r"\ell_{hij} = Q_{hij} + \frac{H}{8h}\Big(\sum_k \cos\big((i - j)\,\omega_k\big) - "
        r"\frac S2\Big)",
        "For a fixed, symmetric decay without weights that runs on fused kernels.",
    ),
    "selective": Page(
        "Selective attention",
        "A token that is selected strongly by an earlier query counts less for all later ones.",
        r"\ell_{ij} = Q_{ij} - \sum_{k < i} \max(Q^{(0)}_{kj}, 0)",
        "In causal language models in which a token can mask an earlier one for all later tokens. "
        "It cannot decode from a cache.",
    ),
    "self_extend": Page(
        "Self-Extend: grouped positions",
        "Near distances stay unchanged, and far ones are counted in groups of positions, so that "
        "fewer distances are new.",
        r"\ell_{ij} = \frac{q_i^\top R_{r'}\, k_j}{\sqrt D}, \quad r' = \begin{cases} i - j & "
        r"i - j < w\\ \lfloor i/g \rfloor - \lfloor j/g \rfloor + w - \lfloor w/g \rfloor & "
        r"\text{beyond} \end{cases}",
        "To use a trained rotary model on texts up to g times as long without training, when the "
        "order of far keys matters. `rerope` ignores that order.",
    ),
    "shaw": Page(
        "Shaw: relative position representations",
        "A learned vector per clipped distance is added to the keys and values.",
        r"\ell_{ij} = \frac{q_i^\top (k_j + a_c)}{\sqrt D}, \qquad"
        r" o_i = \sum_j A_{ij}\,(v_j + b_c), \qquad c = \mathrm{clip}(j - i, -k, k)",
        "When a few near distances matter, each with its own vector; all distances beyond k "
        "share one.",
    ),
    "sink_logits": Page(
        "Sink logits",
        "Each head has a learned logit for a key that is not a token, so it can attend to nothing.",
        r"A_{hij} = \frac{e^{\ell_{hij}}}{e^{s_h} + \sum_t e^{\ell_{hit}}}",
        "To load or build models like gpt-oss, and together with a `window`. A window masks the "
        "first tokens, which otherwise take the attention that a head has no use for. Combine it "
        "with an encoding.",
    ),
    "squared_relu": Page(
        "Squared ReLU attention",
        "The square of the positive logits, divided by the number of keys, replaces the softmax.",
        r"A_{ij} = \frac{\max(Q_{ij}, 0)^2}{n_i}",
        "To build a gated attention unit. It encodes no positions, so combine it with an encoding.",
    ),
    "ssmax": Page(
        "Scalable softmax",
        "Each head learns how strongly the logits grow with the logarithm of the number of keys.",
        r"A_{ij} = \frac{n_i^{\,s_h Q_{ij}}}{\sum_k n_i^{\,s_h Q_{ik}}}",
        "Instead of `log_n`, if the model is trained with it: each head learns its own scale.",
    ),
    "stick_breaking": Page(
        "Stick-breaking attention",
        "Going back from the query, each key takes a fraction of the attention that is left.",
        r"A_{ij} = \sigma(Q_{ij}) \prod_{j < t < i} \big(1 - \sigma(Q_{it})\big)",
        "In causal models without position ids, in which near keys come first.",
    ),
    "string": Page(
        "STRING: shifted rotary positions",
        "The longest distances, which training rarely shows, are replaced by shorter ones.",
        r"\ell_{ij} = \frac{q_i^\top R_{r'}\, k_j}{\sqrt D}, \quad r' = \begin{cases} i - j & "
        r"i - j < s\\ i - j - s + w & \text{beyond} \end{cases}",
        "To improve a trained rotary model that uses the far end of its context badly, without "
        "training. It adds no more than s - w tokens to the context.",
    ),
    "t5": Page(
        "T5: bucketed relative bias",
        "A learned bias per bucket of distances; buckets widen with the distance.",
        r"\ell_{hij} = Q_{hij} + \mathrm{table}\big[\mathrm{bucket}(i - j),\, h\big]",
        "For a learned bias with few weights. With `shared=True`, all layers have one table. All "
        "keys beyond `max_distance` have the same bias.",
    ),
    "temperature": Page(
        "Temperature",
        "The logits are multiplied by a constant.",
        r"\ell_{ij} = c\, Q_{ij}",
        "For attention without positions on longer texts, T5's unscaled products or YaRN's factor.",
    ),
    "transformer_xl": Page(
        "Transformer-XL: relative positions with memory",
        "Queries meet keys and projected sinusoids of the distance, each with a learned bias.",
        r"\ell_{ij} = \frac{(q_i + u)^\top k_j + (q_i + v)^\top W s_{i - j}}{\sqrt D}",
        "To build Transformer-XL. Earlier segments are passed as keys with lower position ids.",
    ),
    "window": Page(
        "Window: local attention",
        "Each query sees only the keys within a window, and optionally the first tokens (sinks).",
        r"\ell_{ij} = \begin{cases} Q_{ij} & |i - j| < w \ \text{or}\ j < \text{sinks}\\"
        r" -\infty & \text{otherwise}\end{cases}",
        "Together with another encoding on long texts, because time and memory grow linearly with "
        "the length. In a small language model it extrapolates as well as any other encoding.",
    ),
    "xpos": Page(
        "xPos: rotary positions with decay",
        "Rotary attention whose products also decay exponentially with the distance.",
        r"\ell_{ij} = \frac{q_i^\top R_{j - i}\, z^{(i - j)/B}\, k_j}{\sqrt D}, \qquad z_k < 1",
        "In causal models that should prefer near keys.",
    ),
}


def page(name):
    """The Markdown of the page of an encoding; its figures are next to it."""
    from keras_posenc.analysis import facts

    parts = PAGES[name]
    found = facts(name)
    separable = {
        True: "yes",
        False: "no, it needs the attention matrix",
        None: "it only masks positions",
    }
    learned = [f"`{variable}` {shape}" for variable, shape in found["learned"].items()]
    drawn = ", with random tables" if name in ZERO_AT_FIRST else ", as initialised"
    rows = [
        ("class", f"`keras_posenc.encodings.{found['class']}`"),
        ("acts on", ", ".join(f"`{hook}`" for hook in found["acts_on"])),
        ("learned weights, in 8 heads of 64", ", ".join(learned) or "nothing"),
        ("works on fused kernels", separable[found["separable"]]),
        ("causal only", "yes" if found["causal_only"] else "no"),
        ("paper", f"<{found['paper']}>"),
    ]
    table = "\n".join(["| | |", "|---|---|", *(f"| {a} | {b} |" for a, b in rows)])
    return f"""# {parts.title}

{parts.intuition}

**When to use it.** {parts.when}

**How to use it.** `PositionalAttention(num_heads=8, key_dim=64, encodings=["{name}"])`. To set
arguments, replace the name by `{{"name": "{name}", ...}}`.

$${parts.formula}$$

$Q_{{ij}} = q_i^\\top k_j / \\sqrt D$ is the logit before positions act, $i$ the query, $j$ the key.

{table}

## What it does

![Logit and weight of a key by its distance, {name} and no encoding]({name}-decay.svg)

*Logit and weight of a key by its distance, for identical tokens; mean of 8 heads{drawn}.*

![Attention matrices of four heads, {name}]({name}-map.svg)

*Attention weights of four heads for random content, {LENGTH} tokens, causal{drawn}.*

## Cost

{cost(name)}

## Arguments

{arguments(name)}

## See also

[Choose an encoding](../guides/choose-an-encoding.md) · [Gallery](index.md) ·
[What extrapolates](../evidence/what-extrapolates.md)
"""


def arguments(name):
    """The arguments of an encoding with their defaults, a line each, from its docstring."""
    from keras_posenc.cli.signatures import describe
    from keras_posenc.encodings import get

    kind = type(get(name))
    keywords = describe(f"{kind.__module__.removeprefix('keras_posenc.')}.{kind.__name__}").keywords
    lines = [f"- `{each}`: {keyword.text}" for each, keyword in keywords.items() if keyword.text]
    further = re.search(r"\*\*kwargs: (.*)", kind.__doc__)
    lines += [f"- Further arguments: {further[1]}"] if further else []
    return "\n".join(lines) or "None."


def cost(name):
    """Time and memory relative to plain attention, from benchmarks/results/attention.json."""
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
            f"{line['ratio']:.2f} x, {line['maps at peak']:.1f} matrices"
            if (line := by_backend.get(backend))
            else "–"
            for backend in backends
        ]
        rows.append(f"| {length:,}, {dropout} | {' | '.join(cells)} |")
    rows += [
        "",
        "Time of a forward and backward pass relative to plain attention on the same backend, and "
        "peak memory in attention matrices of T x T numbers per head. Attention is causal, with 12 "
        "heads of 64. [All encodings](../performance/encodings.md).",
    ]
    return "\n".join(rows)


def pictures(name):
    """dict file name -> SVG, the decay and the map of an encoding."""
    from keras_posenc.analysis import decay_curve
    from keras_posenc.analysis.pictures import decay_curves
    from keras_posenc.analysis.plot import to_svg
    from keras_posenc.backend.seeding import set_random_seed

    set_random_seed(0)
    curves = {"none": decay_curve([], LENGTH), name: decay_curve([shown(name)], LENGTH)}
    return {
        f"{name}-decay.svg": to_svg(decay_curves(curves, size=(7.2, 3.2))),
        f"{name}-map.svg": to_svg(_maps(name)),
    }


def shown(name):
    """The encoding as its pictures show it: with a small window or distance where it has one, and
    with a random table where it starts with zeros."""
    from keras_posenc.encodings import get

    if name in ZERO_AT_FIRST:
        encoding = get(name)
        shapes = [(1, LENGTH, 8, 64), (1, LENGTH, 512)]
        encoding.build(*shapes[: 1 + encoding.overrides("query_features")])
        rng = np.random.default_rng(0)
        for variable in encoding.trainable_variables:
            variable.assign(rng.normal(0, 0.3, variable.shape))
        return encoding
    small = {
        "window": {"window": 12, "sinks": 1},
        "rerope": {"window": 12},
        "self_extend": {"group_size": 4, "window": 12},
        "dual_chunk": {"chunk_size": 16, "local_size": 4},
        "string": {"shift": 16, "window": 4},
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
