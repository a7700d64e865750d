"""Names of strangers, with what acts on a terminal and very long, in every reader's errors."""

import json
from pathlib import Path

import numpy as np
import pytest
from crafted import archive, pickled, tensor

from keras_posenc import build_transformer_model, read_config
from keras_posenc.analysis import inspect_checkpoint, pictures, plot
from keras_posenc.analysis.page import details, section, table
from keras_posenc.checkpoints import open_checkpoint
from keras_posenc.checkpoints.safetensors import write_safetensors
from keras_posenc.cli import main
from keras_posenc.files.untrusted import CONTROLS, cell, quote, shorten, visible
from keras_posenc.folders.written import owned
from keras_posenc.text import Tokenizer, read_texts
from keras_posenc.text.questions import read_questions
from keras_posenc.text.tagged import read_tagged
from keras_posenc.training import to_jsonl, to_tsv
from keras_posenc.training.finetuning.classify import Prediction

pytestmark = pytest.mark.once

# An escape sequence, C1's one-byte form of it, a new line, a bell, a line separator, an override of
# the direction.
CONTROL = "\x1b[31mx\x9b2Jy\nz\x07\u2028\u202eabc\x00\x7f\u2066"
LONG = "n" * 200_000
HOSTILE = {"control": CONTROL, "long": LONG, "both": CONTROL + LONG}
MOST = 6000  # characters: the longest list of names that an error has


def check(text, most=MOST):
    """Nothing that acts on a terminal, and no flood."""
    assert not CONTROLS.search(text.replace("\n", "").replace("\t", "")), ascii(text[:500])
    assert len(text) <= most, len(text)


def refused(function, *arguments, **options):
    with pytest.raises((ValueError, TypeError, FileNotFoundError, KeyError)) as error:
        function(*arguments, **options)
    check(str(error.value))
    return str(error.value)


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_quoting(name):
    for value in (name, [name], {name: name}, (name, {"a": [name]}), name.encode()):
        check(quote(value), 203)
        check(shorten(value), 200)
    assert not CONTROLS.search(visible(name)) and len(visible(name)) >= len(name)
    assert visible("\u200d \u0645\u200c\u0646 tab") == "\u200d \u0645\u200c\u0646 tab"


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_tensors(tmp_path, capsys, name, tiny_config):
    """As text that errors, reports and commands show."""
    write_safetensors(tmp_path / "model.safetensors", {name: np.zeros(3, "float32")})
    (tmp_path / "config.json").write_text(json.dumps(tiny_config))
    opened = open_checkpoint(tmp_path)
    refused(opened.shape, name + "x")
    refused(build_transformer_model, tmp_path)
    for full in (False, True):
        check(str(inspect_checkpoint(tmp_path, full=full)), 2 * MOST)
    assert main(["inspect", str(tmp_path)]) == 2
    printed = capsys.readouterr()
    check(printed.out, 2 * MOST)
    check(printed.err)
    assert printed.err.count("\n") == 1
    refused(build_transformer_model, tiny_config, {name: np.zeros(3)})


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_damaged_headers(tmp_path, name):
    def write(header):
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        (tmp_path / "x.safetensors").write_bytes(len(text).to_bytes(8, "little") + text)
        return tmp_path / "x.safetensors"

    entry = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
    for header in (
        {name: {**entry, "dtype": name}},
        {name: {**entry, "shape": name}},
        {name: name},
        {name: entry},
        {"__metadata__": {"a": [name]}},
    ):
        refused(open_checkpoint, write(header))
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {name: name}}))
    refused(open_checkpoint, index)


@pytest.mark.parametrize("name", [CONTROL.replace("\0", ""), CONTROL])
def test_entries_of_archives(tmp_path, name):
    pickle = pickled(a=tensor(key=name))
    refused(open_checkpoint, archive(tmp_path / "a.bin", pickle))
    made = archive(tmp_path / "b.bin", pickled(a=tensor()), **{name.replace("\0", ""): b"x"})
    refused(open_checkpoint, made)


