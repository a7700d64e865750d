"""The command line reads every command that a page shows."""

import pathlib
import re
import shlex

import pytest

from keras_posenc.cli.arguments import parser

pytestmark = pytest.mark.once

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```\w*\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def commands(path):
    blocks = FENCE.findall(path.read_text("utf-8"))
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [words.partition("keras-posenc ")[2] for words in lines if "keras-posenc " in words]


@pytest.mark.parametrize("path", [*filter(commands, PAGES)], ids=lambda path: path.stem)
def test_the_commands_of_a_page_are_read(path):
    for command in commands(path):
        parser().parse_args(shlex.split(command, comments=True))
