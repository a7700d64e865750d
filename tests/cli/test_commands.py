"""Every command: the Python that it prints does what it does, and says the same."""

import contextlib
import io
import json
import operator

import keras
import numpy as np
import pytest
from forks import run_fork

from keras_posenc import build_transformer_model
from keras_posenc.checkpoints import open_checkpoint, save_checkpoint
from keras_posenc.checkpoints.safetensors import write_safetensors
from keras_posenc.cli import main
from keras_posenc.cli.arguments import parser
from keras_posenc.encodings import ENCODINGS
from keras_posenc.retrieval import Reranker
from keras_posenc.text import truncation
from keras_posenc.training import load_finetuned

# What the commands call is tested on every backend in its own room.
pytestmark = pytest.mark.once


def run(capsys, *arguments):
    """Runs a command; returns (the program printed, the rest of its output)."""
    assert main([str(argument) for argument in arguments]) == 0
    captured = capsys.readouterr()
    text = (captured.err + captured.out) if arguments[0] == "predict" else captured.out
    before, _, rest = text.partition("# In Python:\n")
    program, _, output = rest.partition("# Output:\n")
    assert before == "" and program
    return program, output


def execute(program):
    """Runs a printed program as a user would; returns its output."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(program, "printed", "exec"), {})
    return output.getvalue()


def test_finetune(capsys, tmp_path, pretrained, corpus):
    program, output = run(
        capsys,
        *("finetune", pretrained, corpus / "train.tsv", tmp_path / "one"),
        *("--validation", "0.25", "--lengths", "16x1,48x1", "--learning-rate", "0.01"),
        *("--token-budget", "1024", "--seed", "3"),
    )
    assert "lengths=[(16, 1), (48, 1)]" in program and "seed=3" in program
    assert "validation " in output and output.endswith("report.html\n")
    execute(program.replace(str(tmp_path / "one"), str(tmp_path / "two")))
    one, other = (load_finetuned(tmp_path / name).model.weights for name in ("one", "two"))
    for a, b in zip(one, other, strict=True):
        a, b = keras.ops.convert_to_numpy(a), keras.ops.convert_to_numpy(b)
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    assert "<h2>Confusion matrix</h2>" in (tmp_path / "two" / "report.html").read_text("utf-8")


def test_pretrain(capsys, tmp_path, pretrained, corpus):
    program, output = run(
        capsys,
        *("pretrain", pretrained, corpus / "train.tsv", tmp_path / "one"),
        *("--max-length", "24", "--steps", "2", "--validation", "0.2"),
        *("--no-whole-words", "--pack"),
    )
    assert "length=24" in program and "whole_words=False" in program and "pack=True" in program
    assert "step 1 of 2, loss " in output and "2 steps in" in output
    execute(program.replace(str(tmp_path / "one"), str(tmp_path / "two")))
    one, other = (open_checkpoint(tmp_path / name) for name in ("one", "two"))
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])


def test_stretch(capsys, tmp_path, pretrained):
    """Then `finetune` and whatever else reads a checkpoint reads this one."""
    rng = np.random.default_rng(0)
    lines = [" ".join(f"w{n}" for n in rng.integers(0, 35, 90)) for _ in range(5)]
    (tmp_path / "corpus.txt").write_text("\n".join(lines) + "\n")
    program, output = run(
        capsys,
        *("stretch", pretrained, tmp_path / "corpus.txt", tmp_path / "one"),
        *("--max-length", "40", "--steps", "2", "--local", "4", "--global-every", "1"),
    )
    assert "length=40" in program and "global_every=1" in program
    assert "step 1 of 2, loss " in output and output.endswith("report.html\n")
    execute(program.replace(str(tmp_path / "one"), str(tmp_path / "two")))
    one, other = (open_checkpoint(tmp_path / name) for name in ("one", "two"))
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])
    assert "<h2>Agreement by position</h2>" in (tmp_path / "two" / "report.html").read_text("utf-8")
    _, output = run(capsys, "inspect", tmp_path / "one")
    assert "positions: 40" in output


IGNORED = ("cls.graft.*", "cls.chain.*")


@pytest.mark.parametrize(
    "arguments",
    [
        ("finetune", "MODEL", "TSV", "OUT", "--max-length=8", "--epochs=1", "--no-report"),
        ("pretrain", "MODEL", "TSV", "OUT", "--max-length=8", "--steps=1", "--validation=.1"),
        ("stretch", "MODEL", "TXT", "OUT", "--max-length=18", "--steps=0", "--no-report"),
        ("embed", "MODEL", "TXT", "--output=OUT.npy"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_tensors_that_are_left_out(capsys, tmp_path, pretrained, arguments):
    """By every command that loads a checkpoint; `inspect` and `convert` have their own test."""
    save_checkpoint(build_transformer_model(pretrained), tmp_path)
    (tmp_path / "vocab.txt").write_bytes((pretrained / "vocab.txt").read_bytes())
    arrays = {name: np.array(array) for name, array in open_checkpoint(tmp_path).items()}
    arrays |= {pattern.replace("*", "weight"): np.ones(2, "float32") for pattern in IGNORED}
    write_safetensors(tmp_path / "model.safetensors", arrays)
    (tmp_path / "a.tsv").write_text("text\tlabel\nw1 w2\ta\nw3\tb\n")
    (tmp_path / "a.txt").write_text(f"{'w1 w2 ' * 20}\n" * 3)
    paths = {"MODEL": tmp_path, "TSV": tmp_path / "a.tsv", "TXT": tmp_path / "a.txt"}
    paths["OUT"] = tmp_path / "out"
    for name, path in paths.items():
        arguments = [argument.replace(name, str(path)) for argument in arguments]
    assert main(arguments) == 2
    assert "leave it out: --ignore takes" in capsys.readouterr().err
    assert main([*arguments, "--ignore", *IGNORED]) == 0


def test_outputs_replace_links(capsys, tmp_path, pretrained, finetuned, corpus):
    (tmp_path / "letter").write_text("precious")
    paths = [tmp_path / name for name in ("metrics.json", "model.keras", "terms.svg")]
    for path in paths:
        path.symlink_to("letter")
    metrics, model, figure = paths
    run(capsys, "evaluate", finetuned, corpus / "test.tsv", "--output", metrics)
    run(capsys, "convert", pretrained, model, "--format", "keras")
    run(capsys, "plot", "terms", "--length", 4, "--head-size", 2, "--output", figure)
    assert all(path.is_file() and not path.is_symlink() for path in paths)
    assert (tmp_path / "letter").read_text() == "precious"


def test_evaluate(capsys, tmp_path, finetuned, corpus):
    path = tmp_path / "metrics.json"
    arguments = ("evaluate", finetuned, corpus / "test.tsv", "--output", path)
    program, output = run(capsys, *arguments)
    first = json.loads(path.read_text())
    path.unlink()
    assert execute(program) == output
    assert json.loads(path.read_text()) == first
    expected = json.loads((finetuned / "metrics.json").read_text("utf-8"))["test"]
    assert first["test"]["confusion"] == expected["confusion"]
    assert f"{expected['accuracy']:.1%}" in output


@pytest.mark.parametrize("form", ["tsv", "jsonl"])
def test_predict(capsys, finetuned, form):
    texts = ["w0 w3 w6 w9 w12 w0 w3", "w1 w4 w7 w10 w13 w1 w4"]
    arguments = [part for text in texts for part in ("--text", text)]
    program, output = run(capsys, "predict", finetuned, *arguments, "--format", form)
    assert execute(program) == output
    lines = output.splitlines()
    if form == "tsv":
        head, *cells = [line.split("\t") for line in lines]
        assert head == ["row", "label", "probability"] and [row for row, *_ in cells] == ["1", "2"]
        labels = [label for _, label, _ in cells]
        assert all(1 / 3 < float(probability) <= 1 for *_, probability in cells)
    else:
        rows = [json.loads(line) for line in lines]
        assert [row["row"] for row in rows] == [1, 2]
        labels = [row["label"] for row in rows]
        assert all(sum(row["probabilities"].values()) == pytest.approx(1) for row in rows)
        assert all(row["probability"] == row["probabilities"][row["label"]] for row in rows)
    assert labels == ["a", "b"]


def test_predict_says_on_stderr_what_it_cuts_off(finetuned, tmp_path):
    """In a process of its own, since pytest takes what is logged in this one."""
    texts = tmp_path / "texts.txt"
    texts.write_text("w1 w4 w7 w10 w13 w1 w4\nw2 w5\n")
    done = run_fork("module", "keras_posenc", ["predict", finetuned, texts, "--max-length", 6])
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 3, done.stderr
    warned = [line for line in done.stderr.splitlines() if "longer than" in line]
    assert warned == [
        "1 of 2 texts are longer than --max-length 6: 23.1% of all tokens are cut off. The longest "
        "has 9 tokens. To read all of a text, raise --max-length, or read it in chunks: give "
        '--chunks to predict and evaluate, reading="chunks:6" to embed.'
    ]


def test_predict_leaves_its_output_to_the_results(capsys, finetuned, tmp_path):
    (tmp_path / "texts.txt").write_text("w1 w4 w7\nw2 w5\nw0\n")
    assert main(["predict", str(finetuned), str(tmp_path / "texts.txt")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [len(line.split("\t")) for line in lines] == [3, 3, 3, 3]


def test_predict_adds_to_the_columns_of_the_file(capsys, finetuned, tmp_path):
    (tmp_path / "texts.tsv").write_text("id\ttext\nx7\tw1 w4 w7\nx8\tw2 w5\n")
    given = ("predict", finetuned, tmp_path / "texts.tsv")
    _, output = run(capsys, *given)
    assert [line.split("\t")[0] for line in output.splitlines()] == ["id", "x7", "x8"]
    target = tmp_path / "new" / "found.csv"
    program, output = run(capsys, *given, "--output", target)
    assert output == f"{target}\n"
    written = target.read_text("utf-8")
    target.unlink()
    assert execute(program) == output and target.read_text("utf-8") == written
    head, *rows = written.splitlines()
    assert head == "id,text,predicted_label,predicted_probability"
    assert [row.split(",")[:2] for row in rows] == [["x7", "w1 w4 w7"], ["x8", "w2 w5"]]
    assert main([*map(str, given), "--output", "found.txt"]) == 2
    assert "--output: give a .csv, .tsv, .jsonl file, not 'found.txt'" in capsys.readouterr().err
    assert main([*map(str, given), "--output", "found.csv", "--format", "tsv"]) == 2
    assert "--format is of what is printed" in capsys.readouterr().err


def test_embed(capsys, caplog, pretrained, tmp_path):
    (tmp_path / "texts.txt").write_text("w1 w4 w7\nw2 w5\n" + "w0 " * 40 + "\n")
    target = tmp_path / "vectors.npy"
    arguments = ("embed", pretrained, tmp_path / "texts.txt", "--output", target)
    program, output = run(capsys, *arguments, "--max-length", 48)
    assert output == f"{target} 3 vectors of 16 numbers\n"
    first = np.load(target)
    target.unlink()
    assert execute(program) == output
    np.testing.assert_array_equal(np.load(target), first)
    assert [path.name for path in tmp_path.iterdir() if ".partial" in path.name] == []
    truncation._log.cache_clear()  # what was said before in this process is not said again
    assert main([str(argument) for argument in arguments]) == 0
    *untrained, warned = caplog.messages
    for line, length in zip(untrained, ("--max-length 48", "max_length=48"), strict=True):
        assert f"up to {length} are not trained" in line
    assert warned.startswith("1 of 3 texts are longer than --max-length 16: ")
    assert (
        main(["embed", str(pretrained), str(tmp_path / "texts.txt"), "--output", "vectors.txt"])
        == 2
    )
    assert "output is a .npy file" in capsys.readouterr().err


def test_embed_late(capsys, pretrained, tmp_path):
    (tmp_path / "texts.txt").write_text("w1 w2. w3 w4.\nw5 w6.\n")
    target = tmp_path / "chunks.npz"
    command = ("embed", pretrained, tmp_path / "texts.txt", "--output", target)
    assert main([*map(str, command), "--reading", "late:4,overlap=1"]) == 0
    written = np.load(target)
    assert written["vectors"].shape[0] == len(written["texts"]) > 2
    assert f"{target} {len(written['texts'])} vectors of" in capsys.readouterr().out


@pytest.mark.parametrize("late", [(), ("--reading", "late:4")])
def test_embed_in_parts(capsys, pretrained, tmp_path, late):
    """Of a .jsonl file that is written part by part, `embed` returns the number of texts."""
    (tmp_path / "texts.txt").write_text("w1 w2. w3 w4.\nw5 w6.\nw7\n")
    target = tmp_path / "vectors.jsonl"
    command = ("embed", pretrained, tmp_path / "texts.txt", "--output", target)
    _, output = run(capsys, *command, "--part-size", 2, *late)
    assert output.splitlines()[-1] == f"{target} vectors of 3 texts"
    assert len(target.read_text("utf-8").splitlines()) == 3 + len(late[:1])


def test_search(capsys, pretrained, tmp_path):
    """Queries stand anywhere behind the vectors, and in a file."""
    (tmp_path / "texts.txt").write_text("w1 w2. w3 w4.\nw5 w6.\nw7\n")
    (tmp_path / "queries.txt").write_text("w3\nw7 w1\n")
    target = tmp_path / "chunks.npz"
    command = ("embed", pretrained, tmp_path / "texts.txt", "--output", target)
    run(capsys, *command, "--reading", "late:4")
    command = ("search", pretrained, target, "--top-k", 2, "w5 w6.", "w1")
    program, output = run(capsys, *command, "--file", tmp_path / "queries.txt")
    head, *lines = output.splitlines()
    assert head.split() == ["rank", "score", "id", "chars", "text"]
    assert [line for line in lines if line[:1] == "w"] == ["w5 w6.", "w1", "w3", "w7 w1"]
    assert len(lines) == 12 and lines[1].split()[1:] == ["1.0000", "2", "0-6", "w5", "w6."]
    assert execute(program) == output
    _, output = run(capsys, "search", pretrained, target, "w7", "--output", tmp_path / "best.jsonl")
    assert json.loads((tmp_path / "best.jsonl").read_text().splitlines()[0])["text"] == "w7"
    assert main(["search", str(pretrained), str(target)]) == 2
    assert "Give what to search for after the file of vectors" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["search", str(pretrained), str(target), "w1", "--top", "2"])
    assert "unrecognized arguments: --top 2: did you mean --top-k?" in capsys.readouterr().err


def test_inspect(capsys, pretrained):
    """A summary that ends with the verdict; every tensor, and the config, with --all."""
    program, output = run(capsys, "inspect", pretrained)
    assert execute(program) == output
    first, *_, last = output.splitlines()
    assert "keras, 21 tensors" in first
    assert "21 loaded" in output and "positions: 16" in output
    assert last.startswith("It can be loaded as bert") and len(output.splitlines()) < 20
    assert "Embedding-Token" not in output and "max_position = 16" not in output
    program, output = run(capsys, "inspect", pretrained, "--all")
    assert execute(program) == output and output.splitlines()[-1] == last
    assert "Embedding-Token/embeddings" in output and "max_position = 16" in output


@pytest.mark.parametrize("form", ["huggingface", "google", "keras"])
def test_convert(capsys, tmp_path, pretrained, form):
    target = tmp_path / ("model.keras" if form == "keras" else "out")
    program, output = run(capsys, "convert", pretrained, target, "--format", form)
    assert output == f"{target}\n"
    first, before = open_checkpoint(target), open_checkpoint(pretrained)
    total = sum(np.abs(before[name]).sum() for name in before)
    assert sum(np.abs(first[name]).sum() for name in first) == pytest.approx(total, rel=1e-5)
    if form == "keras":
        target.unlink()
    execute(program.replace(str(tmp_path / "out"), str(tmp_path / "again")))
    again = open_checkpoint(target if form == "keras" else tmp_path / "again")
    assert set(first) == set(again)
    assert all((first[name] == again[name]).all() for name in first)


def test_convert_writes_stretched_positions_as_plain_rows(capsys, tmp_path, pretrained):
    arguments = ("convert", pretrained, tmp_path, "--positions", 40, "--extension")
    program, _ = run(capsys, *arguments, "hierarchical:0.3")
    assert 'extension="hierarchical:0.3"' in program
    names = [name for name in open_checkpoint(tmp_path) if "position_embeddings" in name]
    rows = open_checkpoint(tmp_path)[names[0]]
    table = open_checkpoint(pretrained)["Embedding-Position/embeddings"].astype("float64")
    u = (table - 0.3 * table[:1]) / 0.7
    i, j = np.divmod(np.arange(40), 16)
    np.testing.assert_allclose(rows, 0.3 * u[i] + 0.7 * u[j], atol=1e-6)
    assert json.loads((tmp_path / "config.json").read_text())["max_position_embeddings"] == 40


def test_the_benchmark_is_in_the_repository(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["bench", "even_pairs", "--steps", "2"])
    words = (
        "bench is no longer a command of the package: run python -m benchmarks.extrapolation in a"
    )
    assert words in capsys.readouterr().err


def test_list(capsys):
    program, output = run(capsys, "list")
    assert execute(program) == output
    assert all(f"| `{name}`" in output for name in ENCODINGS)


def test_describe(capsys):
    program, output = run(capsys, "describe", "cope")
    assert execute(program) == output
    assert output.startswith("cope: keras_posenc.encodings.ContextualPositionEmbedding(npos_max=64")
    assert main(["describe", "alibbi"]) == 2
    assert "Unknown encoding 'alibbi': did you mean 'alibi'?" in capsys.readouterr().err


def draw(capsys, tmp_path, *arguments):
    """Runs a plot command, then the Python that it printed; returns that."""
    one, two = tmp_path / "one.svg", tmp_path / "two.png"
    program, output = run(capsys, "plot", *arguments, "--output", one)
    assert output == f"{one}\n"
    assert one.read_text("utf-8").startswith("<?xml")
    assert execute(program.replace(str(one), str(two))) == f"{two}\n"
    assert two.read_bytes().startswith(b"\x89PNG")
    return program


def test_plot_decay(capsys, tmp_path):
    shape = ("--length", 9, "--num-heads", 2, "--head-size", 4)
    program = draw(capsys, tmp_path, "decay", "none", "alibi", "window+log_n", *shape)
    assert '    "none": [],\n    "alibi": ["alibi"],\n' in program
    assert '    "window+log_n": ["window", "log_n"],\n' in program
    assert "length=9, num_heads=2, head_size=4, causal=True" in program
    program = draw(capsys, tmp_path, "decay", "window", "--bidirectional", *shape)
    assert "causal=False" in program
    assert main(["plot", "decay", "alibi", "--bidirectional", "--length", "9"]) == 2
    assert "ALiBi is for causal attention" in capsys.readouterr().err


def test_plot_entropy(capsys, tmp_path):
    shape = ("--num-heads", 1, "--head-size", 4, "--bidirectional")
    program = draw(capsys, tmp_path, "entropy", "none", "log_n", "--lengths", "8,16", *shape)
    assert "lengths=[8, 16]" in program
    with pytest.raises(SystemExit, match="2"):
        main(["plot", "entropy", "none", "--lengths", "8 16"])
    assert "such as 64,128, not '8 16'" in capsys.readouterr().err


def test_plot_similarity(capsys, tmp_path, pretrained):
    stretches = ("--stretch", "hierarchical", "--stretch", "tile")
    program = draw(capsys, tmp_path, "similarity", pretrained, *stretches, "--positions", 40)
    assert 'for stretch in ["hierarchical", "tile"]:' in program
    assert "np.arange(0, 40, 1)" in program


def test_plot_terms(capsys, tmp_path):
    program = draw(capsys, tmp_path, "terms", "--length", 9, "--head-size", 8, "--strength", "0.5")
    assert "[0.5, 0.0] * 4" in program and "size=(2, 1, 9, 1, 8)" in program


def test_plot_gates(capsys, tmp_path, pretrained):
    program = draw(capsys, tmp_path, "gates", pretrained, "--text", "w1 w2 w3 w1", "--head", 1)
    assert '{"name": "cope", "bidirectional": True}' in program and "head=1" in program


def test_a_plot_without_a_subject(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["plot"])
    assert "the following arguments are required: WHAT" in capsys.readouterr().err


def test_rerank(capsys, pretrained, tmp_path):
    Reranker(pretrained, label_names=["score"]).save(tmp_path / "model")
    (tmp_path / "texts.txt").write_text("w1 w4 w7\nw2 w5\nw3\n")
    target = tmp_path / "ranked.jsonl"
    command = ("rerank", tmp_path / "model", "w2 w5", tmp_path / "texts.txt", "--output", target)
    program, output = run(capsys, *command, "--top-k", 2)
    lines = [json.loads(line) for line in target.read_text("utf-8").splitlines()]
    assert output.splitlines()[0].split() == ["rank", "score", "id", "text"]
    assert [row.split()[2] for row in output.splitlines()[2:]] == [str(e["id"]) for e in lines]
    assert len(lines) == 2
    assert execute(program) == output


def test_what_search_found_is_reranked_with_its_ids(capsys, pretrained, tmp_path):
    """The two tables join: the same ids, places and texts."""
    Reranker(pretrained, label_names=["score"]).save(tmp_path / "model")
    rows = [{"id": f"text {n}", "text": f"w{n} w{n + 1}. w{n + 2}"} for n in range(1, 5)]
    source, found = tmp_path / "texts.jsonl", tmp_path / "found.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    vectors = tmp_path / "vectors.npz"
    run(capsys, "embed", pretrained, source, "--output", vectors, "--reading", "late:4")
    run(capsys, "search", pretrained, vectors, "w2 w3", "w1", "--top-k", 3, "--output", found)
    target = tmp_path / "ranked.jsonl"
    command = ("rerank", tmp_path / "model", "w1", found, "--output", target)
    _, output = run(capsys, *command, "--characters", "all")
    lines = [json.loads(line) for line in target.read_text("utf-8").splitlines()]
    hits = [json.loads(line) for line in found.read_text("utf-8").splitlines()]
    key = operator.itemgetter("query", "id", "start", "end", "text")
    assert sorted(map(key, lines)) == sorted(key(hit) for hit in hits if hit["query"] == "w1")
    assert [row["rank"] for row in lines] == [1, 2, 3]
    assert output.splitlines()[0].split() == ["rank", "score", "id", "chars", "text"]
    assert main(["rerank", str(tmp_path / "model"), "w9", str(found)]) == 2
    assert "must have results for QUERY: " in capsys.readouterr().err
    assert main(["search", str(pretrained), str(vectors), "w1", "--characters", "0"]) == 2
    assert "--characters must be a positive integer. Received: 0" in capsys.readouterr().err


def test_a_folder_or_a_pattern_of_documents_is_embedded(capsys, pretrained, tmp_path):
    folder = tmp_path / "manual"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.html").write_text("<h1>w1</h1><p>w2 w3</p>")
    (folder / "sub" / "b.txt").write_text("w4\nw5\n")
    for source, ids in (
        (folder, ["a.html", "sub/b.txt"]),
        (folder / "**" / "*.txt", ["sub/b.txt"]),
    ):
        target = tmp_path / "v.jsonl"
        run(capsys, "embed", pretrained, source, "--output", target, "--reading", "late:8,titles")
        lines = target.read_text("utf-8").splitlines()
        assert [json.loads(line)["id"] for line in lines] == ids
    assert main(["embed", str(pretrained), f"{folder}/*.md", "--output", str(target)]) == 2
    assert "*.md: No such file or directory" in capsys.readouterr().err


def test_a_pattern_of_files_with_a_cache(capsys, tmp_path, pretrained, corpus):
    texts = tmp_path / "texts"
    texts.mkdir()
    for part in range(2):
        (texts / f"part-{part}.tsv").write_bytes((corpus / "train.tsv").read_bytes())
    given = ("--cache", tmp_path / "cache", "--max-length", 16, "--epochs", 1, "--no-report")
    run(capsys, "finetune", pretrained, texts / "part-*.tsv", tmp_path / "out", *given)
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text("utf-8"))
    assert metrics["train"]["documents"] == 96
    none = [*map(str, ("finetune", pretrained, texts / "no-*.tsv", tmp_path / "no", *given))]
    assert main(none) == 2 and "no-*.tsv" in capsys.readouterr().err


def test_a_shard_has_the_rows_of_its_texts(capsys, finetuned, tmp_path):
    (tmp_path / "texts.tsv").write_text("text\nw1 w4\nw2 w5\nw0\n")
    (tmp_path / "ids.tsv").write_text("id\ttext\nx7\tw1 w4\nx8\tw2 w5\nx9\tw0\n")
    for name, ids in (("texts", ["2", "3"]), ("ids", ["x8", "x9"])):
        given = ("predict", finetuned, tmp_path / f"{name}.tsv", "--shard", "2/2")
        _, output = run(capsys, *given)
        assert [line.split("\t")[0] for line in output.splitlines()[1:]] == ids
        run(capsys, *given, "--output", tmp_path / f"{name}.csv")
        rows = (tmp_path / f"{name}.csv").read_text("utf-8").splitlines()[1:]
        assert [row.split(",")[name == "ids"] for row in rows] == ["w2 w5", "w0"]


@pytest.mark.parametrize("number", ["64", "none"])
def test_a_length_of_contextualize(number):
    arguments = vars(parser().parse_args(["contextualize", "a", "b", "c", "--log-n", number]))
    assert arguments["log_n"] == (None if number == "none" else 64)
