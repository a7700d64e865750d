"""A mistake of the user's: one line, exit status 2, no traceback. And what happens around a run."""

import json
import logging
import os
import pathlib
import signal
import subprocess
import sys
import time
import warnings

import pytest
from forks import Fork, run_fork

import keras_posenc
from keras_posenc import cli
from keras_posenc.cli import guards, main
from keras_posenc.cli.arguments import parser
from keras_posenc.cli.guards import check_files
from keras_posenc.cli.wording import in_options
from keras_posenc.files.untrusted import CONTROLS

pytestmark = pytest.mark.once


def python(code, **environment):
    """A new interpreter that runs `code`."""
    env = {name: value for name, value in os.environ.items() if name not in environment}
    env |= {name: value for name, value in environment.items() if value is not None}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)


def fails(capsys, *arguments):
    """Runs a command that must fail; returns its one line on stderr."""
    try:
        status = main([str(argument) for argument in arguments])
    except SystemExit as exit:  # argparse's own way out
        status = exit.code
    error = capsys.readouterr().err
    if arguments[0] == "predict":
        error = error.rpartition("# Output:\n")[2]
    assert status == 2
    assert error.startswith("keras-posenc: error: ") and error.count("\n") == 1
    return error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["train"], "invalid choice: 'train'"),
        (["finetune", "a"], "the following arguments are required: TRAIN, OUTPUT"),
        (["finetune", "a", "b", "c", "--epoch", "3"], "--epoch 3: did you mean --epochs?"),
        (["mine", "a", "b", "--output", "c.jsonl"], "--output: give OUTPUT without --output"),
        (["finetune", "a", "b", "c", "--epochs", "x"], "--epochs: invalid int value: 'x'"),
        (["finetune", "a", "b", "c", "--lengths", "512"], "such as 512x3,1536x1, not '512'"),
        (["finetune", "a", "b", "c", "--pooling", "sum"], "invalid choice: 'sum'"),
        (["predict", "a", "b.txt", "c.txt"], "unrecognized arguments: c.txt"),
    ],
)
def test_bad_arguments(capsys, arguments, words):
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    error = capsys.readouterr().err
    assert error.startswith("keras-posenc: error: ") and error.count("\n") == 1
    assert words in error and "--help)" in error


ALIASES = [
    ("finetune a b c --batch-size 8", "give --token-budget, the number of tokens in a batch (see"),
    ("embed a b --output c.npy --batch_size=8", "give --token-budget, the number of tokens in a"),
    ("finetune a b c --lr 1e-4", "--lr 1e-4: give --learning-rate (see"),
    ("finetune a b c --learning_rate 1e-4", ": give --learning-rate (see"),
    ("finetune a b c --max-len 9", ": give --max-length (see"),
    ("predict a b --maxlen 9", ": give --max-length (see"),
    ("stretch a b c --max_seq_length 9", ": give --max-length (see"),
    ("finetune a b c --num_train_epochs 9", ": give --epochs (see"),
    ("finetune a b --output_dir c", "--output_dir: give OUTPUT without --output_dir (see"),
    ("evaluate --model_name_or_path a b", ": give DIRECTORY without --model_name_or_path (see"),
    ("pretrain --model_name_or_path a --train_file b --output_dir c", "; give CORPUS without --tr"),
    ("finetune a b c --warmup_ratio 0.1", ": give --warmup, a fraction of the steps (see"),
    ("finetune a b c --batch-size 8 --lr 1", "; give --learning-rate"),
    ("list --batch-size 8", "unrecognized arguments: --batch-size 8 (see"),
    ("finetune a b c --quux 8", "unrecognized arguments: --quux 8 (see"),
]


@pytest.mark.parametrize(("arguments", "words"), ALIASES)
def test_options_of_other_libraries_are_named_as_ours(capsys, arguments, words):
    assert words in fails(capsys, *arguments.split())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"train": "none.tsv"}, "none.tsv"),
        ({"checkpoint": "nowhere"}, "There is no checkpoint at nowhere"),
        ({"--learning-rate": "-1"}, "--learning-rate must be a positive number. Received: -1.0"),
        (
            {"--validation": "1.5"},
            "--validation must be a number above 0 and below 1. Received: 1.5",
        ),
        ({"--validation": "none.tsv"}, "none.tsv"),
        ({"--epochs": "0"}, "--epochs must be a positive integer. Received: 0"),
        ({"--alpha": "0.5", "--max-length": "40"}, "alpha"),
        ({"--max-length": "400"}, "256"),
        ({"--label-column": "topic"}, "topic"),
        ({"--epochs": "2", "--lengths": "16x1"}, "give it, or --max-length and --epochs, not both"),
    ],
)
def test_finetune_says_what_is_wrong(capsys, tmp_path, pretrained, corpus, changes, words):
    checkpoint = changes.pop("checkpoint", pretrained)
    train = changes.pop("train", corpus / "train.tsv")
    options = [part for pair in changes.items() for part in pair]
    assert words in fails(capsys, "finetune", checkpoint, train, tmp_path / "out", *options)


