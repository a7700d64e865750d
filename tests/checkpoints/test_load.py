"""Loading: everything is accounted for, and nothing is assigned unless all of it fits."""

import collections
import gc
import pathlib
import weakref

import keras
import numpy as np
import pytest

from keras_posenc.checkpoints import BERT, compare_checkpoint, load, load_checkpoint, variables_of
from keras_posenc.checkpoints.load import Loader
from keras_posenc.checkpoints.names import Table
from keras_posenc.models.factory import build_transformer_model


def test_every_weight_arrives(make, values, google):
    transformer = make(with_pool=True, with_nsp=True, with_mlm=True)
    account = load_checkpoint(transformer.layers, google, BERT)
    found = values(transformer.layers)
    assert len(account.loaded) == len(found) == len(google)
    for name, tensor, note in account.loaded:
        expected = google[tensor].T if "transposed" in note else google[tensor]
        np.testing.assert_array_equal(found[name].reshape(-1), expected.reshape(-1), name)
    notes = {name: note for name, _, note in account.loaded}
    assert notes["NSP-Proba/kernel"] == "transposed"
    assert notes["Transformer-0-MultiHeadSelfAttention/query/kernel"] == "reshaped"
    assert notes["Embedding-Norm/gamma"] == ""


@pytest.mark.once
def test_names_do_not_depend_on_prefix_or_sharing(make, arrays, values):
    one = make(prefix="one-")
    assert variables_of(one.layers).keys() == variables_of(make().layers).keys()
    load_checkpoint(one.layers, arrays, BERT)
    other = make(layers=one.layers, prefix="other-")
    assert variables_of(other.layers).keys() == variables_of(one.layers).keys()
    for name, value in values(other.layers).items():
        np.testing.assert_array_equal(value, values(one.layers)[name])


@pytest.fixture
def refused(make, values):
    """Holds that a load fails with a message, and that it has changed no weight."""

    def refused(arrays, message, arguments=None, **building):
        transformer = make(**building)
        before = values(transformer.layers)
        with pytest.raises(ValueError, match=message):
            load_checkpoint(transformer.layers, arrays, BERT, **arguments or {})
        for name, value in values(transformer.layers).items():
            np.testing.assert_array_equal(value, before[name])

    return refused


@pytest.mark.once
def test_missing(arrays, refused):
    del arrays["bert.encoder.layer.1.output.dense.bias"]
    refused(
        arrays,
        r"a dict of arrays does not fit this bert model: 1 missing "
        r"\(Transformer-1-FeedForward/output/bias\)\. Nothing was loaded\.",
    )


@pytest.mark.once
def test_missing_heads(arrays, refused):
    encoder = {name: array for name, array in arrays.items() if name.startswith("bert.enc")}
    encoder |= {name: array for name, array in arrays.items() if name.startswith("bert.emb")}
    refused(
        encoder,
        r"5 missing \(MLM-Dense/kernel, .*, and 1 more\).* The file has no MLM head: take a "
        r"checkpoint that has one, build the model without it, or let build_transformer_model"
        r"\(..., ignore_invalid_weights=True\) leave it at its initial values",
        with_mlm=True,
    )
    refused(encoder, "The file has no pooler: .* The file has no NSP head", with_nsp=True)


@pytest.mark.once
def test_unexpected(arrays, refused):
    more = arrays | {"bert.encoder.layer.0.adapter.weight": np.ones(3)}
    refused(
        more,
        r"1 unexpected \(bert\.encoder\.layer\.0\.adapter\.weight\)\. Nothing was loaded\.",
    )
    refused(arrays | {"extra": np.ones(3)}, "unexpected.*leave it out: `ignore` takes patterns")


@pytest.mark.once
def test_another_number_of_layers(arrays, refused):
    hint = "The file has 2 layers: is num_hidden_layers of the model the same"
    refused(arrays, f"16 unexpected .*{hint}", num_hidden_layers=1)
    refused(arrays, f"16 missing .*{hint}", num_hidden_layers=3)


@pytest.mark.once
def test_another_number_of_positions(arrays, refused):
    refused(
        arrays,
        r"1 of the wrong shape \(Embedding-Position/embeddings is \(24, 16\) in the model, "
        r"bert\.embeddings\.position_embeddings\.weight is \(12, 16\) in the file\).* "
        "The file has 12 positions, the model 24: .*hierarchical_position=True",
        max_position=24,
    )


@pytest.mark.once
def test_another_number_of_tokens(arrays, refused):
    hint = "The file has 40 tokens, the model 30: vocab_size must be 40"
    refused(arrays, f"2 of the wrong shape.*{hint}", vocab_size=30, with_mlm=True)


