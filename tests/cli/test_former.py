"""Options of version 0.4 work as arguments of Python do: with one warning that names new ones."""

import warnings
from contextlib import nullcontext

import pytest

from keras_posenc import embed
from keras_posenc.cli import main
from keras_posenc.retrieval import Reranker

pytestmark = pytest.mark.once

NOT_FORMER = ("--seed=-1", "--output", "--token-budget", "--positions")
# A command with options of version 0.4, and what its warning has in place of them.
FORMER = [
    (
        "finetune MODEL TSV OUT --seed=-1 --alpha 0.3 --kept-rows 1",
        "finetune: give --extension 'hierarchical:0.3,kept_rows=1' in place of",
    ),
    ("pretrain MODEL TXT OUT --seed=-1 --length 8", "pretrain: give --max-length 8 in place of"),
    (
        "stretch MODEL TXT OUT --seed=-1 --length 24 --alpha 0.3",
        "stretch: give --max-length 24, --extension 'hierarchical:0.3,kept_rows=1' in place of",
    ),
    (
        "embed MODEL TXT --output OUT.npz --chunks 4 --late --overlap 1",
        "embed: give --reading 'late:4,overlap=1' in place of",
    ),
    (
        "embed MODEL TXT --output OUT.npy --chunks 4 --token-budget 64",
        "open_embedder: give --reading 'chunks:4' in place of",
    ),
    (
        "embed SPLADE TXT --output OUT.npz --sparse",
        "embed: call embed(SparseEmbedder(directory), ...) in place of",
    ),
    (
        "search MODEL NPY w1 --alpha 0.3",
        "search: give --extension 'hierarchical:0.3' in place of",
    ),
    (
        "rerank PAIRS w1 TXT --chunks 8",
        "rerank: give --reading 'chunks:8' in place of",
    ),
    (
        "convert MODEL OUT --positions 24 --stretch tile",
        "open_model: give --extension 'tile' in place of",
    ),
]


@pytest.mark.parametrize(("command", "words"), FORMER)
def test_a_former_option_warns_as_its_argument(
    capsys, tmp_path, pretrained, splade, corpus, command, words
):
    """Once, with the new option; the command and the program that it prints do the same. Runs end
    at their seed."""
    (tmp_path / "texts.txt").write_text("w1 w2. w3 w4 w5 w6 w7 w8 w9.\nw5 w6.\n" * 3)
    if "PAIRS" in command:
        Reranker(pretrained, label_names=["a"]).save(tmp_path / "pairs")
    if "NPY" in command:
        embed(pretrained, ["w1", "w2"], tmp_path / "v.npy", verbose=0)
    paths = {"MODEL": pretrained, "SPLADE": splade, "PAIRS": tmp_path / "pairs"}
    paths |= {"TSV": corpus / "train.tsv", "TXT": tmp_path / "texts.txt"}
    paths |= {"NPY": tmp_path / "v.npy", "OUT": tmp_path / "out"}
    former = [each for each in command.split() if each.startswith("--")]
    former = [each for each in former if each not in NOT_FORMER]
    for name, path in paths.items():
        command = command.replace(name, str(path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as Python does, except of what a program itself uses
        warnings.filterwarnings("default", category=DeprecationWarning, module="__main__")
        assert main(command.split()) == (2 if "--seed=-1" in command else 0)
    printed = capsys.readouterr()
    (line,) = [each for each in printed.err.splitlines() if "until version 0.7" in each]
    assert line.startswith(f"keras-posenc: warning: {words} ") and "`" not in line
    assert all(each in line for each in former)
    program = printed.out.partition("# In Python:\n")[2].partition("# Output:\n")[0]
    with (
        pytest.warns(DeprecationWarning, match="until version 0.7") as warned,
        pytest.raises(ValueError, match="`seed`") if "--seed=-1" in command else nullcontext(),
    ):
        exec(program.replace(str(tmp_path / "out"), str(tmp_path / "again")), {})
    assert len([each for each in warned if "until version 0.7" in str(each.message)]) == 1


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (
            "embed MODEL TXT --output OUT.npz --late",
            '--late and --overlap need the size of chunks: give --reading "late:256".',
        ),
        (
            "embed MODEL TXT --output OUT.npz --multi --sparse",
            "--multi and --sparse are for models of two kinds: leave both out.",
        ),
        (
            "embed MODEL TXT --output OUT.npy --chunks 4 --reading chunks:4",
            "--reading of embed has what --chunks had: give it alone.",
        ),
        (
            "finetune MODEL TXT OUT --stretch tile --extension tile",
            "--stretch: the argument that replaced it is given, too",
        ),
        (
            "convert MODEL OUT --alpha 0.2 --extension tile",
            "--extension of open_model has what --alpha had: give it alone.",
        ),
        ("pretrain MODEL TXT OUT --stretch none", "--stretch must be one of (None, 'hierarchical'"),
    ],
)
def test_former_options_that_do_not_go_together(capsys, tmp_path, pretrained, command, words):
    (tmp_path / "texts.txt").write_text("w1 w2\n")
    paths = {"MODEL": pretrained, "TXT": tmp_path / "texts.txt", "OUT": tmp_path / "out"}
    for name, path in paths.items():
        command = command.replace(name, str(path))
    assert main(command.split()) == 2
    assert f"keras-posenc: error: {words}" in capsys.readouterr().err
