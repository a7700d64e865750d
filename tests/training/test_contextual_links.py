"""Links from pronouns to names: which tokens, how much attention follows them, and the loss."""

import inspect

import keras
import numpy as np
import pytest
from contextual_texts import ENGLISH, OPENING, PEOPLE, SHORT, TEXTS, write_embedder
from keras import ops
from tiny_models import SIZES

from keras_posenc import PositionalAttention, Tokenizer, build_transformer_model
from keras_posenc.models.direct import calls_in
from keras_posenc.training import contextualize
from keras_posenc.training.contextual.batches import CopyBatches, Prompted
from keras_posenc.training.contextual.copies import COPIES, draw
from keras_posenc.training.contextual.corpus import Corpus
from keras_posenc.training.contextual.links import (
    LINKS,
    AttentionMap,
    attention_loss,
    with_attention,
)
from keras_posenc.training.contextual.training import ContextualModel

NAMES = {name for pronoun in ENGLISH.pronouns for name in pronoun.names.lower().split()}
NAMES |= {name.lower() for name, *_ in PEOPLE}
PRONOUNS = {"she", "her", "he", "his", ""}  # "him" and others are not in the vocabulary


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Folder of a random embedder of 64 positions, whose tokenizer knows the names."""
    return write_embedder(tmp_path_factory.mktemp("links"))


@pytest.mark.once
@pytest.mark.parametrize("prompt", ["", "we met "])
def test_pronouns_are_linked_to_the_name_of_their_copy(small, prompt):
    corpus, tokenizer = (
        Corpus(TEXTS, Tokenizer(small), ENGLISH, 126, 1.0, OPENING),
        Tokenizer(small),
    )
    make = CopyBatches(Prompted(tokenizer, prompt), 128, 700, skips=True, window=64, linked=True)
    several = 0
    for step in range(20):
        rng = np.random.default_rng(step)
        copies = draw(corpus, rng)
        inputs = make(copies, rng).inputs
        ids, persons, introduced = (inputs[x] for x in ("token_ids", "persons", "introduced"))
        assert persons.shape == inputs["pronouns"].shape == (COPIES, LINKS)
        for copy in range(COPIES):
            linked = np.flatnonzero(persons[copy])
            assert linked.size and set(persons[copy, linked]) <= set(introduced[copy]) - {0}
            for link in linked:
                place = inputs["pronouns"][copy, link]
                assert tokenizer.decode([ids[copy, place]]).lower() in PRONOUNS
                (passage,) = np.flatnonzero(inputs["members"][copy, :, place])
                (name,) = np.flatnonzero(introduced[copy] == persons[copy, link])
                name = tokenizer.decode([ids[copy, name]]).lower()
                assert name in NAMES and name in copies.named[copy][passage].lower()
            several += len(set(persons[copy, linked])) > 1
        assert inputs["position_ids"].shape == introduced.shape == ids.shape
    assert several


@pytest.mark.once
def test_words_have_no_links_and_what_is_cut_off_has_none(small):
    tokenizer = Tokenizer(small)
    corpus = Corpus(TEXTS, tokenizer, ENGLISH, 126, 0.0, OPENING)
    make = CopyBatches(tokenizer, 128, 700, skips=True, window=64, linked=True)
    rng = np.random.default_rng(0)
    assert not make(draw(corpus, rng), rng).inputs["persons"].any()
    corpus = Corpus(TEXTS, tokenizer, ENGLISH, 126, 1.0, OPENING)
    make, fewer = CopyBatches(tokenizer, 40, 700, skips=True, window=40, linked=True), 0
    for step in range(10):
        rng = np.random.default_rng(step)
        inputs = make(draw(corpus, rng), rng).inputs
        places = inputs["pronouns"][inputs["persons"] > 0]
        assert places.size == 0 or places.max() < 39  # [SEP]
        fewer += not inputs["persons"].any()
    assert fewer


def array(x):
    return ops.convert_to_numpy(x)


MODELS = {
    "absolute": {},
    "log_n": {"encodings": [{"name": "log_n", "train_length": 4}]},
    "rotary": {"model": "roformer"},
    "rotary and bias": {"encodings": ["rotary", "content_bias"], "custom_position_ids": True},
    "causal": {"application": "lm", "encodings": ["rotary", "cope"]},
    "windows": {"model": "modernbert", "pad_token_id": 0, "local_attention": 4,
                "global_attn_every_n_layers": 2},
    "shared table": {"model": "mpnet", "relative_attention_num_buckets": 8},
    "content bias": {"model": "deberta_v2", "relative_attention": True, "position_buckets": 4,
                     "pos_att_type": ["c2p", "p2c"],
                     "share_att_key": True},
    "padded ids": {"model": "roberta", "pad_token_id": 1},
}  # fmt: skip


@pytest.mark.parametrize("kind", MODELS)
def test_a_row_of_attention_is_that_of_the_whole_map(kind):
    given = dict(MODELS[kind])
    sizes = SIZES | {"num_hidden_layers": 2, "max_position": 64}
    names = ("model", "encodings", "custom_position_ids", "application")
    options = {name: given.pop(name) for name in names if name in given}
    keras.utils.set_random_seed(0)
    encoder = build_transformer_model(sizes | given, **options)
    rng = np.random.default_rng(0)
    encoder.set_weights([w + 0.3 * rng.normal(size=w.shape) for w in encoder.get_weights()])
    tokens = rng.integers(2, 30, (2, 40)).astype("int32")
    tokens[1, 30:] = 1 if kind == "padded ids" else 0
    inputs = {"token_ids": tokens, "segment_ids": 0 * tokens}
    inputs["position_ids"] = np.cumsum(rng.integers(1, 4, (2, 40)), axis=1).astype("int32") % 64
    inputs = {x.name: inputs[x.name] for x in encoder.inputs}
    rows = rng.integers(0, 30, (2, LINKS)).astype("int32")
    features, *maps = with_attention(encoder)({**inputs, "pronouns": rows})
    np.testing.assert_allclose(array(features), array(encoder(inputs)), atol=1e-5)
    whole = []
    for node in calls_in(encoder):
        if isinstance(node.operation, PositionalAttention):
            given = node.arguments
            scores = AttentionMap(node.operation, name=f"map-{len(whole)}")
            call = inspect.signature(node.operation.call).bind(*given.args, **given.kwargs)
            whole.append(scores(**call.arguments))
    assert len(maps) == len(whole) == 2
    for each, expected in zip(maps, keras.Model(encoder.input, whole)(inputs), strict=True):
        expected = np.take_along_axis(array(expected), rows[:, None, :, None], axis=2)
        np.testing.assert_allclose(array(each), expected, atol=1e-5)


@pytest.mark.once
def test_heads_that_look_at_no_token_are_refused():
    encoder = build_transformer_model(SIZES | {"attention_key_size": 4}, model="gau_alpha")
    with pytest.raises(ValueError, match="`supervised_attention` needs layers whose heads .* 0"):
        with_attention(encoder)


def test_the_loss_is_its_formula():
    rng = np.random.default_rng(0)
    maps = [rng.dirichlet(np.ones(7), (2, heads, 3)).astype("float32") for heads in (2, 4)]
    introduced = np.array([[0, 2, 2, 0, 5, 0, 0], [3, 0, 0, 0, 0, 0, 0]], "int32")
    persons = np.array([[2, 5, 0], [3, 3, 3]], "int32")
    found = array(attention_loss(maps, persons, introduced))
    every = np.concatenate(maps, axis=1)
    for text in range(2):
        for link in range(3):
            name = introduced[text] == persons[text, link]
            masses = every[text, :, link, name].sum(0)
            expected = -np.log((masses**8).sum() ** (1 / 8))
            np.testing.assert_allclose(found[text, link], expected, rtol=1e-3)


def test_the_term_is_added_with_its_weight(small):
    rng = np.random.default_rng(0)
    y = {
        "passages": rng.normal(size=(4, 5)),
        "near": rng.normal(size=(7, 5)),
        "real": np.ones(4),
        "kept": np.ones(7),
        "same": np.arange(4),
        "linked": np.array([[1, 0, 1.0]]),
    }
    made = {"passages": y["passages"], "alone": rng.normal(size=(2, 5)), "near": y["near"]}
    made = {k: ops.convert_to_tensor(v, "float32") for k, v in made.items()}
    made["attention"] = ops.convert_to_tensor([[1.0, 9.0, 3.0]])
    plain = ContextualModel(build_transformer_model(small)).compute_loss(y=y, y_pred=made)
    model = ContextualModel(build_transformer_model(small), supervised=0.5)
    loss = model.compute_loss(y=y, y_pred=made)
    np.testing.assert_allclose(float(loss) - float(plain), 0.5 * 2, rtol=1e-4)


def test_training_leads_attention_to_the_names(small, tmp_path):
    """After some steps a head of the student attends more to the names than one trained without."""
    settings = {**SHORT, "test": TEXTS, "steps": 20, "optimizer": "adamw:1e-2", "names": 1}
    losses = {}
    for weight in (0.0, 2.0):
        encoder, _ = contextualize(
            small, TEXTS, tmp_path / str(weight), supervised_attention=weight, **settings
        )
        tokenizer = Tokenizer(small)
        corpus = Corpus(TEXTS, tokenizer, ENGLISH, 126, 1.0, OPENING)
        make = CopyBatches(tokenizer, 128, 700, skips=False, window=64, linked=True)
        found = []
        for step in range(100, 104):
            rng = np.random.default_rng(step)
            inputs = make(draw(corpus, rng), rng).inputs
            read = {"segment_ids": 0 * inputs["token_ids"]}
            read |= {name: inputs[name] for name in ("token_ids", "pronouns")}
            maps = with_attention(encoder)(read)[1:]
            each = attention_loss(maps, inputs["persons"], inputs["introduced"])
            found.append(array(each)[inputs["persons"] > 0])
        losses[weight] = np.concatenate(found).mean()
    assert losses[2.0] < 0.8 * losses[0.0], losses


@pytest.mark.once
def test_what_has_no_pronouns_is_refused(small, tmp_path):
    settings = {**SHORT, "supervised_attention": 1.0, "output": tmp_path / "out"}
    with pytest.raises(ValueError, match="names=0 exchanges words: give names, or 0. .*=1.0"):
        contextualize(small, TEXTS, names=0, **settings)
    with pytest.raises(ValueError, match="`supervised_attention` must be .* at least 0"):
        contextualize(small, TEXTS, **{**settings, "supervised_attention": -1})
    assert not (tmp_path / "out").exists()
