"""Files of tags, of questions, of pairs: what they give, and what they refuse."""

import json

import pytest

from keras_posenc.text.files import read_table
from keras_posenc.text.groups import read_groups
from keras_posenc.text.label_columns import names_in, numbers_in
from keras_posenc.text.questions import read_questions
from keras_posenc.text.tagged import read_tagged

pytestmark = pytest.mark.once


def write(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


def lines(path, *rows):
    return write(path, "".join(json.dumps(row) + "\n" for row in rows))


def test_columns_of_words_and_tags(tmp_path):
    content = "-DOCSTART- -X- O O\n\nAda NNP B-PER\nwrote VBD O\n\n\nParis\tB-LOC\n"
    found = read_tagged(write(tmp_path / "a.conll", content))
    assert found.texts == [["Ada", "wrote"], ["Paris"]]
    assert (found.labels, found.lines) == ([["B-PER", "O"], ["B-LOC"]], [3, 7])
    assert read_tagged(write(tmp_path / "b.conll", "Ada\nwrote\n"), label=False).texts == [
        ["Ada", "wrote"]
    ]
    assert read_tagged(write(tmp_path / "c.txt", "Ada wrote.\nTwice.\n"), label=False).texts == [
        "Ada wrote.",
        "Twice.",
    ]


SPACES = "Ada _ _ B-PER\nwrote _ _ O\n"


@pytest.mark.parametrize("separator", ["\t", " "])
@pytest.mark.parametrize("newline", ["\n", "\r", "\r\n"])
@pytest.mark.parametrize(
    "comment",
    [
        "# id 5-0\tdomain=en",
        "# id 5-0 domain=en",
        "# sent_id = 1",
        "# text = Ada wrote it all",
        "# newdoc",
        "#",
        "#begin document (bc/cctv/00/cctv_0000); part 000",
        "-DOCSTART- -X- -X- O",
        "-DOCSTART-",
        "-docstart-\tO",
    ],
)
def test_comments_are_no_words(tmp_path, comment, separator, newline):
    words = SPACES.replace(" ", separator)
    last = separator.join(("#", "_", "_", "O"))
    content = f"{comment}\n{words}\n{comment}\n{last}".replace("\n", newline)
    for bom in ("", "\ufeff"):
        (tmp_path / "a.conll").write_bytes((bom + content).encode())
        found = read_tagged(tmp_path / "a.conll")
        assert found.texts == [["Ada", "wrote"], ["#"]]
        assert (found.labels, found.lines) == ([["B-PER", "O"], ["O"]], [2, 6])


def test_words_that_begin_with_a_hash_stay_words(tmp_path):
    hashes = "#\tSYM\n3\tCD\n#go\tHT\n"
    found = read_tagged(write(tmp_path / "a.tsv", hashes))
    assert (found.texts, found.labels) == ([["#", "3", "#go"]], [["SYM", "CD", "HT"]])
    found = read_tagged(write(tmp_path / "a.conll", hashes.replace("\t", " ")))
    assert (found.texts, found.labels) == ([["#", "3", "#go"]], [["SYM", "CD", "HT"]])
    scheme = "Ada B-PER\n# B-TAG\n#go O\n# note\n"
    found = read_tagged(write(tmp_path / "b.conll", scheme))
    assert (found.texts, found.labels) == ([["Ada", "#", "#go"]], [["B-PER", "B-TAG", "O"]])
    found = read_tagged(write(tmp_path / "c.conll", "# x = 1\nAda\n#\n"), label=False)
    assert found.texts == [["Ada", "#"]]
    with pytest.raises(ValueError, match="line 2: one column, '#go': give word and tag"):
        read_tagged(write(tmp_path / "d.conll", "Ada B-PER\n#go\n"))


@pytest.mark.parametrize("space", ["\u00a0", "\u2028", "\u3000", "\x0b", "\x0c", "\x85"])
def test_only_tabs_and_ascii_spaces_separate_columns(tmp_path, space):
    number = f"10{space}000"
    for separator in ("\t", " ", "  "):
        found = read_tagged(write(tmp_path / "a.conll", f"{number}{separator}B-N\nof{separator}O"))
        assert (found.texts, found.labels) == ([[number, "of"]], [["B-N", "O"]])
    found = read_tagged(lines(tmp_path / "a.jsonl", {"tokens": [number], "tags": ["B-N"]}))
    assert found.texts == [[number]]


def test_column_names_are_no_words(tmp_path):
    for names in ("TOKEN\tNE-COARSE", "word\tlabel", "Token\tner_tags"):
        found = read_tagged(write(tmp_path / "a.tsv", f"{names}\nAda\tB-PER\n"))
        assert (found.texts, found.labels) == ([["Ada"]], [["B-PER"]])
    found = read_tagged(write(tmp_path / "b.tsv", "Words\tNNS\nmatter\tVBP\n"))
    assert found.texts == [["Words", "matter"]]


def test_objects_of_words_or_of_spans(tmp_path):
    rows = [{"tokens": ["Ada"], "tags": ["B-PER"]}]
    assert read_tagged(lines(tmp_path / "a.jsonl", *rows)).labels == [["B-PER"]]
    rows = [{"text": "Ada wrote", "spans": [{"start": 0, "end": 3, "label": "PER"}]}]
    assert read_tagged(lines(tmp_path / "b.jsonl", *rows)).labels == [[(0, 3, "PER")]]
    rows = [{"text": "Ada wrote", "entities": [[0, 3, "PER"]]}]
    assert read_tagged(lines(tmp_path / "c.jsonl", *rows)).labels == [[(0, 3, "PER")]]


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("a.conll", "Ada B-PER\nwrote\n", r"a.conll, line 2: one column, 'wrote': give word and"),
        ("a.conll", "\tB-PER\n", "line 1: .* is not a word and its tag"),
        ("a.conll", "-DOCSTART- O\n", "a.conll has no word"),
        ("a.conll", "1\tAda\t_\tO\n2\tis\t_\tO\n3\t.\t_\tO\n", "line 1: the first column counts"),
        ("a.conll", "# x = 1\n", "a.conll has no word"),
        ("a.pdf", "x", "'.pdf' is not one of .jsonl, .parquet, .conll"),
        ("a.jsonl", '{"x": 1}', "line 1: none of tokens, words, text, only"),
        ("a.jsonl", '{"tokens": ["a b"], "tags": ["O"]}', "a list of words without spaces"),
        ("a.jsonl", '{"tokens": ["a"], "tags": ["O", "O"]}', "on line 1 of .* 1 words but 2 tags"),
        ("a.jsonl", '{"tokens": ["a"], "tags": [1]}', "should be a list of tags, such as B-PER"),
        ("a.jsonl", '{"tokens": ["a"], "tags": "O"}', "line 1: 'tags' should be a list"),
        ("a.jsonl", '{"text": "a", "spans": [[0, 2, "X"]]}', r"on line 1 of .* \(0, 2, 'X'\), of"),
        ("a.jsonl", '{"text": "a", "spans": [{"start": 0}]}', "is no span: give start, end"),
    ],
)
def test_tags_that_do_not_fit(tmp_path, name, content, match):
    with pytest.raises(ValueError, match=match):
        read_tagged(write(tmp_path / name, content))


