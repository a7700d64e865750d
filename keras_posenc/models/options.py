"""The options of `build_transformer_model` besides the `Config`."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the graph; every field is a keyword of `build_transformer_model`.

    Attributes:
        extension: `Extension` of the table of positions, or None.
        encodings: list of specs for every layer, the family's own included.
        head: `TaskHead`, or None; the keyword names its task.
        swapped: bool. Whether the user gave some of them.
        stored: function (name, shape) -> array or None, the checkpoint's numbers.
    """

    application: str = "encoder"
    extension: object = None
    max_position: int | None = None
    encodings: tuple = ()
    swapped: bool = False
    absolute_positions: bool = True
    position_ids: object = None
    with_pool: bool | str = False
    with_nsp: bool | str = False
    with_mlm: bool | str = False
    with_discriminator: bool | str = False
    head: object = None
    label_names: list | None = None
    custom_position_ids: bool = False
    packed: bool = False
    sequence_length: int | None = None
    shared_segment_embeddings: bool = False
    residual_attention_scores: bool = False
    flash_attention: bool | None = None
    attention_caches: dict | None = None
    layer_norm_cond: object = None
    layer_norm_cond_hidden_size: int | None = None
    layer_norm_cond_hidden_act: str = "linear"
    additional_input_layers: object = None
    layers: dict | None = None
    stored: object = None
    prefix: str = ""
    name: str | None = None


# Fields that the factory derives from its own arguments.
DERIVED = {
    "application", "extension", "max_position", "encodings", "swapped", "absolute_positions",
    "position_ids", "stored",
}  # fmt: skip
KEYWORDS = {field.name for field in dataclasses.fields(Options)} - DERIVED
