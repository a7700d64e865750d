"""What a saved model states about the transformer in it."""

import dataclasses

from keras_posenc.checkpoints.account import Account
from keras_posenc.encodings import get as get_encoding
from keras_posenc.files.untrusted import parse_json, quote, shorten
from keras_posenc.models.config_file import read_config
from keras_posenc.models.families import FAMILIES


@dataclasses.dataclass
class LoadedTransformer:
    """What a loaded model knows of the `Transformer` that it was made by."""

    config: object  # `Config`
    family: str
    table: object
    account: Account | None
    layers: dict  # name -> layer of the loaded model
    encodings: tuple  # lists of encodings, one a layer, if the user gave some
    swapped: bool  # whether the user did
    packed: bool = False  # whether rows hold several texts

    @property
    def options(self):
        """The options that `save_checkpoint` and new heads ask for."""
        return self


def loaded_transformer(model, about):
    """Returns the `LoadedTransformer` of a model, from the description in its file."""
    try:
        about = parse_json(about.encode(), nan=True)
        by_name = {layer.name: layer for layer in model.layers}
        names = about["layers"].items()
        layers = {name: by_name[saved] for name, saved in names if saved in by_name}
        account = about["account"] and Account(**about["account"])
        family, config = about["family"], about["config"]
        packed = bool(about.get("packed"))  # files of earlier versions lack it
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"The description of the transformer in the file is damaged ({shorten(error)}): build "
            "the model again with the file as checkpoint_path."
        ) from None
    if family not in FAMILIES:
        raise ValueError(f"The file names a family {quote(family)}, which is not registered.")
    config = read_config(config, family)
    table, specs = FAMILIES[family].table(config), config.saved_encodings or ()
    encodings = tuple([get_encoding(spec) for spec in layer] for layer in specs)
    return LoadedTransformer(config, family, table, account, layers, encodings, bool(specs), packed)
