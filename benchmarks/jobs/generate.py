"""Decoding beside transformers' `generate`: small models of five families, of random weights.

    python -m benchmarks.jobs.generate --turns 3
    python -m benchmarks.jobs.generate --models gpt2 --shapes 4x100x60 --seed 1
    python -m benchmarks.jobs.generate --page            # the page again, nothing measured

A shape is texts x tokens of each prompt x new tokens, and x beams if there are several. Both sides
read the same checkpoint, made here. Each side has a process of one thread, and they take turns.
What is measured is processor time, so that what else runs on the machine counts little, the
reading of the prompt included. The first call, which compiles, counts apart. Ratios are medians of
the turns: above 1 is slower than transformers. Without a cache each new token is a pass over the
whole text. Results go to benchmarks/results/generate.json and .md.
"""

import functools
import pathlib
import time
import zlib

from benchmarks.jobs import sides

ROOT = pathlib.Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "generate.json"
LAYERS, WIDTH, HEADS, VOCABULARY, POSITIONS = 6, 384, 6, 20_011, 512
# In all families but GPT-2: what keys and values are shared by, and the feed-forward layer.
SHARED = {
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": 2,
    "head_dim": WIDTH // HEADS,
    "intermediate_size": 4 * WIDTH,
    "max_position_embeddings": POSITIONS,
}
# Family -> the config's class in transformers, and its settings.
MODELS = {
    "gpt2": ("GPT2Config", {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS,
                            "n_positions": POSITIONS}),
    "llama": ("LlamaConfig", SHARED),
    "qwen3": ("Qwen3Config", SHARED),
    "gemma3": ("Gemma3TextConfig", {**SHARED, "sliding_window": 64}),
    "ministral3": ("Ministral3Config", {**SHARED, "rope_parameters": {
        "type": "yarn", "rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "beta_fast": 32.0,
        "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1,
        "original_max_position_embeddings": 128}}),
}  # fmt: skip
BASE, NO_CACHE = "transformers", ", no cache"
SIDES = [BASE, *sides.BACKENDS]
WITHOUT = [side + NO_CACHE for side in (BASE, "torch")]
SHAPES = ["1x23x200", "6x23x200", "2x23x60x4"]
# Nothing was chosen by these.
HELD_OUT = ("gpt2 4x100x60",)


def main():
    parser = sides.parser(__doc__, RESULTS, SIDES, turns=3, choices=SIDES + WITHOUT)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--shapes", nargs="+", default=SHAPES)
    parser.add_argument("--seed", type=int, default=0, help="draws the prompts")
    sides.main(parser, lambda side: Writer(side).measured, run, page)


def run(arguments):
    for model in arguments.models:
        save(model)
    cases = {
        f"{model} {shape}": {"model": model, "shape": shape, "seed": arguments.seed}
        for model in arguments.models
        for shape in arguments.shapes
    }
    sides.run_in_turns(__spec__.name, arguments, cases, BASE)


def folder(model):
    return ROOT / "build" / "generate" / model


def save(model):
    """Makes the checkpoint of a family."""
    import torch
    import transformers

    kind, settings = MODELS[model]
    ends = dict.fromkeys(("bos_token_id", "eos_token_id"))
    config = getattr(transformers, kind)(vocab_size=VOCABULARY, pad_token_id=0, **ends, **settings)
    torch.manual_seed(0)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder(model))


class Writer:
    """A side, which makes a model once for each family, number of new tokens and of beams."""

    def __init__(self, side):
        name, *without = side.split(", ")
        make = transformers_writer if name == BASE else ours
        self.writer = functools.cache(functools.partial(make, not without))

    def measured(self, model, shape, seed):
        import numpy as np

        from benchmarks.steps import step

        batch, length, new, *beams = map(int, shape.split("x"))
        prompts = np.random.default_rng(seed).integers(1, VOCABULARY, (batch, length))
        write = self.writer(folder(model), new, *beams)
        pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        began = time.process_time()
        tokens = write(prompts)
        seconds = time.process_time() - began
        if tokens.shape != (batch, new):
            raise ValueError(f"There are {tokens.shape} new tokens, not {(batch, new)}.")
        check = zlib.crc32(tokens.astype("int32").tobytes())
        return {"seconds": seconds, "peak_mb": round(step.peak_mb()), "tokens": check}


def ours(cached, checkpoint, new, beams=1):
    import keras
    import numpy as np

    from keras_posenc import Generator, build_transformer_model

    model = build_transformer_model(checkpoint, with_mlm="linear")
    if cached:
        generator = Generator(model, max_length=new, beams=beams)
        return lambda prompts: generator.predict(prompts, verbose=0)

    def write(prompts):
        texts = prompts
        for _ in range(new):
            logits = keras.ops.convert_to_numpy(model.predict_on_batch({"token_ids": texts})[:, -1])
            texts = np.concatenate([texts, logits.argmax(-1)[:, None]], axis=1)
        return texts[:, prompts.shape[1] :]

    return write


def transformers_writer(cached, checkpoint, new, beams=1):
    import torch
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint).eval()

    def write(prompts):
        ids = torch.tensor(prompts)
        with torch.no_grad():
            texts = model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=False,
                num_beams=beams,
                max_new_tokens=new,
                use_cache=cached,
                pad_token_id=0,
            )
        return texts[:, prompts.shape[1] :].numpy()

    return write


def page(report):
    text = [
        "# Decoding beside transformers",
        "",
        "Made by `python -m benchmarks.jobs.generate` on one thread: models of "
        f"{LAYERS} layers of {WIDTH} features",
        f"and {VOCABULARY:,} tokens, with random weights in float32. All but GPT-2 have rotary",
        f"positions, {HEADS} heads, and 2 of keys and values; gemma3 has windows of 64 tokens,",
        "ministral3 yarn. A cell has the processor time relative to transformers with a cache in",
        "the same turn, the lowest and the highest turn in parentheses, the new tokens per second,",
        "and the peak memory. Below 1 is faster. Shapes are texts x tokens of each prompt x new",
        "tokens, and x beams if there are several; without, decoding is greedy.",
        "",
        *sides.table(report, SIDES + WITHOUT, functools.partial(cell, report), HELD_OUT),
    ]
    if any(case in HELD_OUT for case in report):
        text += ["", "`*` nothing was chosen by this shape."]
    if any("≠" in line for line in text):
        text += ["", "`≠` other tokens than transformers'."]
    return "\n".join(text) + "\n"


def cell(report, case, row):
    batch, _, new, *_ = map(int, case.split()[-1].split("x"))
    rate = f"{batch * new / row['seconds']:.0f}/s"
    same = row.get("tokens") == report[case].get(BASE, row).get("tokens")
    found = f"{sides.ratio_cell(row)}, {rate}, {row['peak_mb'] / 1000:.1f} GB"
    return found if same else f"{found} ≠"


if __name__ == "__main__":
    main()
