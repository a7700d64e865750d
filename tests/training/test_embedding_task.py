"""Embedders by `finetune`: losses by name, hard negatives, teachers, Matryoshka, prompts."""

import json

import numpy as np
import pytest
from task_data import paired, seeded

from keras_posenc import embed
from keras_posenc.cli import main
from keras_posenc.retrieval import embed_spans, open_embedder
from keras_posenc.text.groups import read_groups
from keras_posenc.training import Embed, evaluate, finetune, load_finetuned, predict
from keras_posenc.training.finetuning.embedding_losses import distilled, ranked
from keras_posenc.training.finetuning.tasks import TASKS

OPTIONS = {
    "task": "embed",
    "max_length": 16,
    "epochs": 1,
    "optimizer": "adamw:1e-2",
    "token_budget": 1024,
    "dropout_rate": 0.0,
    "attention_dropout_rate": 0.0,
    "verbose": 0,
}
GROUPS = seeded(paired, 0, 40)
# Two negatives per query; the teacher prefers the texts of the same words.
TUPLES = [(*group, other[2]) for group, other in zip(GROUPS, GROUPS[1:], strict=False)]
SCORES = [[9.0, 1.0, 0.5]] * len(TUPLES)
MARGINS = [[8.0, 8.5]] * len(TUPLES)


@pytest.fixture(scope="module")
def trained(pretrained, tmp_path_factory):
    """A run with prompts, Matryoshka vectors and a teacher, and its metrics."""
    output = tmp_path_factory.mktemp("trained") / "out"
    task = Embed(
        loss="margin_mse:5", matryoshka=[16, 4], query_prompt="w1 ", document_prompt="w2 w3 "
    )
    options = {"task": task, "validation": 0.25, "epochs": 6}
    return output, finetune(pretrained, (TUPLES, SCORES), output, **{**OPTIONS, **options})


def test_a_teacher_matryoshka_and_prompts_together(trained):
    output, metrics = trained
    assert metrics["labels"] == ["anchor", "positive", "negative_1", "negative_2", "scores"]
    assert metrics["validation"]["accuracy"] > 0.7
    again = evaluate(output, (TUPLES, MARGINS), verbose=0)["test"]
    assert again["accuracy"] > 0.7 and again["documents"] == len(TUPLES)
    history = (output / "history.csv").read_text().splitlines()
    names = history[0].split(",")
    losses = [float(row.split(",")[names.index("loss")]) for row in history[1:]]
    assert losses[-1] < losses[0]


@pytest.mark.once
def test_prompts_are_those_of_the_training(trained):
    output, _ = trained
    model = load_finetuned(output)
    assert model.prompts == {"query": "w1 ", "document": "w2 w3 "}
    assert model.with_prompts(("a", "b", "c")) == ("w1 a", "w2 w3 b", "w2 w3 c")
    texts = ["w4 w5 w6"]
    whole = open_embedder(output, prompt="").predict(["w2 w3 w4 w5 w6"], verbose=0)
    assert open_embedder(output).prompt == "w2 w3 "
    np.testing.assert_allclose(embed(output, texts, verbose=0), whole, atol=1e-6)
    np.testing.assert_allclose(predict(output, texts, verbose=0)[0].embedding, whole[0], atol=1e-6)
    query = embed(output, texts, prompt="query", verbose=0)
    other = open_embedder(output, prompt="").predict(["w1 w4 w5 w6"], verbose=0)
    np.testing.assert_allclose(query, other, atol=1e-6)
    assert np.abs(query - whole).max() > 1e-3


@pytest.mark.once
def test_it_is_exported_for_sentence_transformers(trained, tmp_path):
    from sentence_transformers import SentenceTransformer

    output, _ = trained
    load_finetuned(output).export(tmp_path / "st")
    published = SentenceTransformer(str(tmp_path / "st"), device="cpu")
    texts = ["w4 w5 w6", "w7 " * 30]
    for prompt in ("query", "document"):
        expected = embed(output, texts, prompt=prompt, verbose=0)
        found = published.encode(texts, prompt_name=prompt, show_progress_bar=False)
        np.testing.assert_allclose(found, expected, atol=1e-5)
        again = embed(tmp_path / "st", texts, prompt=prompt, verbose=0)
        np.testing.assert_allclose(again, expected, atol=1e-6)
    default = published.encode(texts, show_progress_bar=False)
    np.testing.assert_allclose(default, embed(output, texts, verbose=0), atol=1e-5)
    assert open_embedder(tmp_path / "st").max_length == 16


