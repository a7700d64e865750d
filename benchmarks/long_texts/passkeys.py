"""Finding one sentence of a long document, by length and by way of reading it, without training.

    python -m benchmarks.long_texts.passkeys path/to/model --lengths 512,1024 --documents 50

Results, the table and the figure are written to --output; a repeated call resumes.
"""

import argparse
import functools
import itertools
import pathlib
import statistics
import time

import numpy as np

from benchmarks.extrapolation.pictures import save_pictures
from benchmarks.extrapolation.settings import one_part
from benchmarks.long_texts.passkey_table import passkey_table
from benchmarks.shared.kept import Study, keys, write_lines
from benchmarks.shared.reading import POOLINGS, by_words, embedded, first_rank
from keras_posenc.arguments import checks
from keras_posenc.cli.options import numbers
from keras_posenc.folders.written import owned
from keras_posenc.models.config_file import read_config
from keras_posenc.models.extension import Extension
from keras_posenc.models.factory import build_transformer_model
from keras_posenc.tasks.retrieval import needles, passkeys
from keras_posenc.text import Tokenizer, read_texts
from keras_posenc.training.progress import printer

LENGTHS = (256, 512, 1024, 2048, 4096, 8192)
STRETCHES = ("tile", "interpolate", "hierarchical")
WAYS = ("truncate", "chunks_max", "chunks_mean", "words", *STRETCHES)


def bench_passkey(
    checkpoint,
    ways=WAYS,
    stretched=(),
    lengths=LENGTHS,
    documents=50,
    seeds=(0,),
    corpus=None,
    pooling="mean",
    ignore=None,
    output="bench-passkey",
    verbose=True,
):
    """Measures how well an encoder's embeddings find a sentence in documents of growing length.

    Each query asks for one person's pass key, which is in a single document, between sentences that
    all documents repeat. With `corpus`, each query asks where someone keeps a thing, which is in a
    single document of real text. The score is nDCG@1 as in LongEmbed
    (https://arxiv.org/abs/2404.12096): the fraction of queries whose document is the nearest.

    Nothing is trained. A repeated call resumes an interrupted one.

    Args:
        checkpoint: str. Directory with the weights, config and tokenizer of an encoder with a table
            of positions.
        ways: list of str. Ways of reading a document. Default: all. `truncate` reads as many tokens
            as the checkpoint serves. `chunks_max` and `chunks_mean` read all chunks of that length,
            scored by the nearest one or by the mean of all. `words` is BM25, without the encoder.
            `tile`, `interpolate` and `hierarchical` use full-context inference with an extended
            table, just as long as the documents. They take arguments, such as
            hierarchical:alpha=0.2,kept_rows=1.
        stretched: list of str. Directories of further checkpoints, as `stretch` writes them, read
            with full-context inference. The name of a directory is that of the way.
        lengths: list of int. Tokens per document, special tokens included. Default: the powers of
            two from 256 to 8192.
        documents: int. Number of documents of each length, and of queries.
        seeds: list of int. Seeds of the documents. The queries of a seed are the same at all
            lengths.
        corpus: str. Path of real texts for `read_texts`, in which the sentences are hidden. None
            repeats a few sentences around pass keys.
        pooling: str. How the last features become an embedding. One of "mean" or "cls".
        ignore: list of str. Patterns of tensors of `checkpoint` to leave out, such as cls.chain.*
        output: str. Directory of the results, the table and the figure; created if missing.
        verbose: bool. Print the progress.

    Returns:
        list of dict, one per way and seed, with the mean score by length in `accuracy["test"]` and
            the score of each query in `scores`. They are also in `output`/results.json.

    Raises:
        FileNotFoundError: if a file of a checkpoint, or the corpus, is missing.
        ValueError: if a way or the pooling is unknown, or two ways have one name. If a checkpoint
            does not serve a length, or a length has no room for the sentence. If `output` has
            results under other settings.
        NotADirectoryError: if `output` is a file.
        BlockingIOError: if another run uses `output`.

    Example:

    >>> results = bench_passkey("bert", ["truncate", "words"], lengths=[64], documents=4,
    ...     verbose=False)
    >>> [result["model"] for result in results], list(results[0]["accuracy"]["test"])
    (['truncate', 'words'], ['64'])
    """
    checks.choice("pooling", pooling, POOLINGS)
    readers = {way: _reader(way) for way in ways}
    for path in stretched:
        name = pathlib.Path(path).resolve().name
        if name in readers:
            raise ValueError(f"{path}: there is another way {name!r}; rename the directory.")
        readers[name] = _Checkpoint(path)
    settings = {
        "checkpoint": pathlib.Path(checkpoint).name,
        "documents": documents,
        "pooling": pooling,
        "corpus": corpus and pathlib.Path(corpus).name,
    }
    fillers = corpus and read_texts(corpus, label=False).texts
    source = _Source(checkpoint, fillers, documents, pooling, ignore)
    for reader in readers.values():
        reader.check(source, lengths)
    print_line = printer(verbose)

    def measure(task, model, seed, length):
        started = time.perf_counter()
        scores = first_rank(readers[model](source, length, seed))
        seconds = round(time.perf_counter() - started, 2)
        print_line(
            f"{task}, {model}, seed {seed}, {length:,} tokens: {np.mean(scores):.1%}, "
            f"{seconds:.0f} s"
        )
        return {"scores": scores, "seconds": seconds}

    with owned(pathlib.Path(output)):
        study, results = Study(pathlib.Path(output) / "lengths.json", write_lines), []
        for seed, way in itertools.product(seeds, readers):
            asked = keys(task=[source.task], model=[way], seed=[seed], length=lengths)
            rows = study.run(asked, measure, None, settings)
            results.append(_result(rows, source, settings))
        write_lines(pathlib.Path(output) / "results.json", results)
    return results


