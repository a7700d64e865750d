"""Dense vectors in a quarter or a thirty-second of their bytes."""

import dataclasses

import numpy as np

from keras_posenc.arguments import checks
from keras_posenc.metrics.scores import unit_rows

KINDS = ("int8", "bits")
ROWS = 2**14  # that are coded together


@dataclasses.dataclass(frozen=True)
class CodedVectors:
    """Unit vectors as whole numbers with a scale each, or as the signs of their numbers.

    A slice of them is an array of float32, so that they are compared block by block as others are.
    """

    codes: np.ndarray  # (N, D) int8, or (N, D / 8) uint8 of signs, eight in a byte
    scales: np.ndarray  # (N,) float32, what the numbers are multiplied by
    width: int  # D

    @classmethod
    def of(cls, vectors, kind):
        """Codes the directions of vectors (N, D), also of a memory map, as "int8" or "bits"."""
        checks.choice("kind", kind, KINDS)
        codes, scales, width = [], [], vectors.shape[1]
        for first in range(0, len(vectors), ROWS):
            given = np.asarray(vectors[first : first + ROWS], "float32")
            block = unit_rows(given)
            if kind == "bits":
                codes.append(np.packbits(block > 0, axis=1))
                scales.append(np.full(len(block), width**-0.5, "float32"))
            else:
                most = np.abs(given).max(1)
                # Whole numbers up to 127, as of pplx-embed, are codes already.
                whole = (given == np.rint(given)).all(1) & (most > 0) & (most <= 127)
                largest = np.maximum(np.abs(block).max(1), 1e-12)
                scales.append(largest / np.where(whole, most, 127))
                codes.append(np.rint(block / scales[-1][:, None]).astype("int8"))
        return cls(np.concatenate(codes), np.concatenate(scales), width)

    def __len__(self):
        return len(self.codes)

    def __getitem__(self, rows):
        found = self.codes[rows]
        if found.dtype == np.uint8:
            found = np.unpackbits(found, axis=1, count=self.width).astype("float32") * 2 - 1
        return found.astype("float32") * self.scales[rows, None]

    def kinds(self, rows):
        """How many different codes some rows have."""
        return len(np.unique(self.codes[rows], axis=0))

    @property
    def shape(self):
        return (len(self.codes), self.width)

    @property
    def nbytes(self):
        return self.codes.nbytes + self.scales.nbytes
