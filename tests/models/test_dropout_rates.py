"""Dropout rates: one default, and a config.json that other libraries read alike."""

import dataclasses
import inspect

import pytest

from keras_posenc import Config, PositionalAttention, build_encoder_decoder, read_config
from keras_posenc.models.families import FAMILIES
from keras_posenc.models.families.family import ALIASES

pytestmark = pytest.mark.once

RATES = ("dropout_rate", "attention_dropout_rate")
# Families of transformers, without those that it has under other names.
COMPARED = [
    name
    for name, family in FAMILIES.items()
    if family.compared.startswith("transformers") and name not in ("albert_unshared", "jina_v2")
]

# Where a default of transformers is not served, or there is none.
SERVED = {"esm": {"position_embedding_type": "rotary", "vocab_size": 33}}


def default_of(function, argument):
    return inspect.signature(function).parameters[argument].default


def test_attention_dropout_has_one_default(tiny_config):
    default = Config.attention_dropout_rate
    tiny_config.pop("attention_probs_dropout_prob", None)
    silent = read_config(tiny_config)
    null = read_config({**tiny_config, "attention_probs_dropout_prob": None})
    assert silent.attention_dropout_rate == null.attention_dropout_rate == default
    assert default_of(PositionalAttention, "dropout") == default
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8}
    model = build_encoder_decoder(9, num_hidden_layers=1, **sizes)
    found = [layer.dropout for layer in model.layers if isinstance(layer, PositionalAttention)]
    assert found == [default] * 3


@pytest.mark.parametrize("change", [{}, {"dropout_rate": 0.25, "attention_dropout_rate": 0.125}])
@pytest.mark.parametrize("name", COMPARED)
def test_transformers_reads_the_rates_that_were_written(name, change):
    """Whatever the file said before, or if it said nothing."""
    import transformers

    family = FAMILIES[name]
    reference = transformers.CONFIG_MAPPING[family.model_types[0]]
    whole = reference(architectures=None, **SERVED.get(name, {})).to_dict()
    silent = {key: value for key, value in whole.items() if "drop" not in key}
    for source in (whole, silent):
        config = read_config(source, name, **change)
        written = config.to_huggingface()
        found = reference(**written)
        keys = {field: key for key, field in {**ALIASES, **family.aliases}.items()}
        for rate in RATES:
            assert getattr(found, keys[rate]) == getattr(config, rate)
        for key, rate in family.rates.items():
            kept = source is whole and not change
            assert getattr(found, key) == (whole[key] if kept else getattr(config, rate))
        assert read_config(written, name) == config
        later = read_config(config, dropout_rate=0.5).to_huggingface()
        assert all(later[key] == 0.5 for key in (keys["dropout_rate"], *family.rates))


def test_a_config_without_a_source_writes_the_keys_of_its_family(tiny_config):
    config = read_config(tiny_config, dropout_rate=0.25)
    config = dataclasses.replace(config, family="distilbert", source=None)
    assert config.to_huggingface()["dropout"] == 0.25
