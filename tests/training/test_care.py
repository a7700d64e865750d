"""What a user must not lose or be misled by: old runs, rare labels, padding, pairs, formats."""

import json
import shutil

import keras
import numpy as np
import pytest
from task_data import seeded, tagged
from tiny_tokenizers import write_merges

from keras_posenc.checkpoints import save_checkpoint
from keras_posenc.cli import main
from keras_posenc.models.factory import build_transformer_model
from keras_posenc.retrieval import embed, open_embedder
from keras_posenc.text import Texts
from keras_posenc.text.files import read_long_texts, read_texts
from keras_posenc.text.label_columns import names_in, numbers_in
from keras_posenc.training import (
    Classify,
    Embed,
    MultiLabel,
    Regress,
    evaluate,
    finetune,
    load_finetuned,
    predict,
    stretch,
)
from keras_posenc.training.finetuning.labelled_documents import split
from keras_posenc.training.training_state import load_state, save_state

PAIRS = [("w1 w2 w3", "w1 w2"), ("w4 w5 w6", "w4 w5"), ("w7 w8 w9", "w7 w8")] * 4
QUICK = {"epochs": 1, "max_length": 12, "verbose": 0}


@pytest.mark.once
def test_a_mistake_costs_no_finished_run(pretrained, corpus, tmp_path):
    finetune(pretrained, corpus / "train.tsv", tmp_path, **QUICK)
    kept = (tmp_path / "metrics.json").read_bytes(), (tmp_path / "recipe.json").read_bytes()
    with pytest.raises(FileNotFoundError):
        finetune(tmp_path / "mistyped", corpus / "train.tsv", tmp_path, overwrite=True, **QUICK)
    assert kept == (
        (tmp_path / "metrics.json").read_bytes(),
        (tmp_path / "recipe.json").read_bytes(),
    )
    long = [" ".join(f"w{i % 35}" for i in range(200))] * 4
    options = {"max_length": 24, "steps": 0, "verbose": False}
    stretch(pretrained, long, tmp_path / "long", **options)
    before = (tmp_path / "long" / "recipe.json").read_bytes()
    with pytest.raises(ValueError, match="max_position=4000 is out of reach"):
        stretch(
            pretrained, long, tmp_path / "long", overwrite=True, **options | {"max_length": 4000}
        )
    assert before == (tmp_path / "long" / "recipe.json").read_bytes()
    assert (tmp_path / "long" / "metrics.json").exists()


@pytest.mark.once
@pytest.mark.parametrize("role", ["validation", "test"])
def test_documents_to_evaluate_are_read_before_any_training(pretrained, tmp_path, role):
    asked = ([("w1", "w2 w3"), ("w1", "w2 w4")], [[(0, 2)], [(3, 5)]])
    long = ([("w1", "w2 w3"), ("w1 " * 60, "w2 w4")], asked[1])
    with pytest.raises(ValueError, match=f"{role}: Text 1: .*raise max_length or lower stride"):
        finetune(pretrained, asked, tmp_path, task="qa", **{role: long}, **QUICK)
    plain = (["w1 w2", "w3 w4"], ["a", "b"])
    for texts in (["w1", ("w2", "w3")], [[1, 2], [1, 999]]):
        with pytest.raises((TypeError, ValueError), match=f"{role}: Text"):
            finetune(pretrained, plain, tmp_path, **{role: (texts, plain[1])}, **QUICK)
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


@pytest.mark.once
def test_an_output_without_a_name_is_refused(pretrained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="`output` must be the path of a directory. Received: ''"):
        finetune(pretrained, (["w1 w2", "w3 w4"], ["a", "b"]), "", **QUICK)
    assert not list(tmp_path.iterdir())


