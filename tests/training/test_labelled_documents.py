import numpy as np
import pytest

from keras_posenc.text import Texts
from keras_posenc.text.decoding import FilePart
from keras_posenc.text.documents import kind_of_all
from keras_posenc.training.finetuning.labelled_documents import check_known_labels, digest, split
from keras_posenc.training.finetuning.tasks import TASKS

pytestmark = pytest.mark.once

read_labelled = TASKS["classify"].read


def labelled(labels):
    return read_labelled(([f"text {i}" for i in range(len(labels))], list(labels)), "train")


def test_a_file_and_lists_give_the_same_documents(corpus):
    from_file = read_labelled(corpus / "test.tsv", "train")
    from_lists = read_labelled((from_file.texts, from_file.labels), "train")
    assert digest(from_file) == digest(from_lists)
    assert read_labelled(from_file, "train") == from_file


def test_labels_become_strings():
    assert read_labelled((["good", "bad"], [1, 0]), "train").labels == ["1", "0"]


@pytest.mark.parametrize(
    ("source", "error", "match"),
    [
        ((["a"], [1, 2]), ValueError, "train holds 1 texts but 2 labels"),
        (([], []), ValueError, "train holds no document"),
        (3, TypeError, "train must be a path, a Texts, or a pair"),
        ((["a"], ["b"], ["c"]), TypeError, "train must be a path, a Texts, or a pair"),
        (({"a", "b"}, ["c", "d"]), TypeError, "train must be a path, a Texts, or a pair"),
        ({"text": ["a"], "tags": ["b"]}, TypeError, "a pair .texts, labels. of lists. Received: {"),
        (["good", "bad!"], TypeError, "a pair .texts, labels. of lists. Received: .'good', 'bad!'"),
        ([("good", "a"), ("bad", "b")], TypeError, "a list of two tuples: give a pair"),
        (Texts(["a"], None, [1]), ValueError, "holds texts without labels. Name the column"),
    ],
)
def test_unusable_documents_are_refused(source, error, match):
    with pytest.raises(error, match=match):
        read_labelled(source, "train")


@pytest.mark.parametrize(
    ("bad", "error", "match"),
    [
        ("half \ud800", ValueError, "has half a surrogate pair, '.ud800', at character 5"),
        ("w1 " * 3_000_000, ValueError, "has 9000000 characters, and one text may have 8388608"),
        (" ", ValueError, "is empty; leave it out"),
        (None, TypeError, "is a NoneType; .*; leave out the rows without a text"),
        (["w1", "w 2"], ValueError, "has the word 'w 2': words are not empty"),
        (("w1", "half \ud800"), ValueError, "has half a surrogate pair"),
    ],
)
def test_a_text_that_cannot_be_read_is_named_by_its_line(bad, error, match):
    with pytest.raises(error, match=f"The text on line 2 of test {match}"):
        TASKS["classify"].read((["w1", bad], ["a", "b"]), "test")


def test_passages_are_texts():
    with pytest.raises(ValueError, match="line 1 of train is .'w1', 5., answered by .*give a pair"):
        TASKS["qa"].read(([("w1", 5)], [[(0, 1)]]), "train")


def test_a_file_without_labels_is_refused(tmp_path):
    (tmp_path / "texts.txt").write_text("one text\nanother\n")
    with pytest.raises(ValueError, match="texts.txt' holds texts without labels"):
        read_labelled(tmp_path / "texts.txt", "train")


def test_a_column_of_labels_with_another_name_is_asked_for(tmp_path):
    path = tmp_path / "texts.csv"
    path.write_text("text,code\none text,a\n")
    part = FilePart(path, ["text", "code"], [(2, {"text": "one text", "code": "a"})])
    for source in (path, part):
        with pytest.raises(ValueError, match="has the columns 'text', 'code', and usual names"):
            read_labelled(source, "train")


def test_a_column_of_numbers_is_hardly_one_of_texts():
    with pytest.warns(UserWarning, match="All texts of train are numbers, such as '3'"):
        read_labelled((["3", "4.5"], ["a", "b"]), "train")