def test_the_texts_of_predict_are_a_file_or_given(capsys, tmp_path):
    (tmp_path / "a.txt").write_text("w1\n")
    for more in ([], [tmp_path / "a.txt", "--text", "w1"]):
        assert "Give the texts as a FILE, or each as --text; not both." in fails(
            capsys, "predict", tmp_path, *more
        )


@pytest.mark.parametrize(("text", "language"), [("none", None), ("en", "en"), ("auto", "auto")])
def test_a_language_may_be_none(text, language):
    words = ["contextualize", "a", "b", "c", "--language", text]
    assert vars(parser().parse_args(words))["language"] == language


@pytest.mark.parametrize("place", [1, 2, 3, 5])
@pytest.mark.parametrize("option", [[], ["--file"]])
def test_the_file_of_predict_stands_anywhere(place, option):
    words = ["predict", "out", "--format", "tsv", "--output", "x.tsv"]
    words[place + 1 : place + 1] = [*option, "a.txt"] if place in (1, 3, 5) else []
    if place == 2:  # between an option and its value
        words += [*option, "a.txt"]
    assert vars(parser().parse_args(words))["file"] == "a.txt"


# An argument of each command that must be there, and what is wrong with it.
FILES = [
    ("finetune none train.tsv out", "There is no checkpoint at none: no such file or folder."),
    ("finetune model none.tsv out", "none.tsv: No such file or directory"),
    ("finetune model train.tsv out --test none.tsv", "none.tsv: No such file or directory"),
    ("finetune model locked.tsv out", "locked.tsv: Permission denied"),
    ("pretrain model none.txt out", "none.txt: No such file or directory"),
    ("stretch model none.txt out", "none.txt: No such file or directory"),
    ("contextualize model none.txt out", "none.txt: No such file or directory"),
    ("evaluate none train.tsv", "There is no directory at none: no such file or folder."),
    ("evaluate model none.tsv", "none.tsv: No such file or directory"),
    ("predict model none.tsv", "none.tsv: No such file or directory"),
    ("embed model none.tsv --output out.npy", "none.tsv: No such file or directory"),
    ("search model none.npy words", "none.npy: No such file or directory"),
    ("mine model none.tsv out.jsonl", "none.tsv: No such file or directory"),
    ("rerank model words none.tsv", "none.tsv: No such file or directory"),
    ("convert model out --adapter none", "none: No such file or directory"),
    ("inspect none", "There is no checkpoint at none: no such file or folder."),
    (
        "finetune package train.tsv out",
        "package holds no checkpoint. Looked for model.safetensors, model.safetensors.index.json, "
        "pytorch_model.bin, pytorch_model.bin.index.json, bert_model.ckpt.index, model.keras, "
        "model.weights.h5, model.weights.json, *.safetensors, *.ckpt*.index, *.bin, *.keras; there "
        "is weights. Give package/weights, which has a config.json.",
    ),
]


@pytest.mark.parametrize("words, error", FILES)
def test_a_file_that_is_not_there_is_refused_before_keras_is_imported(
    words, error, tmp_path, monkeypatch, capsys
):
    def load():
        pytest.fail("imported a backend")

    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    (tmp_path / "package" / "weights").mkdir(parents=True)
    (tmp_path / "package" / "weights" / "config.json").write_text("{}")
    (tmp_path / "train.tsv").write_text("text\tlabel\nw1\ta\n")
    (tmp_path / "locked.tsv").touch(mode=0)
    if "locked" in words and os.access(tmp_path / "locked.tsv", os.R_OK):
        pytest.skip("this user may read all files")
    assert main(words.split(), load) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", f"keras-posenc: error: {error}\n")


def test_the_prefix_of_a_tensorflow_checkpoint_is_there(tmp_path):
    (tmp_path / "bert.ckpt.index").touch()
    assert check_files({"checkpoint": str(tmp_path / "bert.ckpt"), "validation": 0.2}) is None


