"""Train short, test long: a benchmark of encodings on lengths that they were not trained on."""

from keras_posenc.bench.benchmark_pictures import save_pictures
from keras_posenc.bench.campaign import bench
from keras_posenc.bench.models import build_model
from keras_posenc.bench.passkey import bench_passkey
from keras_posenc.bench.passkey_table import passkey_table
from keras_posenc.bench.perplexity_table import perplexity_table
from keras_posenc.bench.settings import Settings
from keras_posenc.bench.shell_command import commands_of
from keras_posenc.bench.table import (
    curves,
    curves_by_place,
    read_results,
    to_table,
)
from keras_posenc.keras_support.lazy import names_on_request

__all__ = [
    "Settings",
    "bench",
    "bench_passkey",
    "build_model",
    "commands_of",
    "curves",
    "curves_by_place",
    "passkey_table",
    "perplexity_table",
    "read_results",
    "save_pictures",
    "to_table",
]

names_on_request(__name__)
