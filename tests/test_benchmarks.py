"""The benchmark of the peers measures, merges row by row, and judges by the rows it has."""

import argparse
import json
import re
import sys
import types

import numpy as np
import pytest
from benchmark_modules import imported
from forks import run_fork
from packaging.requirements import Requirement

pytestmark = pytest.mark.once

attention, compare, peers, rows, targets = imported(
    "benchmarks.steps", "attention compare peers rows targets"
)
generate, nearest = imported("benchmarks.jobs", "generate nearest")
gpu, gpu_layer, aot_kernels, aot_traced = imported(
    "benchmarks.accelerators", "gpu gpu_layer aot_kernels aot_traced"
)
back_to_level, recovery, stretch, stretch_base, stretched_mlm = imported(
    "benchmarks.stretching", "back_to_level recovery stretch stretch_base stretched_mlm"
)
context_tools, corpora, encodings_2026, gates, lookup, rotary_collapse = imported(
    "benchmarks.encodings", "context_tools corpora encodings_2026 gates lookup rotary_collapse"
)


def run_main(module, monkeypatch, *options):
    monkeypatch.setattr(sys, "argv", [module.__name__, *map(str, options)])
    module.main()


def test_the_gpu_benchmark_says_where_it_ran_and_by_which_kernel(gpu, monkeypatch, tmp_path):
    def started(command, env, stderr, **_):
        once = f"import {command[2]} as gpu; gpu.STEPS = ((1, 1),) * 2; gpu.main()"
        run = run_fork("code", once, command[3:], env=env)
        stderr.write(run.stderr)
        return types.SimpleNamespace(
            stdout=run.stdout.splitlines(True), wait=lambda: run.returncode, kill=lambda: None
        )

    monkeypatch.setattr(gpu, "subprocess", types.SimpleNamespace(Popen=started, PIPE=None))
    results = tmp_path / "gpu.json"
    cases = ["forward modernbert-base 1x16 0", "train minilm 1x16 0.1", "decode llama 1x2 0"]
    options = ["--anywhere", "--layers", "1", "--rows", "posenc-torch", "--results", results]
    run_main(gpu, monkeypatch, *options, "--cases", *cases)
    lines = json.loads(results.read_text())["rows"]
    assert [line["case"] for line in lines] == cases
    assert all(line["device"] == "cpu" and line["seconds"] > 0 for line in lines)
    assert any("flash_attention" in name for name in lines[0]["fused_kernels"])


def test_without_a_gpu_the_gpu_benchmarks_say_so(gpu, gpu_layer):
    arguments = argparse.Namespace(one="posenc-torch", anywhere=False, layers=1)
    with pytest.raises(SystemExit, match="No GPU here for torch: .* posenc-torch out of --rows"):
        gpu.measured(arguments, "forward minilm 1x16 0")
    with pytest.raises(SystemExit, match="No GPU here for torch: install its CUDA build"):
        gpu_layer.device_of("torch")
    with pytest.raises(SystemExit, match="KERAS_BACKEND must be jax or torch .* tensorflow"):
        gpu_layer.device_of("tensorflow")


def test_a_case_of_the_gpu_benchmark_without_a_number_says_why(gpu):
    found = {"case": "train bert-base 8x2048 0.1", "seconds": 0.25, "peak_mb": 1200}
    lines = [
        {"row": "posenc-torch", **found, "fused_kernels": []},
        {"row": "transformers", "case": found["case"], "failed": "CUDA out of memory."},
        {"row": "posenc-jax", "case": found["case"], "failed": "no time was left"},
    ]
    row = gpu.table(lines).splitlines()[-1]
    assert (
        row == "| train bert-base 8x2048 0.1 | 250.0 ms, 1,200 MB | out of memory | not measured |"
    )


def test_the_error_of_a_layer_is_that_of_its_dtype(gpu_layer):
    assert 0 < gpu_layer.error_of("causal padded", "float32", 96) < 1e-5
    assert 1e-4 < gpu_layer.error_of("causal padded", "bfloat16", 96) < 0.1