def test_a_name_with_control_characters_is_no_file(capsys, tmp_path):
    assert "has control characters: rename it." in fails(capsys, "inspect", "a\x1b[2Jb")


@pytest.mark.parametrize(
    "text, words",
    [
        ("`max_length` is 3", "--max-length is 3"),
        ("raise max_length=512, or give `chunks`", "raise --max-length 512, or give --chunks"),
        ("overwrite=True (--overwrite) replaces it", "--overwrite replaces it"),
        (
            'predict numbers with task="regress" (--task regress).',
            "predict numbers with --task reg",
        ),
        ("Give text= (--text-column), one of a, b", "Give --text-column, one of a, b"),
        ("max_length must be", "--max-length must be"),
        ("`alpha` is for max_position=512", "--alpha is for max_position=512"),
        ("give `pool` to predict", "give --pool to predict"),
        ("`train` has no labels", "TRAIN has no labels"),
        (
            "max_length.tsv, a/max_length and `no_option`",
            "max_length.tsv, a/max_length and `no_opt",
        ),
    ],
)
def test_arguments_are_named_as_options(text, words):
    assert in_options(text, parser().flags("finetune")).startswith(words)


@pytest.mark.parametrize("warn", ["warnings.warn", "logging.getLogger('keras_posenc').warning"])
def test_warnings_name_options(warn, capsys, caplog, monkeypatch):
    program = "import logging, warnings\nwarnings.simplefilter('default')\n"
    program += f"{warn}('Raise `max_length`\x1b.')"
    monkeypatch.setitem(cli.PROGRAMS, "list", lambda arguments: program)
    before = logging.getLogger("keras_posenc").filters[:], warnings.showwarning
    assert main(["list"]) == 0
    if warn == "warnings.warn":
        error = "keras-posenc: warning: Raise --max-length\\x1b.\n"
        assert capsys.readouterr().err == error
    else:
        assert caplog.messages == ["Raise --max-length\\x1b."]
    assert (logging.getLogger("keras_posenc").filters, warnings.showwarning) == before


def test_bad_data_is_named_with_its_line(capsys, tmp_path, pretrained):
    (tmp_path / "train.tsv").write_text("text\tlabel\nw1\ta\n\tb\n")
    error = fails(capsys, "finetune", pretrained, tmp_path / "train.tsv", tmp_path / "out")
    assert "train.tsv" in error and "line 3" in error


def test_a_missing_label_names_the_option_and_the_columns(capsys, tmp_path, pretrained):
    (tmp_path / "train.tsv").write_text("text\tlabel\nw1\ta\nw2\t\n")
    arguments = ["finetune", pretrained, tmp_path / "train.tsv", tmp_path / "out"]
    error = fails(capsys, *arguments)
    assert "as --label-column, one of ['text', 'label']." in error and "False" not in error
    error = fails(capsys, *arguments, "--label-column", "kind")
    assert "there are ['text', 'label']: give one of them as --label-column." in error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["evaluate", "predict"])
def test_a_directory_without_a_model(capsys, tmp_path, corpus, command):
    rest = [corpus / "test.tsv"] if command == "evaluate" else ["--text", "w1"]
    assert "There is no directory" in fails(capsys, command, tmp_path / "none", *rest)
    error = fails(capsys, command, tmp_path, *rest)
    assert "not the output of a finished fine-tuning: it lacks model.keras and" in error
    (tmp_path / "recipe.json").write_text("{}")
    assert "The run is not finished: give the same command" in fails(
        capsys, command, tmp_path, *rest
    )


