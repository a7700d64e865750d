"""The commands of the benchmark: their options are those of the functions, and what they print."""

import dataclasses
import inspect

import numpy as np
import pytest

from benchmarks.extrapolation import __main__ as extrapolation
from benchmarks.extrapolation.campaign import bench
from benchmarks.extrapolation.settings import Settings
from benchmarks.long_texts import passkeys
from keras_posenc import build_transformer_model
from keras_posenc.checkpoints import open_checkpoint, save_checkpoint
from keras_posenc.checkpoints.safetensors import write_safetensors

pytestmark = pytest.mark.once


def options(parser):
    return {each.dest for each in parser._actions} - {"help"}


def keywords(function):
    return set(inspect.signature(function).parameters) - {"verbose", "settings"}


def test_every_keyword_and_setting_is_an_option():
    settings = {field.name for field in dataclasses.fields(Settings)}
    assert options(extrapolation.parser()) == keywords(bench) | settings | {"no_pictures"}
    assert options(passkeys.parser()) == keywords(passkeys.bench_passkey) | {"no_pictures"}


def test_bench(capsys, tmp_path):
    small = "--layers 1 --size 8 --heads 2 --batch-size 4 --train-lengths 3 --test-lengths 4,6"
    arguments = f"bucket_sort --positions consecutive sorted --steps 2 --seeds 0,1 {small}".split()
    arguments += ["--output", str(tmp_path)]
    extrapolation.main(arguments)
    output = capsys.readouterr().out
    assert "[4/4] bucket_sort transformer none sorted 1: step 2 of 2, loss " in output
    table = output[output.index("| task |") :]
    assert "| bucket_sort | none sorted ids |" in table
    # The runs are done: the command reads them and prints the same.
    (picture,) = tmp_path.glob("*.svg")
    picture.unlink()
    extrapolation.main(arguments)
    assert capsys.readouterr().out == table
    assert picture.exists()
    with pytest.raises(ValueError, match="Unknown model 'gru'"):
        extrapolation.main(["even_pairs", "--steps", "2", "--models", "gru"])


def test_passkeys(capsys, tmp_path, pretrained):
    arguments = [str(pretrained), "--ways", "words", "hierarchical:alpha=0.2,kept_rows=1"]
    arguments += "--lengths 48,80 --documents 3 --seeds 1,2 --output".split() + [str(tmp_path)]
    passkeys.main(arguments)
    output = capsys.readouterr().out
    assert "passkey, words, seed 2, 80 tokens: " in output
    (picture,) = tmp_path.glob("*.svg")
    assert "documents found (%)" in picture.read_text("utf-8")
    passkeys.main(arguments)
    assert capsys.readouterr().out == output[output.index("| passkey |") :]


def test_tensors_that_are_left_out(tmp_path, pretrained):
    save_checkpoint(build_transformer_model(pretrained), tmp_path)
    (tmp_path / "vocab.txt").write_bytes((pretrained / "vocab.txt").read_bytes())
    arrays = {name: np.array(array) for name, array in open_checkpoint(tmp_path).items()}
    arrays["extra.weight"] = np.ones(2, "float32")
    write_safetensors(tmp_path / "model.safetensors", arrays)
    arguments = [str(tmp_path), *"--lengths 48 --documents 2 --no-pictures".split()]
    arguments += ["--ways", "chunks_max", "tile", "--output", str(tmp_path / "out")]
    with pytest.raises(ValueError, match="extra.weight"):
        passkeys.main(arguments)
    passkeys.main([*arguments, "--ignore", "extra.*"])


@pytest.mark.parametrize(
    ("text", "lengths"),
    [("64", [64]), ("50,100", [50, 100]), ("1-4,9", [1, 2, 3, 4, 9]), ("4-8:2", [4, 6, 8])],
)
def test_lengths(text, lengths):
    found = extrapolation.parser().parse_args(["even_pairs", "--train-lengths", text])
    assert found.train_lengths == lengths


def test_lengths_that_are_none_are_refused(capsys):
    with pytest.raises(SystemExit, match="2"):
        extrapolation.parser().parse_args(["even_pairs", "--train-lengths", "1-"])
    assert "every second, 4-64:2, not '1-'" in capsys.readouterr().err