def test_products_and_selections_are_counted_as_often_as_loops_run(aot_traced):
    jax = pytest.importorskip("jax")
    x = jax.ShapeDtypeStruct((4, 4), "float32")

    def program(x):
        x, _ = jax.lax.scan(lambda x, _: (jax.numpy.where(x > 0, x @ x, x), None), x, length=5)
        x = jax.lax.cond(x[0, 0] > 0, lambda x: x @ x @ x, lambda x: x, x)
        return jax.numpy.broadcast_to(x @ x, (7, 4, 4)).sum()

    jaxpr = jax.make_jaxpr(program)(x).jaxpr
    assert aot_traced.product_flops(jaxpr) == (5 + 2 + 1) * 2 * 4**3
    assert aot_traced.selections(jaxpr) == 5 * 4**2
    assert aot_traced.largest_array(jaxpr) == 4 * 7 * 4 * 4


def line(row, mode, batch, length, seconds, peak_mb, others=0.0):
    place = {"row": row, "mode": mode, "model": "minilm", "batch": batch, "length": length}
    return {**place, "seconds": seconds, "peak_mb": peak_mb, "others": others}


def test_the_small_edition_adds_to_the_results_and_writes_the_page(peers, monkeypatch, tmp_path):
    results = tmp_path / "peers.json"
    kept = line("kerashub-jax", "forward", 2, 32, 0.5, 900, others=0.3)
    replaced = line("posenc-torch", "forward", 2, 32, 99.0, 1)
    results.write_text(json.dumps({"rows": [kept, replaced]}))
    options = ["--small", "--rows", "posenc-torch", "matmul-numpy", "--shapes", "2x32"]
    options += ["--modes", "limit", "forward", "--results", results]
    run_main(peers, monkeypatch, *options)
    rows = {r["row"]: r for r in json.loads(results.read_text())["rows"]}
    assert set(rows) == {"kerashub-jax", "posenc-torch", "matmul-numpy"}
    assert rows["kerashub-jax"] == kept
    assert rows["matmul-numpy"]["gflops"] > 1
    mine = rows["posenc-torch"]
    assert 0 < mine["seconds"] < 60 and mine["peak_mb"] > 100 and mine["turns"] == 1
    page = results.with_suffix(".md").read_text()
    assert "| kerashub-jax | 0.500* " in page and "2 x 32" in page
    assert results.with_suffix(".png").stat().st_size > 10_000


def test_a_target_is_judged_by_the_ratio_of_its_rows(targets):
    lines = [
        line("posenc-jax", "forward", 4, 512, 0.25, 900),
        line("posenc-tf", "forward", 4, 512, 0.15, 900),
        line("onnxruntime", "forward", 4, 512, 0.20, 900),
        line("posenc-jax", "forward", 9, 512, 0.01, 900),  # another batch
    ]
    text = targets.section(lines)
    assert "| forward as fast as onnxruntime, JAX | 512 | 1.00x | 0.80x | missed |" in text
    assert "| forward as fast as onnxruntime, TF | 512 | 1.00x | 1.33x | met |" in text
    assert "KerasHub" not in text
    assert targets.section(lines[2:]) == ""


@pytest.mark.parametrize(("last", "verdict"), [(4000, "met"), (16000, "missed")])
def test_memory_is_linear_or_not(targets, last, verdict):
    peaks = [(2048, 1000), (4096, 2000), (8192, last)]
    text = targets.section([line("posenc-jax", "train", 1, t, 1.0, mb) for t, mb in peaks])
    assert text.endswith(f" {verdict} |")


def test_recovery_is_measured_once_for_each_way_and_seed(recovery, monkeypatch, tmp_path, capsys):
    path = tmp_path / "recovery.json"
    ways = ["hierarchical, alpha 0.4", "fresh", "unstretched"]
    options = ["--tiny", "--models", "small", "--seeds", 0, "--results", path, "--folder", tmp_path]
    run_main(recovery, monkeypatch, *options, "--ways", *ways)
    rows = json.loads(path.read_text())
    assert [(r["model"], r["way"], r["seed"]) for r in rows] == [("small", w, 0) for w in ways]
    assert all(list(row["accuracy"]) == ["0", "2"] for row in rows)
    assert all(len(row["by_block"]["0"]) == 3 for row in rows)
    rows[0]["accuracy"]["0"] = 0.5
    path.write_text(json.dumps(rows))
    run_main(recovery, monkeypatch, *options, "--ways", *ways[:1])
    assert json.loads(path.read_text()) == rows
    assert f"| {ways[0]} | 50.0 (50.0 to 50.0) |" in capsys.readouterr().out


