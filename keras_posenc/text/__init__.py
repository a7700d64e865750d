"""From text to inputs of `model.fit`: tokenizer, files, labels, batches of similar length."""

from typing import TYPE_CHECKING

from keras_posenc.keras_support.lazy import names_on_request

if TYPE_CHECKING:
    from keras_posenc.text.documents import Row
    from keras_posenc.text.files import Texts, labels_of, read_texts
    from keras_posenc.text.labels import (
        ClassLabels,
        FloatLabels,
        Labels,
        MultiLabels,
        NextTokenLabels,
        SpanLabels,
        TagLabels,
        tag_names,
    )
    from keras_posenc.text.packing import pack_rows
    from keras_posenc.text.pretraining_batches import CausalBatches, MaskedLanguageModelBatches
    from keras_posenc.text.simplified import simplified_vocabulary
    from keras_posenc.text.text_batches import TextBatches
    from keras_posenc.text.tokenizer import Tokenizer

__all__ = [
    "CausalBatches", "MaskedLanguageModelBatches", "ClassLabels", "FloatLabels", "Labels",
    "MultiLabels", "NextTokenLabels", "Row", "SpanLabels", "TagLabels", "TextBatches", "Texts",
    "Tokenizer", "labels_of", "pack_rows", "read_texts", "simplified_vocabulary", "tag_names",
]  # fmt: skip

names_on_request(__name__)
