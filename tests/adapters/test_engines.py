"""Ray Data and Spark: vectors and predictions of many texts, each engine with the real package."""

import contextlib
import functools
import pickle
import shutil
import sys

import numpy as np
import pytest

from keras_posenc.adapters import RayEmbedder, RayPredictor
from keras_posenc.adapters.sides import PredictionColumns, column_types
from keras_posenc.retrieval import open_embedder
from keras_posenc.training import finetune, load_finetuned, predict

pytestmark = [pytest.mark.once, pytest.mark.filterwarnings("ignore")]

TEXTS = ["w1 w4 w7", "w2 w3", "w5 w5 w6 w1"]
LABELS = {
    "classify": ["a", "b", "c", "a"],
    "multilabel": [["a"], ["b"], ["a", "b"], []],
    "regress": [0.5, -1.0, 2.0, 1.0],
    "tag": [["O", "X", "O"], ["O", "O"], ["X", "O", "O", "O"], ["O", "O", "X"]],
}


@pytest.fixture(scope="module")
def expected(pretrained):
    return open_embedder(pretrained).predict(TEXTS, verbose=0)


@pytest.fixture(scope="module")
def trained(pretrained, tmp_path_factory):
    """A function from a task to the directory of a model for it."""

    @functools.cache
    def of(task, labels=None):
        texts = [*TEXTS, "w2 w3 w9"]
        texts = [text.split() for text in texts] if task == "tag" else texts
        output = tmp_path_factory.mktemp("trained") / "out"
        labels = list(labels or LABELS[task])
        finetune(pretrained, (texts, labels), output, task=task, max_length=16, epochs=1, verbose=0)
        return output

    return of


def batch():
    return {"id": np.arange(3), "text": np.array(TEXTS)}


def test_ray_batches(pretrained, expected):
    found = RayEmbedder(pretrained)(batch())
    np.testing.assert_allclose(found["vector"], expected, atol=1e-6)
    np.testing.assert_array_equal(found["id"], np.arange(3))


def batches():
    """The same batch as each library has it."""
    yield "numpy", batch()
    pyarrow = pytest.importorskip("pyarrow")
    yield "pyarrow", pyarrow.table({"id": np.arange(3), "text": TEXTS})
    with contextlib.suppress(ImportError):
        import pandas

        yield "pandas", pandas.DataFrame({"id": np.arange(3), "text": TEXTS})


def test_batches_of_any_kind_stay_of_their_kind(pretrained, expected, finetuned, trained):
    embedder, several = RayEmbedder(pretrained), RayPredictor(trained("multilabel"), prefix="all_")
    one = RayPredictor(finetuned)
    wanted = one(batch())["predicted_label"].tolist(), several(batch())["all_labels"].tolist()
    for name, given in batches():
        found = several(one(embedder(given)))
        assert type(found) is type(given), name
        rows = (
            {column: np.asarray(found[column]).tolist() for column in found}
            if (name != "pyarrow")
            else found.to_pydict()
        )
        np.testing.assert_allclose(rows["vector"], expected, atol=1e-6)
        assert [list(row) for row in rows["all_labels"]] == wanted[1]
        assert (rows["id"], rows["predicted_label"]) == ([0, 1, 2], wanted[0])
        for kind, error in (
            ({"text": "body"}, "`text` must be a column of the batch, which has 'id', 'text'"),
            ({"output": "id"}, "output='id': the batch has a column 'id' already"),
        ):
            with pytest.raises(ValueError, match=error):
                RayEmbedder(pretrained, **kind)(given)
        with pytest.raises(ValueError, match="output='vector': the batch has a column 'vector'"):
            embedder(found)
        with pytest.raises(ValueError, match="`text` must be a column.*Received: 'body'"):
            RayPredictor(finetuned, text="body")(given)


def test_a_missing_text_is_an_error_and_no_text(pretrained):
    with pytest.raises(TypeError, match="NoneType"):
        RayEmbedder(pretrained)({"text": np.array(["w1", None])})


def test_predicted_labels_are_those_of_predict(finetuned):
    found = RayPredictor(finetuned)({**batch(), "label": np.array(["a", "b", "c"])})
    expected = predict(finetuned, TEXTS, verbose=0)
    assert found["predicted_label"].tolist() == [each.label for each in expected]
    found_probabilities = found["predicted_probability"]
    np.testing.assert_allclose(found_probabilities, [each.probability for each in expected])
    assert found["label"].tolist() == ["a", "b", "c"]  # the true ones are kept
    np.testing.assert_array_equal(found["id"], np.arange(3))


def test_options_are_those_of_the_model(finetuned):
    long = [" ".join(["w1 w4 w8"] * 12)]
    found = RayPredictor(finetuned, text="body", prefix="", chunks=8)({"body": np.array(long)})
    (expected,) = predict(finetuned, long, chunks=8, verbose=0)
    assert found["label"].tolist() == [expected.label]
    assert found["probability"][0] == pytest.approx(expected.probability, abs=1e-6)


def test_labels_of_several_classes_stay_lists(trained):
    folder = trained("multilabel")
    assert column_types(folder) == {"labels": list}
    found = RayPredictor(folder)(batch())["predicted_labels"]
    assert found.shape == (3,)
    assert found.tolist() == [each.labels for each in predict(folder, TEXTS, verbose=0)]