def test_recovery_counts_steps_to_four_fifths(recovery):
    row = {"accuracy": {"0": 0.3, "5": 0.439, "10": 0.441, "20": 0.41}}
    assert recovery.recovered(row, 0.55) == "10"
    assert recovery.recovered(row, 0.56) is None


def test_both_ways_back_start_at_the_same_level(back_to_level, monkeypatch, tmp_path, capsys):
    path = tmp_path / "back.json"
    options = ["--tiny", "--seeds", 0, "--marks", 0, 1, "--results", path, "--folder", tmp_path]
    monkeypatch.setattr(back_to_level, "AIM", 9.0)
    run_main(back_to_level, monkeypatch, *options)
    one, other = json.loads(path.read_text())
    assert [one["way"], other["way"]] == list(back_to_level.WAYS)
    assert one["level"] == other["level"] and one["accuracy"]["0"] == other["accuracy"]["0"]
    assert list(one["accuracy"]) == ["0", "1"] and len(other["by_block"]["1"]) == 3
    monkeypatch.undo()
    capsys.readouterr()
    rows = [
        {**one, "level": 0.5, "accuracy": {"0": 0.3, "1": accuracy}, "seconds": {"1": 7}}
        for accuracy in (0.474, 0.476)
    ]
    assert [back_to_level.back(row) for row in rows] == [None, "1"]
    assert "| not in 1, 1 | 7, 7 |" in back_to_level.table(rows)


def test_a_teacher_tells_each_token_where_it_is_most_central(back_to_level):
    class Teacher:
        """Its features: the first token of the window, and the token itself."""

        def predict_on_batch(self, inputs):
            ids = inputs["token_ids"]
            return np.stack([np.broadcast_to(ids[:, :1], ids.shape), ids], axis=-1)

    ids = np.arange(12)[None] + np.array([[0], [100]])
    found = back_to_level.teacher_features(Teacher(), ids, 4)
    np.testing.assert_array_equal(found[..., 1], ids)
    # Windows begin at 0, 2, ..., 8; of two as central the first is read.
    starts = [0, 0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 8]
    np.testing.assert_array_equal(found[0, :, 0], starts)
    np.testing.assert_array_equal(found[1, :, 0], 100 + np.array(starts))


def test_context_tools_read_the_same_weights(context_tools, monkeypatch, tmp_path):
    path = tmp_path / "tools.json"
    monkeypatch.setattr(context_tools, "LENGTHS", (64, 128))
    options = ["--seeds", 0, "--steps", 1, "--test-rows", 1, "--results", path]
    tools = ["rotary as it is", "linear", "window"]
    run_main(context_tools, monkeypatch, *options, "--folder", tmp_path, "--tools", *tools)
    found = {row["tool"]: row for row in json.loads(path.read_text())}
    assert list(found) == tools
    # Nothing changes at the length of the training, and everything beyond it.
    assert len({round(row["loss"]["64"], 3) for row in found.values()}) == 1
    far = {(row["far_loss"]["128"], row["far_accuracy"]["128"]) for row in found.values()}
    assert len(far) == len(tools)


def test_encodings_of_2026_share_a_rotary_model(encodings_2026, monkeypatch, tmp_path):
    path = tmp_path / "encodings.json"
    monkeypatch.setattr(encodings_2026, "LENGTHS", (64, 128))
    options = ["--seeds", 0, "--steps", 1, "--test-rows", 1, "--results", path]
    ways = ["rotary as it is", "dual chunk"]
    run_main(encodings_2026, monkeypatch, *options, "--folder", tmp_path, "--ways", *ways)
    rotary, chunks = json.loads(path.read_text())
    # One model reads in chunks too, which change nothing at the length of the training.
    assert rotary["loss"]["64"] == pytest.approx(chunks["loss"]["64"], abs=1e-3)
    assert rotary["far_loss"] != chunks["far_loss"]
    assert [file.name for file in tmp_path.glob("*.h5")] == ["rotary-1-0.weights.h5"]