def test_a_split_takes_the_same_share_of_every_class_and_loses_nothing():
    documents = labelled("a" * 40 + "b" * 20 + "c")
    rest, test = split(documents, 0.25, seed=3)
    assert sorted(rest.texts + test.texts) == sorted(documents.texts)
    assert [test.labels.count(name) for name in "abc"] == [10, 5, 0]
    assert test.lines == sorted(test.lines)
    for text, label, line in zip(test.texts, test.labels, test.lines, strict=True):
        assert (text, label) == (documents.texts[line - 1], documents.labels[line - 1])


def test_the_last_document_of_a_class_is_never_held_out():
    documents = labelled("a" * 10 + "bbc")
    rest, test = split(documents, 0.9, seed=0)
    assert [rest.labels.count(name) for name in "abc"] == [1, 1, 1]
    assert [test.labels.count(name) for name in "abc"] == [9, 1, 0]


def test_a_split_follows_from_the_seed():
    documents = labelled("ab" * 50)
    assert split(documents, 0.2, 1) == split(documents, 0.2, 1)
    assert split(documents, 0.2, 1)[1] != split(documents, 0.2, 2)[1]
    np.random.seed(5)
    assert split(documents, 0.2, 1) == split(documents, 0.2, 1)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 2.5])
def test_a_share_out_of_range_is_refused(share):
    with pytest.raises(ValueError, match=rf"above 0 and below 1: the part of .* Received: {share}"):
        split(labelled("ab"), share, 0)


def test_a_share_that_holds_out_nothing_is_refused():
    with pytest.raises(ValueError, match="A share of 0.01 holds out none of 4 documents in 2"):
        split(labelled("aabb"), 0.01, 0)


def test_an_unknown_label_is_named_with_its_line():
    with pytest.raises(ValueError, match="test, line 2: the label 'z' is none of the .* 'a', 'b'"):
        check_known_labels(labelled("az"), ["a", "b"], "test", list)


def test_the_digest_sees_texts_labels_and_order():
    one = labelled("ab")
    others = [
        Texts(one.texts[::-1], one.labels[::-1], one.lines),
        Texts(one.texts, ["a", "c"], one.lines),
        Texts(["text 0", "text"], one.labels, one.lines),
    ]
    assert digest(one) not in {digest(other) for other in others}
    assert digest(one) == digest(labelled("ab"))


@pytest.mark.once
def test_labels_that_cannot_be_written_or_look_alike():
    with pytest.raises(ValueError, match=r"train, line 2: the label '\\ud800' has half a surr"):
        read_labelled((["a", "b"], ["x", "\ud800"]), "train")
    twins = ["caf\u00e9", "cafe\u0301", "tea"]
    with pytest.warns(UserWarning, match=r"are 2 classes.*'cafe\\u0301', 'caf\\xe9'"):
        assert read_labelled((["a", "b", "c"], twins), "train").labels == twins


@pytest.mark.parametrize(
    ("labels", "match"),
    [
        ([1, 1.0], r"train has the labels '1' \(line 1\) and '1.0' \(line 2\), which would be two"),
        (["07", "7"], r"'07' \(line 1\) and '7' \(line 2\)"),
        (["x", "Yes", "yes"], r"'Yes' \(line 2\) and 'yes' \(line 3\).*write them the same way"),
        (["news paper", "news\u00a0paper"], "write them the same way"),
        (["a", " "], "The label on line 2 of train is empty"),
    ],
)
def test_labels_that_would_be_two_classes_by_mistake(labels, match):
    texts = [f"text {n}" for n in range(len(labels))]
    with pytest.raises(ValueError, match=match):
        read_labelled((texts, labels), "train")


@pytest.mark.parametrize(
    ("task", "text", "labels"),
    [("multilabel", "one two", [["Yes"], ["no", "yes"]]), ("tag", ["Ada"], [["B-PER"], ["B-Per"]])],
)
def test_the_labels_of_other_tasks_that_would_be_two_by_mistake(task, text, labels):
    with pytest.raises(ValueError, match=r"\(line 1\) and .* \(line 2\), which would be two"):
        TASKS[task].read(([text, text], labels), "train")


def test_labels_lose_the_spaces_at_their_ends_in_lists_as_in_files():
    assert read_labelled((["a", "b"], ["yes", " yes\u00a0"]), "train").labels == ["yes", "yes"]