def test_a_damaged_model(capsys, tmp_path, finetuned):
    for name in ("labels.json", "tokenizer.json"):
        (tmp_path / name).write_bytes((finetuned / name).read_bytes())
    content = (finetuned / "model.keras").read_bytes()
    (tmp_path / "model.keras").write_bytes(content[: len(content) // 2])
    error = fails(capsys, "predict", tmp_path, "--text", "w1")
    assert "model.keras is damaged" in error
    (tmp_path / "labels.json").write_text("[]")
    assert "labels.json is damaged" in fails(capsys, "predict", tmp_path, "--text", "w1")


def test_a_length_that_the_model_cannot_take(capsys, finetuned, corpus):
    fails(capsys, "evaluate", finetuned, corpus / "test.tsv", "--max-length", "2")


def test_an_empty_text(capsys, finetuned):
    assert "empty" in fails(capsys, "predict", finetuned, "--text", " ")


def test_inspect_and_convert_without_a_checkpoint(capsys, tmp_path):
    assert "none" in fails(capsys, "inspect", tmp_path / "none")
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert "is empty" in fails(capsys, "inspect", tmp_path)
    assert "There is no config.json or" in fails(capsys, "convert", tmp_path, tmp_path / "out")
    assert "--dtype belongs to" in fails(
        capsys, "convert", tmp_path, "out", "--format", "keras", "--dtype", "float16"
    )


def test_inspect_of_what_cannot_be_loaded(capsys, tmp_path, pretrained):
    """What is in the file is printed all the same."""
    for name in ("config.json", "model.keras"):
        (tmp_path / name).write_bytes((pretrained / name).read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "model_type": "xlnet"}))
    assert main(["inspect", str(tmp_path)]) == 2
    printed = capsys.readouterr()
    assert "model_type 'xlnet' is not supported: " in printed.err
    assert len(printed.err.splitlines()) == 1
    assert "keras, 21 tensors" in printed.out
    (tmp_path / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 2}))
    assert "does not fit this bert model" in fails(capsys, "inspect", tmp_path)


def test_debug_shows_the_traceback(tmp_path):
    with pytest.raises(FileNotFoundError, match="none"):
        main(["inspect", str(tmp_path / "none"), "--debug"])


def command(*arguments, before="", **environment):
    """`keras-posenc` in a new process, after some Python."""
    code = f"import runpy, sys\n{before}\nsys.argv = ['keras-posenc', *{arguments!r}]\n"
    return python(
        code + "runpy.run_module('keras_posenc_command', run_name='__main__')", **environment
    )


def test_help_and_version_come_before_keras():
    absent = "sys.modules['keras'] = sys.modules['numpy'] = None"
    shown = command("--help", before=absent)
    assert shown.returncode == 0, shown.stderr
    for name in ("finetune", "evaluate", "predict", "inspect", "convert"):
        assert name in shown.stdout
    shown = command("finetune", "--help", before=absent)
    assert shown.returncode == 0 and "--lengths LENGTHxEPOCHS" in shown.stdout
    shown = command("--version", before=absent)
    assert shown.stdout == f"keras-posenc {keras_posenc.__version__}\n"


def test_a_program_finds_all_of_the_package():
    """The script puts the package in place first, and imports it when a program is to run."""
    check = "import atexit; atexit.register(lambda: print(sys.modules['keras_posenc'].Tokenizer))"
    shown = command("list", before=check)
    assert "| `alibi`" in shown.stdout, shown.stderr
    assert shown.stdout.endswith("<class 'keras_posenc.text.tokenizer.Tokenizer'>\n")


def test_the_command_is_installed():
    script = pathlib.Path(sys.executable).parent / "keras-posenc"
    shown = subprocess.run([script, "--version"], capture_output=True, text=True)
    assert shown.stdout == f"keras-posenc {keras_posenc.__version__}\n"


