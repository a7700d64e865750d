"""New tokens a second: from a cache, without one, and transformers' `generate`, in turns.

    KERAS_BACKEND=torch python benchmarks/generate.py

A random GPT-2 of transformers, and ours of its checkpoint, go on greedily after the same prompts.
Without a cache each token is a full pass over all there is, by `predict_on_batch` at a few padded
lengths. The best of some rounds counts; a round runs all of them, so that what else the machine
does is shared.
"""

import argparse
import tempfile
import time

import keras
import numpy as np
import torch
import transformers

from keras_posenc import Generator, build_transformer_model
from keras_posenc.models.generation.prompts import bucket


def without_cache(model, prompts, count):
    """Greedy texts by full passes, the tokens padded to the length of a bucket."""
    length = prompts.shape[1]
    tokens = np.zeros((len(prompts), bucket(length + count)), "int32")
    tokens[:, :length] = prompts
    for place in range(length, length + count):
        cut = tokens[:, : bucket(place)]
        tokens[:, place] = model.predict_on_batch({"token_ids": cut})[:, place - 1].argmax(-1)
    return tokens[:, length : length + count]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--hidden-size", type=int, default=384)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--prompt", type=int, default=64)
    parser.add_argument("--new", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    transformers.set_seed(0)
    config = transformers.GPT2Config(
        vocab_size=8000,
        n_embd=arguments.hidden_size,
        n_layer=arguments.layers,
        n_head=arguments.hidden_size // 64,
        bos_token_id=0,
        eos_token_id=None,
    )
    theirs = transformers.GPT2LMHeadModel(config).eval()
    with tempfile.TemporaryDirectory() as folder:
        theirs.save_pretrained(folder)
        ours = build_transformer_model(folder, with_mlm="linear")
    prompts = np.random.default_rng(0).integers(1, 8000, (arguments.batch, arguments.prompt))
    generator = Generator(ours, max_length=arguments.new)
    given = torch.tensor(prompts)

    def of_transformers(use_cache=True):
        with torch.no_grad():
            texts = theirs.generate(
                given,
                attention_mask=torch.ones_like(given),
                max_new_tokens=arguments.new,
                do_sample=False,
                use_cache=use_cache,
                pad_token_id=0,
            )
        return texts[:, arguments.prompt :].numpy()

    ways = {
        "Generator": lambda: generator.predict(prompts, verbose=0),
        "full passes": lambda: without_cache(ours, prompts, arguments.new),
        "transformers": of_transformers,
        "transformers, no cache": lambda: of_transformers(use_cache=False),
    }
    texts = {name: write() for name, write in ways.items()}  # compiles, too
    seconds = dict.fromkeys(ways, np.inf)
    for _ in range(arguments.rounds):
        for name, write in ways.items():
            start = time.perf_counter()
            write()
            seconds[name] = min(seconds[name], time.perf_counter() - start)
    print(f"{keras.backend.backend()}, {arguments}")
    for name in ways:
        speed = arguments.batch * arguments.new / seconds[name]
        same = np.mean(texts[name] == texts["transformers"])
        print(f"{name:24}{speed:9.0f} tokens/s{same:9.1%} the tokens of transformers")


if __name__ == "__main__":
    main()
