"""Landmark pooling: a text's vector is the mean of the features of landmark tokens between chunks.

    [CLS] chunk 1 [SEP] chunk 2 [SEP] ... chunk N [SEP]    ->    the mean over the features of [SEP]

arXiv 2601.21525 trains an encoder with such landmarks, and reports that it matches mean pooling on
short texts and finds more in long ones. Here, nothing is trained, and the landmarks are MiniLM's.
"""

import numpy as np

from keras_posenc import build_transformer_model


class Landmarks:
    """An embedder with the pooling above.

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
