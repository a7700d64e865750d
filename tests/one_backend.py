"""A machine with few packages, played in a process of its own; `test_backends.py` runs it.

    python one_backend.py WITHOUT STEP [ARGUMENT ...]

WITHOUT is a comma separated list of packages that this process cannot find, as if they were not
installed; STEP is a function below. A step that fails ends the process with its traceback.
"""

import gc
import pathlib
import sys

TEXTS = ["A long walk by the sea.", "Stocks fell.", "The waves were high today.", "Bonds rose."]
LABELS = [0, 1, 0, 1]
TINY = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "hidden_act": "gelu",
    "max_position": 12,
}
OPTIONAL = ("tensorflow", "jax", "torch", "safetensors", "tokenizers", "matplotlib", "transformers")


class Without:
    """Stands before a finder of modules and hides packages, from `import` and `find_spec` alike."""

    def __init__(self, finder, hidden):
        self.finder = finder
        self.hidden = hidden

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.hidden:
            return None
        return self.finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)


HIDDEN = set()


def hide(packages):
    assert not set(packages) & set(sys.modules), "too late to hide them"
    HIDDEN.update(packages)
    sys.meta_path[:] = [Without(finder, HIDDEN) for finder in sys.meta_path]


def new_encoder(**kwargs):
    from keras_posenc import build_transformer_model

    return build_transformer_model(**TINY, **kwargs)


def inputs(length=10):
    import numpy as np

    ids = 1 + np.arange(2 * length, dtype="int32").reshape(2, length) % (TINY["vocab_size"] - 1)
    return {"token_ids": ids, "segment_ids": np.zeros_like(ids)}


def same(one, other):
    import numpy as np

    assert np.isfinite(one).all()
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)


def import_error(call, *words):
    """Asserts that `call` raises one ImportError that says all of `words`."""
    try:
        call()
    except ImportError as error:
        assert all(word in str(error) for word in words), f"unclear message: {error}"
    else:
        raise AssertionError(f"no ImportError that says {words}")


def import_jax():
    import jax

    print(jax.__version__)


def import_alone():
    """The import takes nothing that the package does not depend on."""
    import keras

    before = set(sys.modules)
    import keras_posenc

    assert keras_posenc.__version__
    taken = {name.split(".")[0] for name in set(sys.modules) - before} & set(OPTIONAL)
    assert not taken, f"import keras_posenc imports {taken} on {keras.backend.backend()}"


def from_scratch(folder):
    """A new model trains and is saved with keras and numpy alone; what needs more says so."""
    import keras
    import numpy as np

    from keras_posenc.models.heads import classifier
    from keras_posenc.text.tokenizer import Tokenizer

    model = classifier(new_encoder(hierarchical_position=True), num_classes=2)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(inputs(20), np.array([0, 1]), verbose=0)
    model.save(f"{folder}/model.keras")
    again = keras.saving.load_model(f"{folder}/model.keras")
    same(model.predict(inputs(20), verbose=0), again.predict(inputs(20), verbose=0))

    (pathlib.Path(folder) / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n")
    import_error(lambda: Tokenizer(f"{folder}/vocab.txt"), "tokenizers", "pip install tokenizers")


def whole_road(minilm, torch_bin, reference, first_layer, folder):
    """Real weights in two formats, bert4keras' answer, a tokenizer; then a step of training of the
    first layer, and saving."""
    import keras
    import numpy as np

    from keras_posenc import build_transformer_model
    from keras_posenc.models.heads import classifier
    from keras_posenc.text.text_batches import TextBatches
    from keras_posenc.text.tokenizer import Tokenizer

    tokenizer = Tokenizer(minilm)
    token_ids, segment_ids = tokenizer.encode("Hello, world!")
    assert token_ids == [101, 7592, 1010, 2088, 999, 102] and segment_ids == [0] * 6

    encoder = build_transformer_model(minilm, minilm, hierarchical_position=True)
    with np.load(reference) as arrays:
        feeds = {name: arrays[f"inputs/900/{name}"] for name in ("token_ids", "segment_ids")}
        positions = arrays["outputs/alpha_0.4/positions"]
        found = encoder.predict(feeds, verbose=0)[:, :: positions[1]]
        np.testing.assert_allclose(found, arrays["outputs/alpha_0.4/hidden"], rtol=0, atol=1e-5)
    torch_encoder = build_transformer_model(minilm, torch_bin, hierarchical_position=True)
    pairs = zip(encoder.get_weights(), torch_encoder.get_weights(), strict=True)
    assert all((one == other).all() for one, other in pairs)

    encoder = build_transformer_model(first_layer, hierarchical_position=True)
    model = classifier(encoder, num_classes=2)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    batches = TextBatches(TEXTS, LABELS, tokenizer=tokenizer, max_length=32, token_budget=64)
    before = model.get_weights()
    model.fit(batches, epochs=1, verbose=0)
    assert any((old != new).any() for old, new in zip(before, model.get_weights(), strict=True))

    model.save(f"{folder}/model.keras")
    again = keras.saving.load_model(f"{folder}/model.keras")
    same(model.predict(inputs(), verbose=0), again.predict(inputs(), verbose=0))


def read_google_names(folder):
    """Google's checkpoints are read with no TensorFlow at all."""
    from keras_posenc import build_transformer_model

    google = build_transformer_model(f"{folder}/bert_config.json", f"{folder}/bert_model.ckpt")
    other = build_transformer_model(f"{folder}/config.json", f"{folder}/model.safetensors")
    same(google.predict(inputs(), verbose=0), other.predict(inputs(), verbose=0))


def writing_google_names_needs_tensorflow(folder):
    """Without TensorFlow that is one clear error, and nothing half-written."""
    from keras_posenc.checkpoints.export import save_checkpoint

    model = new_encoder()
    import_error(
        lambda: save_checkpoint(model, folder, format="google"),
        "TensorFlow",
        "pip install tensorflow",
    )
    assert not list(pathlib.Path(folder).iterdir())


def one_backend(google_checkpoint, minilm, torch_bin, reference, first_layer, folder):
    """What works where nothing but Keras, NumPy and one backend is installed, then tokenizers."""
    import_alone()
    from_scratch(folder)
    read_google_names(google_checkpoint)
    if "tensorflow" not in sys.modules:
        writing_google_names_needs_tensorflow(f"{folder}/written")
    HIDDEN.discard("tokenizers")
    whole_road(minilm, torch_bin, reference, first_layer, folder)


if __name__ == "__main__":
    gc.disable()
    _, without, step, *arguments = sys.argv
    hide([package for package in without.split(",") if package])
    globals()[step](*arguments)