PASSAGE = "Ada wrote it."


def squad(**question):
    question = {"question": "Who?", "answers": [{"text": "Ada", "answer_start": 0}], **question}
    return {"data": [{"paragraphs": [{"context": PASSAGE, "qas": [question]}]}]}


def test_questions_in_either_form(tmp_path):
    found = read_questions(write(tmp_path / "a.json", squad()))
    assert (found.texts, found.labels, found.lines) == ([("Who?", PASSAGE)], [[(0, 3)]], [1])
    none = read_questions(write(tmp_path / "b.json", squad(is_impossible=True)))
    assert none.labels == [[]]
    rows = [
        {
            "question": "Who?",
            "context": PASSAGE,
            "answers": {"text": ["Ada", "it"], "answer_start": [0, 10]},
        },
        {"question": "Why?", "context": PASSAGE, "answers": []},
    ]
    assert read_questions(lines(tmp_path / "c.jsonl", *rows)).labels == [[(0, 3), (10, 12)], []]
    table = write(tmp_path / "d.tsv", f"asked\tabout\nWho?\t{PASSAGE}\n")
    assert read_questions(table, ("asked", "about"), label=False).texts == [("Who?", PASSAGE)]


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ({"data": [{}]}, "not in SQuAD's form, .*lacks the key 'paragraphs'"),
        ({"data": []}, "has no question"),
        (squad(question=" "), "question 1: 'question' should be a text that is not empty"),
        (squad(answers=[{"text": "Ada", "answer_start": 11}]), "'Ada' from 11 to 14 is beyond its"),
        (squad(answers=[{"text": "Ada", "answer_start": 4}]), "the passage has 'wro' at 4"),
        (squad(answers=[{"text": "Ada"}]), "is no answer: give its text and answer_start, an int"),
        (squad(answers="Ada"), "'answers' should be a list of answers"),
        (squad(answers={"text": ["a"], "answer_start": []}), "should be lists of one length"),
    ],
)
def test_questions_that_do_not_fit(tmp_path, content, match):
    with pytest.raises(ValueError, match=match):
        read_questions(write(tmp_path / "a.json", content))


