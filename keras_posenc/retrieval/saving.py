"""Models of retrieval, written in the format that they came in."""

import pathlib

from keras_posenc.checkpoints.export import save_checkpoint
from keras_posenc.checkpoints.folder import replacing_together
from keras_posenc.checkpoints.safetensors import write_safetensors


def save_as_read(model, tokenizer, max_length, files, directory, finish=None):
    """Writes weights, config, tokenizer and what lies around them, all of them or none.

    Args:
        model: A model of `build_transformer_model`, or its `Transformer`.
        tokenizer: `Tokenizer`. It is written beside the weights.
        max_length: int. Positions to write as plain rows, if the table is an extended one.
        files: dict. Further files: path -> bytes, or a dict of arrays for a .safetensors file.
        directory: str or path. Created if missing.
        finish: function or None. Called with the new folder at the end.

    Returns:
        list of the paths written, in order.

    Raises:
        ValueError: if `directory` is a file, or a weight has no place in the format.
    """
    directory = pathlib.Path(directory)
    if directory.exists() and not directory.is_dir():
        raise ValueError(f"{directory} is a file: give a directory to write into.")
    config = getattr(model, "transformer", model).config
    with replacing_together(directory) as folder:
        save_checkpoint(model, folder, positions=config.beyond_table(max_length))
        tokenizer.save(folder)
        for name, data in files.items():
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            if isinstance(data, dict):
                write_safetensors(path, data)
            else:
                path.write_bytes(data)
        if finish is not None:
            finish(folder)
        names = sorted(p.relative_to(folder) for p in folder.rglob("*") if p.is_file())
    return [str(directory / name) for name in names]
