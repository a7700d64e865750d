"""MiniLM in int8, int4 and by GPTQ and AWQ: the file, the vectors, and which text is nearest.

    KERAS_BACKEND=torch python -m benchmarks.numerics.quantized
    KERAS_BACKEND=torch python -m benchmarks.numerics.quantized --table

Posts of 20 Newsgroups are embedded in float32, and by the same model quantized with each method. A
row has the size of the `.keras` file, the mean and the lowest cosine between a vector and that of
float32, and how many texts keep their nearest other text. GPTQ and AWQ are calibrated with posts
that are not embedded. The stretched model has hierarchical positions, without any training, and
reads posts of more than 512 tokens. Results go to benchmarks/results/quantized.json, a row per
model and method, and are not computed again.
"""

import pathlib
import tempfile
import warnings

import keras
import numpy as np

from benchmarks.shared.data import CORPORA, MINILM
from benchmarks.shared.kept import Study, keys, markdown, options
from keras_posenc.backend.seeding import set_random_seed
from keras_posenc.retrieval import open_embedder
from keras_posenc.text import read_texts

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "quantized.json"
# Name -> tokens read, and the fewest that a post has.
MODELS = {"MiniLM": (128, 1), "MiniLM, stretched": (1024, 513)}
METHODS = ("float32", "int8", "int4", "gptq", "awq")
CONFIGS = {"gptq": "GPTQConfig", "awq": "AWQConfig"}
CALIBRATION = {"num_samples": 64, "sequence_length": 128, "group_size": 128}


def main():
    parser = options(__doc__, RESULTS, None, seeds=[0])
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--tokens", type=int, default=8192, help="of all texts of a model")
    arguments = parser.parse_args()
    study = Study(arguments.results)
    if not arguments.table:
        rows = keys(model=arguments.models, method=arguments.methods, tokens=[arguments.tokens])
        study.run(rows, measured, ["mb", "mean_cosine", "top_1"])
    print(table(study.rows))


def measured(model, method, tokens):
    """A row: the size of the file, and the vectors beside those of float32."""
    set_random_seed(0)
    length, least = MODELS[model]
    embedder = open_embedder(MINILM, max_length=length)
    texts = chosen("test", embedder.tokenizer, least, tokens // length)
    expected = embedder.predict(texts, verbose=0)
    quantize(embedder, method)
    vectors = embedder.predict(texts, verbose=0)
    cosines = (vectors * expected).sum(axis=1)
    return {
        "texts": len(texts),
        "mb": round(megabytes(embedder.model), 1),
        "mean_cosine": round(float(cosines.mean()), 4),
        "least_cosine": round(float(cosines.min()), 4),
        "top_1": round(float((nearest(vectors) == nearest(expected)).mean()), 4),
    }


def chosen(part, tokenizer, least, count):
    """Every seventh post of at least so many tokens."""
    texts = read_texts(f"{CORPORA}/20newsgroups-{part}.tab").texts[::7]
    found = []
    for text in texts:
        if least == 1 or len(tokenizer.encode(text)[0]) >= least:
            found.append(text)
        if len(found) == count:
            break
    return found


def quantize(embedder, method):
    if method == "float32":
        return
    config = None
    if method in CONFIGS:
        texts = chosen("train", embedder.tokenizer, 1, CALIBRATION["num_samples"])
        ids = [np.array(embedder.tokenizer.encode(text)[0], "int32") for text in texts]
        kind = getattr(keras.quantizers, CONFIGS[method])
        config = kind(dataset=ids, tokenizer=embedder.tokenizer, **CALIBRATION)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        embedder.model.quantize(method, config=config)


def nearest(vectors):
    """The index of the nearest other text, for each text."""
    scores = vectors @ vectors.T
    np.fill_diagonal(scores, -np.inf)
    return scores.argmax(axis=1)


def megabytes(model):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "model.keras")
        model.save(path)
        return path.stat().st_size / 1e6


def table(rows):
    """Markdown: a line per model and method."""
    lines = [["model", "weights", "file, MB", "cosine, mean", "cosine, lowest", "nearest kept"]]
    order = [(model, method) for model in MODELS for method in METHODS]
    for row in sorted(rows, key=lambda row: order.index((row["model"], row["method"]))):
        cosines = f"{row['mean_cosine']:.3f}", f"{row['least_cosine']:.3f}"
        kept = f"{100 * row['top_1']:.0f}% of {row['texts']}"
        lines.append([row["model"], row["method"], f"{row['mb']:.1f}", *cosines, kept])
    return markdown(lines)


if __name__ == "__main__":
    main()