@pytest.mark.once
def test_another_width(arrays, refused):
    refused(arrays, "Does the config belong to this checkpoint", hidden_size=8)


@pytest.mark.once
def test_heads_of_another_size_do_not_pass_for_one_another(google, refused):
    """(16, 2, 8) and (2, 8, 16) both have 256 numbers; so has (32, 8)."""
    name = "bert/encoder/layer_0/attention/self/query/kernel"
    google[name] = google[name].reshape(32, 8)
    refused(google, r"query/kernel is \(16, 2, 8\) in the model, .* is \(32, 8\) in the file")


@pytest.mark.once
def test_numbers_that_are_no_weights(arrays, refused):
    name = "bert.pooler.dense.weight"
    arrays[name] = arrays[name].astype("int8")
    refused(arrays, r"pooler.dense.weight is \(16, 16\) of int8 in the file", with_pool=True)


@pytest.mark.once
def test_decoder_that_is_not_tied(arrays, refused, make):
    arrays["cls.predictions.decoder.weight"] = arrays["cls.predictions.decoder.weight"] + 1
    refused(
        arrays,
        r"cls\.predictions\.decoder\.weight, which differs from bert\.embeddings\.word",
        with_mlm=True,
    )
    load_checkpoint(make().layers, arrays, BERT)  # the encoder does not use it


@pytest.mark.once
def test_bias_of_the_decoder_alone(arrays, make, values):
    del arrays["cls.predictions.bias"]
    transformer = make(with_mlm=True)
    load_checkpoint(transformer.layers, arrays, BERT)
    bias = arrays["cls.predictions.decoder.bias"]
    np.testing.assert_array_equal(values(transformer.layers)["MLM-Bias/bias"], bias)


OTHERS = {
    "DistilBERT": "distilbert.transformer.layer.0.attention.q_lin.weight",
    "ALBERT": "albert.encoder.albert_layer_groups.0.albert_layers.0.ffn.weight",
    "ELECTRA": "electra.encoder.layer.0.attention.self.query.weight",
    "RoBERTa": "roberta.encoder.layer.0.attention.self.query.weight",
    "DeBERTa": "deberta.encoder.layer.0.attention.self.in_proj.weight",
    "NEZHA": "nezha.encoder.layer.0.attention.self.query.weight",
    "RoFormer": "roformer.encoder.layer.0.attention.self.query.weight",
    "GPT-2": "transformer.h.0.attn.c_attn.weight",
    "T5": "encoder.block.0.layer.0.SelfAttention.q.weight",
    "Llama": "model.layers.0.self_attn.q_proj.weight",
    "ModernBERT": "model.layers.0.attn.Wqkv.weight",
    "MPNet": "mpnet.encoder.layer.0.attention.attn.q.weight",
    "XLNet": "transformer.layer.0.rel_attn.q",
    "GAU-alpha": "GAU_alpha/encoder/layer_0/gau/i_dense/kernel",
    "TensorFlow 2 object checkpoint": "model/layer-1/kernel/.ATTRIBUTES/VARIABLE_VALUE",
}


@pytest.mark.once
@pytest.mark.parametrize("family", OTHERS)
def test_another_family(refused, family):
    more = {"embeddings.word_embeddings.weight": np.ones((40, 16)), OTHERS[family]: np.ones(3)}
    refused(more, f"Nothing was loaded. The names look like those of .*{family}")


@pytest.mark.once
def test_names_behind_a_prefix(arrays, refused):
    wrapped = {f"0.auto_model.{name}": array for name, array in arrays.items()}
    refused(wrapped, r"names begin with '0\.auto_model\.': give a dict without it, \{name\.remove")


@pytest.mark.once
def test_ignore_missing(make, arrays, values):
    del arrays["bert.pooler.dense.bias"]
    transformer = make(with_pool=True)
    before = values(transformer.layers)["Pooler-Dense/bias"]
    account = load_checkpoint(transformer.layers, arrays, BERT, ignore_missing=True)
    assert account.missing == ["Pooler-Dense/bias"]
    np.testing.assert_array_equal(values(transformer.layers)["Pooler-Dense/bias"], before)
    with pytest.raises(ValueError, match="1 unexpected"):
        more = arrays | {"extra": np.ones(3)}
        load_checkpoint(transformer.layers, more, BERT, ignore_missing=True)


