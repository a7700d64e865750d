"""How many spaces `Tokenizer.decode` puts where the text has none, or leaves out.

    python -m benchmarks.numerics.decoding

Book excerpts and Grimm's tales in lower-case ASCII, their spaces made one, encoded by MiniLM's
tokenizer and decoded by ours and by the `tokenizers` library's own decoder of WordPiece.
"""

import numpy as np
import tokenizers

from benchmarks.shared.data import CORPORA, MINILM
from keras_posenc import Tokenizer, read_texts


def spaces(text):
    """After how many other characters the spaces of a text stand."""
    return set(np.cumsum([len(word) for word in text.split(" ")]).tolist())


def main():
    ours = Tokenizer(MINILM)
    reference = tokenizers.Tokenizer.from_file(f"{MINILM}/tokenizer.json")
    for name in ("book-excerpts", "grimm-tales"):
        places, wrong = 0, {"ours": 0, "tokenizers": 0}
        for text in read_texts(f"{CORPORA}/{name}.tab", label=False).texts:
            text = " ".join(text.encode("ascii", "ignore").decode().lower().split())
            ids = ours.encode(text)[0]
            decoded = {"ours": ours.decode(ids), "tokenizers": reference.decode(ids)}
            if any(found.replace(" ", "") != text.replace(" ", "") for found in decoded.values()):
                continue  # an unknown character
            places += len(text.replace(" ", "")) - 1
            for peer, found in decoded.items():
                wrong[peer] += len(spaces(text) ^ spaces(found))
        shares = ", ".join(
            f"{peer} {count} ({count / places:.2%})" for peer, count in wrong.items()
        )
        print(f"{name}: of {places:,} places between characters wrong: {shares}")


if __name__ == "__main__":
    main()