FOUR = ["w1", "w2", "w3", "w4"]


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ([1.0, 0.0] * 2, ["1.0", "0.0"] * 2),
        (np.array([1.0, 0.0] * 2), ["1.0", "0.0"] * 2),
        (np.array([True, False] * 2), ["True", "False"] * 2),
        (np.array([1, 0] * 2)[:, None], ["1", "0"] * 2),
        ([np.array(1), np.array(0)] * 2, ["1", "0"] * 2),
    ],
    ids=["floats", "array", "bools", "column", "scalars"],
)
def test_labels_of_numpy_are_taken_as_they_print(labels, names):
    assert read_labelled((FOUR, labels), "train").labels == names


def test_columns_of_pyarrow_are_lists():
    pyarrow = pytest.importorskip("pyarrow")
    names = pyarrow.array(["a", "b"] * 2)
    for labels in (names, names.dictionary_encode(), pyarrow.chunked_array([names])):
        assert read_labelled((pyarrow.array(FOUR), labels), "train").texts == FOUR
        assert read_labelled((pyarrow.array(FOUR), labels), "train").labels == ["a", "b"] * 2
    sets = TASKS["multilabel"].read((FOUR, pyarrow.array([["a"], ["b", "a"]] * 2)), "train")
    assert sets.labels == [["a"], ["a", "b"]] * 2
    with pytest.raises(ValueError, match="train, line 2: the text has no label, but None; give"):
        read_labelled((FOUR, pyarrow.array(["a", None] * 2)), "train")
    with pytest.raises(TypeError, match=r"Text 0 is a StringScalar; .*; to_pylist\(\) of a column"):
        kind_of_all(pyarrow.array(FOUR))


def test_columns_of_pandas_are_lists():
    pandas = pytest.importorskip("pandas")
    for kind in ("category", "string", "object"):
        labels = pandas.Series(["a", "b"] * 2, dtype=kind, index=range(4, 8))
        assert read_labelled((pandas.Series(FOUR), labels), "train").labels == ["a", "b"] * 2
    for kind in ("Int64", "category", "boolean", "float"):
        labels = pandas.Series([1, None] * 2, dtype=kind)
        for task in ("classify", "regress"):
            with pytest.raises(ValueError, match="train, line 2: the text has no label, but"):
                TASKS[task].read((FOUR, labels), "train")


@pytest.mark.parametrize(
    ("task", "labels", "message"),
    [
        ("classify", ["a", None] * 2, "line 2: the text has no label, but None; give it one, or l"),
        ("classify", [1.0, np.nan] * 2, "line 2: the text has no label, but nan"),
        ("regress", [1.0, np.float32("nan")] * 2, "line 2: the text has no label, but nan"),
        ("classify", np.array(["2020-01-01", "NaT"] * 2, "M8[D]"), "has no label, but NaT"),
        (
            "classify",
            [1.0, np.inf] * 2,
            "on line 2 of train must be a name or a finite number; .*inf",
        ),
        ("classify", [b"a", b"b"] * 2, "on line 1 of train must be a str, and is bytes: decode it"),
        (
            "classify",
            [[1, 0], [0, 1]] * 2,
            r"one-hot rows, .* np.argmax\(labels, axis=1\); several",
        ),
        ("classify", np.eye(2)[[0, 1, 0, 1]], r"np.argmax\(labels, axis=1\).*array\(\[1., 0.\]\)"),
        (
            "multilabel",
            [[1, 0], [0, 1]] * 2,
            r"\[name for name, is_one in zip\(names, row\) if is_o",
        ),
        ("multilabel", ["a", "b"] * 2, "has the labels 'a': give a list of names"),
    ],
    ids=range(10),
)
def test_labels_that_are_none_say_what_to_give(task, labels, message):
    with pytest.raises(ValueError, match=message):
        TASKS[task].read((FOUR, labels), "train")


def test_a_column_with_a_class_per_row_is_questioned(caplog):
    """It may be one of ids; it may also be one example per class, so it is no error."""
    texts = [f"w{number}" for number in range(12)]
    TASKS["classify"].read((texts, [f"id{number}" for number in range(12)]), "train")
    (line,) = caplog.messages
    assert line.startswith("The 12 documents to train on have 12 different labels, such as 'id0'")
    assert "label (--label-column)" in line and "--task regress" in line
    caplog.clear()
    TASKS["classify"].read((texts[:4], list("abcd")), "train")
    TASKS["classify"].read((texts, list("ab" * 6)), "train")
    TASKS["classify"].read((texts, [f"id{number}" for number in range(12)]), "test")
    assert not caplog.messages