def test_a_question_without_a_key(tmp_path):
    with pytest.raises(ValueError, match="line 1: no context or passage or text, only"):
        read_questions(lines(tmp_path / "a.jsonl", {"question": "Who?"}))
    with pytest.raises(ValueError, match="no 'answers', only .* has an empty list of them"):
        read_questions(lines(tmp_path / "b.jsonl", {"question": "Who?", "context": PASSAGE}))
    for read in (read_questions, read_tagged):
        with pytest.raises(FileNotFoundError, match="No file"):
            read(tmp_path / "none.jsonl")


def test_groups_with_and_without_scores(tmp_path):
    scored = write(tmp_path / "a.tsv", "sentence1\tsentence2\tscore\na\tb\t0.5\n")
    found = read_groups(scored, None, None)
    assert (found.texts, found.labels) == ([("a", "b")], [0.5])
    assert read_groups(scored, None, False).labels is None
    triples = write(tmp_path / "b.csv", "anchor,positive,negative\na,b,c\n")
    assert read_groups(triples, None, None).texts == [("a", "b", "c")]
    with pytest.raises(ValueError, match="which columns have the texts.*anchor"):
        read_groups(write(tmp_path / "c.csv", "anchor,other\na,b\n"), None, None)
    with pytest.raises(ValueError, match="has no column 'other'"):
        read_groups(triples, ("anchor", "other"), None)


def test_several_labels_and_numbers(tmp_path):
    table = write(tmp_path / "a.tsv", "text\tlabel\none\ta|b\ntwo\t\n")
    assert read_table(table, None, None, names_in).labels == [["a", "b"], []]
    rows = lines(tmp_path / "a.jsonl", {"text": "one", "label": [1, 2.5]})
    assert read_table(rows, None, None, numbers_in).labels == [[1.0, 2.5]]
    with pytest.raises(ValueError, match="line 2: 'label' should be a number, not 'a|b'"):
        read_table(table, None, None, numbers_in)
    with pytest.raises(ValueError, match="line 1: 'label' should be a list of names"):
        read_table(rows, None, None, names_in)


TEXT, SPANS = "Ada met Bo.", [(0, 3, "PER"), (8, 10, "PER")]


def offsets(start="start", end="end", **more):
    return [{start: s, end: e, "label": k, **more} for s, e, k in SPANS]


WORDS = [{"text": word, "start": n, "end": n + len(word), "id": n} for n, word in ((0, "Ada"),)]
TASK = {
    "data": {"text": TEXT},
    "annotations": [
        {"was_cancelled": True, "result": []},
        {
            "result": [
                {"type": "relation", "from_id": "a", "to_id": "b"},
                {"type": "choices", "value": {"choices": ["good"]}},
                *(
                    {"value": {"start": s, "end": e, "labels": [k], "text": TEXT[s:e]}}
                    for s, e, k in SPANS
                ),
            ]
        },
    ],
}
SMALL = {
    "text": TEXT,
    "id": 1,
    "label": [each["value"] for each in TASK["annotations"][1]["result"][2:]],
}
EXPORTS = {
    "prodigy.jsonl": {"text": TEXT, "tokens": WORDS, "spans": offsets(), "answer": "accept"},
    "doccano.jsonl": {
        "id": 1,
        "text": TEXT,
        "entities": offsets("start_offset", "end_offset", id=9),
    },
    "doccano_1.jsonl": {"id": 1, "text": TEXT, "label": [list(span) for span in SPANS]},
    "doccano_2.jsonl": {"text": TEXT, "labels": [list(span) for span in SPANS]},
    "label_studio.json": TASK,
    "label_studio_min.json": SMALL,
}


