"""Rivals of long context that are tried here without training: calibration and landmarks."""

import keras
import numpy as np
from keras import ops

from keras_posenc import Encoding, build_transformer_model


@keras.saving.register_keras_serializable(package="benchmarks")
class BasketCalibration(Encoding):
    """Attention calibration for position fairness: each basket of keys gets more equal weight.

        a'_ij = (1 - s) a_ij + s a_ij / (n sum of a_ij over the keys j' of j's basket)

    where n is the number of baskets of B keys. The papers calibrate the token that is pooled; where
    all tokens are averaged, all of them are pooled. arXiv 2606.02737 takes B = 128, s = 0.5, half
    of the layers, and reports a lower position sensitivity on PosIR in all 16 combinations.
    """

    reads_keys = False

    def __init__(self, basket=128, strength=0.5, **kwargs):
        super().__init__(**kwargs)
        self.basket, self.strength = basket, strength

    def normalize(self, logits, grid):
        weights = ops.softmax(ops.cast(logits, "float32"), axis=-1)
        positions = ops.cast(grid.key_positions, "int32")  # (B or 1, Tk)
        basket = ops.one_hot(positions // self.basket, self._count(logits))  # (B or 1, Tk, N)
        basket = ops.expand_dims(basket, 1)
        sums = ops.matmul(weights, basket)  # (B, H, Tq, N)
        filled = ops.cast(sums > 1e-9, "float32")
        number = ops.sum(filled, axis=-1, keepdims=True)
        share = filled / ops.maximum(number * sums, 1e-9)
        share = ops.matmul(share, ops.swapaxes(basket, -1, -2))  # (B, H, Tq, Tk)
        return ops.cast(weights * (1 - self.strength + self.strength * share), logits.dtype)

    def _count(self, logits):
        return logits.shape[-1] // self.basket + 2

    def get_config(self):
        return {**super().get_config(), "basket": self.basket, "strength": self.strength}


def calibrated(encodings, layers):
    """Encodings per layer: those given, and the calibration in the upper half of the layers."""
    lower = layers // 2
    return [encodings] * lower + [[*encodings, BasketCalibration()]] * (layers - lower)


class Landmarks:
    """Landmark pooling: a text's vector is the mean over the features of tokens between chunks.

        [CLS] chunk 1 [SEP] chunk 2 [SEP] ... chunk N [SEP]    ->    the mean over those of [SEP]

    arXiv 2601.21525 trains an encoder with such landmarks, and reports that it matches mean pooling
    on short texts and finds more in long ones. Here, nothing is trained, and the landmarks are
    MiniLM's.

    Args:
        directory: of the encoder.
        tokenizer: `Tokenizer`.
        every: int. Tokens of a chunk.
        length: int. Tokens of a text that are read.
        arguments: of `build_transformer_model`.
    """

    def __init__(self, directory, tokenizer, every, length, **arguments):
        self.model = build_transformer_model(directory, **arguments)
        self.tokenizer, self.every, self.length = tokenizer, every, length

    def predict(self, texts, verbose=0):
        return np.concatenate([self._vector(ids) for ids in self.tokenizer.contents(texts)])

    def _vector(self, content):
        start, landmark = self.tokenizer.encode("")[0]
        ids = [start]
        for first in range(0, max(1, len(content)), self.every):
            ids += [*content[first : first + self.every], landmark]
        ids = np.array([ids[: self.length]], "int32")
        inputs = {"token_ids": ids, "segment_ids": np.zeros_like(ids)}
        features = np.asarray(self.model.predict_on_batch(inputs))[ids == landmark]
        vector = features.mean(0, keepdims=True)
        return vector / np.linalg.norm(vector)