class _Source:
    """A checkpoint as it is, and documents."""

    def __init__(self, checkpoint, fillers, count, pooling, ignore):
        self.checkpoint, self.fillers, self.count = checkpoint, fillers, count
        self.pooling, self.tokenizer = pooling, Tokenizer(checkpoint)
        self.ignore = ignore
        self.length = read_config(checkpoint).max_position
        self.task, self.known = "needle" if fillers else "passkey", {}

    def made(self, length, seed):
        """The queries as token ids, and the documents, of a length and a seed."""
        if self.fillers:
            haystack = needles(self.tokenizer, length, self.count, self.fillers, seed)
        else:
            haystack = passkeys(self.tokenizer, length, self.count, seed)
        return self.tokenizer.contents(haystack.queries), haystack.documents

    def build(self, **options):
        """The encoder, as it is or stretched."""
        return build_transformer_model(self.checkpoint, ignore=self.ignore, **options)

    @functools.cached_property
    def model(self):
        return self.build()

    def chunks(self, length, seed):
        """The embedded queries, and of each document the embedded chunks: once for all ways."""
        if (length, seed) in self.known:
            return self.known[length, seed]
        queries, documents = self.made(length, seed)
        room = self.length - self.tokenizer.special_tokens()
        parts = [[ids[i : i + room] for i in range(0, len(ids), room)] for ids in documents]
        vectors = self.embedded(self.model, sum(parts, []))
        vectors = np.split(vectors, np.cumsum([len(part) for part in parts])[:-1])
        self.known[length, seed] = self.embedded(self.model, queries), vectors
        return self.known[length, seed]

    def embedded(self, model, rows):
        return embedded(model, self.tokenizer, rows, self.pooling)


class _Short:
    """What the checkpoint itself can read: the beginning, or chunks."""

    def __init__(self, pool=None):
        self.pool = pool

    def check(self, source, lengths):
        pass

    def __call__(self, source, length, seed):
        queries, chunks = source.chunks(length, seed)
        if self.pool == "max":
            return np.stack([(queries @ document.T).max(1) for document in chunks], axis=1)
        means = [document[0] if self.pool is None else document.mean(0) for document in chunks]
        return queries @ np.stack([each / np.linalg.norm(each) for each in means], axis=1)