@pytest.mark.once
def test_an_interrupted_run_that_overwrites_says_how_to_go_on(monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("keras_posenc.cli._run", interrupted)
    assert main(["finetune", "bert", "train.tsv", "out", "--overwrite"]) == 130
    assert "the same command without --overwrite goes on after" in capsys.readouterr().err


@pytest.mark.once
def test_documents_with_the_only_one_of_a_name_are_not_held_out():
    labels = [["a"]] * 20 + [["a", f"rare{i}"] for i in range(20)]
    documents = Texts([f"t{i}" for i in range(40)], labels, list(range(40)))
    rest, test = split(documents, 0.25, 0, names_in=lambda label: label)
    assert {name for each in test.labels for name in each} <= {"a"} and len(test) > 0
    assert sorted(rest.texts + test.texts) == sorted(documents.texts)
    with pytest.raises(ValueError, match="holds out none of 2 documents"):
        split(Texts(["x", "y"], [["p"], ["q"]], [1, 2]), 0.5, 0, names_in=lambda label: label)


@pytest.mark.parametrize(
    "task", [pytest.param(task, marks=pytest.mark.once) for task in ("multilabel", "tag")]
)
def test_a_share_is_held_out_where_labels_are_rare(pretrained, tmp_path, task):
    texts, labels = seeded(tagged, 0, 24)
    labels = [[f"B-{n}", *each[1:]] if n % 4 == 0 else each for n, each in enumerate(labels)]
    if task == "multilabel":
        texts = [" ".join(words) for words in texts]
        labels = [sorted(set(each)) for each in labels]
    metrics = finetune(
        pretrained, (texts, labels), tmp_path, task=task, validation=0.5, seed=1, **QUICK
    )
    assert metrics["validation"]["documents"] > 0 and "B-20" in metrics["labels"]


def causal(folder, **changes):
    """A tiny GPT-2 whose config names no id to pad with, as those on Hugging Face."""
    write_merges(folder, ["<|endoftext|>"])
    config = {"model_type": "gpt2", "vocab_size": 420, "n_embd": 16, "n_layer": 1, "n_head": 2}
    config |= {"n_positions": 64, "resid_pdrop": 0.0, "attn_pdrop": 0.0, "embd_pdrop": 0.0}
    (folder / "config.json").write_text(json.dumps(config | changes))
    save_checkpoint(build_transformer_model(folder / "config.json"), folder)
    return folder


@pytest.mark.once
def test_a_head_without_a_bias_is_not_trained_alone(tmp_path):
    documents, task = (["a quick fox", "jump"] * 2, list("abab")), Classify(pooling="head")
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2}
    folder = causal(tmp_path, model_type="qwen2", num_hidden_layers=1, **sizes)
    with pytest.raises(ValueError, match='no bias, which freeze="encoder" needs: give another'):
        finetune(folder, documents, tmp_path / "a", task=task, freeze="encoder")


@pytest.mark.once
@pytest.mark.parametrize("pooling", ["mean", "last"])
def test_other_texts_of_a_batch_do_not_change_a_result(tmp_path, pooling):
    long = "the lazy dogs don't jump over the lazy dogs again and again"
    texts = ["a quick fox", long, "jump", "so they say isn't it"] * 2
    options = {"epochs": 1, "max_length": 40, "optimizer": "adamw:1e-2", "verbose": 0}
    output = tmp_path / "out"
    finetune(
        causal(tmp_path),
        (texts, list("abab") * 2),
        output,
        task=Classify(pooling=pooling),
        **options,
    )
    batched, other = predict(output, ["jump", long], verbose=0)
    (alone,) = predict(output, ["jump"], verbose=0)
    assert batched.probabilities == pytest.approx(alone.probabilities, abs=1e-5)
    assert batched.probabilities != pytest.approx(other.probabilities, abs=1e-3)


@pytest.mark.once
def test_pairs_that_are_alone_in_their_batches_are_refused(pretrained, tmp_path):
    with pytest.raises(ValueError, match="The 12 pairs of train make 12 batches, .*token_budget"):
        finetune(pretrained, PAIRS, tmp_path, task="embed", token_budget=16, **QUICK)


@pytest.mark.once
def test_groups_are_left_to_later_stages_by_their_longest_text(pretrained, tmp_path, caplog):
    far = [("w1 " * 30, "w2 w3")] * 2
    options = {"task": "embed", "longer": "skip", "lengths": [(8, 1), (12, 1)], "verbose": 0}
    metrics = finetune(pretrained, PAIRS + far, tmp_path, token_budget=512, **options)
    assert metrics["train"]["documents"] == len(PAIRS)
    assert "2 of 14 texts to train on are longer than the longest stage, 12 tokens" in caplog.text
    assert "cut off" not in caplog.text


@pytest.mark.once
def test_embed_reads_a_finetuned_model_as_it_was_trained(pretrained, tmp_path):
    output = tmp_path / "vectors"
    finetune(pretrained, PAIRS, output, task=Embed(pooling="cls"), **QUICK)
    texts = ["w1 w2 w3", "w4 w5 w6 w7"]
    expected = [each.embedding for each in predict(output, texts, verbose=0)]
    np.testing.assert_allclose(embed(output, texts, verbose=0), expected, atol=1e-6)
    embed(output, texts, tmp_path / "new" / "folder" / "x.npy", verbose=0)
    np.testing.assert_allclose(np.load(tmp_path / "new" / "folder" / "x.npy"), expected, atol=1e-6)
    for how in ({"reading": "chunks:8"}, {"prompt": "w3 "}):
        with pytest.raises(ValueError, match="Text 1 is empty; leave it out"):
            embed(output, ["w1", " "], verbose=0, **how)
    with pytest.raises(ValueError, match="fine-tuned at its length: leave extension out"):
        embed(output, texts, extension="tile")


