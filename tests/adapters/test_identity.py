"""What other libraries know a model again by: settings that are read back, and a fingerprint."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
from forks import run_fork

from keras_posenc.adapters import Sides
from keras_posenc.retrieval import open_embedder
from keras_posenc.retrieval.embedding_record import identity_of
from keras_posenc.training import TextModel

pytestmark = [pytest.mark.once, pytest.mark.filterwarnings("ignore")]

TEXT = "w1 w4 w7 w2 w9 w3"
SETTINGS = {
    "none": {},
    "dimension": {"dimension": 8},
    "length": {"max_length": 4},
    "prompt": {"prompt": "w9 "},
    "chunks": {"reading": "chunks:4"},
    "late": {"reading": "late:2"},
    "other late": {"reading": "late:4"},
    "extension": {"extension": "hierarchical:0.2", "max_length": 24},
    "other extension": {"extension": "hierarchical:0.3", "max_length": 24},
    "tile": {"extension": {"table": "tile"}, "max_length": 24},
}


@pytest.fixture(scope="module")
def opened(pretrained):
    return {name: Sides(pretrained, **given) for name, given in SETTINGS.items()}


def test_models_of_other_numbers_have_other_fingerprints(opened):
    found = {name: each.fingerprint for name, each in opened.items()}
    assert len(set(found.values())) == len(SETTINGS), found


def test_what_changes_no_number_changes_no_fingerprint(opened, pretrained, tmp_path):
    plain = opened["none"].fingerprint
    copy = shutil.copytree(pretrained, tmp_path / "copy")
    for same in (
        Sides(str(pretrained), token_budget=64),
        Sides(pretrained, reading="whole", max_length=opened["none"].model.max_length),
        Sides(copy),
        Sides(open_embedder(pretrained)),
    ):
        assert same.fingerprint == plain
    code = (
        "import sys; from keras_posenc.adapters import Sides; print(Sides(sys.argv[1]).fingerprint)"
    )
    assert run_fork("code", code, [pretrained]).stdout.strip() == plain


def test_a_model_that_was_changed_has_another_fingerprint(pretrained):
    model = open_embedder(pretrained)
    before = identity_of(model)
    model.sides["query"] = "w3 "
    prompted = identity_of(model)
    model.model.set_weights([2 * array for array in model.model.get_weights()])
    assert len({before, prompted, identity_of(model)}) == 3


@pytest.mark.parametrize("name", SETTINGS)
def test_stored_settings_are_read_back(name, opened):
    stored = json.loads(json.dumps(opened[name].stored()))
    again = Sides(**stored)
    vectors = [each.encode_documents([TEXT]) for each in (opened[name], again)]
    np.testing.assert_array_equal(*vectors)
    wrong = "other late" if name == "none" else "none"
    with pytest.raises(ValueError, match="`fingerprint` is that of other vectors than those of"):
        Sides(**{**stored, "fingerprint": opened[wrong].fingerprint})


def test_arguments_of_opening_are_not_lost_on_an_open_model(pretrained):
    model = open_embedder(pretrained)
    with pytest.raises(ValueError, match="dimension and prompt belong to opening a directory"):
        Sides(model, dimension=8, prompt="w1")
    in_memory = TextModel(model.model, model.tokenizer)
    assert Sides(in_memory).name == "model"
    with pytest.raises(ValueError, match="`model` must be a directory.*Received: TextModel"):
        Sides(in_memory).stored()


@pytest.mark.parametrize(
    "texts", ["w1 w2", [None], [float("nan")], [b"w1"], np.array([["w1"]]), {"text": ["w1"]}]
)
def test_sides_take_lists_of_texts(texts, opened):
    sides = opened["none"]
    for encode in (sides.encode_documents, sides.encode_queries, sides.encode_texts):
        with pytest.raises(TypeError, match="`texts` must|Text 0 is a"):
            encode(texts)


def test_the_cache_of_llama_index_keeps_models_apart(pretrained):
    pytest.importorskip("llama_index.core")
    from llama_index.core.ingestion import IngestionCache, IngestionPipeline
    from llama_index.core.schema import TextNode

    from keras_posenc.adapters import LlamaIndexEmbedding

    cache = IngestionCache()
    for given in SETTINGS.values():
        embedding = LlamaIndexEmbedding(pretrained, embed_batch_size=3, **given)
        pipeline = IngestionPipeline(transformations=[embedding], cache=cache)
        (node,) = pipeline.run(nodes=[TextNode(text=TEXT, id_="one")])
        again = LlamaIndexEmbedding.from_dict(json.loads(json.dumps(embedding.to_dict())))
        assert again.embed_batch_size == 3
        assert node.embedding == embedding.get_text_embedding(TEXT)
        assert node.embedding == again.get_text_embedding(TEXT)


def test_the_cache_of_mteb_knows_name_and_revision(opened, pretrained):
    pytest.importorskip("mteb")
    from keras_posenc.adapters import MTEBEncoder

    found = [MTEBEncoder(pretrained, **given).mteb_model_meta for given in SETTINGS.values()]
    assert {meta.name for meta in found} == {f"keras_posenc/{pretrained.name}"}
    assert [meta.revision for meta in found] == [each.fingerprint for each in opened.values()]


def test_the_namespace_of_langchain(opened, pretrained):
    pytest.importorskip("langchain_core")
    from keras_posenc.adapters import LangChainEmbeddings

    plain = LangChainEmbeddings(pretrained)
    assert plain.model == f"{pretrained.name}@{opened['none'].fingerprint}"
    assert LangChainEmbeddings(pretrained, dimension=8).model != plain.model


def test_pipelines_of_haystack_store_open_models(pretrained):
    haystack = pytest.importorskip("haystack")
    from keras_posenc.adapters import HaystackDocumentEmbedder, HaystackTextEmbedder

    model = open_embedder(pretrained, dimension=8, extension="hierarchical:0.2", max_length=24)
    query = HaystackTextEmbedder(model)
    passages = HaystackDocumentEmbedder(model, chunks=4)
    pipeline = haystack.Pipeline()
    pipeline.add_component("query", query)
    pipeline.add_component("passages", passages)
    modules = ["keras_posenc.adapters.haystack"]
    stored = pipeline.dumps()
    again = haystack.Pipeline.loads(stored, allowed_modules=modules)
    assert again.get_component("query").run(TEXT) == query.run(TEXT)
    documents = [haystack.Document(content=TEXT)]
    found = [
        each.run(documents)["documents"] for each in (passages, again.get_component("passages"))
    ]
    assert len(found[0]) > 1 and dataclasses.asdict(found[0][1]) == dataclasses.asdict(found[1][1])
    model.model.set_weights([2 * array for array in model.model.get_weights()])
    changed = haystack.Pipeline.loads(pipeline.dumps(), allowed_modules=modules)
    with pytest.raises(ValueError, match="`fingerprint` is that of other vectors"):
        changed.get_component("query").run(TEXT)
    with pytest.raises(ValueError, match="chunks|reading belong to opening"):
        HaystackTextEmbedder(model, reading="late:4")


@pytest.mark.parametrize("reading", [None, "late:4"])
def test_copies_have_one_vector(pretrained, monkeypatch, reading):
    """Of texts with the same tokens one is encoded, whatever batches they would be in."""
    texts = ["w1 w2", "w3", "w1  w2", "w4 w5 w6 w7 w8", " w1 w2"]
    sides = Sides(pretrained, reading=reading)
    for encode in (sides.encode_queries, sides.encode_documents, sides.encode_texts):
        expected, counts = encode(["w1 w2", "w3", "w4 w5 w6 w7 w8"]), []
        original = type(sides.model).encode

        def counted(self, texts, *args, original=original, counts=counts, **options):
            counts.append(len(texts))
            return original(self, texts, *args, **options)

        with monkeypatch.context() as patched:
            patched.setattr(type(sides.model), "encode", counted)
            found = encode(texts)
        assert counts == [3]
        np.testing.assert_array_equal(found, found[[0, 1, 0, 3, 0]])
        np.testing.assert_allclose(found[[0, 1, 3]], expected, atol=1e-6)
