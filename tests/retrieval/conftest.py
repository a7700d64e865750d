"""Tiny directories of retrieval models, made by transformers and sentence-transformers."""

import string

import pytest

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]", "[unused1]"]
WORDS = "one two three four five six seven eight nine ten who lives where long short text".split()
VOCABULARY = [*SPECIAL, *string.punctuation, *WORDS, "##s", "##er"]
SIZES = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 48,
    "initializer_range": 0.5,  # so that scores differ
}


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory):
    """A function that writes a random tiny BERT of a class of transformers, and its tokenizer."""
    import torch
    import transformers

    def write(name, **changes):
        folder = tmp_path_factory.mktemp(name)
        torch.manual_seed(0)
        config = transformers.BertConfig(**{**SIZES, **changes})
        getattr(transformers, name)(config).save_pretrained(folder)
        (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", "utf-8")
        tokenizer = transformers.BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=48)
        tokenizer.save_pretrained(folder)
        return folder

    return write