@pytest.mark.parametrize("count", [1, 2])
def test_numbers_have_a_column_each(count, trained):
    labels = LABELS["regress"] if count == 1 else [(y, 2 * y) for y in LABELS["regress"]]
    folder = trained("regress", tuple(labels))
    names = ["value"] if count == 1 else ["value_1", "value_2"]
    assert column_types(folder) == dict.fromkeys(names, float)
    found = RayPredictor(folder)(batch())
    columns = np.stack([found[f"predicted_{name}"] for name in names], axis=1)
    expected = load_finetuned(folder).predict(TEXTS, verbose=0)
    np.testing.assert_allclose(columns, expected, atol=1e-6)


def test_an_empty_batch_has_the_columns(finetuned):
    assert PredictionColumns(finetuned).of([]) == {"label": [], "probability": []}
    found = RayPredictor(finetuned)({"text": np.array([], str)})
    kinds = {name: found[f"predicted_{name}"].dtype.kind for name in ("label", "probability")}
    assert kinds == {"label": "U", "probability": "f"}


def test_what_gives_no_values_per_text_is_refused(trained, pretrained, tmp_path, finetuned):
    message = "`model` must be of task classify, multilabel or regress.*of task 'tag'. Use .*part_"
    with pytest.raises(ValueError, match=message):
        RayPredictor(trained("tag"))
    pairs = [("w1 w4", "w1 w7"), ("w2 w3", "w2 w5"), ("w6", "w6 w9"), ("w8", "w8 w1")]
    finetune(pretrained, pairs, tmp_path / "out", task="embed", max_length=16, epochs=1, verbose=0)
    with pytest.raises(ValueError, match="of task 'embed'. Use RayEmbedder or spark_embedder"):
        RayPredictor(tmp_path / "out")
    taken = {**batch(), "predicted_label": np.arange(3)}
    with pytest.raises(ValueError, match="prefix='predicted_': the batch has a column 'predicted_"):
        RayPredictor(finetuned)(taken)


@contextlib.contextmanager
def ray_session():
    ray = pytest.importorskip("ray")
    pytest.importorskip("ray.data")
    ray.init(num_cpus=2, include_dashboard=False, _temp_dir="/tmp/ray", log_to_driver=False)
    try:
        yield ray
    finally:
        ray.shutdown()


def test_ray_data_opens_the_model_in_its_workers(
    pretrained, expected, finetuned, trained, tmp_path
):
    several = trained("multilabel")
    with ray_session() as ray:
        rows = ray.data.from_items([{"id": n, "text": text} for n, text in enumerate(TEXTS)])
        for kind, folder in (
            (RayEmbedder, pretrained),
            (RayPredictor, finetuned),
            (RayPredictor, several),
        ):
            rows = rows.map_batches(kind, fn_constructor_args=[str(folder)], concurrency=1)
        rows.write_parquet(str(tmp_path / "found"))
        found = ray.data.read_parquet(str(tmp_path / "found")).take_all()
    found.sort(key=lambda row: row["id"])
    np.testing.assert_allclose([row["vector"] for row in found], expected, atol=1e-6)
    check_predictions(found, finetuned, several)


def check_predictions(rows, finetuned, several):
    """What predict() gives, in the rows of a table."""
    one = predict(finetuned, TEXTS, verbose=0)
    assert [row["predicted_label"] for row in rows] == [each.label for each in one]
    probabilities = [row["predicted_probability"] for row in rows]
    np.testing.assert_allclose(probabilities, [each.probability for each in one], atol=1e-6)
    many = predict(several, TEXTS, verbose=0)
    assert [list(row["predicted_labels"]) for row in rows] == [each.labels for each in many]


@contextlib.contextmanager
def spark_session():
    pyspark = pytest.importorskip("pyspark")
    pytest.importorskip("pandas")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    builder = pyspark.sql.SparkSession.builder.master("local[1]")
    spark = builder.config("spark.ui.enabled", "false").getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def test_spark_opens_the_model_in_its_workers(
    pretrained, expected, finetuned, trained, tmp_path, monkeypatch
):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    several = trained("multilabel")
    with spark_session() as spark:
        from keras_posenc.adapters import spark_embedder, spark_predictor

        texts = spark.createDataFrame(list(enumerate(TEXTS)), "id int, text string")
        for name, udf in (
            ("vector", spark_embedder(pretrained)),
            ("one", spark_predictor(finetuned)),
            ("many", spark_predictor(several)),
        ):
            texts = texts.withColumn(name, udf("text"))
        texts.write.parquet(str(tmp_path / "found"))
        rows = spark.read.parquet(str(tmp_path / "found")).orderBy("id").collect()
    np.testing.assert_allclose([row.vector for row in rows], expected, atol=1e-6)
    found = [
        {f"predicted_{k}": v for part in (row.one, row.many) for k, v in part.asDict().items()}
        for row in rows
    ]
    check_predictions(found, finetuned, several)


def test_an_empty_batch_has_vectors(pretrained):
    empty = {"id": np.zeros(0, int), "text": np.array([], object)}
    assert RayEmbedder(pretrained)(empty)["vector"].shape == (0, 16)


def test_any_argument_of_opening_can_be_kept():
    pytest.importorskip("pyspark")
    from keras_posenc.adapters import spark

    opened = [
        spark._opened(dict, (), pickle.dumps({"ignore": ["cls.*"], "extension": {"table": "tile"}}))
        for _ in range(2)
    ]
    assert opened[0] is opened[1]
    assert opened[0] == {"ignore": ["cls.*"], "extension": {"table": "tile"}}
