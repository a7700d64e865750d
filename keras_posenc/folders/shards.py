"""The index of a checkpoint in several files (`*.index.json`), and those files."""

import pathlib

from keras_posenc.files.untrusted import check_inside, parse_json, quote, read_bytes, shorten

LONGEST = 255  # characters of a file's name


def read_index(path):
    """Which tensor of a sharded checkpoint lies in which file: names of files by tensor, and their
    paths."""
    data = read_bytes(path)
    try:
        places = parse_json(data)["weight_map"]
        files = {shard: path.parent / shard for shard in sorted(set(places.values()))}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(
            f'{path} is damaged: it should be JSON with a "weight_map" from tensors to files.'
        ) from None
    for shard in files:
        if not is_plain(shard) or shard.endswith(".index.json"):
            raise ValueError(f"{path} is refused: it names {quote(shard)} as a file beside it.")
    lost = [shard for shard, file in files.items() if not file.exists()]
    if lost:
        names = shorten(", ".join(lost))
        raise FileNotFoundError(f"{path} names files that are not beside it: {names}.")
    for file in files.values():
        check_inside(file, path.parent)
    return places, files


def is_plain(name):
    """Whether a name can only mean a file of the folder, on every system."""
    kinds = (pathlib.PurePosixPath, pathlib.PureWindowsPath)
    sound = name not in ("", "..") and len(name) <= LONGEST and name.isprintable()
    return sound and all(kind(name).name == name for kind in kinds)
