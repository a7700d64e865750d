"""Mean features of a frozen encoder, computed once and kept on disk."""

import hashlib
import pathlib

import keras
import numpy as np

from keras_posenc import Tokenizer, build_transformer_model
from keras_posenc.training.stretching.windows import one_segment

CHUNK = 512


class FrozenEncoder:
    """Means of an encoder's last features over spans of a text.

    Args:
        checkpoint: directory with weights, config and tokenizer.
        folder: directory of the features that are known already.
        **options: keywords of `build_transformer_model`.
    """

    def __init__(self, checkpoint, folder, **options):
        self.checkpoint, self.options = pathlib.Path(checkpoint), options
        self.folder, self.model = pathlib.Path(folder), None
        self.folder.mkdir(parents=True, exist_ok=True)
        self.tokenizer = Tokenizer(checkpoint)
        digest = hashlib.sha256(repr(sorted(options.items())).encode())
        for path in sorted(self.checkpoint.glob("*.safetensors")):
            digest.update(path.read_bytes())
        self.name = digest.hexdigest()

    def means(self, ids, spans):
        """Features (spans, D): the mean over the tokens a .. b - 1 of each span (a, b) of `ids`,
        special tokens included."""
        asked = hashlib.sha256(f"{self.name} {list(ids)} {list(spans)}".encode()).hexdigest()
        path = self.folder / f"{asked[:32]}.npy"
        if path.exists():
            return np.load(path)
        if self.model is None:
            self.model = build_transformer_model(self.checkpoint, **self.options)
        inputs = one_segment(self.model, np.array([ids], "int32"))
        found = keras.ops.convert_to_numpy(self.model.predict_on_batch(inputs))[0]
        found = np.stack([found[a:b].mean(0) for a, b in spans]).astype("float32")
        np.save(path, found)
        return found

    def one_pass(self, ids):
        """Features (D,) of a text of token ids, read at once."""
        row = self.tokenizer.assemble(ids)[0]
        return self.means(row, [(0, len(row))])[0]

    def chunks(self, ids):
        """Features (chunks, D) of its chunks of 512 tokens, special tokens included."""
        return np.stack([self.one_pass(part) for _, part in self.parts(ids)])

    def lines(self, ids, spans):
        """Features (spans, D) of parts of a text, read at once."""
        first = self.tokenizer.assemble([-1])[0].index(-1)
        row = self.tokenizer.assemble(ids)[0]
        return self.means(row, [(a + first, b + first) for a, b in spans])

    def lines_in_chunks(self, ids, spans):
        """Features (spans, D) of parts of a text, read in chunks: a part that a chunk's end cuts
        has the mean over its tokens in both."""
        found, sizes = 0.0, np.array([[b - a] for a, b in spans])
        for start, part in self.parts(ids):
            end = start + len(part)
            inside = [(i, max(a, start), min(b, end)) for i, (a, b) in enumerate(spans)]
            inside = [(i, a, b) for i, a, b in inside if a < b]
            means = self.lines(part, [(a - start, b - start) for _, a, b in inside])
            here = np.zeros((len(spans), means.shape[1]))
            for (i, a, b), mean in zip(inside, means, strict=True):
                here[i] = mean * (b - a)
            found = found + here
        return found / sizes

    def parts(self, ids):
        """(first token, token ids) of each chunk, without special tokens."""
        room = CHUNK - self.tokenizer.special_tokens()
        return [(i, ids[i : i + room]) for i in range(0, max(len(ids), 1), room)]
