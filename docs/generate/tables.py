"""The sections of the README that are made from the code and from the files of results.

`python docs/generate/tables.py` writes them between their markers; tests/test_docs.py compares.
"""

import json
import pathlib
import statistics

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
# Those of `keras-posenc bench`.
BENCH = RESULTS / "bench"
# Names of ways in rotary_collapse.json.
GATED, SANDWICHS, ADDITIVE = "gated units, ", "biases from Sandwich's", "the GAU's bias"


def encodings():
    """A row an encoding: name, class, where it acts, paper."""
    from keras_posenc.analysis import facts
    from keras_posenc.encodings import ENCODINGS

    rows = [("name", "class", "acts on", "paper")]
    for name in ENCODINGS:
        found = facts(name)
        causal = " (causal only)" if found["causal_only"] else ""
        paper = found["paper"].removeprefix("https://").split("/")
        link = f"[{paper[-1] if paper[0] == 'arxiv.org' else '/'.join(paper)}]({found['paper']})"
        rows.append(
            (f"`{name}`", f"`{found['class']}`", ", ".join(found["acts_on"]) + causal, link)
        )
    return markdown(rows)


def families():
    """The families by how they know where a token stands and what they were compared to."""
    from keras_posenc.models.families import FAMILIES

    measured, groups = differences(), {}
    for name, family in FAMILIES.items():
        groups.setdefault(family.positions, {})[name] = family.compared.split(", and ")
    rows = [("positions", "families, by `model=`", "compared to", "within")]
    for positions, compared in groups.items():
        near = max((measured[name] for name in compared if name in measured), default=None)
        to = dict.fromkeys(what for each in compared.values() for what in each)
        named = ", ".join(f"`{name}`" for name in compared)
        rows.append((positions, named, ", ".join(to), f"{near:.1e}" if near else "tests"))
    return markdown(rows)


def differences():
    """Family -> the largest difference of its outputs that was measured on any backend."""
    worst = {}
    for found in json.loads((RESULTS / "families.json").read_text("utf-8")).values():
        for name, difference in found.items():
            worst[name] = max(difference, worst.get(name, 0.0))
    return worst


def bench(name):
    """The results of one of the project's own runs of `keras-posenc bench`."""
    from keras_posenc.bench import read_results

    return read_results(BENCH / f"{name}.json")


