"""Operations that a step on a GPU dispatches, beside those of transformers, counted on a CPU.

On an H200 a step took as long as its host needed to dispatch it, so what counts is their number.
"""

import sys

import keras
import numpy as np
import pytest

if keras.backend.backend() != "torch":
    pytest.skip("PyTorch dispatches one operation at a time", allow_module_level=True)

import torch
from dispatches import as_on_cuda, count

transformers = pytest.importorskip("transformers")
models = pytest.importorskip("sentence_transformers.models")
pytestmark = pytest.mark.once  # older versions of Keras read the condition of a loop on the host

BERT = {
    "vocab_size": 1100,
    "type_vocab_size": 2,
    "hidden_size": 768,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "hidden_act": "gelu",
    "max_position_embeddings": 2048,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "layer_norm_eps": 1e-12,
}
MINILM = {"hidden_size": 384, "intermediate_size": 1536, "max_position_embeddings": 512}
LLAMA = {
    "vocab_size": 1100,
    "hidden_size": 64,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 8,
    "intermediate_size": 64,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
}
CLASSES, LAYERS = 20, 12


@pytest.fixture
def cuda(monkeypatch):
    with as_on_cuda(monkeypatch):
        yield


@pytest.fixture
def mixed():
    keras.config.set_dtype_policy("mixed_bfloat16")
    yield
    keras.config.set_dtype_policy("float32")


def arrays(batch, length, bound=1100):
    rng = np.random.default_rng(0)
    return rng.integers(5, bound, (batch, length)).astype("int32"), rng.integers(0, CLASSES, batch)


def ours(mode, layers, batch, length):
    """A step of this library, whose results stay on the device."""
    from keras_posenc import build_transformer_model, embedder
    from keras_posenc.heads import classifier

    changes = MINILM if mode == "embed" else {}
    model = build_transformer_model({**BERT, **changes, "num_hidden_layers": layers})
    tokens, labels = arrays(batch, length)
    inputs = {"token_ids": tokens, "segment_ids": np.zeros_like(tokens)}
    if mode == "embed":
        model = embedder(model, pooling="mean")
    if mode == "train":
        model = classifier(model, CLASSES, pooling="cls")
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(1e-4), loss)
        model.optimizer.build(model.trainable_variables)
        return lambda: model.train_step((inputs, labels))

    def step():
        with torch.no_grad():
            return model.predict_step((inputs,))

    return step


def theirs(mode, layers, batch, length):
    """The same of transformers, under autocast."""
    sizes = {**BERT, **(MINILM if mode == "embed" else {})}
    config = transformers.BertConfig(**sizes, num_hidden_layers=layers, num_labels=CLASSES)
    kind = transformers.BertForSequenceClassification
    model = kind._from_config(config, attn_implementation="sdpa").train(mode == "train")
    tokens, labels = (torch.from_numpy(x.astype("int64")) for x in arrays(batch, length))
    pooling = models.Pooling(config.hidden_size)
    mask, optimizer = torch.ones_like(tokens), torch.optim.Adam(model.parameters(), 1e-4)

    def step():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            if mode != "train":
                with torch.inference_mode():
                    features = model.base_model(tokens, attention_mask=mask).last_hidden_state
                    if mode == "forward":
                        return features
                    pooled = pooling({"token_embeddings": features, "attention_mask": mask})
                    return torch.nn.functional.normalize(pooled["sentence_embedding"])
            loss = model(tokens, attention_mask=mask, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


# Kernels and views, and bytes, at most so many times those of transformers.
CASES = [
    ("forward", 8, 2048, 0.75, 0.8),
    ("embed", 256, 128, 0.75, 0.7),
    ("train", 8, 2048, 1.0, 0.9),
]


@pytest.mark.parametrize(("mode", "batch", "length", "dispatches", "moved"), CASES)
def test_an_encoder_dispatches_what_transformers_does(
    mode, batch, length, dispatches, moved, cuda, mixed
):
    found = {}
    for make in (ours, theirs):
        one, two = (count(make(mode, n, batch, length)) for n in (1, 2))
        found[make] = one[0].layers(two[0], LAYERS), two[0] - one[0], two[1]
    (whole, layer, names), (other, of_other, _) = found[ours], found[theirs]
    assert whole.dispatches <= dispatches * other.dispatches
    assert layer.dispatches <= dispatches * of_other.dispatches
    assert whole.bytes <= moved * other.bytes and layer.bytes <= moved * of_other.bytes
    assert whole.casts <= other.casts and layer.casts <= (32 if mode == "train" else 0)
    assert layer.waits == 0 and whole.waits <= 1
    assert names["bmm"] == 0  # nothing forms the matrix


def python_calls(step):
    """How many functions of Python a step enters, after two steps have warmed up."""
    counts = []
    step(), step()
    sys.setprofile(lambda frame, event, _: counts.append(1) if event == "call" else None)
    try:
        step()
    finally:
        sys.setprofile(None)
    return len(counts)


def test_a_short_pass_on_a_cpu_enters_few_functions():
    """There, a pass over a few tokens takes as long as Python and the dispatches need."""
    found = {}
    for make in (ours, theirs):
        one, two = (make("forward", n, 1, 8) for n in (1, 2))
        of_layer = python_calls(two) - python_calls(one)
        found[make] = count(two, fake=False)[0].dispatches, of_layer
    assert found[ours][0] <= found[theirs][0]
    assert found[ours][1] <= 2 * found[theirs][1]


def of_decoding(make, layers):
    """The counts of one step of decoding: of six new tokens less those of five."""
    more, fewer = (count(make(layers, n), fake=False)[0] for n in (6, 5))
    return more - fewer


def our_text(layers, new):
    from keras_posenc import Generator, build_transformer_model

    config = {**LLAMA, "num_hidden_layers": layers, "model_type": "llama"}
    model = build_transformer_model(config, with_mlm="linear")
    generator = Generator(model, max_length=new, end_id=2)
    prompts, _ = arrays(4, 16)
    return lambda: generator.predict(prompts, verbose=0)


def their_text(layers, new):
    config = transformers.LlamaConfig(**LLAMA, num_hidden_layers=layers)
    model = transformers.LlamaForCausalLM._from_config(config, attn_implementation="sdpa").eval()
    tokens = torch.from_numpy(arrays(4, 16)[0].astype("int64"))
    options = {"do_sample": False, "min_new_tokens": new, "max_new_tokens": new, "pad_token_id": 0}

    def step():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            model.generate(tokens, attention_mask=torch.ones_like(tokens), **options)

    return step


def test_a_step_of_decoding_dispatches_what_transformers_does_and_waits_for_nothing(cuda, mixed):
    one, two = (of_decoding(our_text, n) for n in (1, 2))
    other_one, other_two = (of_decoding(their_text, n) for n in (1, 2))
    whole, other = one.layers(two, LAYERS), other_one.layers(other_two, LAYERS)
    assert whole.dispatches <= other.dispatches
    layer, of_other = two - one, other_two - other_one
    assert layer.dispatches <= of_other.dispatches
    assert layer.waits == 0 and whole.waits == 0
    assert layer.casts <= of_other.casts