VALUES = (
    "hidden_act",
    "vocab_size",
    "model_type",
    "id2label",
    "encodings",
    "position_embedding_type",
    "layer_types",
    "rope_scaling",
    "rope_parameters",
    "hidden_dropout_prob",
    "feed_forward_type",
)


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_configs(tmp_path, name, tiny_config):
    for changes in [
        {"hiden_size": name},
        {name: 1, "hidden_size": 0},
        {"id2label": {"0": name, "2": name}},
        {"rope_scaling": {"rope_type": name}},
        {"rope_scaling": {"rope_type": "linear", "factor": name}},
        {"rope_scaling": {"rope_type": "linear", "factor": 2.0, name: 1}},
        {"encodings": [{"name": name}]},
        {"encodings": [name]},
        {"encodings": [{"name": "rotary", name: 1}]},
        *({key: value} for key in VALUES for value in (name, [name], {name: name})),
    ]:
        for family in ("bert", "modernbert", "gemma3", "jina_v2", "qwen3"):
            values = {**tiny_config, "head_dim": 8, **changes}
            try:
                build_transformer_model(values, model=family, num_hidden_layers=1)
            except (ValueError, TypeError) as error:
                check(str(error))
    (tmp_path / "config.json").write_text(json.dumps({**tiny_config, name: name, "x": name}))
    read_config(tmp_path)
    (tmp_path / "config.json").write_text(f'{{"a": 1, "a": {json.dumps(name)}}}')
    refused(read_config, tmp_path)


TABLES = {
    "a.tsv": "{0}\t{0}\nx\ty\n",
    "b.csv": '"{1}","{1}"\nx,y\n',
    "c.tsv": "text\tlabel\nx\t{0}\ty\n",
    "d.jsonl": '{{"text": {2}, "label": [{2}]}}\n',
    "e.jsonl": '{{{2}: 3, "b": 4}}\n',
    "f.tsv": "{0}\n",
    "g.conll": "{0}\n",
    "h.tab": "{0}\t{0}\n{0}\t{0}\n{0}\t{0}\nx\ty",
}


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("file", TABLES)
def test_tables(tmp_path, file, name):
    plain = name.replace("\n", "").replace("\t", "")
    text = TABLES[file].format(plain, name.replace('"', ""), json.dumps(name))
    (tmp_path / file).write_text(text, encoding="utf-8", newline="")
    for read in (read_texts, read_tagged, read_questions):
        try:
            read(tmp_path / file)
        except ValueError as error:
            check(str(error))
        try:
            read(tmp_path / file, text=name)
        except (ValueError, TypeError) as error:
            check(str(error))


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_tokenizers(tmp_path, name):
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nw\n")
    settings = {"cls_token": name, "added_tokens_decoder": {"7": {"content": name}}}
    for content in (settings, {"tokenizer_class": name}, {"do_lower_case": name}, name):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(content))
        try:
            tokenizer = Tokenizer(tmp_path)
            refused(tokenizer.tokens_to_ids, [name])
        except ValueError as error:
            check(str(error))
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"type": name}, name: name}))
    refused(Tokenizer, tmp_path / "tokenizer.json")
    (tmp_path / "vocab.json").write_text(json.dumps({name: name}))
    (tmp_path / "merges.txt").write_text(name.replace("\n", ""))
    refused(Tokenizer, tmp_path / "vocab.json")