class _Words:
    def check(self, source, lengths):
        pass

    def __call__(self, source, length, seed):
        return by_words(*source.made(length, seed))


class _OnePass:
    """A model that reads the whole document."""

    def __call__(self, source, length, seed):
        queries, documents = source.made(length, seed)
        model = self.model(source, length)
        return source.embedded(model, queries) @ source.embedded(model, documents).T


class _Stretch(_OnePass):
    def __init__(self, stretch, alpha=None, kept_rows=None):
        if alpha is not None and stretch != "hierarchical":
            raise ValueError(f"alpha={alpha!r} belongs to hierarchical, not to {stretch}.")
        self.extension = Extension(stretch, alpha, kept_rows)

    def check(self, source, lengths):
        pass

    def model(self, source, length):
        if length <= source.length:
            return source.model
        return source.build(max_position=length, extension=self.extension)


class _Checkpoint(_OnePass):
    def __init__(self, path):
        self.path = path

    def check(self, source, lengths):
        served = read_config(self.path).max_position
        if served < max(lengths):
            raise ValueError(
                f"{self.path} serves {served:,} positions: give lengths up to that, or stretch "
                f"further. Received: {max(lengths):,}"
            )

    def model(self, source, length):
        return build_transformer_model(self.path)


def _reader(way):
    name, arguments = one_part(way, WAYS, "way")
    if name in STRETCHES:
        if unknown := set(arguments) - {"alpha", "kept_rows"}:
            raise ValueError(f"{way}: {name} has no {unknown.pop()!r}; there are alpha, kept_rows.")
        return _Stretch(name, **arguments)
    if arguments:
        raise ValueError(f"{way}: {name} has no arguments.")
    if name == "words":
        return _Words()
    return _Short(*name.split("_")[1:])


def _result(rows, source, settings):
    """The rows of a way and a seed in one, with the keys of `benchmarks.extrapolation`, so that its
    figures show these results too."""
    lengths = [str(row["length"]) for row in rows]
    scores = [row["scores"] for row in rows]
    return {
        **{name: rows[0][name] for name in ("task", "model", "seed", "versions")},
        "accuracy": {"test": dict(zip(lengths, map(statistics.fmean, scores), strict=True))},
        "chance": 1 / settings["documents"],
        "train_lengths": [1, source.length],
        "scores": dict(zip(lengths, scores, strict=True)),
        "seconds": dict(zip(lengths, [row["seconds"] for row in rows], strict=True)),
        "settings": settings,
    }


def parser():
    """The options of `bench_passkey`; what is not given is left out."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.long_texts.passkeys",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
    )
    made.add_argument("checkpoint", help="directory with weights, config and tokenizer")
    made.add_argument("--ways", nargs="+", metavar="WAY", help=f"(default: {' '.join(WAYS)})")
    made.add_argument("--stretched", nargs="+", metavar="DIRECTORY", help="read in one pass")
    made.add_argument("--lengths", type=numbers, metavar="N,N", help=f"(default: {LENGTHS})")
    made.add_argument("--documents", type=int, help="and queries, of each length (default: 50)")
    made.add_argument("--seeds", type=numbers, metavar="N,N", help="of the documents (default: 0)")
    made.add_argument("--corpus", help="real texts in which the sentences are hidden")
    made.add_argument("--pooling", choices=POOLINGS, help="(default: mean)")
    made.add_argument("--ignore", nargs="+", metavar="PATTERN", help="tensors to leave out")
    made.add_argument("--output", help="directory (default: bench-passkey)")
    made.add_argument("--no-pictures", action="store_true")
    return made


def main(arguments=None):
    asked = vars(parser().parse_args(arguments))
    pictures = not asked.pop("no_pictures", False)
    results = bench_passkey(asked.pop("checkpoint"), **asked)
    print(passkey_table(results))
    if pictures:
        print(*save_pictures(results, asked.get("output", "bench-passkey")))


if __name__ == "__main__":
    main()