def test_the_terms_of_trained_layers_are_a_row_for_each_way(rotary_collapse, monkeypatch, tmp_path):
    path = tmp_path / "collapse.json"
    monkeypatch.setattr(rotary_collapse, "LENGTHS", (64, 128))
    options = ["--seeds", 0, "--steps", 1, "--layers", 1, "--test-rows", 1, "--results", path]
    ways = ["no bias", "biases from Sandwich's", "gated units, biases", "no bias, dropout"]
    run_main(rotary_collapse, monkeypatch, *options, "--folder", tmp_path, "--ways", *ways)
    plain, biased, gated, dropped = json.loads(path.read_text())
    assert [plain["way"], biased["way"], gated["way"], dropped["way"]] == ways
    assert dropped["loss"] != plain["loss"]
    assert len(gated["inside"]) == 2 and np.shape(gated["inside"][0]["terms"]["sum"]) == (1, 8)
    terms = biased["inside"][0]["terms"]
    # 128 distances: 0, 1, 2 to 3, ..., 64 to 127; those of both heads add up.
    assert np.shape(terms["sum"]) == (2, 8)
    parts = np.sum([terms[name] for name in rotary_collapse.TERMS], axis=0)
    np.testing.assert_allclose(parts, terms["sum"], atol=5e-4)
    # One step from Sandwich's bias: sixteen waves, divided by the root of the head's size.
    np.testing.assert_allclose(np.array(terms["ab"])[:, 0], 16 / 32**0.5, atol=0.1)
    assert not np.any(plain["inside"][0]["terms"]["ab"])
    assert 0 < plain["inside"][0]["far_attention"] < 1
    assert path.with_suffix(".svg").exists()


def test_the_query_of_a_lookup_is_one_of_the_symbols(lookup, monkeypatch, tmp_path):
    ids, place = lookup.sample(50, 16, 0)
    assert ids.shape == (50, 17)
    assert (ids[np.arange(50), 1 + place] == ids[:, 0]).all()
    assert all(len(set(row)) == 16 for row in ids[:, 1:].tolist())
    weights = lookup.model_of("products", 4).get_weights()
    found = []
    for kind in ("products", "divided products"):
        model = lookup.model_of(kind, 4)
        model.set_weights(weights)
        found.append(model.predict_on_batch(ids))
    np.testing.assert_allclose(found[0], 2 * found[1], rtol=1e-5)
    monkeypatch.setattr(lookup, "TEST_ROWS", 20)
    options = ["--seeds", 0, "--steps", 1, "--sizes", 2, "--results", tmp_path / "lookup.json"]
    run_main(lookup, monkeypatch, *options)
    rows = json.loads((tmp_path / "lookup.json").read_text())
    assert [row["scores"] for row in rows] == list(lookup.SCORES)
    # Within the training, log-n changes nothing.
    assert all(row["loss"]["16"] == row["log-n loss"]["16"] for row in rows)


def test_gates_are_averaged_over_what_is_to_be_counted(gates, monkeypatch, tmp_path):
    (tmp_path / "train.txt").write_text("a b . a ! a ? b .")
    assert sorted(gates.ends_of_sentences(tmp_path)) == [3, 4, 5]  # after "a" and "b"
    name, encodings, settings = gates.TASKS["increments"]
    model = gates.build_model(gates.task_of(name), settings, encodings=encodings)
    for layer in gates.attention_inputs(model, np.array([[0] * 64])):
        layer.query_dense.kernel.assign(0 * layer.query_dense.kernel)
    # Without queries, all gates are half open.
    assert gates.gates(model, gates.task_of(name), settings) == [[0.5, 0.5]] * 4


def test_a_term_that_rises_beyond_the_trained_length_is_shown(rotary_collapse):
    spans = len(rotary_collapse.edges(1024)) - 1
    falls, rises = [-float(i) for i in range(spans)], [0.0] * 7 + [1.0] * (spans - 7)
    row = {"inside": [{"terms": {"sum": [falls, falls], "ab": [rises, rises]}}]}
    assert rotary_collapse.swing(row, 0, "sum") == spans - 1
    # Spans of 64, 128, 256 and 512 ids, 1 to 4 below that of 32 to 63.
    assert np.isclose(rotary_collapse.rise(row, 0, "sum"), -(1 + 2 * 2 + 4 * 3 + 8 * 4) / 15)
    assert rotary_collapse.rise(row, 0, "ab") == 1


