"""`Extension`: one value in several spellings, which checks itself, and the arguments before it."""

import json

import pytest

from keras_posenc import Extension, build_transformer_model, finetune, stretch
from keras_posenc.training.runs import check_same_run, with_extension

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("spelling", "extension"),
    [
        ("hierarchical", Extension("hierarchical")),
        ("hierarchical:0.2", Extension("hierarchical", alpha=0.2)),
        ("hierarchical:0.2,kept_rows=1", Extension("hierarchical", alpha=0.2, kept_rows=1)),
        ("tile:kept_rows=1", Extension("tile", kept_rows=1)),
        ("interpolate", Extension("interpolate")),
        ("yarn:4", Extension(rope_scaling={"rope_type": "yarn", "factor": 4.0})),
    ],
)
def test_a_string_and_an_object_are_one_value(spelling, extension):
    assert Extension.of(spelling) == extension == Extension.of(extension)
    assert str(extension) == spelling
    assert Extension.of(json.loads(json.dumps(extension.get_config()))).get_config() == (
        extension.get_config()
    )


def test_a_scaling_is_its_own():
    """A dict of the user that changes later, such as for a second model, changes no extension."""
    scaling = {"rope_type": "yarn", "factor": 4.0}
    extension = Extension(rope_scaling=scaling)
    scaling["factor"] = 8.0
    assert extension.rope_scaling["factor"] == 4.0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("pad", "`extension` must be one of .*Received: 'pad'"),
        ("hierarchical:much", "`extension` must be like 'hierarchical:0.4'.*'hierarchical:much'"),
        ("tile:factor=2", "'tile' takes alpha and kept_rows, not 'factor'"),
        ("tile:0.4", '`alpha` belongs to "hierarchical"'),
        ("fresh:kept_rows=1", '`kept_rows` belongs to "hierarchical" and "tile"'),
        ("hierarchical:0.5", "`alpha` must not be 0.5"),
        ("hierarchical:kept_rows=-1", "`kept_rows` must be an integer of at least 0"),
        ("yarn:0.5", "factor"),
        ({}, "An extension needs `table`"),
        ({"tabel": "tile"}, "`extension` has no 'tabel': its keys are table, alpha"),
    ],
)
def test_what_is_no_extension_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        Extension.of(given)


def test_what_is_of_another_type_is_refused():
    with pytest.raises(TypeError, match="`extension` must be an Extension, a str such as"):
        Extension.of(4)
    with pytest.raises(TypeError, match="`rope_scaling` must be a dict. Received: 4"):
        Extension(rope_scaling=4)


@pytest.mark.parametrize(
    ("former", "extension"),
    [
        ({"stretch": "tile"}, "tile"),
        ({"alpha": 0.3}, "hierarchical:0.3"),
        ({"hierarchical_position": True, "alpha": 0.3}, "hierarchical:0.3"),
        ({"hierarchical_position": 0.3, "kept_rows": 1}, "hierarchical:0.3,kept_rows=1"),
        ({"stretch": None}, None),
    ],
)
def test_former_arguments_work_with_one_warning(tiny_config, former, extension):
    with pytest.warns(DeprecationWarning, match="give\\s+extension=") as warned:
        model = build_transformer_model(tiny_config, **former)
    assert len(warned) == 1 and f"extension={extension!r}" in str(warned[0].message)
    assert "until version 0.7" in str(warned[0].message)
    new = build_transformer_model(tiny_config, extension=extension)
    found, same = (each.get_layer("Embedding-Position").get_config() for each in (model, new))
    assert found.pop("embeddings_initializer") and same.pop("embeddings_initializer")
    assert found == same


def test_former_arguments_are_refused_beside_their_successor(tiny_config):
    with pytest.raises(TypeError, match="`extension` of build_transformer_model has what `alpha`"):
        build_transformer_model(tiny_config, extension="tile", alpha=0.2)
    with pytest.raises(ValueError, match="`extension` or `hierarchical_position`, not both"):
        build_transformer_model(tiny_config, stretch="tile", hierarchical_position=True)
    with pytest.raises(ValueError, match="`kept_rows` is for a table that is extended"):
        build_transformer_model(tiny_config, kept_rows=1)


def test_a_run_keeps_what_its_former_arguments_left_out():
    """`stretch` reserved one row and had the weight 0.2 where only another scheme was named."""
    expected = "extension='hierarchical:0.3,kept_rows=1'"
    with pytest.warns(DeprecationWarning, match=expected), pytest.raises(FileNotFoundError):
        stretch("nowhere", ["text"], alpha=0.3, verbose=False)
    with (
        pytest.warns(DeprecationWarning, match="extension='tile'"),
        pytest.raises(FileNotFoundError),
    ):
        finetune("nowhere", "nowhere.tsv", "out", stretch="tile", alpha=0.3)


def test_a_stretching_that_tiles_keeps_the_row_that_it_kept():
    expected = "extension='tile:kept_rows=1'"
    with pytest.warns(DeprecationWarning, match=expected), pytest.raises(FileNotFoundError):
        stretch("nowhere", ["text"], stretch="tile", verbose=False)


def test_a_run_extends_tables_only():
    with pytest.raises(ValueError, match="`extension` must be one of .*Received: 'yarn:4'"):
        finetune("nowhere", "nowhere.tsv", "out", extension="yarn:4")


@pytest.mark.parametrize("name", ["stretch", "start"])
def test_the_record_of_an_earlier_version_is_the_same_run(tmp_path, name):
    """`start` was the name until 0.2; until 0.4 a record had the parts."""
    old = {"steps": 2, name: "hierarchical", "alpha": 0.2, "kept_rows": 1}
    (tmp_path / "recipe.json").write_text(json.dumps(old))
    config = Extension.of("hierarchical:0.2,kept_rows=1").get_config()
    check_same_run(tmp_path, {"steps": 2, "extension": config})
    with pytest.raises(ValueError, match="extension.alpha was 0.2 and is now 0.4"):
        check_same_run(tmp_path, {"steps": 2, "extension": config | {"alpha": 0.4}})
    assert with_extension({"stretch": None, "alpha": 0.4}) == {"extension": None}
    tiled = {"stretch": "tile", "alpha": 0.4}  # of finetune, which did not use its alpha then
    assert with_extension(tiled) == {"extension": {"table": "tile", "kept_rows": 0}}
