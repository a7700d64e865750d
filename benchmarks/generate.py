"""Greedy decoding beside transformers' `generate`: a GPT-2 of random weights.

    python benchmarks/generate.py --turns 3
    python benchmarks/generate.py --shapes 4x100x60 --seed 1
    python benchmarks/generate.py --page            # the page again, nothing measured

A shape is texts x tokens of each prompt x new tokens. Each side has a process of one thread, and
they take turns. What is measured is processor time, so that what else runs on the machine counts
little, the reading of the prompt included. The first call, which compiles, counts apart. Ratios are
medians of the turns: above 1 is slower than transformers. Without a cache each new token is a pass
over the whole text. Results go to benchmarks/results/generate.json and .md.
"""

import pathlib
import time

import sides

RESULTS = pathlib.Path(__file__).parent / "results" / "generate.json"
SIZES = {"layers": 6, "width": 384, "heads": 6, "vocabulary": 20_011, "positions": 512}
BASE, NO_CACHE = "transformers", ", no cache"
SIDES = [BASE, *sides.BACKENDS]
WITHOUT = [side + NO_CACHE for side in (BASE, "torch")]
SHAPES = ["1x23x200", "8x23x200"]
# Nothing was chosen by these.
HELD_OUT = ("4x100x60",)


def main():
    parser = sides.parser(__doc__, RESULTS, SIDES, turns=3, choices=SIDES + WITHOUT)
    parser.add_argument("--shapes", nargs="+", default=SHAPES)
    parser.add_argument("--seed", type=int, default=0, help="draws the prompts")
    sides.main(parser, lambda side: Writer(side).measured, run, page)


def run(arguments):
    cases = {shape: {"shape": shape, "seed": arguments.seed} for shape in arguments.shapes}
    sides.run_in_turns(__file__, arguments, cases, BASE)


class Writer:
    """A side, whose model is made once for each number of new tokens."""

    def __init__(self, side):
        name, *without = side.split(", ")
        self.make = transformers_writer if name == BASE else ours
        self.cached, self.made = not without, {}

    def measured(self, shape, seed):
        import numpy as np
        import step

        batch, length, new = map(int, shape.split("x"))
        prompts = np.random.default_rng(seed).integers(1, SIZES["vocabulary"], (batch, length))
        if new not in self.made:
            self.made[new] = self.make(self.cached, new)
        write = self.made[new]
        pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        began = time.process_time()
        written = write(prompts)
        seconds = time.process_time() - began
        if written.shape != (batch, new):
            raise ValueError(f"Written were {written.shape} tokens, not {(batch, new)}.")
        return {"seconds": seconds, "peak_mb": round(step.peak_mb())}


def ours(cached, new):
    import keras
    import numpy as np

    from keras_posenc import Generator, build_transformer_model

    model = build_transformer_model(
        model="gpt2",
        vocab_size=SIZES["vocabulary"],
        hidden_size=SIZES["width"],
        num_hidden_layers=SIZES["layers"],
        num_attention_heads=SIZES["heads"],
        max_position=SIZES["positions"],
        with_mlm="linear",
    )
    if cached:
        generator = Generator(model, max_length=new)
        return lambda prompts: generator.predict(prompts, verbose=0)

    def write(prompts):
        texts = prompts
        for _ in range(new):
            logits = keras.ops.convert_to_numpy(model.predict_on_batch({"token_ids": texts})[:, -1])
            texts = np.concatenate([texts, logits.argmax(-1)[:, None]], axis=1)
        return texts[:, prompts.shape[1] :]

    return write


def transformers_writer(cached, new):
    import torch
    import transformers

    config = transformers.GPT2Config(
        vocab_size=SIZES["vocabulary"],
        n_embd=SIZES["width"],
        n_layer=SIZES["layers"],
        n_head=SIZES["heads"],
        n_positions=SIZES["positions"],
        eos_token_id=None,
        bos_token_id=None,
    )
    model = transformers.GPT2LMHeadModel(config).eval()

    def write(prompts):
        ids = torch.tensor(prompts)
        with torch.no_grad():
            texts = model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=False,
                max_new_tokens=new,
                use_cache=cached,
                pad_token_id=0,
            )
        return texts[:, prompts.shape[1] :].numpy()

    return write


def page(report):
    sizes = f"{SIZES['layers']} layers of {SIZES['width']} features, {SIZES['vocabulary']:,} tokens"
    text = [
        "# Decoding beside transformers",
        "",
        f"Made by `python benchmarks/generate.py` on one thread: a GPT-2 of {sizes},",
        "with random weights in float32. Decoding is greedy. A cell has the processor time",
        "relative to transformers with a cache in the same turn, the lowest and the highest turn",
        "in parentheses, the new tokens per second, and the peak memory. Below 1 is faster.",
        "Shapes are texts x tokens of each prompt x new tokens.",
        "",
        *sides.table(report, SIDES + WITHOUT, cell, HELD_OUT),
    ]
    if any(shape in HELD_OUT for shape in report):
        text += ["", "`*` nothing was chosen by this shape."]
    return "\n".join(text) + "\n"


def cell(shape, row):
    batch, _, new = map(int, shape.split("x"))
    rate = f"{batch * new / row['seconds']:.0f}/s"
    return f"{sides.ratio_cell(row)}, {rate}, {row['peak_mb'] / 1000:.1f} GB"


if __name__ == "__main__":
    main()