def test_fresh_weights_keep_their_values(make, arrays, values):
    condition = keras.Input((4,), name="condition")
    transformer = make(
        extension="fresh",
        max_position=20,
        layer_norm_cond=condition,
        additional_input_layers=condition,
    )
    before = values(transformer.layers)
    account = load_checkpoint(transformer.layers, arrays, BERT)
    fresh = [name for name in before if "_dense/" in name or name.endswith("/fresh")]
    assert sorted(account.initialised) == sorted(fresh) and len(fresh) == 1 + 2 * 5
    assert account.missing == []
    for name in fresh:
        np.testing.assert_array_equal(values(transformer.layers)[name], before[name])


@pytest.mark.once
def test_keep_and_compound_tokens(make, arrays, values):
    keep, compound = [0, 7, 5, 39], [[1, 2], ([0, 3], [1.0, 3.0]), [2]]
    transformer = make(vocab_size=7, with_mlm=True)
    account = load_checkpoint(
        transformer.layers, arrays, BERT, keep_tokens=keep, compound_tokens=compound
    )
    for variable, tensor in (
        ("Embedding-Token/embeddings", "bert.embeddings.word_embeddings.weight"),
        ("MLM-Bias/bias", "cls.predictions.bias"),
    ):
        kept = arrays[tensor][keep]
        means = [(kept[1] + kept[2]) / 2, (kept[0] + 3 * kept[3]) / 4, kept[2]]
        expected = np.concatenate([kept, np.stack(means)])
        np.testing.assert_allclose(values(transformer.layers)[variable], expected, rtol=1e-6)
        note = {name: note for name, _, note in account.loaded}[variable]
        assert note == "4 rows kept, 3 rows appended"


@pytest.mark.once
@pytest.mark.parametrize(
    "message, arguments",
    [
        ("keep_tokens asks for row 40; .* has 40 rows", {"keep_tokens": [0, 40]}),
        ("keep_tokens holds -1; row numbers begin with 0", {"keep_tokens": [0, -1]}),
        (r"keep_tokens must list row numbers.*Received: \[\]", {"keep_tokens": []}),
        (r"keep_tokens must list row numbers.*Received: \[0\.5\]", {"keep_tokens": [0.5]}),
        ("compound_tokens asks for row 2; .* has 2 rows", {"compound_tokens": [[2]]}),
        ("compound_tokens must list row numbers.*Received: 3", {"compound_tokens": [3]}),
        ("a weight for each row.*Received 2 rows", {"compound_tokens": [([0, 1], [1.0])]}),
        ("with a sum other than 0", {"compound_tokens": [([0, 1], [1.0, -1.0])]}),
        ("position_offset must not be negative. Received: -1", {"position_offset": -1}),
        ("position_offset=12 leaves no row of a table of 12", {"position_offset": 12}),
    ],
)
def test_rows_out_of_range(arrays, refused, message, arguments):
    if "compound_tokens" in arguments:
        arguments = {"keep_tokens": [0, 1], **arguments}
    refused(arrays, message, arguments)


@pytest.mark.once
def test_position_offset(make, arrays, values):
    transformer = make(max_position=10)
    load_checkpoint(transformer.layers, arrays, BERT, position_offset=2)
    expected = arrays["bert.embeddings.position_embeddings.weight"][2:]
    np.testing.assert_array_equal(
        values(transformer.layers)["Embedding-Position/embeddings"], expected
    )


def test_loaded_weights_do_not_hang_on_the_file(make, arrays, values):
    """JAX and torch may keep an array that they are given: it has to be theirs alone."""
    transformer = make()
    load_checkpoint(transformer.layers, arrays, BERT)
    before = values(transformer.layers)
    for array in arrays.values():
        array[...] = 0
    for name, value in values(transformer.layers).items():
        np.testing.assert_array_equal(value, before[name])


@pytest.mark.once
def test_compare_says_it_all_and_loads_nothing(make, arrays, values):
    transformer = make(max_position=24, with_mlm=True)
    before = values(transformer.layers)
    del arrays["cls.predictions.transform.dense.bias"]
    account = compare_checkpoint(transformer.layers, arrays | {"extra": np.ones(3)}, BERT)
    assert account.missing == ["MLM-Dense/bias"]
    assert account.unexpected == ["extra"]
    assert [row[0] for row in account.wrong_shape] == ["Embedding-Position/embeddings"]
    assert account.summary() == (
        "a dict of arrays as bert: 40 loaded, 6 unused, 1 missing, 1 unexpected, 1 wrong shape."
    )
    assert account.problem() and "missing" not in account.problem(ignore_missing=True)
    text = str(account)
    for line in (
        "Loaded (40)",
        "Known and unused (6)",
        "Missing (1)\n  MLM-Dense/bias\n",
        "Unexpected (1)\n  extra\n",
        "(24, 16) in the model, (12, 16) in the file",
        "The file has 12 positions",
    ):
        assert line in text
    for name, value in values(transformer.layers).items():
        np.testing.assert_array_equal(value, before[name])


