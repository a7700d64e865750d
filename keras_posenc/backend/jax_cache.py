"""Compiled programs of JAX on disk, so that no other process compiles them again."""

import os
import pathlib
import platform
import sys
import zlib

import jax
from jax.experimental.compilation_cache import compilation_cache

# Below this JAX takes longer to read a program than to compile it.
LEAST_SECONDS = 0.1


def cache_programs():
    """Keeps compiled programs in the user's cache directory, unless the user has chosen another.

    JAX_COMPILATION_CACHE_DIR names another directory, JAX_ENABLE_COMPILATION_CACHE=false keeps
    none, and JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS sets which programs are worth it. Returns a
    str, the directory; None if nothing is kept, as where it cannot be written to.
    """
    if not jax.config.jax_enable_compilation_cache:
        return None
    if jax.config.jax_compilation_cache_dir is not None:
        return jax.config.jax_compilation_cache_dir
    try:
        folder = _user_cache() / "keras-posenc" / f"jax-{jax.__version__}-{_processor()}"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # no permission, or no home
        return None
    if not os.access(folder, os.W_OK):
        return None
    jax.config.update("jax_compilation_cache_dir", str(folder))
    compilation_cache.reset_cache()  # JAX asks for a directory only once
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", LEAST_SECONDS)
    return str(folder)


def keeps_programs():
    """Whether compiled programs are kept for later processes."""
    config = jax.config
    return config.jax_enable_compilation_cache and config.jax_compilation_cache_dir is not None


def _processor():
    """A name of what the processor can do: a home directory may serve several machines, and a
    program for another processor may not run."""
    features = f"{platform.machine()} {platform.processor()}"
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            features += next((n for n in lines if n.startswith(("flags", "Features"))), "")
    except OSError:  # not Linux
        pass
    return f"{zlib.crc32(features.encode()):08x}"


def _user_cache():
    """Where the user's programs keep what can be made again."""
    if sys.platform == "win32" and os.environ.get("LOCALAPPDATA"):
        return pathlib.Path(os.environ["LOCALAPPDATA"])
    if sys.platform == "darwin":
        return pathlib.Path.home() / "Library" / "Caches"
    named = os.environ.get("XDG_CACHE_HOME", "")
    return pathlib.Path(named) if os.path.isabs(named) else pathlib.Path.home() / ".cache"