def test_attention_is_judged_by_encodings_with_a_target(attention):
    def line(name, ratio, length=2048, dropout=0.1):
        kind = {"encoding": name, "length": length, "dropout": dropout}
        return kind | {"ratio": ratio, "ms": 1, "maps at peak": 1.0}

    lines = [line("alibi", 1.16), line("t5", 1.15), line("cope", 1.81), line("plain", 1.0)]
    no_target = [line("shaw", 9.0), line("alibi", 9.0, dropout=0.0), line("t5", 9.0, length=512)]
    text = attention.page({"jax": [*lines, *no_target]})
    judged = text.partition("## Targets")[2]
    assert "Of 3 figures these miss it" in judged
    assert re.findall(r"^- (\w+): ([\d.]+)x on jax", judged, re.M) == [
        ("alibi", "1.16"),
        ("cope", "1.81"),
    ]
    assert "## Targets" not in attention.page({"jax": no_target})


def test_two_trees_are_compared_turn_by_turn(compare):
    """The machine gets slower from turn to turn, and the ratio knows nothing of it."""
    lines = {
        "before": {"seconds": [1.0, 2.0, 4.0], "peak": 0.5},
        "now": {"seconds": [1.1, 2.2, 4.8], "peak": 0.6},
    }
    text = compare.page("abc", {"torch step": lines})
    assert text.endswith("| torch step | 2.000 | 2.200 | 1.10 | 0.5 | 0.6 |")


def test_what_stretching_loses_is_a_row_for_each_way(stretch):
    def row(seed, before):
        part = {"before": before, "after": 0.9, "teacher": 0.94}
        settings = {"length": 2048, "steps": 64, **stretch.THIRD}
        return {
            "way": "every third layer global", "seed": seed, "settings": settings,
            "within": part, "beyond": part, "seconds": 120,
        }  # fmt: skip

    rows = [row(0, 0.8), row(1, 0.9)]
    found = stretch.table(rows)
    assert "| every third layer global | length=2048 steps=64 | 2 | 0.850 / 0.850 |" in found
    assert found.endswith("| 0.900 / 0.900 | 0.940 / 0.940 | 2.0 |  |")
    settings = {"length": 2048, "steps": 64}
    first = [
        {**row(seed, 0.7), "way": stretch.FIRST, "settings": settings}
        | {"beyond": {"before": 0.7, "after": after, "teacher": 0.94}}
        for seed, after in ((1, 0.8), (0, 0.6), (2, 0.1))
    ]
    assert stretch.table([*rows, *first]).endswith("| 2.0 | 0.200 (0.100 to 0.300) |")


def test_a_text_is_asked_the_same_in_windows_and_in_one_pass(stretched_mlm, tmp_path):
    class Copy:
        """It says of each token that it is what it sees."""

        def predict_on_batch(self, inputs):
            read.append(inputs["token_ids"])
            return np.eye(subject.tokenizer.vocab_size, dtype="int8")[inputs["token_ids"]]

    settings = {**stretched_mlm.SETTINGS, "window": 10, "texts": 4}
    subject, read = stretched_mlm.Subject(settings, tmp_path), []
    hidden, right = subject.counts(Copy(), 3, 1)
    assert hidden.sum() == 4 * round(0.15 * 30) and 0 < right.sum() < hidden.sum()
    for one, other in zip(subject.counts(Copy(), 3, 3), (hidden, right), strict=True):
        np.testing.assert_array_equal(one, other)
    windows, whole = np.concatenate(read[:4]), np.concatenate(read[4:])
    assert windows.shape == (12, 12) and whole.shape == (4, 32)
    np.testing.assert_array_equal(windows[:, 1:-1].reshape(4, 30), whole[:, 1:-1])
    tokenizer = subject.tokenizer
    assert set(whole[:, 0]) == {tokenizer.cls_id} and set(whole[:, -1]) == {tokenizer.sep_id}
    assert tokenizer.unk_id not in tokenizer.encode("Once upon a time there was a king")[0]