@pytest.mark.once
def test_vectors_are_cut_to_their_first_numbers(trained, tmp_path):
    output, _ = trained
    texts = ["w4 w5 w6", "w7 w8"]
    whole = embed(output, texts, verbose=0)
    expected = whole[:, :4] / np.linalg.norm(whole[:, :4], axis=1, keepdims=True)
    found = embed(output, texts, tmp_path / "cut.npy", dimension=4, verbose=0)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    cut = open_embedder(output, dimension=4)
    cut.save(tmp_path / "cut")
    np.testing.assert_allclose(
        embed(output, texts, dimension=4, reading="chunks:12", verbose=0), expected, atol=1e-6
    )
    late = embed_spans(cut, texts, [[(0, len(text))] for text in texts], verbose=0).vectors
    np.testing.assert_allclose(late, expected, atol=1e-6)
    parts = {"part_size": 1, "verbose": 0, "dimension": 4}
    np.testing.assert_allclose(
        embed(output, texts, tmp_path / "parts.npy", **parts), expected, atol=1e-6
    )
    with pytest.raises(ValueError, match="`dimension` must be an integer from 1 to 16. Rec.* 17"):
        embed(output, texts, dimension=17)


@pytest.mark.once
def test_a_vector_that_is_not_of_length_1_stays_so(minilm):
    from keras_posenc.models.sentence_embedding import embedder, with_dimension

    model = embedder(minilm, normalize=False)
    ids = np.array([[101, 2146, 102]])
    whole = model.predict([ids, 0 * ids], verbose=0)
    cut = with_dimension(model, 5).predict([ids, 0 * ids], verbose=0)
    np.testing.assert_allclose(cut, whole[:, :5], atol=1e-6)


@pytest.mark.once
def test_batches_in_parts_are_trained_alike(pretrained, tmp_path):
    options = OPTIONS | {"dropout_rate": 0.0, "attention_dropout_rate": 0.0}
    losses, recipes = [], []
    for sub_batches in (1, 3):
        out = tmp_path / str(sub_batches)
        finetune(pretrained, TUPLES, out, **options | {"task": Embed(sub_batches=sub_batches)})
        losses.append(np.genfromtxt(out / "steps.csv", delimiter=",", skip_header=1)[:, 1])
        recipes.append(json.loads((out / "recipe.json").read_text()))
    np.testing.assert_allclose(*losses, rtol=1e-4)
    assert [recipe.get("sub_batches") for recipe in recipes] == [None, 3]


@pytest.mark.once
@pytest.mark.parametrize(
    "train, loss",
    [
        (TUPLES, None),
        (([group[:2] for group in GROUPS], [0.1, 0.9] * 20), "cosent"),
    ],
)
def test_other_losses_train(pretrained, tmp_path, train, loss):
    found = finetune(pretrained, train, tmp_path / "out", **OPTIONS | {"task": Embed(loss=loss)})
    assert np.isfinite(found["train"]["steps"]) and (tmp_path / "out" / "model.keras").exists()


@pytest.mark.once
def test_margins_are_scores_up_to_a_constant():
    checked = TASKS["embed"].checked
    assert checked("", TUPLES[0], MARGINS[0]) == [0, -8, -8.5]
    assert checked("", TUPLES[0], SCORES[0]) == SCORES[0]
    assert checked("", GROUPS[0], 2) == [0, -2]
    assert checked("", GROUPS[0][:2], 0.5) == 0.5