def results():
    """A row a question: what was found, and the verdict."""
    mean = statistics.fmean

    def score(name, split, line, length=None):
        from keras_posenc.bench.table import grouped

        (found,) = (
            several
            for (task, part), lines in grouped(bench(name)).items()
            for key, several in lines.items()
            if part == split and key == line
        )
        trained = found[0]["train_lengths"][1]
        scores = [
            mean(v for n, v in one["accuracy"][split].items() if int(n) == length)
            if length
            else mean(v for n, v in one["accuracy"][split].items() if int(n) > trained)
            for one in found
        ]
        return f"{100 * mean(scores):.0f}"

    tools = json.loads((RESULTS / "context_tools.json").read_text("utf-8"))
    loss = {
        tool: mean(row["loss"]["512"] for row in tools if row["tool"] == tool)
        for tool in ("rotary as it is", "YaRN", "ReRoPE", "window")
    }
    retrieved = {}  # one of four facts, at 512, in percent
    for row in json.loads((RESULTS / "text_retrieval.json").read_text("utf-8")):
        retrieved.setdefault(row["reading"], []).append(
            100 * row["right"]["4 at 512"] / row["asked"]
        )
    retrieved = {reading: f"{mean(seeds):.0f}%" for reading, seeds in retrieved.items()}
    rows = json.loads((RESULTS / "recovery.json").read_text("utf-8"))
    stretched = {
        way: 100
        * mean(r["accuracy"]["0"] for r in rows if r["model"] == "minilm" and r["way"] == way)
        for way in ("hierarchical, alpha 0.4", "unstretched")
    }
    told = {}
    for row in json.loads((RESULTS / "stretched_mlm.json").read_text("utf-8")):
        if row["way"] == "every third layer global":
            for reading, right in row["right"].items():
                told[reading] = told.get(reading, 0) + sum(map(sum, right))
    kept = told["at once"] / told["unstretched"]
    collapse = {}  # at 1,024 tokens, in percent
    for row in json.loads((RESULTS / "rotary_collapse.json").read_text("utf-8")):
        if row["way"].startswith(GATED):
            way = row["way"].removeprefix(GATED)
            collapse.setdefault(way, []).append(100 * row["accuracy"]["1024"])
    collapse = {way: f"{mean(seeds):.0f}" for way, seeds in collapse.items()}
    readings = json.loads((RESULTS / "readings.json").read_text("utf-8"))
    digest = {}
    for row in (row for row in readings if row["task"] == "digests"):
        digest.setdefault(row["way"], []).append(100 * mean(row["scores"]))
    digest = {way: f"{mean(seeds):.1f}%" for way, seeds in digest.items()}
    facts = {}  # of the distant ones up to 1,536 tokens, and of those beyond, in percent
    for row in json.loads((RESULTS / "distant_facts.json").read_text("utf-8")):
        least = {1536: 512, 4096: 1536}[row["length"]]
        for way, right in row["right"].items():
            told = [one for one, n in zip(right, row["tokens"], strict=True) if n > least]
            facts.setdefault(way, {}).setdefault(row["length"], []).extend(told)
    facts = {
        way: " and ".join(f"{100 * mean(told[length]):.0f}" for length in sorted(told)) + "%"
        for way, told in facts.items()
    }
    steps = {
        row["row"]: f"{row['seconds']:.1f}"
        for row in json.loads((RESULTS / "peers.json").read_text("utf-8"))["rows"]
        if (row["mode"], row["model"], row["batch"], row["length"]) == ("train", "minilm", 1, 2048)
    }
    mlm, again = ("equal_mean", "test"), ("masked_ids", "test")
    counting = "cope:npos_max=16"
    return markdown(
        [
            ("question", "found", "verdict"),
            (
                "[Random ids](docs/evidence/random-ids.md): sorting 50 to 200 digits after "
                "at most 40",
                f"{score('bucket_sort', 'test', 'rotary sorted ids')}% right, consecutive ids "
                f"{score('bucket_sort', 'test', 'rotary')}%",
                "holds, as published",
            ),
            (
                "[CoPE](docs/evidence/contextual.md): counting at 256 tokens after 64",
                f"{score('counting', 'train', counting, 256)}%, rotary "
                f"{score('counting', 'train', 'rotary', 256)}%, sinusoidal "
                f"{score('counting', 'train', 'sinusoidal', 256)}%",
                "holds, as published",
            ),
            (
                "[Equal-mean ids and log-n](docs/evidence/equal-mean.md): masked characters at 512 "
                "after 64",
                f"{score(*mlm, 'rotary+log_n exponential ids', 512)}%, consecutive ids "
                f"{score(*mlm, 'rotary', 512)}%; repeated on JAX "
                f"{score(*again, 'rotary+log_n exponential ids', 512)} and "
                f"{score(*again, 'rotary', 512)}%",
                "ahead on average, the ranges overlap; costs 3 to 9 points up to twice",
            ),
            (
                "[RoPE with biases](docs/evidence/rotary-bias.md#where-the-control-collapses): "
                "characters at 1,024 after 64, gated units",
                f"rotary {collapse['no bias']}%, with biases of queries and keys from zeros "
                f"{collapse['biases']}%, from Sandwich's {collapse[SANDWICHS]}%, with an additive "
                f"bias {collapse[ADDITIVE]}%",
                "holds when they begin as Sandwich's; the additive one is better",
            ),
            (
                "[Context without training](docs/evidence/context-tools.md): loss at 512 after 64; "
                "one of four facts far back in the text",
                f"RoPE {loss['rotary as it is']:.2f} nats, {retrieved['rotary as it is']}; YaRN "
                f"{loss['YaRN']:.2f}, {retrieved['YaRN']}; ReRoPE {loss['ReRoPE']:.2f}, "
                f"{retrieved['ReRoPE']}; a window {loss['window']:.2f}, {retrieved['window']}",
                "as published; a window keeps the text and no facts",
            ),
            (
                "[Stretching a BERT](docs/evidence/stretching.md): hidden tokens at 1,536 at once",
                f"{stretched['hierarchical, alpha 0.4']:.0f}%, unstretched "
                f"{stretched['unstretched']:.0f}%; by `stretch`, two layers of three local, "
                f"{kept:.0%} of the unstretched model's",
                "contradicts the author: half is lost at once; with local layers no loss is shown",
            ),
            (
                "[Reading on](docs/evidence/long-texts.md): the group of most of eight posts, a "
                "frozen MiniLM, 200 texts",
                f"one pass of the stretched model {digest['stretched, one pass']}, chunks "
                f"{digest['512-token chunks, features averaged by token']}, counted words "
                f"{digest['TF-IDF + logistic regression, all words']}, the first 512 tokens "
                f"{digest['first 512 tokens']}",
                "reading on pays; one pass and chunks are alike",
            ),
            (
                "[Two distant facts](docs/evidence/distant-facts.md) that agree or not, 520 to "
                "1,000 words apart, and in texts of 1,537 to 4,064 tokens",
                f"one pass of the stretched model {facts['stretched, one pass']}, chunks "
                f"{facts['512-token chunks, averaged']}, the first 512 tokens "
                f"{facts['first 512 tokens']}, counted words {facts['naive Bayes, all words']}",
                "only one pass is far above chance",
            ),
            (
                "[A training step](docs/performance/steps.md) on 2,048 tokens, MiniLM, two cores",
                f"TensorFlow {steps['posenc-tf']} s (KerasHub {steps['kerashub-tf']}), torch "
                f"{steps['posenc-torch']} (transformers {steps['transformers']}), JAX "
                f"{steps['posenc-jax']} (KerasHub {steps['kerashub-jax']})",
                "faster, with a fifth to a half of the memory",
            ),
        ]
    )


def markdown(rows):
    head, *body = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, "|" + "---|" * len(rows[0]), *body])


SECTIONS = {"encodings": encodings, "families": families, "results": results}


def filled(text, sections=SECTIONS):
    """`text` with each section between `<!-- name -->` and `<!-- /name -->` made anew."""
    for name, make in sections.items():
        start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        if (count := text.count(start)) != 1:
            raise ValueError(f"{count} sections <!-- {name} -->: there must be one.")
        before, after = text.split(start)
        text = f"{before}{start}{make()}\n{end}{after.split(end, 1)[1]}"
    return text


if __name__ == "__main__":
    readme = ROOT / "README.md"
    readme.write_text(filled(readme.read_text("utf-8")), "utf-8")
