"""Which encodings each layer has: the family's, those that are named, and another scaling."""

import dataclasses

from keras_posenc.encodings import get as get_encoding
from keras_posenc.encodings.remapped import RemappedRotary
from keras_posenc.encodings.rope_scaling import read_scaling
from keras_posenc.encodings.rotary import RotaryEmbedding
from keras_posenc.files.untrusted import quote
from keras_posenc.models.config_file import read_config
from keras_posenc.models.families import FAMILIES
from keras_posenc.models.families.rope import rescaled


def choose_encodings(config, named=None, scaling=None):
    """Chooses the encodings of a model's layers.

    `config` names those of the family, or those of a saved model. `named` and `scaling`:
    `encodings` and `rope_scaling` of `build_transformer_model`. Returns the config with the keys of
    the scaling, a list per layer, and whether they are others than the config's keys mean in
    another library.
    """
    family, count = FAMILIES[config.family], config.num_hidden_layers
    swapped = bool(named)
    if named is None and config.saved_encodings:
        swapped, encodings = True, by_layer(config.saved_encodings, count)
    else:
        encodings = together(by_layer(config.encodings, count), by_layer(named, count))
    if scaling is None:
        return config, encodings, swapped
    source = rescaled(config.source or {}, scaling, family)
    encodings = rescale(encodings, scaling, config.max_position, family.title)
    if source is not None and not swapped and not _reads_as(source, family.name, encodings):
        source = None
    config = dataclasses.replace(config, source=source or config.source)
    return config, encodings, swapped or source is None


def by_layer(encodings, count):
    """A list of specs for each of the `count` layers, or nothing; each spec is tried here."""
    if not encodings:
        return ()
    if not isinstance(encodings, (list, tuple)):
        raise TypeError(
            "`encodings` is a list of names, dicts or encodings, or a list of such lists, one a "
            f"layer. Received: {quote(encodings)}"
        )
    lists = [isinstance(spec, (list, tuple)) for spec in encodings]
    if not any(lists):
        encodings = [encodings] * count
    elif not all(lists) or len(encodings) != count:
        raise ValueError(
            f"`encodings` layer by layer needs {count} lists, one for each layer. "
            f"Received: {quote(encodings)}"
        )
    return tuple([get_encoding(spec) for spec in layer] for layer in encodings)


def together(family, named):
    """The encodings of each layer: the family's, in which those named take the place of their kind,
    and the others that are named behind them."""
    if not family or not named:
        return family or named
    layers = []
    for published, more in zip(family, named, strict=True):
        new = {_kind(encoding): encoding for encoding in more}
        updated = [_instead(new[_kind(e)], e) if _kind(e) in new else e for e in published]
        replaced = {_kind(encoding) for encoding in published}
        layers.append([*updated, *(e for e in more if _kind(e) not in replaced)])
    return tuple(layers)


def _kind(encoding):
    """The class whose place an encoding takes: a rotation by other distances is a rotation too."""
    return RotaryEmbedding if isinstance(encoding, RemappedRotary) else type(encoding)


def _instead(named, family):
    """The named encoding, with how the family's rotates where it rotates by other distances."""
    if type(named) is type(family):
        return named
    config, usual = named.get_config(), type(named)().get_config()
    for name, value in family.get_config().items():
        if name not in ("name", "dtype") and config[name] == usual[name]:
            config[name] = value
    return type(named).from_config(config)


def rescale(encodings, scaling, original, title):
    """The encodings, the rotary ones with another scaling."""
    scaling = {"max_position_embeddings": original, **scaling}
    read_scaling(scaling)  # Keras would wrap the error of the encoding

    def changed(encoding):
        if not isinstance(encoding, RotaryEmbedding):
            return encoding
        return type(encoding).from_config({**encoding.get_config(), "scaling": scaling})

    if not any(isinstance(e, RotaryEmbedding) for layer in encodings for e in layer):
        raise ValueError(
            f"`rope_scaling` scales rotary encodings, and {title} has none; a table of positions "
            f"is stretched by `stretch` or `hierarchical_position`. Received: {quote(scaling)}"
        )
    return tuple([changed(encoding) for encoding in layer] for layer in encodings)


def rotations(encodings):
    """The settings of the rotary encodings of each layer, to compare them."""

    def settings(encoding):
        config = {**encoding.get_config(), "scaling": read_scaling(encoding.scaling)}
        return type(encoding), {k: v for k, v in config.items() if k not in ("name", "dtype")}

    return [[settings(e) for e in layer if isinstance(e, RotaryEmbedding)] for layer in encodings]


def _reads_as(source, model, encodings):
    """Whether a config file with these keys has encodings that rotate as these do."""
    try:
        config = read_config(source, model)
    except ValueError:
        return False
    return rotations(by_layer(config.encodings, config.num_hidden_layers)) == rotations(encodings)


def check_encodings(encodings, application, options, config):
    """Refuses encodings for causal models alone, and any together with `attention_caches`."""
    every = [encoding for layer in encodings for encoding in layer]
    causal = [type(encoding).__name__ for encoding in every if encoding.causal_only]
    if causal and application != "lm" and not config.causal:
        raise ValueError(
            f"{causal[0]} is for causal attention, which is application='lm'; its arguments may "
            f"offer a form that looks both ways. Received: application={application!r}"
        )
    if every and options.get("attention_caches"):
        raise ValueError(
            "`attention_caches` come before every token, where encodings have no position for "
            "them: give one or the other."
        )
