"""The questions of the evidence pages, answered from the files of results."""

import json
import pathlib
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:  # of the benchmarks
    sys.path.insert(0, str(ROOT))
RESULTS = ROOT / "benchmarks" / "results"
# Those of `python -m benchmarks.extrapolation`.
BENCH = RESULTS / "bench"
# Names of ways in distant_context.json and rotary_collapse.json.
FIRST = "chunk after the document's first sentence"
LOG_N = "late chunking, stretched, with log-n, untrained"
CONTEXTUAL = "late chunking, trained by `contextualize`"
GATED, SANDWICHS, ADDITIVE = "gated units, ", "biases from Sandwich's", "the GAU's bias"


def differences():
    """Family -> the largest difference of its outputs that was measured on any backend."""
    worst = {}
    for found in json.loads((RESULTS / "families.json").read_text("utf-8")).values():
        for name, difference in found.items():
            worst[name] = max(difference, worst.get(name, 0.0))
    return worst


def bench(name):
    """The results of one of the project's own runs of `benchmarks.extrapolation`."""
    from benchmarks.extrapolation.table import read_results

    return read_results(BENCH / f"{name}.json")


def results():
    """Name -> question, result and verdict."""
    mean = statistics.fmean

    def score(name, split, line, length=None):
        from benchmarks.extrapolation.table import grouped

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
    counts = {}
    for row in json.loads((RESULTS / "stretched_mlm.json").read_text("utf-8")):
        if row["way"] == "every third layer global":
            for reading, right in row["right"].items():
                counts[reading] = counts.get(reading, 0) + sum(map(sum, right))
    kept = counts["at once"] / counts["unstretched"]
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
    facts = {}  # those more than 512 tokens apart in texts up to 1,536 tokens, in percent
    for row in json.loads((RESULTS / "distant_facts.json").read_text("utf-8")):
        least = {1536: 512, 4096: 1536}[row["length"]]
        for way, right in row["right"].items():
            counts = [one for one, n in zip(right, row["tokens"], strict=True) if n > least]
            facts.setdefault(way, {}).setdefault(row["length"], []).extend(counts)
    facts = {way: f"{100 * mean(counts[1536]):.0f}%" for way, counts in facts.items()}
    names = {}  # 820 tokens before the sentence, in the opening, in percent
    for row in json.loads((RESULTS / "distant_context.json").read_text("utf-8")):
        if row["library"] == "opening 700":
            names.setdefault(row["way"], []).append(100 * mean(row["top1"]))
    names = {way: f"{mean(seeds):.0f}%" for way, seeds in names.items()}
    natural = {
        row["way"]: f"{100 * row['top1']:.0f}%"
        for row in json.loads((RESULTS / "natural.json").read_text("utf-8"))
        if row["collection"] == "World Factbook, a country per document"
    }
    mlm, again = ("equal_mean", "test"), ("masked_ids", "test")
    counting = "cope:npos_max=16"
    full, chunks = "stretched, one pass", "512-token chunks, features averaged by token"
    words, first = "TF-IDF + logistic regression, all words", "first 512 tokens"
    return {
        "distant_facts": (
            "Do two facts that are up to 1,000 words apart agree? "
            "([distant facts](docs/evidence/distant-facts.md))",
            f"full context {facts[full]}, 512-token chunks "
            f"{facts['512-token chunks, averaged']}, bag-of-words "
            f"{facts['naive Bayes, all words']}",
            "Yes, with full context; chunks are at chance",
        ),
        "digests": (
            "What is the majority topic of eight posts in one text? "
            "([long texts](docs/evidence/long-texts.md))",
            f"full context {digest[full]}, chunks {digest[chunks]}, bag-of-words "
            f"{digest[words]}, first 512 tokens {digest[first]}",
            "Read all of it; chunks are as good as full context",
        ),
        "natural": (
            "Is a passage found by the name of a country that it does not mention, without "
            "training? "
            "([real documents](docs/evidence/real-documents.md))",
            f"title prepended {natural['title + passage']}, more positions with log-n "
            f"{natural['more positions, log-n, untrained']}, these summed with windows "
            f"{natural['more positions, log-n, untrained, summed with its windows']}, 512-token "
            f"windows {natural['windows of 512 tokens']}, BM25 {natural['BM25']}; chance 6%",
            "Prepend the title; without one, take more positions, or their sum with windows",
        ),
        "distant_context": (
            "Is a sentence found by a name that only the document's first sentence has, 820 tokens "
            "earlier, without labels? ([distant context](docs/evidence/distant-context.md))",
            f"late chunking after `contextualize` {names[CONTEXTUAL]}, with log-n and no training "
            f"{names[LOG_N]}, in 512-token windows "
            f"{names['late chunking in 512-token windows']}; first sentence prepended "
            f"{names[FIRST]}; chance 6%",
            "Prepend the first sentence if it has the name; otherwise train",
        ),
        "stretching": (
            "What is the MLM accuracy of an extended MiniLM at 1,536 tokens, before training? "
            "([stretching](docs/evidence/stretching.md))",
            f"{stretched['hierarchical, alpha 0.4']:.0f}% with Su's positions, "
            f"{stretched['unstretched']:.0f}% for the original in windows; local layers keep "
            f"{kept:.0%} of the original's accuracy",
            "Su's positions lose half: train them with `stretch`",
        ),
        "random_ids": (
            "Can a model sort 50 to 200 digits after training on at most 40? "
            "([random ids](docs/evidence/random-ids.md))",
            f"random position ids {score('bucket_sort', 'test', 'rotary sorted ids')}%, "
            f"consecutive ids {score('bucket_sort', 'test', 'rotary')}%",
            "Yes, with random position ids",
        ),
        "cope": (
            "Can a model count in 256 tokens after training on 64? "
            "([contextual positions](docs/evidence/contextual.md))",
            f"CoPE {score('counting', 'train', counting, 256)}%, rotary "
            f"{score('counting', 'train', 'rotary', 256)}%, sinusoidal "
            f"{score('counting', 'train', 'sinusoidal', 256)}%",
            "Yes, with CoPE",
        ),
        "equal_mean": (
            "Can a model predict masked characters at 512 tokens after training on 64? "
            "([equal-mean spacing](docs/evidence/equal-mean.md))",
            f"exponential ids with log-n {score(*mlm, 'rotary+log_n exponential ids', 512)}%, "
            f"consecutive ids {score(*mlm, 'rotary', 512)}%; on JAX "
            f"{score(*again, 'rotary+log_n exponential ids', 512)}% and "
            f"{score(*again, 'rotary', 512)}%",
            "Slightly better with exponential ids; the ranges of the seeds overlap",
        ),
        "biases": (
            "Can gated units predict characters at 1,024 tokens after training on 64? "
            "([RoPE and biases](docs/evidence/rotary-bias.md#where-the-control-collapses))",
            f"rotary {collapse['no bias']}%, with biases from zero {collapse['biases']}%, "
            f"from Sandwich's values {collapse[SANDWICHS]}%, with an additive bias "
            f"{collapse[ADDITIVE]}%",
            "Biases help if they start from Sandwich's values; an additive bias is best",
        ),
        "context_tools": (
            "Is one of four facts found at 8 times the training length, without further training? "
            "([context tools](docs/evidence/context-tools.md))",
            f"ReRoPE {retrieved['ReRoPE']}, YaRN {retrieved['YaRN']}, plain rotary "
            f"{retrieved['rotary as it is']}, a window {retrieved['window']}",
            "Yes, with ReRoPE or YaRN",
        ),
    }


HEAD = ("question", "result", "verdict")


def markdown(rows):
    head, *body = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, "|" + "---|" * len(rows[0]), *body])
