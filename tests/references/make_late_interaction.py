"""Writes late_interaction.npz: tiny models of PyLate and Stanford's ColBERT, and their vectors.

Run with transformers 5.23, and with a folder that `pip install --target FOLDER --no-deps
pylate==1.6.0 sentence-transformers==5.3.0 colbert-ai==0.2.22` filled:

    python tests/references/make_late_interaction.py FOLDER

The encoders are random. PyLate's model is made, saved and run by PyLate; what it imports for
training and for model cards is left out. Stanford's weights, file names and token ids are made by
the classes of colbert-ai, whose `ColBERT` itself needs a compiler: its few lines between ids and
vectors are repeated here.
"""

import enum
import json
import pathlib
import string
import sys
import tempfile
import types

import numpy as np
import torch
import transformers

QUERIES = ["who lives where?", "one"]
DOCUMENTS = ["Two text, three. (four)!", "five six seven " * 30, "nine; nine"]
SPECIAL = "[PAD] [UNK] [CLS] [SEP] [MASK] [unused0] [unused1]".split()
WORDS = "long text short test query document one two three four five six seven eight nine ten the a"
WORDS = [*SPECIAL, *string.punctuation, *WORDS.split(), *"is of ##s ##er who where lives".split()]


def packages(folder, *names):
    """Makes packages importable without running what their `__init__` imports."""
    for name in names:
        module = types.ModuleType(name)
        module.__path__ = [str(folder / name.replace(".", "/"))]
        sys.modules[name] = module
    return [sys.modules[name] for name in names]


def encoder(folder):
    torch.manual_seed(0)
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n", "utf-8")
    config = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=48,
        initializer_range=0.5,
    )
    transformers.BertModel(config).save_pretrained(folder)
    tokenizer = transformers.BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=48)
    tokenizer.save_pretrained(folder)
    return folder


def pylate(libraries, source, target):
    _, _, utils, scores, _, card = packages(
        libraries,
        *("pylate", "pylate.models", "pylate.utils", "pylate.scores"),
        *("pylate.hf_hub", "pylate.hf_hub.model_card"),
    )
    from sentence_transformers.model_card import SentenceTransformerModelCardData

    class SimilarityFunction(enum.Enum):
        MAXSIM = "MaxSim"
        to_similarity_fn = to_similarity_pairwise_fn = staticmethod(lambda name: None)

    utils._start_multi_process_pool = None
    scores.SimilarityFunction = SimilarityFunction
    card.PylateModelCardData = SentenceTransformerModelCardData
    from pylate.models.colbert import ColBERT

    sizes = {"embedding_size": 8, "query_length": 12, "document_length": 40}
    ColBERT(str(source), device="cpu", local_files_only=True, **sizes).save_pretrained(str(target))
    model = ColBERT(str(target), device="cpu", local_files_only=True)
    encode = {"show_progress_bar": False}
    return model.encode(QUERIES, is_query=True, **encode), model.encode(
        DOCUMENTS, is_query=False, **encode
    )


def stanford(libraries, source, target):
    packages(libraries, "colbert", "colbert.modeling", "colbert.modeling.tokenization")
    infra, _ = packages(libraries, "colbert.infra", "colbert.infra.config")
    infra.ColBERTConfig = types.SimpleNamespace
    packages(libraries, "colbert.utils")
    utils, parameters = packages(libraries, "colbert.utils.utils", "colbert.parameters")
    utils.torch_load_dnn, parameters.DEVICE = None, torch.device("cpu")
    from colbert.modeling.hf_colbert import class_factory
    from colbert.modeling.tokenization.doc_tokenization import DocTokenizer
    from colbert.modeling.tokenization.query_tokenization import QueryTokenizer

    metadata = {
        "query_token": "[Q]",
        "query_token_id": "[unused0]",
        "doc_token": "[D]",
        "doc_token_id": "[unused1]",
        "dim": 8,
        "query_maxlen": 12,
        "doc_maxlen": 40,
        "mask_punctuation": True,
        "attend_to_mask_tokens": False,
        "similarity": "cosine",
    }
    config = types.SimpleNamespace(checkpoint=str(target), total_visible_gpus=0, **metadata)
    torch.manual_seed(1)
    kind = class_factory(str(source))
    # What transformers 5 asks of a class, and this one was written before.
    kind.all_tied_weights_keys, kind._keys_to_ignore_on_load_unexpected = {}, {"cls"}
    model = kind.from_pretrained(str(source), colbert_config=config).eval()
    torch.nn.init.normal_(model.linear.weight, std=0.3)
    model.save_pretrained(target)
    transformers.AutoTokenizer.from_pretrained(source).save_pretrained(target)
    (target / "artifact.metadata").write_text(json.dumps(metadata, indent=4), "utf-8")
    tokenizer = model.raw_tokenizer_from_pretrained(str(target))
    symbols = list(string.punctuation)
    skipped = {tokenizer.encode(each, add_special_tokens=False)[0] for each in symbols}

    def vectors(ids, mask, skipped):
        with torch.no_grad():
            x = model.linear(model.LM(ids, attention_mask=mask)[0])
        rows = ids.tolist()
        unread = {*skipped, tokenizer.pad_token_id}
        kept = torch.tensor([[token not in unread for token in row] for row in rows])
        x = torch.nn.functional.normalize(x * kept[..., None], p=2, dim=2)
        return [row[selected].numpy() for row, selected in zip(x, kept, strict=True)]

    queries = vectors(*QueryTokenizer(config, 0).tensorize(QUERIES), ())
    return queries, vectors(*DocTokenizer(config).tensorize(DOCUMENTS), skipped)


def main(libraries):
    sys.path.insert(0, str(libraries))
    arrays = {}
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        source = encoder(place / "encoder")
        for make in (pylate, stanford):
            name = make.__name__
            queries, documents = make(libraries, source, place / name)
            arrays |= {f"{name}:q{number}": each for number, each in enumerate(queries)}
            arrays |= {f"{name}:d{number}": each for number, each in enumerate(documents)}
            for path in sorted((place / name).rglob("*")):
                if path.is_file() and path.name != "README.md":
                    data = np.frombuffer(path.read_bytes(), "uint8")
                    arrays[path.relative_to(place).as_posix()] = data
    target = pathlib.Path(__file__).with_name("late_interaction.npz")
    np.savez_compressed(target, **arrays)
    print(target, *(f"{name} {array.shape}" for name, array in arrays.items()), sep="\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
