"""What a million passages of 256 tokens cost: processor time to read them, and bytes to keep.

    KERAS_BACKEND=torch OMP_NUM_THREADS=1 python -m benchmarks.retrieval.cost

Book excerpts are joined to texts of about 4,000 tokens, and MiniLM with 4,096 positions reads them.
Processor time is that of the process without compilation. Results go to
benchmarks/results/cost.json.
"""

import argparse
import json
import pathlib
import tempfile
import time

from benchmarks.shared.data import CORPORA, MINILM
from benchmarks.shared.kept import markdown
from keras_posenc import stretch
from keras_posenc.retrieval import chunk_spans, open_embedder
from keras_posenc.retrieval.words.index import WordIndex
from keras_posenc.text import read_texts

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "cost.json"
LENGTH, PER_TEXT = 4096, 4  # tokens; excerpts of about 1,000 tokens
READINGS = {
    "passages alone": "passages:256",
    "windows of 512 tokens": "late:256",
    "whole text of 4,000 tokens": "late:256",
    "whole text and windows, summed": "late:256,windows=512",
}
MILLION = 1_000_000


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, default=4)
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    if not arguments.table:
        excerpts = read_texts(f"{CORPORA}/book-excerpts.tab").texts
        starts = range(0, PER_TEXT * arguments.texts, PER_TEXT)
        texts = [" ".join(excerpts[start : start + PER_TEXT]) for start in starts]
        rows = list(measured(texts, excerpts))
        RESULTS.write_text(json.dumps(rows, indent=0) + "\n")
    print(table(json.loads(RESULTS.read_text())))


def measured(texts, excerpts):
    """A row per way: seconds and bytes of a passage, for words of those of all excerpts."""
    with tempfile.TemporaryDirectory() as folder:
        stretch(MINILM, texts, folder, max_length=LENGTH, steps=0, log_n=128, verbose=False)
        for way, reading in READINGS.items():
            length = 512 if way.startswith("windows") else LENGTH
            model = open_embedder(folder, max_length=length, reading=reading)
            model.encode_documents(texts[:1], 0)
            began = time.process_time()
            found = model.encode_documents(texts, 0)
            seconds = time.process_time() - began
            count = len(found.vectors)
            size = found.vectors.nbytes / count
            print(way, count, round(seconds, 1), flush=True)
            yield {"way": way, "seconds": seconds / count, "bytes": size}
        tokenizer = model.tokenizer
        passages = [
            text[start:end]
            for text in excerpts
            for start, end in chunk_spans(text, tokenizer, tokens=256)
        ]
        began, count = time.process_time(), len(passages)
        index = WordIndex.of(passages)
        seconds = time.process_time() - began
        path = pathlib.Path(folder, "words.npy")
        index.save(path, "00")
        kept = sum(each.stat().st_size for each in path.parent.glob("words.npy*"))
        yield {"way": "words (BM25)", "seconds": seconds / count, "bytes": kept / count}


def table(rows):
    found = [["a million passages", "minutes of one core", "GB to keep, and in memory to search"]]
    for row in rows:
        minutes = MILLION * row["seconds"] / 60
        found.append([row["way"], f"{minutes:,.0f}", f"{MILLION * row['bytes'] / 1e9:.1f}"])
    return markdown(found)


if __name__ == "__main__":
    main()