@pytest.mark.once
def test_account_of_a_load_that_fits(make, arrays):
    account = load_checkpoint(make().layers, arrays, BERT)
    assert account.problem() is None and account.hints == []
    assert "Missing" not in str(account) and "Unexpected" not in str(account)
    assert "transposed, reshaped" in str(account)


@pytest.mark.once
def test_new_weights_are_made_of_the_file_once_and_only_where_they_fit(arrays):
    loader = Loader(arrays, BERT, keep_tokens=[3, 1])
    name, tensor = "Pooler-Dense/kernel", "bert.pooler.dense.weight"
    assert loader.initial(name, (16, 8)) is None
    assert loader.initial("Pooler-Dense/scale", (16,)) is None
    np.testing.assert_array_equal(loader.initial(name, (16, 16)), arrays[tensor].T)
    assert loader.initial(name, (16, 16)) is None
    tokens = loader.initial("Embedding-Token/embeddings", (2, 16))
    np.testing.assert_array_equal(tokens, arrays["bert.embeddings.word_embeddings.weight"][[3, 1]])


@pytest.mark.once
def test_the_table_is_asked_once_for_each_variable(tiny_config, arrays, monkeypatch):
    asked, steps = collections.Counter(), collections.Counter()
    names_of, new_step = Table.names, load._Step

    def names(table, variable):
        asked[variable] += 1
        return names_of(table, variable)

    def step(checkpoint, place, rows, name, target):
        steps[name] += 1
        return new_step(checkpoint, place, rows, name, target)

    monkeypatch.setattr(Table, "names", names)
    monkeypatch.setattr(load, "_Step", step)
    transformer = build_transformer_model(tiny_config, arrays, return_keras_model=False)
    variables = variables_of(transformer.layers)
    assert len(transformer.account.loaded) == len(variables)
    assert {name: asked[name] for name in variables} == dict.fromkeys(variables, 1)
    assert steps == dict.fromkeys(variables, 1)


@pytest.mark.once
def test_a_weight_of_another_shape_than_the_one_that_was_read_is_refused(arrays):
    """`match` compares the shape of the variable, whatever `initial` was asked for."""
    name, pooler = "Pooler-Dense/kernel", keras.layers.Dense(16, name="Pooler-Dense")
    pooler.build((None, 8))
    loader = Loader(arrays, BERT)
    assert loader.initial(name, (16, 16)) is not None
    account, _ = loader.match({"Pooler-Dense": pooler})
    assert account.wrong_shape == [(name, "(8, 16)", "bert.pooler.dense.weight", "(16, 16)")]


@pytest.mark.once
def test_after_a_load_nothing_holds_the_checkpoint(arrays, make):
    """The initializers of a model hold its loader, which must not keep a mapped file open."""
    loader = Loader(arrays, BERT)
    checkpoint = weakref.ref(loader.checkpoint)
    assert loader.initial("Pooler-Dense/kernel", (16, 16)) is not None
    loader.load(make(with_pool=True).layers)
    gc.collect()
    assert checkpoint() is None


def test_layers_that_exist_already_are_filled_too(tiny_config, arrays, values):
    """Layers shared with a model of random weights are not made anew."""
    del arrays["bert.pooler.dense.weight"], arrays["bert.pooler.dense.bias"]
    first = build_transformer_model(tiny_config, return_keras_model=False)
    shared = {name: first.layers[name] for name in ("Embedding-Token", "Embedding-Norm")}
    loaded, fresh = (
        build_transformer_model(tiny_config, arrays, layers=layers, return_keras_model=False)
        for layers in (shared, None)
    )
    assert len(loaded.account.loaded) == len(values(loaded.layers)) == 5 + 16 * 2
    for name, value in values(loaded.layers).items():
        np.testing.assert_array_equal(value, values(fresh.layers)[name])


@pytest.mark.once
def test_reading_a_file_keeps_no_page_of_it(minilm):
    """The mapped pages would count as memory of the process, as much again as the weights."""
    maps = pathlib.Path("/proc/self/smaps")
    if not maps.exists():
        pytest.skip("the system does not tell which pages are in memory")

    def resident():
        _, *rest = maps.read_text().partition("model.safetensors\n")
        return [int(line.split()[1]) for line in rest[1].split("\n") if line[:4] == "Rss:"][0]

    loader = Loader(minilm, BERT)
    table = loader.checkpoint["embeddings.word_embeddings.weight"]
    assert table.sum() and resident() > 40_000
    loader.initial("Embedding-Token/embeddings", table.shape)
    assert resident() < 1_000