@pytest.mark.once
def test_transformers_knows_numbers_and_several_labels_from_classes(pretrained, tmp_path):
    transformers = pytest.importorskip("transformers")
    texts = ["w1 w2", "w3 w4 w5", "w6", "w1 w7"] * 3
    several, numbers = [["a", "b"], ["b"], [], ["c"]] * 3, [1.0, 2.5, 3.0, 0.5] * 3
    for task, labels in ((MultiLabel, several), (Regress, numbers)):
        output, exported = tmp_path / task.name, tmp_path / f"{task.name}-theirs"
        finetune(pretrained, (texts, labels), output, task=task(pooling="head"), **QUICK)
        load_finetuned(output).export(exported)
        run = transformers.pipeline("text-classification", str(exported), device="cpu")
        (prediction,) = predict(output, ["w3 w4 w5"], verbose=0)
        scores = [
            row["score"] for row in sorted(run("w3 w4 w5", top_k=None), key=lambda r: r["label"])
        ]
        each = prediction.values if task is Regress else list(prediction.probabilities.values())
        assert scores == pytest.approx(each, abs=1e-5)


def test_a_state_in_bfloat16_is_gone_on_with(tmp_path):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, dtype="bfloat16")])
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    before = [
        np.asarray(keras.ops.convert_to_numpy(keras.ops.cast(v, "float32"))) for v in model.weights
    ]
    save_state(tmp_path / "state.zip", model, {})
    model.set_weights([np.zeros_like(array) for array in before])
    load_state(tmp_path / "state.zip", model)
    after = [
        np.asarray(keras.ops.convert_to_numpy(keras.ops.cast(v, "float32"))) for v in model.weights
    ]
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)
    assert {v.dtype for v in model.weights} == {"bfloat16"}


@pytest.mark.once
def test_a_run_does_not_go_on_under_another_policy(pretrained, corpus, tmp_path):
    finetune(pretrained, corpus / "train.tsv", tmp_path, **QUICK)
    try:
        keras.config.set_dtype_policy("mixed_bfloat16")
        with pytest.raises(ValueError, match="dtype_policy was 'float32' and is now 'mixed_bfl"):
            finetune(pretrained, corpus / "train.tsv", tmp_path, **QUICK)
    finally:
        keras.config.set_dtype_policy("float32")


@pytest.mark.once
def test_long_texts_have_columns_and_paragraphs(pretrained, tmp_path):
    long = " ".join(f"w{i % 35}" for i in range(150))
    (tmp_path / "long.txt").write_text(f"{long}\n\n{long}\n", "utf-8")
    rows = [f"w{n} w3\t{'ab'[n % 2]}" for n in range(12)]
    (tmp_path / "train.tsv").write_text("review\tlabel\n" + "\n".join(rows) + "\n", "utf-8")
    assert read_long_texts(tmp_path / "long.txt").lines == [1, 3]
    with pytest.raises(ValueError, match="line 2: the text is empty"):
        read_texts(tmp_path / "long.txt")
    metrics = finetune(
        pretrained,
        tmp_path / "train.tsv",
        tmp_path / "out",
        text="review",
        stretch_first=tmp_path / "long.txt",
        lengths=[(24, 1)],
        verbose=0,
    )
    assert metrics["stretched"]["length"] == 24


@pytest.mark.once
@pytest.mark.parametrize("given", [{"max_length": 2305}, {"chunks": 2305}])
def test_positions_that_a_model_lacks_are_named_before_it_reads(finetuned, given):
    (name,) = given
    with pytest.raises(ValueError, match=f"{name}=2305: the model has 256 positions. Give at mo"):
        predict(finetuned, ["w1"], **given)


@pytest.mark.once
@pytest.mark.parametrize("given", [{"train_length": 16}, {"train_length": 25}, {"steps": 1.5}])
def test_lengths_and_steps_of_a_stretching_that_are_none(pretrained, given):
    options = {"max_length": 24, "steps": 1, "verbose": False, **given}
    match = "give a length above the 16 positions|`steps` must be"
    with pytest.raises(ValueError, match=match):
        stretch(pretrained, ["w1 " * 300], **options)


@pytest.mark.once
def test_cells_that_json_writes_are_lists():
    assert names_in("here", '["a", "b"]') == ["a", "b"]
    assert names_in("here", "[x] | b") == ["[x]", "b"]
    assert numbers_in("here", "[1, 2.5]") == [1.0, 2.5]
    with pytest.raises(ValueError, match="here should be a list of names"):
        names_in("here", "[1, 2]")
    for huge in (10**400, f"[{10**400}]"):  # no float is as large
        with pytest.raises(ValueError, match="here should be a number, not "):
            numbers_in("here", huge)
    for task, text in ((Regress(), "a"), (Embed(), ("a", "b"))):
        with pytest.raises(ValueError, match="The text here has the (label|score) 1000"):
            task.checked("here", text, 10**400)