def test_a_library_without_any_backend(tmp_path):
    """Of no backend at all, as after `pip install keras_posenc` alone."""
    absent = "; ".join(f"sys.modules[{name!r}] = None" for name in ("tensorflow", "jax", "torch"))
    found = subprocess.run(
        [sys.executable, "-c", f"import sys; {absent}; import keras_posenc"],
        env={**os.environ, "KERAS_BACKEND": "", "KERAS_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert found.stderr.splitlines()[-1] == (
        "ImportError: Keras is to run on tensorflow, which is not installed. pip install tensorflow"
    )
    assert "ModuleNotFoundError" not in found.stderr


def test_a_backend_that_is_not_there(tmp_path):
    absent = "sys.modules['tensorflow'] = None"
    found = command("list", before=absent, KERAS_BACKEND=None, KERAS_HOME=str(tmp_path))
    assert found.returncode == 2
    assert found.stderr == (
        "keras-posenc: error: Keras is to run on tensorflow, which is not installed. Set "
        "KERAS_BACKEND to jax or torch; or: pip install tensorflow\n"
    )


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_that_somebody_swallows_is_raised_again(sent, monkeypatch):
    monkeypatch.setattr(guards, "AGAIN_AFTER", 1)
    before = signal.getsignal(sent)
    with pytest.raises(KeyboardInterrupt), guards.interruptible():
        try:
            os.kill(os.getpid(), sent)
            time.sleep(10)
        except:  # noqa: E722  as in Keras
            pass
        time.sleep(10)
        pytest.fail("not raised again")
    assert signal.getsignal(sent) is before and signal.alarm(0) == 0


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_control_c_says_how_to_go_on(tmp_path, pretrained, corpus, sent):
    arguments = ["finetune", pretrained, corpus / "train.tsv", tmp_path / "out"]
    arguments += ["--max-length", 16, "--epochs", 1000, "--no-report"]
    process = Fork("module", "keras_posenc", arguments)
    deadline = time.time() + 240
    while not (tmp_path / "out" / "state.zip").exists() and time.time() < deadline:
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(sent)
    _, error = process.communicate()
    assert process.returncode == 130, error
    assert error.splitlines()[-1] == (
        "keras-posenc: interrupted; the same command goes on after the last finished epoch, "
        "if there is one."
    )
    assert "Traceback" not in error


def test_control_c_is_distinguished_from_the_errors_it_leads_to(monkeypatch, capsys):
    """A zip file that is left while one of its files is being written raises a ValueError."""
    program = (
        "import io, zipfile\n"
        "with zipfile.ZipFile(io.BytesIO(), 'w') as archive:\n"
        "    file = archive.open('weights.npy', 'w')\n"
        "    raise KeyboardInterrupt\n"
    )
    monkeypatch.setitem(cli.PROGRAMS, "list", lambda arguments: program)
    assert main(["list"]) == 130
    assert capsys.readouterr().err == "keras-posenc: interrupted.\n"


INTO_HEAD = """
    import os, runpy, subprocess, sys
    head = subprocess.Popen(["head", "-1"], stdin=subprocess.PIPE)
    os.dup2(head.stdin.fileno(), 1)
    head.stdin.close()
    runpy.run_module("keras_posenc", run_name="__main__", alter_sys=True)
    """


def test_a_reader_that_has_seen_enough_is_no_error(pretrained):
    found = run_fork("code", INTO_HEAD, ["inspect", pretrained])
    assert found.stdout == "# In Python:\n" and "Traceback" not in found.stderr


HOSTILE = "\x1b]0;title\x07a\x9b2J\tb\u202e\nc\ud800"


def test_no_program_prints_what_acts_on_a_terminal(capsys, monkeypatch):
    """Much of what programs print is text of files in the end."""
    monkeypatch.setitem(cli.PROGRAMS, "list", lambda arguments: f"print({HOSTILE!r}, 1)")
    assert main(["list"]) == 0
    printed = capsys.readouterr().out.rpartition("# Output:\n")[2]
    assert printed == "\\x1b]0;title\\x07a\\x9b2J\tb\\u202e\nc\\ud800 1\n"


@pytest.mark.parametrize("form", ["tsv", "jsonl"])
def test_ids_of_a_file_cannot_act_on_the_terminal(capsys, tmp_path, finetuned, form):
    rows = [{"id": HOSTILE[:-1], "text": "w1 w2"}, {"id": 7, "text": "w3"}]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = ["--format", form, str(tmp_path / "t.jsonl")]
    assert main(["predict", str(finetuned), *source]) == 0
    lines = capsys.readouterr().out.split("\n")[:-1]
    assert len(lines) == 2 + (form == "tsv")
    assert not CONTROLS.search("".join(lines).replace("\t", ""))


# Python leaves such streams as None when it starts.
CLOSED = """
    import os, sys
    for number, name in ((1, "stdout"), (2, "stderr"))[: int(sys.argv.pop(1))]:
        os.close(number)
        setattr(sys, name, None)
    from keras_posenc.cli import main
    status = main(sys.argv[1:])
    os.fstat(1)
    sys.exit(status)
    """


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(
    ("command", "status"), [(["list"], 0), (["predict", "no", "--text", "w"], 2)]
)
def test_closed_streams_are_opened_to_nowhere(count, command, status):
    found = run_fork("code", CLOSED, [count, *command])
    assert (found.returncode, found.stdout) == (status, "")
    assert "Traceback" not in found.stderr
    assert ("error: There is no directory" in found.stderr) == (status == 2 and count == 1)


FULL = """
    import os, sys
    os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
    from keras_posenc.cli import main
    sys.exit(main(["list"]))
    """


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no full device")
def test_a_full_standard_output_is_named():
    found = run_fork("code", FULL)
    error = "keras-posenc: error: standard output: No space left on device\n"
    assert (found.returncode, found.stderr) == (2, error)
