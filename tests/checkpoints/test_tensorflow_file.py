"""TensorFlow's checkpoints without TensorFlow: the same tensors, and files that are damaged."""

import os

import numpy as np
import pytest
from file_processes import start_process

from keras_posenc.checkpoints import open_checkpoint
from keras_posenc.checkpoints.checkpoint import numpy_dtype
from keras_posenc.checkpoints.tensorflow_file import DTYPES

pytestmark = pytest.mark.once


@pytest.fixture
def save(tmp_path):
    def save(arrays, name="bert_model.ckpt"):
        import tensorflow as tf

        prefix = str(tmp_path / name)
        tensors = [tf.constant(array) for array in arrays.values()]
        slices = [""] * len(arrays)
        tf.raw_ops.SaveV2(
            prefix=prefix, tensor_names=list(arrays), shape_and_slices=slices, tensors=tensors
        )
        return prefix

    return save


def many():
    """Every type, and as many names as need several blocks of an index."""
    numbers = np.arange(-3, 9).reshape(3, 4) % 7
    arrays = {name: numbers.astype(numpy_dtype(name)) for name in DTYPES.values()}
    arrays |= {"scalar": np.float32(3.5), "empty": np.zeros((0, 5), "float32")}
    return arrays | {f"bert/encoder/layer_{i}/{'x' * 40}": np.full(i, i) for i in range(500)}


def test_every_kind_of_tensor(save):
    expected = many()
    found = open_checkpoint(save(expected))
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert (found.shape(name), found.dtype(name)) == (array.shape, array.dtype)
        assert found[name].tobytes() == array.tobytes()


def test_arrays_are_views_of_the_file(save):
    array = open_checkpoint(save(many()))["float32"]
    assert not array.flags.writeable
    while isinstance(array, np.ndarray) and not isinstance(array, np.memmap):
        array = array.base
    assert type(array).__name__ in ("memmap", "mmap")


def test_several_data_files(save):
    import tensorflow as tf

    parts = [save({"a": np.ones(3)}, "one"), save({"b": np.zeros((2, 2))}, "two")]
    merged = parts[0].replace("one", "both")
    tf.raw_ops.MergeV2Checkpoints(
        checkpoint_prefixes=parts, destination_prefix=merged, delete_old_dirs=False
    )
    assert os.path.exists(f"{merged}.data-00001-of-00002")
    found = open_checkpoint(merged)
    assert found["a"].tolist() == [1, 1, 1] and found["b"].tolist() == [[0, 0], [0, 0]]
    os.remove(f"{merged}.data-00001-of-00002")
    with pytest.raises(FileNotFoundError, match=r"both\.index needs .*data-00001-of-00002"):
        open_checkpoint(merged)


def test_text_is_given_as_bytes(save):
    found = open_checkpoint(save({"text": np.array("hello"), "a": np.ones(2)}))
    assert found["text"].tobytes().endswith(b"hello")
    assert found.dtype("text") == np.uint8


def test_partitioned_variables_are_not_read(tmp_path):
    import tensorflow as tf

    tf1 = tf.compat.v1
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.get_variable("parts", (10, 3), partitioner=tf1.fixed_size_partitioner(2))
        session.run(tf1.global_variables_initializer())
        tf1.train.Saver().save(session, str(tmp_path / "x.ckpt"), write_meta_graph=False)
    with pytest.raises(ValueError, match=r"holds 'parts' in slices \(a partitioned variable\)"):
        open_checkpoint(tmp_path / "x.ckpt")


def test_index_truncated_anywhere(save):
    prefix = save(many())
    with open(f"{prefix}.index", "rb") as file:
        whole = file.read()
    for size in [*range(0, len(whole), 501), len(whole) - 1]:
        with open(f"{prefix}.index", "wb") as file:
            file.write(whole[:size])
        with pytest.raises(
            ValueError, match=r"\.index is damaged or truncated .*Download it again"
        ):
            open_checkpoint(prefix)


def test_index_damaged_anywhere(save):
    prefix = save({"a": np.ones(3), "b": np.ones(2)})
    with open(f"{prefix}.index", "rb") as file:
        whole = file.read()
    opened = 0
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 0x55
        with open(f"{prefix}.index", "wb") as file:
            file.write(damaged)
        try:
            assert open_checkpoint(prefix)["a"].tolist() == [1, 1, 1]
            opened += 1
        except ValueError as error:
            assert "damaged or truncated" in str(error)
    assert opened <= 60  # the footer's padding and a block without entries, which nobody reads


def test_data_truncated_anywhere(save):
    prefix = save({"a": np.ones(3), "b": np.ones(2)})
    data = f"{prefix}.data-00000-of-00001"
    whole = os.path.getsize(data)
    for size in (whole - 1, whole // 2, 1, 0):
        os.truncate(data, size)
        with pytest.raises(ValueError, match=rf"truncated at '\w': .* the file ends at {size}"):
            open_checkpoint(prefix)


def test_a_file_is_missing(save):
    prefix = save({"a": np.ones(3)})
    os.remove(f"{prefix}.data-00000-of-00001")
    with pytest.raises(FileNotFoundError, match="needs .*data-00000-of-00001, which is not there"):
        open_checkpoint(prefix)
    os.remove(f"{prefix}.index")
    with pytest.raises(FileNotFoundError, match=r"no .*bert_model\.ckpt\.index of a TensorFlow"):
        open_checkpoint(prefix)


def test_an_index_of_something_else(tmp_path):
    (tmp_path / "bert_model.ckpt.index").write_bytes(b"<html>" * 100)
    with pytest.raises(ValueError, match="it does not end as an index does"):
        open_checkpoint(tmp_path)


def test_no_tensorflow_is_needed(save):
    program = """
        sys.modules["tensorflow"] = None
        from keras_posenc.checkpoints.reader import open_checkpoint
        print(open_checkpoint(sys.argv[1])["a"].sum())
        """
    shown, _ = start_process(program, save({"a": np.ones(3)})).communicate()
    assert shown.strip() == "3.0"