def test_what_a_stretched_mlm_keeps_is_paired_by_text(stretched_mlm):
    """Texts differ more than readings of one text do: the interval is of the difference."""
    texts, far = range(40), "all layers global"
    right = {"unstretched": [[n, n] for n in texts], "at once": [[0, 0] for n in texts]}
    row = {"way": far, "seed": 0, "hidden": [[50, 50]] * 40, "steps": 9, "core_seconds": 90}
    kept = [[n, max(0, n - (2 if n % 2 else 0))] for n in texts]
    rows = [{**row, "right": {**right, "after": kept}}, {**row, "right": {**right, "after": kept}}]
    assert stretched_mlm.kept_share(rows, "at once") == (0, 0)
    share, half = stretched_mlm.kept_share(rows, "after")
    level, one = np.tile([2 * n for n in texts], 2), np.tile(np.sum(kept, axis=1), 2)
    without = (one.sum() - one) / (level.sum() - level)  # the jackknife
    deviation = np.sqrt((len(one) - 1) / len(one) * np.square(without - without.mean()).sum())
    assert share == pytest.approx(1 - 39 / 1560)
    assert half == pytest.approx(1.96 * deviation, rel=0.05)
    table = stretched_mlm.table(rows)
    assert f"| {far} | 2 | 39.0 | 0.0 | 0 ± 0% | 9 | 38.0 |" in table
    assert table.endswith("| 95 ± 1% | 1.5 (1.5 to 1.5) |")
    assert stretched_mlm.verdict(rows).endswith("| all layers global | 9 | yes |")
    assert stretched_mlm.verdict(rows, aim=0.97).endswith("| 9 | not decided |")
    assert stretched_mlm.verdict(rows, aim=1.0).endswith("| 9 | no |")


def test_a_step_of_stretching_is_timed_at_any_size(stretch_base, monkeypatch):
    sizes = {"layers": 2, "width": 8, "heads": 2, "inner": 16}
    monkeypatch.setattr(stretch_base.rows, "MODELS", {"tiny": sizes})
    key = {"model": "tiny", "length": 64, "way": "every third layer global"}
    found = stretch_base.measured(1, key)
    (seconds,) = found["core_seconds"]
    assert 0 < seconds < 60 and found["peak_mb"] > 100
    table = stretch_base.table([{**key, "core_seconds": [40.0, 50.0], "peak_mb": 2500}])
    assert table.endswith("| tiny, every third layer global | 64 | 45 | 160 | 2.5 |")


def test_no_source_is_in_both_parts_of_a_corpus(corpora):
    for texts, count in ((corpora.episodes(), 227), (corpora.modules(), None)):
        parts = [{text for text, is_test in texts if is_test == part} for part in (False, True)]
        assert len(parts[0]) > len(parts[1]) > 20 and not parts[0] & parts[1]
        assert count in (None, len(texts))
    assert all(text.isascii() for text, _ in corpora.modules())
    assert corpora.episodes()[0][0].startswith("Monica: There's nothing to tell!")


def test_decoding_is_compared_by_tokens_a_second(generate, monkeypatch):
    def line(ratio, seconds):
        spread = [ratio - 0.1, ratio + 0.1]
        row = {"seconds": seconds, "peak_mb": 500.0, "turns": 2}
        return row | {"ratio": ratio, "spread": spread}

    lines = {"transformers": line(1.0, 4.0), "jax": line(0.5, 2.0) | {"tokens": 7}}
    text = generate.page({"gpt2 2x6x8": lines})
    assert "| | transformers | jax |" in text and "torch" not in text.split("|", 1)[1]
    row = "| gpt2 2 x 6 x 8 | 1.00 (0.90 to 1.10), 4/s, 0.5 GB | 0.50 (0.40 to 0.60), 8/s, 0.5 GB"
    assert f"{row} ≠ |" in text and "`≠`" in text
    lines["transformers"]["tokens"] = 7
    assert f"{row} |" in generate.page({"gpt2 2x6x8": lines})


def test_decoding_is_compared_by_the_same_checkpoint(generate, monkeypatch, tmp_path):
    kind, settings = generate.MODELS["gemma3"]
    small = {
        **settings, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 8, "intermediate_size": 8, "sliding_window": 4,
    }  # fmt: skip
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    monkeypatch.setitem(generate.MODELS, "gemma3", (kind, small))
    monkeypatch.setattr(generate, "VOCABULARY", 40)
    generate.save("gemma3")
    folder, prompts = generate.folder("gemma3"), np.arange(1, 13).reshape(2, 6)
    for beams in (1, 3):
        right = generate.transformers_writer(True, folder, 8, beams)(prompts)
        np.testing.assert_array_equal(generate.ours(True, folder, 8, beams)(prompts), right)
    alone = generate.ours(False, folder, 8)(prompts)
    np.testing.assert_array_equal(alone, generate.transformers_writer(False, folder, 8)(prompts))