@pytest.mark.parametrize("name", EXPORTS)
def test_exports_of_annotation_tools(tmp_path, name):
    row = EXPORTS[name]
    rejected = {"data": {"text": "Bo met Ada."}, "annotations": []}
    rejected = {**row, "answer": "reject"} if "answer" in row else rejected
    if name.endswith(".json"):
        path = write(tmp_path / name, [rejected, row])
    else:
        path = lines(tmp_path / name, *([rejected] if "answer" in row else []), row)
    found = read_tagged(path)
    assert (found.texts, found.labels) == ([TEXT], [SPANS])
    assert found.lines == [2 if "answer" in row or name.endswith(".json") else 1]
    texts = read_tagged(path, label=False)
    assert texts.labels is None and texts.texts[-1] == TEXT
    # What nobody annotated can be predicted.
    assert len(texts.texts) == (1 if name.startswith("doccano") else 2)


def test_conllu(tmp_path):
    table = [
        "# text = Vámonos a 10 000",
        "1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\t_",
        "1\tVamos\tir\tVERB\tV\t_\t0\troot\t_\t_",
        "2\tnos\tyo\tPRON\tP\t_\t1\tobj\t_\t_",
        "2.1\tir\t_\tVERB\t_\t_\t_\t_\t_\t_",
        "",
        "1\t10 000\t10000\tNUM\tN\t_\t0\troot\t_\t_",
        "",
    ]
    path = write(tmp_path / "a.conllu", "\n".join(table))
    found = read_tagged(path)
    assert found.texts == [["Vamos", "nos"], ["10\u00a0000"]]
    assert (found.labels, found.lines) == ([["VERB", "PRON"], ["NUM"]], [3, 7])
    assert read_tagged(path, label="xpos").labels == [["V", "P"], ["N"]]
    assert read_tagged(path, label=False).labels is None


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.conllu", "1 w1 NOUN\n", "a.conllu, line 1: '1 w1 NOUN' is no line of CoNLL-U, ten"),
        ("a.conllu", "# text = a\n", "a.conllu has no word"),
        ("a.conllu", "1\t\ta" + "\t_" * 7, "a.conllu, line 1: no word, or no upos"),
        ("a.json", {"data": 1}, "it holds a dict.*Give an export of Label Studio, or a .jsonl"),
        ("a.json", [3], "a.json, task 1: a int, not an object"),
        ("a.json", [], "a.json has no annotated task"),
        ("a.json", [{"data": {"text": "a"}}], "task 1: it has no list of annotations"),
        ("a.json", [TASK | {"data": 3}], "task 1: its data are 3, not an object"),
        ("a.json", [TASK | {"data": {"x": "a"}}], "task 1: which of .'x'. is the text"),
        ("a.json", [TASK | {"data": {"text": "Bo met Ada."}}], "places are not in characters"),
        ("a.json", [TASK | {"annotations": [{"result": 3}]}], "has no list of results"),
        (
            "a.json",
            [{"text": "ab", "label": [{"start": 0, "end": 1, "labels": ["X", "Y"]}]}],
            "a region has the labels .'X', 'Y'.: give it one",
        ),
    ],
)
def test_what_is_no_export(tmp_path, name, content, message):
    with pytest.raises(ValueError, match=message):
        read_tagged(write(tmp_path / name, content))


def test_another_column_of_conllu_is_refused(tmp_path):
    path = write(tmp_path / "a.conllu", "1\ta\ta" + "\t_" * 7)
    with pytest.raises(ValueError, match="no column of tags 'ner'; there are lemma, upos"):
        read_tagged(path, label="ner")
