"""Texts whose names repeat, and a tiny embedder that knows their words."""

import keras
import numpy as np
from conftest import TINY_CONFIG

from keras_posenc import build_transformer_model, save_checkpoint
from keras_posenc.training import LANGUAGES

ENGLISH = LANGUAGES["en"]
STORY = (
    "The old mill stood near the river. We met {name} there in spring. Later {name} sold "
    "{thing} at the market, and {p} was glad of it. I asked {name} about the road, because {p} "
    "knew it well. All the winter {name} wrote letters to {o} sister. In the evening {name} "
    "sang, and {p} sang for us. People spoke with {name} about {thing} and {o} garden. Then "
    "{name} went home. The price of {thing} rose. Nobody bought {thing} then."
)
PEOPLE = [
    ("Ada", "she", "her", "cheese"), ("Otto", "he", "his", "lamps"),
    ("Nora", "she", "her", "boots"),
    ("Hugo", "he", "his", "chairs"),
    ("Rita", "she", "her", "honey"), ("Emil", "he", "his", "paper"),
]  # fmt: skip
TEXTS = [STORY.format(name=n, p=p, o=o, thing=t) for n, p, o, t in PEOPLE]
OPENING = 0.4  # as by default
SHORT = {"max_length": 700, "train_length": 128, "steps": 2, "verbose": False}


def write_embedder(folder):
    """Writes a random embedder of 64 positions into a folder, which is returned."""
    pools = " ".join(pronoun.names for pronoun in ENGLISH.pronouns)
    words = sorted(
        set(f"{' '.join(TEXTS)} {pools}".lower().replace(".", " ").replace(",", " ").split())
    )
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ",", *words]
    config = {**TINY_CONFIG, "vocab_size": len(vocabulary), "max_position_embeddings": 64}
    keras.utils.set_random_seed(0)
    model = build_transformer_model(config | {"initializer_range": 0.3})
    rng = np.random.default_rng(0)
    model.set_weights([(w == 1) + 0.3 * rng.normal(size=w.shape) for w in model.get_weights()])
    save_checkpoint(model, folder)
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    return folder