def test_all_sides_find_the_same_vectors(nearest):
    rows = nearest.measured(1, 300)
    assert rows["NumPy"]["ratio"] == 1 and set(nearest.SIDES) - set(rows) <= {"FAISS"}
    text = nearest.page({"300 vectors": rows})
    assert "| | " + " | ".join(s for s in nearest.SIDES if s in rows) in text and "first" in text


def test_peers_are_constrained_without_hashes_and_by_their_pins(rows):
    known = (rows.ROOT / "constraints.txt").read_text("utf-8")
    lines = rows.constraints_beside(known, ["--no-deps", "setuptools<80"]).splitlines()
    pinned = [Requirement(line) for line in lines if not line.startswith(("#", " "))]
    assert all(str(each.specifier).startswith("==") for each in pinned)
    names = {each.name for each in pinned}
    assert {"keras", "jax", "transformers"} <= names and "setuptools" not in names
    known = "a==1 \\\n    --hash=sha256:0\n    # via b\nb-c==2\n"
    assert rows.constraints_beside(known, ["b-c==3"]) == "a==1\n    # via b\n"


COMPILED = """
%fused_update (param_0: f32[8,4], param_1: f32[1,4], param_2: s32[]) -> f32[8,4] {
  %param_0 = f32[8,4]{1,0} parameter(0)
  %param_1 = f32[1,4]{1,0} parameter(1)
  %param_2 = s32[] parameter(2)
  ROOT %update = f32[8,4]{1,0} dynamic-update-slice(%param_0, %param_1, %param_2, %param_2)
}

%fused_slice (param_0.1: f32[8,4], param_1.1: s32[]) -> bf16[1,4] {
  %param_0.1 = f32[8,4]{1,0} parameter(0)
  %param_1.1 = s32[] parameter(1)
  %slice = f32[1,4]{1,0} dynamic-slice(%param_0.1, %param_1.1), dynamic_slice_sizes={1,4}
  ROOT %convert = bf16[1,4]{1,0} convert(%slice)
}

%body (x: (f32[8,4], s32[])) -> (f32[8,4], s32[]) {
  %x = (f32[8,4]{1,0}, s32[]) parameter(0)
  %array = f32[8,4]{1,0} get-tuple-element(%x), index=0
  %i = s32[] get-tuple-element(%x), index=1
  %row = bf16[1,4]{1,0} fusion(%array, %i), kind=kLoop, calls=%fused_slice
  %dot = (f32[1,4]{1,0}, s8[4096]{0}) custom-call(%row, %row), custom_call_target="__cublas$gemm"
  %first = f32[1,4]{1,0} get-tuple-element(%dot), index=0
  %new = f32[8,4]{1,0} fusion(%array, %first, %i), kind=kLoop, calls=%fused_update
  ROOT %tuple = (f32[8,4]{1,0}, s32[]) tuple(%new, %i)
}

ENTRY %main (a: f32[8,4]) -> f32[8,4] {
  %a = f32[8,4]{1,0} parameter(0)
  %zero = s32[] constant(0)
  %start = (f32[8,4]{1,0}, s32[]) tuple(%a, %zero)
  %while = (f32[8,4]{1,0}, s32[]) while(%start), condition=%c, body=%body, backend_config={"known_trip_count":{"n":"8"}}
  ROOT %out = f32[8,4]{1,0} get-tuple-element(%while), index=0
}
"""  # noqa: E501


def test_a_compiled_program_is_counted_by_its_kernels(aot_kernels):
    """A slice of an array is read, and replaced; what cuBLAS needs besides is not counted."""
    program = aot_kernels.Program(COMPILED)
    slice_, product, update = 16 + 4 + 8, 8 + 16, 16 + 4 + 16
    assert program.turn() == aot_kernels.Cost(3, slice_ + product + update)
    assert program.cost() == program.turn().times(8)
    assert sum(program.by_name().values()) == program.cost().bytes