@pytest.mark.once
def test_the_command(pretrained, tmp_path, capsys):
    rows = [
        dict(zip(("anchor", "positive", "negative_1", "negative_2"), group, strict=True))
        | {"scores": scores}
        for group, scores in zip(TUPLES, SCORES, strict=True)
    ]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    arguments = ["finetune", str(pretrained), str(tmp_path / "train.jsonl"), str(tmp_path / "out")]
    arguments += "--task embed --loss listwise_kl:5 --matryoshka 16,4 --query-prompt w1".split()
    arguments += "--epochs 1 --max-length 16 --no-report".split()
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert 'Embed(loss="listwise_kl:5", matryoshka=[16, 4], ' in captured.err + captured.out
    again = ["embed", str(tmp_path / "out"), str(tmp_path / "texts.txt"), "--dimension", "4"]
    (tmp_path / "texts.txt").write_text("w1 w2\nw3\n")
    assert main([*again, "--output", str(tmp_path / "vectors.npy"), "--prompt", "query"]) == 0
    assert np.load(tmp_path / "vectors.npy").shape == (2, 4)


@pytest.mark.once
def test_columns_of_files(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("negative_2\tanchor\tscores\tpositive\tnegative_1\nd\ta\t3|1|0.5\tb\tc\n")
    found = read_groups(path, None, None)
    assert (found.texts, found.labels) == ([("a", "b", "c", "d")], [[3.0, 1.0, 0.5]])
    path.write_text("query\tpositive\tnegative\tmargin\na\tb\tc\t2.5\n")
    assert read_groups(path, None, None).labels == [2.5]


@pytest.mark.once
@pytest.mark.parametrize(
    "train, changes, error, message",
    [
        (TUPLES, {"loss": "infonce"}, ValueError, "`loss` must be one of .*Received: 'infonce'"),
        (TUPLES, {"loss": 3}, ValueError, "`loss` must be one of .*Received: 3"),
        (TUPLES, {"loss": "cosent"}, ValueError, "loss='cosent' is for pairs with a score, and tr"),
        (TUPLES, {"loss": "margin_mse"}, ValueError, "is for groups with a teacher's scores, and"),
        (
            TUPLES,
            {"loss": "cosent:x"},
            ValueError,
            "must be a positive number. Received: 'x'; give",
        ),
        (TUPLES, {"loss": "cosent:-1"}, ValueError, "must be a positive number. Received: -1.0"),
        (TUPLES, {"loss": "cosine_regression:2"}, ValueError, "cosine_regression has no scale"),
        (TUPLES, {"matryoshka": []}, ValueError, "`matryoshka` must have one dimension or more"),
        (TUPLES, {"matryoshka": 4}, TypeError, "`matryoshka` must be a list of dimensions"),
        (TUPLES, {"matryoshka": [17]}, ValueError, "`dimensions` must be at most 16"),
        (TUPLES, {"sub_batches": 0}, ValueError, "`sub_batches` must be a positive integer"),
        (
            TUPLES,
            {"sub_batches": 2, "document_weight": 0.1},
            ValueError,
            "does not go with `document_weight`: .* Received: 2",
        ),
        (TUPLES, {"query_prompt": 3}, TypeError, "`query_prompt` must be a str. Received: 3"),
        (
            (TUPLES, [[1, 2]] * 38 + [[1]]),
            {},
            ValueError,
            r"has the scores \[1\]: give a number fo",
        ),
        (
            (TUPLES, [["x", 2]] * 39),
            {},
            ValueError,
            r"has the scores \['x', 2\]: give a number for",
        ),
        (
            (TUPLES, [[np.inf, 2]] * 39),
            {},
            ValueError,
            "for each of the 3 documents of a query, or",
        ),
        (([TUPLES[0][:2]] * 9, [[1, 2]] * 9), {}, ValueError, "a cosine is from -1 to 1, and of a"),
    ],
)
def test_refusals(pretrained, tmp_path, train, changes, error, message):
    with pytest.raises(error, match=message):
        finetune(pretrained, train, tmp_path / "out", **OPTIONS | {"task": Embed(**changes)})


@pytest.mark.once
def test_damaged_prompts_are_refused(trained, tmp_path):
    import shutil

    shutil.copytree(trained[0], tmp_path / "out")
    path = tmp_path / "out" / "labels.json"
    settings = json.loads(path.read_text())
    for prompts in ({"query": "a"}, {"query": "a", "document": 3}, "a"):
        path.write_text(json.dumps({**settings, "prompts": prompts}))
        with pytest.raises(ValueError, match="labels.json is damaged .*prompts"):
            load_finetuned(tmp_path / "out")


def test_ties_count_by_their_expectation_and_other_positives_of_an_anchor_are_no_rivals():
    """Vectors that are all the same find by chance, and no better."""
    vectors, lengths = np.full((4, 2), 0.5**0.5), np.array([5, 5])
    found = ranked(vectors, np.array([[0, 1], [2, 3]]), lengths)
    assert (found["accuracy"], found["mean_reciprocal_rank"]) == (0.5, 0.75)
    found = ranked(vectors, np.array([[0, 1], [0, 2]]), lengths)
    assert (found["accuracy"], found["mean_reciprocal_rank"]) == (1, 1)


@pytest.mark.once
@pytest.mark.parametrize("seed", range(5))
def test_ranks_are_means_over_all_orders_of_what_is_level(seed):
    """Against sorting with another order of ties each time."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(-1, 2, (9, 3)).astype("float32")
    vectors = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    groups = np.array([[0, 4, 5], [1, 6, 7], [2, 8, 4], [0, 6, 8]])
    belongs = {anchor: {p for a, p, _ in groups.tolist() if a == anchor} for anchor in range(3)}
    ranks = []
    for anchor, positive, _ in groups.tolist():
        others = set(groups[:, 1:].ravel().tolist()) - belongs[anchor] - {anchor}
        scores = {n: round(float(vectors[anchor] @ vectors[n]), 5) for n in (*others, positive)}
        orders = (rng.permutation(list(scores)).tolist() for _ in range(4000))
        ordered = (sorted(order, key=lambda n: -scores[n]) for order in orders)
        ranks.append([order.index(positive) + 1 for order in ordered])
    found = ranked(vectors, groups, np.full(4, 5))
    ranks = np.array(ranks)
    assert found["accuracy"] == pytest.approx((ranks == 1).mean(), abs=0.015)
    assert found["mean_reciprocal_rank"] == pytest.approx((1 / ranks).mean(), abs=0.015)


@pytest.mark.once
def test_a_teacher_and_a_student_prefer_one_text_where_copies_are_level():
    """Numbers are those of texts: 1 and 1 are copies. A tie of two others counts one half."""
    vectors = np.array([[1, 0], [0.8, 0.6], [0.8, -0.6], [0, 1]])
    groups = np.array([[0, 1, 1, 3], [0, 1, 2, 3], [0, 3, 1, 2]])
    teacher = np.array([[1.0, 3, 2], [3, 1, 2], [9, 1, 2]])
    found = distilled(vectors, groups, teacher, np.full(3, 5))
    assert found["accuracy"] == pytest.approx((1 + 0.5 + 0) / 3)


@pytest.mark.once
def test_copies_are_one_text_in_training_and_where_it_is_measured(pretrained, tmp_path):
    """Which the tokenizer makes equal: passages, queries and the texts that are ranked."""
    queries = ["w1 w2", "w3 w4", "w5 w6", "w7 w8"]
    passages = ["w20 w21", " w20  w21", "w30 w31", "w30\tw31 "]
    rows = list(zip(queries, passages, strict=True))
    metrics = finetune(
        pretrained, rows, tmp_path / "out", task="embed", validation=rows, max_length=12,
        epochs=30, optimizer="adamw:5e-3", dropout_rate=0.0, attention_dropout_rate=0.0, verbose=0,
    )  # fmt: skip
    history = (tmp_path / "out/history.csv").read_text().splitlines()
    last = dict(zip(history[0].split(","), map(float, history[-1].split(",")), strict=True))
    assert metrics["validation"]["accuracy"] == last["accuracy"] == 1
    assert last["loss"] < 0.1  # log 2 is the least where each copy is a negative
