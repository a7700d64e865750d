"""Rotary attention far beyond the trained length: biases, and the four terms of trained layers.

    KERAS_BACKEND=jax python -m benchmarks.encodings.rotary_collapse
    KERAS_BACKEND=jax python -m benchmarks.encodings.rotary_collapse --table  # the results

A causal model of characters learns on windows of 64: four layers, two heads, no biases in the
projections of its attention; or two gated attention units of one head in place of each layer. Ways
differ in what is added to rotary positions: nothing; biases of queries and keys, from zeros or from
those of Sandwich, one vector or one number for both; the additive bias of the GAU; Sandwich's fixed
bias; or, in place of a bias, dropout of a tenth. Each reads the same windows
of 1,024, whole and cut into pieces, the last fifth of the book excerpts. In two of the windows the
layers are looked into: the four terms of their logits by distance, averaged over the pairs of
tokens so far apart and over heads, and the share of the attention of the second half of the window
that goes beyond the trained length.

Results go to benchmarks/results/rotary_collapse.json, a row for each way and seed, and are not
computed again, and the terms to rotary_collapse.svg beside it; the models are kept in
build/rotary_collapse.
"""

import pathlib
import statistics

import numpy as np
from keras import ops

from benchmarks.encodings.context_tools import LENGTH, read, trained
from benchmarks.shared.data import CORPORA
from benchmarks.shared.kept import Study, keys, markdown, options, spread, write_lines
from keras_posenc import tasks
from keras_posenc.analysis import attention_inputs, rotary_terms_of
from keras_posenc.analysis.plot import COLOURS, styled, to_svg
from keras_posenc.attention.gau import GatedAttentionUnit
from keras_posenc.files.writing import write_text

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "rotary_collapse.json"
LENGTHS = (64, 128, 256, 512, 1024)
STEPS, LAYERS, TEST_ROWS = 400, 4, 16
BIASES = {"name": "rotary", "use_bias": True}
WAYS = {
    "no bias": ["rotary"],
    "biases": [BIASES],
    "biases from Sandwich's": [{**BIASES, "bias_initializer": "sandwich"}],
    "the GAU's bias": ["rotary", {"name": "rotary_bias", "initializer": "sandwich"}],
    "Sandwich": ["rotary", "sandwich"],
}
GATED = "gated units, "
WAYS |= {f"{GATED}{way}": encodings for way, encodings in WAYS.items()}
WAYS |= {
    "shared biases": [{**BIASES, "use_bias": "shared"}],
    "scalar biases": [{**BIASES, "use_bias": "scalar"}],
    "no bias, dropout": ["rotary"],
}
DROPOUT = 0.1
TERM_WAYS = ("no bias", "biases", "biases from Sandwich's")
# Two units have about as many weights as a layer.
UNITS = {"block": "gau", "gau_normalization": "softmax", "num_attention_heads": 1}
UNITS |= {"attention_key_size": 64, "intermediate_size": 128}
TERMS = {"qk": "first, q'Rk", "ak": "second, a'Rk", "qb": "third, q'Rb", "ab": "fourth, a'Rb"}


def main():
    parser = options(__doc__, RESULTS, "build/rotary_collapse")
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--layers", type=int, default=LAYERS)
    parser.add_argument("--test-rows", type=int, default=TEST_ROWS)
    arguments = parser.parse_args()
    study = Study(arguments.results, write_lines)
    if not arguments.table:
        corpus = tasks.Corpus(f"{CORPORA}/book-excerpts.tab", test_share=0.2)

        def measure(seed, way, steps, layers):
            file = f"{list(WAYS).index(way)}-{layers}-{steps}-{seed}.weights.h5"
            sizes = {"num_hidden_layers": layers, "attention_bias": False}
            if way.startswith(GATED):
                sizes |= {**UNITS, "num_hidden_layers": 2 * layers}
            if way.endswith("dropout"):
                sizes |= {"dropout_rate": DROPOUT, "attention_dropout_rate": DROPOUT}
            model = trained(corpus, WAYS[way], seed, steps, arguments.folder / file, **sizes)
            found = read(corpus, lambda length: model, arguments.test_rows, LENGTHS)
            return {**found, "inside": inside(model, corpus)}

        sizes = {"steps": [arguments.steps], "layers": [arguments.layers]}
        rows = keys(seed=arguments.seeds, way=arguments.ways, **sizes)
        study.run(rows, measure, ["accuracy"])
        picture = to_svg(curves(study.rows, size=(9.6, 4.8)))
        write_text(arguments.results.with_suffix(".svg"), picture)
    print(table(study.rows), f"\n\n{terms_table(study.rows)}")


def edges(length):
    """0, 1, 2, 4, 8, ... `length`: spans of distances, each as long as all before it."""
    return [0, *(2**power for power in range(length.bit_length()))]


