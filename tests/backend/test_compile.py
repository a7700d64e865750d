"""Programs that torch.compile makes of models: one graph each, with the numbers of eager passes."""

import functools
import logging

import keras
import numpy as np
import pytest
from conftest import TINY_CONFIG
from keras import ops
from keras.src.backend.common import keras_tensor

if keras.backend.backend() != "torch":
    pytest.skip("torch.compile is PyTorch's", allow_module_level=True)

import torch
from dispatches import Counting, as_on_cuda

from keras_posenc import Generator, PositionalAttention, build_transformer_model
from keras_posenc.heads import classifier, regressor, token_classifier

pytestmark = pytest.mark.once
# One text has padding.
TOKENS = np.array([[3, 5, 7, 9, 11, 0, 0], [4, 6, 8, 10, 12, 14, 16]], "int32")
SIZES = {"dropout_rate": 0.0, "attention_dropout_rate": 0.0}


@pytest.fixture
def cuda(monkeypatch):
    with as_on_cuda(monkeypatch):
        yield


@pytest.fixture
def dynamo(monkeypatch):
    """Without former programs, and without the traces and stacks that it would log for pytest."""
    torch._dynamo.reset()
    monkeypatch.setattr(logging.getLogger("torch.__trace"), "handlers", [])
    with torch._dynamo.config.patch(side_effect_replay_policy="silent"):
        yield
    torch._dynamo.reset()


def compiles(monkeypatch, backend):
    """From here on torch.compile fails where a graph would break. A third of what it would read is
    that Keras asks of each operation whether its arguments are symbolic: in a program none is."""
    asked, compile_ = keras_tensor.any_symbolic_tensors, torch.compile

    def whole(function, **options):
        program = compile_(function, backend=backend, fullgraph=True, **options)

        @functools.wraps(program)
        def run(*inputs, **arguments):
            with monkeypatch.context() as patch:
                patch.setattr(asked, "__code__", (lambda args=None, kwargs=None: False).__code__)
                return program(*inputs, **arguments)

        return run

    monkeypatch.setattr(torch, "compile", whole)


@pytest.fixture
def programs(monkeypatch, dynamo):
    """The graphs that torch.compile makes from here on."""
    graphs = []

    def keep(graph, _):
        graphs.append(graph)
        return graph.forward

    compiles(monkeypatch, keep)
    return graphs


def build(**options):
    """One layer, since a program is made in a time that grows with the layers."""
    keras.utils.set_random_seed(0)
    return build_transformer_model(TINY_CONFIG, **{**SIZES, "num_hidden_layers": 1, **options})


def ids(tokens=TOKENS):
    tokens = ops.convert_to_tensor(tokens)
    return [tokens, ops.zeros_like(tokens)]


def gradients(model, run):
    """A loss of a training step and the gradients of all weights."""
    model.zero_grad()
    loss = ops.sum(run(ids(), training=True) ** 3)
    loss.backward()
    return [loss.detach(), *(w.value.grad for w in model.trainable_variables)]