@pytest.mark.once
def test_spans_end_where_their_words_do(pretrained, tmp_path):
    texts = ["w1 w2 w3", "w4 w2 w5"] * 4
    spaced, exact = [[(3, 6, "X")]] * 8, [[(3, 5, "X")]] * 8
    finetune(
        pretrained,
        (texts, spaced),
        tmp_path,
        task="tag",
        **QUICK | {"epochs": 20},
        optimizer="adamw:2e-2",
    )
    scores = [
        evaluate(tmp_path, (texts, each), verbose=0)["test"]["f1"] for each in (spaced, exact)
    ]
    assert scores == [1.0, 1.0]


@pytest.mark.once
@pytest.mark.parametrize(
    ("task", "documents", "match"),
    [
        ("multilabel", (["w1", "w2"], [1, 0]), "on line 1 of train has the labels 1: give a list"),
        ("tag", ([["w1"], ["w2"]], [1, 0]), "on line 1 of train has the tags 1: give a list"),
        ("classify", (["w1", "w2"], ["a", float("nan")]), "line 2: the text has no label, but nan"),
        ("classify", (["w1", "w2"], np.eye(2)), "label on line 1 of train must be one name or"),
        (
            "classify",
            (["w1", "w2"], ["a", b"b"]),
            "label on line 2 of train must be a str, and is b",
        ),
    ],
)
def test_labels_of_another_kind_are_named(pretrained, tmp_path, task, documents, match):
    with pytest.raises(ValueError, match=match):
        finetune(pretrained, documents, tmp_path, task=task, **QUICK)


@pytest.mark.once
@pytest.mark.parametrize("task", ["qa", "embed"])
def test_one_column_where_several_are_read(pretrained, corpus, tmp_path, task):
    with pytest.raises(ValueError, match=r"columns.*, text=\(.* Received: text='text'"):
        finetune(pretrained, corpus / "train.tsv", tmp_path, task=task, text="text", **QUICK)


@pytest.mark.once
def test_numbers_of_the_shell_that_are_none(capsys, pretrained, corpus, tmp_path):
    command = ["finetune", str(pretrained), str(corpus / "train.tsv"), str(tmp_path / "out")]
    assert main([*command, "--clip", "inf"]) == 2
    assert "--clip must be a positive number. Received: inf" in capsys.readouterr().err
    assert main([*command, "--learning-rate", "nan"]) == 2
    assert "--learning-rate must be a positive number. Received: nan" in capsys.readouterr().err
    small = ["--max-length", "12", "--epochs", "1", "--no-report"]
    assert main([*command, "--clip", "none", *small]) == 0
    assert json.loads((tmp_path / "out" / "recipe.json").read_text())["clip"] is None
    with pytest.raises(SystemExit):
        main([*command, "--clip", "much"])
    assert "give a number, or none, not 'much'" in capsys.readouterr().err
    found = tmp_path / "new" / "metrics.json"
    data = [str(tmp_path / "out"), str(corpus / "test.tsv")]
    assert main(["evaluate", *data, "--output", str(found)]) == 0
    assert json.loads(found.read_text())["labels"] == ["a", "b", "c"]


@pytest.mark.once
def test_an_embedder_stays_one_when_it_is_stretched(minilm, pretrained, tmp_path, capsys):
    source, output = tmp_path / "bert", tmp_path / "long"
    shutil.copytree(pretrained, source)
    shutil.copy(minilm / "modules.json", source)
    (source / "1_Pooling").mkdir()
    (source / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    (source / "sentence_bert_config.json").write_text('{"max_seq_length": 16}')
    prompts = {"prompts": {"query": "w3 "}, "default_prompt_name": "query"}
    (source / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    texts, long = ["w1 w2 w3", "w5 w6"], [" ".join(f"w{i % 35}" for i in range(200))] * 4
    for _ in range(2):
        stretch(source, long, output, max_length=24, steps=0, verbose=False, overwrite=True)
    before, after = (embed(folder, texts, verbose=0) for folder in (source, output))
    np.testing.assert_allclose(after, before, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(after, axis=1), 1, atol=1e-5)
    assert open_embedder(output).max_length == 24
    (source / "1_Pooling" / "config.json").write_text('{"pooling_mode": "unknown"}')
    (source / "modules.json").write_text("[]")
    stretch(source, long, output, max_length=24, steps=0, overwrite=True)
    assert "The encoder alone is stretched, without what modules.json" in capsys.readouterr().out