@pytest.mark.parametrize("control", [c for c in CONTROL if CONTROLS.match(c) and c != "\0"])
def test_files_of_such_names_are_refused(tmp_path, control, capsys, tiny_config):
    """Their paths stand in so many errors that they are refused where they are opened."""
    for ending in (".safetensors", ".bin", ".keras", ".ckpt.index"):
        folder = tmp_path / ending
        folder.mkdir()
        (folder / f"x{control}{ending}").write_bytes(b"12345678{")
        assert "has control characters: rename it" in refused(open_checkpoint, folder)
        (folder / "config.json").write_text(json.dumps(tiny_config))
        assert main(["inspect", str(folder)]) == 2
        check(capsys.readouterr().err)
    table_file = tmp_path / f"{control}.tsv"
    table_file.write_text("text\nx\n")
    for read in (read_texts, read_config, open_checkpoint):
        assert "has control characters: rename it" in refused(read, table_file)


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_what_is_typed(capsys, name):
    name = name.replace("\0", "")
    for arguments in (["inspect", name], [name], ["list", name], ["describe", name]):
        try:
            status = main(arguments)
        except SystemExit as exit:
            status = exit.code
        assert status == 2
        error = capsys.readouterr().err
        assert not CONTROLS.search(error.removesuffix("\n"))


@pytest.mark.parametrize(
    "text",
    ["=1+1", "+1-cmd", "-2+3+cmd|' /C calc'!A0", "@SUM(1)", "\uff1d1+1", "\t=1", "- x"]
    + ['"=1+1"', '"" =1', '"-1"'],
)
def test_cells_are_no_formulas(text):
    predictions = [Prediction(text, 0.75, {text: 0.75})]
    label, probability = to_tsv(predictions).split("\t")
    assert label == "'" + text.strip() and probability == "0.7500"
    assert json.loads(to_jsonl(predictions))["label"] == text


@pytest.mark.parametrize("text", ["-1.5", "+3", "-1e-05", "-", "a=b", "1-2", ""])
def test_numbers_and_other_cells_stay(text):
    assert cell(text) == text


def test_predictions_do_not_act_on_a_terminal():
    predictions = [Prediction(CONTROL, 0.5, {CONTROL: 0.5})]
    assert not CONTROLS.search(to_tsv(predictions).replace("\t", ""))
    assert not CONTROLS.search(to_jsonl(predictions))
    assert json.loads(to_jsonl(predictions))["label"] == CONTROL


@pytest.mark.parametrize("text", ["\ud800=1", "\ufeff=1", "a\ufffb"])
def test_predictions_can_be_written_and_start_with_no_byte_order_mark(text):
    predictions = [Prediction(text, 0.5, {text: 0.5})]
    assert to_tsv(predictions).encode().startswith(ascii(text)[1:-1].encode())
    assert json.loads(to_jsonl(predictions).encode())["label"] == text


@pytest.mark.parametrize("command", [["convert", "a"], ["embed", "a", "b", "--output"]])
def test_outputs_of_such_names_are_refused(tmp_path, capsys, command):
    path = f"{tmp_path}/x\x1b[31m\u202e"
    extra = [path] if command[-1] == "--output" else [path, "--format", "keras"]
    assert main([*command, *extra]) == 2
    assert "has control characters: rename it" in capsys.readouterr().err
    with pytest.raises(ValueError, match="has control characters: rename it"), owned(Path(path)):
        pass
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", [*HOSTILE.values(), "$\\bad{$", "$_$ $^$"])
def test_figures_of_such_classes_and_tokens(recwarn, name):
    """Matplotlib has no glyphs for control characters, and takes "$" for a formula."""
    for figure in (
        plot.confusion_matrix([[1, 0], [0, 1]], [name, "b"]),
        pictures.cross_attention(np.ones((1, 2, 2)), [name, "b"], ["a", name]),
    ):
        check(plot.to_svg(figure), 100_000)
    assert not [each for each in recwarn if "Glyph" in str(each.message)]


def test_pages_are_escaped():
    name = "<script>alert(1)</script>\"'&"
    for page in (section(name, "x"), table([name], [(name, name)]), details(name, "x")):
        assert "<script>" not in page
    for page in (
        section(CONTROL, "x"),
        table([CONTROL], [(CONTROL, CONTROL)]),
        details(CONTROL, ""),
    ):
        check(page)