def test_a_training_step_of_a_model_is_one_program(programs):
    model = build(num_hidden_layers=2)
    program = torch.compile(model).__wrapped__  # with all that Keras asks
    for found, expected in zip(gradients(model, program), gradients(model, model), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert len(programs) == 1


def test_a_program_drops_what_an_eager_pass_drops(programs):
    """With a head, whose layer drops in all heads."""
    model = classifier(build(dropout_rate=0.3, attention_dropout_rate=0.3), 2, dropout_rate=0.5)
    generators = [
        layer.seed_generator for layer in model.layers if hasattr(layer, "seed_generator")
    ]
    assert any(layer.name == "Head-Dropout" for layer in model.layers)
    program, found = torch.compile(model), []
    for run in (model, program):
        for i, generator in enumerate(generators):
            generator.state.assign([i, 7])
        found.append([run(ids(), training=True).detach() for _ in range(2)])
    for eager, compiled in zip(*found, strict=True):
        np.testing.assert_array_equal(compiled, eager)
    assert not np.array_equal(found[0][0], found[0][1])


@pytest.mark.parametrize("make", [classifier, regressor, token_classifier])
def test_a_head_drops_by_the_seed_of_its_layer(make):
    """And not by the state of PyTorch, which no run saves with its seeds."""
    model = make(build(), 2, dropout_rate=0.5)
    (head,) = (each for each in model.layers if each.name == "Head-Dropout")
    found = []
    for number in range(2):
        head.seed_generator.state.assign([3, 7])
        torch.manual_seed(number)
        found.append(model(ids(), training=True).detach())
    np.testing.assert_allclose(found[1], found[0], atol=1e-6)
    assert not np.allclose(found[0], model(ids(), training=True).detach())


def test_lengths_share_programs(programs):
    model = build(num_hidden_layers=2)
    program = torch.compile(model)
    rng = np.random.default_rng(0)
    with torch.no_grad():
        np.testing.assert_array_equal(program(ids()), model(ids()))
        assert len(programs) == 1
        # The second call has another batch and another length, so each is free from there on.
        for batch, length in ((3, 8), (3, 6), (4, 12), (5, 9), (7, 3)):
            inputs = ids(rng.integers(1, 40, (batch, length)).astype("int32"))
            np.testing.assert_allclose(program(inputs), model(inputs), atol=1e-6)
    assert len(programs) <= 2


@pytest.mark.filterwarnings("ignore:Dynamo detected a call")
def test_lengths_share_programs_of_blocks(programs):
    """PaTH multiplies the tokens of a block, and gathers tokens around padding."""
    layers = attentions([["path"]])
    program = torch.compile(attend)
    with torch.no_grad():
        for batch, length in ((2, 9), (3, 10), (5, 12)):
            x, mask = features(batch, length), torch.ones(batch, length, dtype=torch.bool)
            found = program(layers, x, mask, causal=True)
            np.testing.assert_allclose(found, attend(layers, x, mask, causal=True), atol=1e-6)
    assert len(programs) <= 2


def test_steps_of_fit_are_few_programs(programs):
    def trained(compiled):
        encoder = build(dropout_rate=0.1, attention_dropout_rate=0.1)
        model = classifier(encoder, 2)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("adam", loss, metrics=["accuracy"], jit_compile=compiled)
        x, y = [TOKENS, 0 * TOKENS], np.array([0, 1])
        history = model.fit(x, y, epochs=2, verbose=0).history["loss"]
        return history, model.predict(x, verbose=0)

    found, made = trained(True), len(programs)
    assert 0 < made <= 3
    for each, expected in zip(found, trained(False), strict=True):
        np.testing.assert_allclose(each, expected, atol=1e-5)
    assert len(programs) == made


def test_copies_of_weights_follow_compiled_steps(programs, cuda):
    """PyTorch's fused optimizers give weights no new version, and a program forgets no copies."""
    from keras_posenc.models.precision import lower_precision

    model = build()
    program = torch.compile(model)
    by_torch = torch.optim.AdamW([w.value for w in model.trainable_variables], 0.1, fused=True)
    with lower_precision(model):
        before = model.predict_on_batch([TOKENS, 0 * TOKENS]).astype("float32")
    gradients(model, program)
    by_torch.step()
    with lower_precision(model):
        found = model.predict_on_batch([TOKENS, 0 * TOKENS]).astype("float32")
    exact = model.predict_on_batch([TOKENS, 0 * TOKENS])
    np.testing.assert_allclose(found, exact, atol=0.05)
    assert np.abs(found - before).max() > 0.2


# Heads turned, a bias, a key more and turned by the length: in a fused kernel.
FUSED = ["rotary", "t5", "log_n", "sink_logits"]
BOTH_WAYS = ["fire", "nezha", "kerple", "content_bias"], ["sandwich"]
CAUSAL = ["xpos", "alibi", "forget_gate"], ["path"], ["stick_breaking"]


@pytest.mark.filterwarnings("ignore:Dynamo detected a call")  # of a cached function of Keras
def test_encodings_of_fused_kernels_are_in_the_program(programs, cuda):
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = build(encodings=FUSED)
    finally:
        keras.config.set_dtype_policy("float32")
    program = torch.compile(model)
    found = [x.float() for x in gradients(model, program)]
    for each, expected in zip(found, gradients(model, model), strict=True):
        np.testing.assert_allclose(each, expected.float(), rtol=0.05, atol=0.05)
    (graph,) = programs
    kernels = [each for each in graph.graph.nodes if "dot_product_attention" in str(each.target)]
    assert len(kernels) == 1


@pytest.mark.filterwarnings("ignore:Dynamo detected a call")
@pytest.mark.parametrize("encodings", [BOTH_WAYS, CAUSAL], ids=["both ways", "causal"])
def test_other_encodings_are_one_program(encodings, programs):
    """A layer for each list, one after the other."""
    layers = attentions(encodings)
    weights = [w.value for layer in layers for w in layer.trainable_variables]
    program, mask, results = torch.compile(attend), torch.as_tensor(TOKENS > 0), []
    for run in (program, attend):
        x = features(2, 7).requires_grad_()
        out = run(layers, x, mask, causal=encodings is CAUSAL)
        loss = torch.sum(out[mask] ** 3)
        results.append([out.detach(), *torch.autograd.grad(loss, [x, *weights])])
    for each, expected in zip(*results, strict=True):
        np.testing.assert_allclose(each, expected, rtol=1e-4, atol=1e-5)
    assert len(programs) == 1


def attentions(lists):
    """A built layer for each list of encodings, with weights that start at no special number."""
    keras.utils.set_random_seed(0)
    layers = [PositionalAttention(2, 8, encodings=each) for each in lists]
    for layer in layers:
        layer.build((None, None, 16), (None, None, 16))
        for w in layer.trainable_variables:
            w.assign_add(keras.random.normal(w.shape, stddev=0.1))
    return layers


def attend(layers, x, mask, causal):
    """As a model calls them in training."""
    for layer in layers:
        named = {"query_mask": mask, "value_mask": mask, "use_causal_mask": causal}
        x = torch.layer_norm(x + layer.call(x, x, training=True, **named), (16,))
    return x


def features(batch, length):
    rng = np.random.default_rng(length)
    return torch.as_tensor(rng.normal(size=(batch, length, 16)).astype("float32"))


LLAMA = {
    "model_type": "llama",
    "vocab_size": 110,
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 64,
}
SEARCHES = {
    "drawn": {"top_p": 0.9, "n": 2, "seed": 1, "repetition_penalty": 1.2},
    "beams": {"beams": 2, "end_id": 7},
    "features": {},  # of keys, in the cache
}
PROMPTS = [[5, 6, 7, 8], [9, 10]]


@pytest.fixture
def steps(monkeypatch, dynamo):
    """Runs of programs, a list each: the addresses of their tensors, waits of the host, results."""
    runs = []

    def watched(graph, _):
        calls = []
        runs.append(calls)

        def run(*inputs):
            tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
            with Counting() as counting:
                result = graph.forward(*inputs)
            calls.append(([x.data_ptr() for x in tensors], counting.counts.waits, result))
            return result

        return run

    compiles(monkeypatch, watched)
    return runs


@pytest.mark.filterwarnings("ignore:Dynamo detected a call")
@pytest.mark.parametrize("search", SEARCHES)
def test_a_step_of_decoding_can_be_replayed(search, steps):
    """One program for all steps, which reads nothing on the host and works in the same memory."""
    keras.utils.set_random_seed(0)
    if search == "features":
        model = build(application="lm", encodings=["forget_gate"])
    else:
        model = build_transformer_model(LLAMA, with_mlm="linear")
    decode(model, [PROMPTS], **SEARCHES[search])
    is_replayed(steps)


def decode(model, batches, **search):
    """Runs compiled steps on each batch, which must find what eager ones do."""
    eager, compiled = (Generator(model, max_length=6, **search) for _ in range(2))
    compiled.compile(jit_compile=True)
    for prompts in batches:
        expected = eager.predict(prompts, verbose=0)
        np.testing.assert_array_equal(compiled.predict(prompts, verbose=0), expected)


def is_replayed(steps):
    ((first, *others),) = steps
    assert len(others) == 4
    for addresses, waits, result in (first, *others):
        assert addresses == first[0] and waits == 0
        assert not any(map(torch.is_tensor, result))


@pytest.mark.filterwarnings("ignore:Dynamo detected a call")
def test_a_greedy_step_can_be_replayed_and_serves_other_prompts(steps):
    """With two layers, so with two caches."""
    keras.utils.set_random_seed(0)
    model = build_transformer_model({**LLAMA, "num_hidden_layers": 2}, with_mlm="linear")

    def batches():
        yield PROMPTS
        is_replayed(steps)
        yield [[4, 5, 6]] * 3
        yield [[8] * 5, *[[9] * 4] * 4]

    decode(model, batches(), end_id=7)
    assert len(steps) <= 2


def test_scopes_are_those_of_now():
    """`clear_session` gives Keras another record of what is set for all calls of a thread."""
    from keras_posenc.backend.keras_names import scope

    keras.utils.clear_session(free_memory=False)
    with keras.StatelessScope():
        assert scope("stateless_scope") is not None
    assert scope("stateless_scope") is None
