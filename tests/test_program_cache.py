"""Programs that JAX compiled are kept for later processes: where, and which."""

import keras
import numpy as np
import pytest

from keras_posenc import backend
from keras_posenc.cli import main

pytestmark = pytest.mark.skipif(keras.backend.backend() != "jax", reason="only JAX keeps programs")


@pytest.fixture
def jax(monkeypatch, tmp_path):
    """JAX without a directory for its programs, and a home of the user."""
    import jax
    from jax.experimental.compilation_cache import compilation_cache

    names = ["jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs"]
    names.append("jax_enable_compilation_cache")
    before = {name: getattr(jax.config, name) for name in names}
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    jax.config.update("jax_compilation_cache_dir", None)
    yield jax
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


def test_a_command_keeps_programs_in_the_cache_of_the_user(jax, tmp_path, capsys):
    assert main(["list"]) == 0
    folder = jax.config.jax_compilation_cache_dir
    assert folder.startswith(str(tmp_path / "cache" / "keras-posenc" / f"jax-{jax.__version__}-"))
    assert backend.cache_programs() == folder


def test_the_directory_that_the_user_chose_stays(jax, tmp_path):
    chosen = str(tmp_path / "chosen")
    jax.config.update("jax_compilation_cache_dir", chosen)
    assert backend.cache_programs() == jax.config.jax_compilation_cache_dir == chosen
    assert not (tmp_path / "cache").exists()


def test_nothing_is_kept_where_the_user_refuses_or_nothing_can_be_written(jax, tmp_path):
    jax.config.update("jax_enable_compilation_cache", False)
    assert backend.cache_programs() is None
    jax.config.update("jax_enable_compilation_cache", True)
    (tmp_path / "cache").write_text("a file")
    assert backend.cache_programs() is None
    assert jax.config.jax_compilation_cache_dir is None


def test_the_program_of_a_prediction_is_found_again(jax, tmp_path, monkeypatch, tiny_config):
    """In a process with a new model; here JAX forgets what it has compiled."""
    import pathlib

    from keras_posenc import build_transformer_model

    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    folder = pathlib.Path(backend.cache_programs())
    ids = np.ones((2, 8), "int32")
    counts = []
    for _ in range(2):
        model = build_transformer_model(tiny_config | {"num_hidden_layers": 1})
        model.predict_on_batch({"token_ids": ids, "segment_ids": 0 * ids})
        counts.append(len(list(folder.glob("jit_changes-*-cache"))))
        jax.clear_caches()
    assert counts == [1, 1]