def inside(model, corpus):
    """Of each layer the mean terms in spans of distances, and the attention that goes far."""
    test = tasks.get("language_model", corpus=corpus, split="test")
    ids, _, _ = test.sample(2, LENGTHS[-1], 2**31 - 2)
    layers = []
    for layer, states in attention_inputs(model, {"token_ids": ids}).items():
        terms = rotary_terms_of(layer, states)
        spans = list(zip(edges(LENGTHS[-1]), edges(LENGTHS[-1])[1:], strict=False))
        means = {
            name: [[round(float(head[a:b].mean()), 4) for a, b in spans] for head in terms[name]]
            for name in (*TERMS, "sum")
        }
        both = [states] if isinstance(layer, GatedAttentionUnit) else [states, states]
        _, weights = layer(*both, use_causal_mask=True, return_attention_scores=True)[:2]
        weights = ops.convert_to_numpy(weights).mean((0, 1))
        far = np.tril(weights, -LENGTH)[len(weights) // 2 :].sum(-1).mean()
        layers.append({"terms": means, "far_attention": round(float(far), 4)})
    return layers


def curve(row, layer, term):
    """A term of a layer by span of distances, averaged over its heads."""
    return np.mean(row["inside"][layer]["terms"][term], axis=0)


def swing(row, layer, term):
    """By how much a head's term varies with the distance, the mean of the heads."""
    return float(np.ptp(row["inside"][layer]["terms"][term], axis=1).mean())


def table(rows):
    """Markdown: accuracy by length, loss at both ends, and the attention beyond the length."""
    heads = ["", *(f"at {length:,}" for length in LENGTHS)]
    heads += [f"loss at {length:,}" for length in (LENGTHS[0], LENGTHS[-1])]
    heads += [f"attention beyond {LENGTH}"]
    lines = [heads]
    for way in (way for way in WAYS if any(row["way"] == way for row in rows)):
        runs = [row for row in rows if row["way"] == way]
        cells = [way]
        cells += [spread([100 * row["accuracy"][str(n)] for row in runs]) for n in LENGTHS]
        cells += [
            spread([row["loss"][str(n)] for row in runs], 2) for n in LENGTHS[:: len(LENGTHS) - 1]
        ]
        far = [
            100 * statistics.fmean(part["far_attention"] for part in row["inside"]) for row in runs
        ]
        cells.append(spread(far, 0))
        lines.append(cells)
    return markdown(lines)


def rise(row, layer, term):
    """The mean of a term beyond the trained length, less that in its second half, over heads."""
    means, ends = curve(row, layer, term), edges(LENGTHS[-1])[1:]
    far = [mean for mean, end in zip(means, ends, strict=True) if end > LENGTH]
    widths = [end / 2 for end in ends if end > LENGTH]
    return float(np.average(far, weights=widths) - means[ends.index(LENGTH)])


def terms_table(rows):
    """Markdown, a row a way and layer: how terms vary by distance, and how they go on.

    Of some ways only: where more is added to the logits, the four terms are not all of theirs.
    """
    heads = ["", "layer", *TERMS.values(), "fourth beyond 64", "sum beyond 64"]
    lines = [heads]
    for way in (way for way in TERM_WAYS if any(row["way"] == way for row in rows)):
        runs = [row for row in rows if row["way"] == way]
        for layer in range(runs[0]["layers"]):
            cells = [way, str(layer + 1)]
            biased = way != "no bias"
            for term in TERMS:
                swings = [swing(row, layer, term) for row in runs]
                cells.append(spread(swings) if biased or term == "qk" else "–")
            cells.append(spread([rise(r, layer, "ab") for r in runs]) if biased else "–")
            cells.append(spread([rise(row, layer, "sum") for row in runs]))
            lines.append(cells)
    return markdown(lines)


@styled
def curves(figure, rows):
    """The terms by distance, a panel a layer: the mean of heads and seeds; shaded: all seeds."""
    ways = {"no bias": ("sum",), "biases": ("sum", "qk", "ab")}
    ways = {way: terms for way, terms in ways.items() if any(row["way"] == way for row in rows)}
    names = {"sum": "sum", **TERMS}
    ends = edges(LENGTHS[-1])[1:]
    panels = np.atleast_1d(figure.subplots(1, rows[0]["layers"], sharex=True))
    for layer, axes in enumerate(panels):
        looks = iter(COLOURS)
        for way, terms in ways.items():
            runs = [row for row in rows if row["way"] == way]
            for term in terms:
                values = np.array([curve(row, layer, term) for row in runs])
                look = {"color": next(looks)}
                axes.plot(ends, values.mean(0), label=f"{way}: {names[term]}", **look)
                axes.fill_between(ends, values.min(0), values.max(0), alpha=0.12, **look)
        axes.axvline(LENGTH, color="#767676", linestyle=":")
        axes.set_xscale("log", base=2)
        axes.set(title=f"layer {layer + 1}", xlabel="distance")
    panels[0].set_ylabel("logit")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=4)


if __name__ == "__main__":
    main()
