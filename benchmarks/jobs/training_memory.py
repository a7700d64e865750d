"""Peak memory of the texts that `finetune` reads: all in memory, and with `cache=`.

    python -m benchmarks.jobs.training_memory --texts 200000

Each way is a process of its own, which reads a .jsonl file, encodes it and goes through the batches
of one epoch. It prints by how much its peak is above that before the texts were read.
"""

import argparse
import json
import pathlib
import random
import resource
import subprocess
import sys
import tempfile
import time

CONFIG = {
    "model_type": "bert",
    "vocab_size": 1005,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "hidden_act": "gelu",
    "max_position_embeddings": 64,
    "type_vocab_size": 2,
}


def write_texts(path, count):
    """A file of texts of 10 to 30 words, of two classes."""
    random.seed(0)
    with open(path, "w") as file:
        for number in range(count):
            words = (f"w{random.randrange(1000)}" for _ in range(random.randrange(10, 31)))
            file.write(json.dumps({"text": " ".join(words), "label": f"{number % 2}"}) + "\n")


def peak():
    """Megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(path, cache):
    """Reads the texts and one epoch of batches; prints the megabytes and the seconds."""
    from keras_posenc import Tokenizer, build_transformer_model
    from keras_posenc.heads import classifier
    from keras_posenc.training import TextModel
    from keras_posenc.training.cached_texts import cached_documents
    from keras_posenc.training.finetuning.tasks import TASKS

    task = TASKS["classify"]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{n}" for n in range(1000))]
    tokenizer = Tokenizer(vocabulary={word: number for number, word in enumerate(words)})
    model = classifier(build_transformer_model(CONFIG), num_classes=2)
    model = TextModel(model, tokenizer, 64, label_names=["0", "1"], task="classify")
    before, started = peak(), time.perf_counter()
    if cache:
        documents = cached_documents(cache, task, path, "train", None, None)
    else:
        documents = task.read(path, "train")
    batches = model.batches(documents.texts, documents.labels, shuffle=True)
    for number in range(len(batches)):
        batches[number]
    print(f"{peak() - before:.0f} MB, {time.perf_counter() - started:.0f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=200_000)
    parser.add_argument("--file", help="measure this file only, in this process")
    parser.add_argument("--cache", help="folder of the cache, with --file")
    arguments = parser.parse_args()
    if arguments.file:
        return measure(arguments.file, arguments.cache)
    with tempfile.TemporaryDirectory() as folder:
        path, cache = pathlib.Path(folder) / "train.jsonl", pathlib.Path(folder) / "cache"
        write_texts(path, arguments.texts)
        print(f"{arguments.texts:,} texts, {path.stat().st_size / 2**20:.0f} MB")
        ways = {"in memory": [], "cache, first call": [f"--cache={cache}"]}
        ways["cache, again"] = ways["cache, first call"]
        for name, options in ways.items():
            command = [sys.executable, "-m", __spec__.name, f"--file={path}", *options]
            found = subprocess.run(command, capture_output=True, text=True, check=True)
            print(f"{name}: {found.stdout.strip()}", flush=True)
        size = sum(each.stat().st_size for each in cache.rglob("*") if each.is_file())
        print(f"the cache takes {size / 2**20:.0f} MB on disk")


if __name__ == "__main__":
    main()
