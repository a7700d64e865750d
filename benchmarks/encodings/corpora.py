"""Writes two corpora whose test texts share no source with the training ones: words, and code.

    python -m benchmarks.encodings.corpora  # into build/corpora
    python -m benchmarks.extrapolation language_model:unit=words --corpus build/corpora/friends ...
    python -m benchmarks.extrapolation language_model --corpus build/corpora/stdlib ...

friends    the transcripts of Friends, a line of the text for each that is said: "name: line". Every
           tenth episode is for the test.
stdlib     the modules of Python's own standard library, of the Python that runs this, as they are:
           those in plain ASCII that lie in no package. The names from s on are for the test, since
           modules of one kind tend to share the beginning of their names.
"""

import argparse
import pathlib
import sysconfig

from benchmarks.shared.data import CORPORA


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=pathlib.Path, default="build/corpora")
    output = parser.parse_args().output
    for name, texts in {"friends": episodes(), "stdlib": modules()}.items():
        (output / name).mkdir(parents=True, exist_ok=True)
        for part in ("train", "test"):
            of_part = [text for text, is_test in texts if is_test == (part == "test")]
            (output / name / f"{part}.txt").write_text("\n".join(of_part), encoding="utf-8")
            print(f"{name}, {part}: {len(of_part)} texts, {sum(map(len, of_part)):,} characters")


def episodes():
    """Text of each episode, and whether it is for the test."""
    with open(f"{CORPORA}/friends-transcripts.tab", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][3:]
    found = {}
    for season, _, number, _, name, line in filter(lambda row: len(row) == 6, rows):
        found.setdefault((season, number), []).append(f"{name}: {line.strip()}\n")
    return [("".join(lines), i % 10 == 9) for i, (_, lines) in enumerate(sorted(found.items()))]


def modules():
    """Text of each module, and whether it is for the test."""
    paths = sorted(pathlib.Path(sysconfig.get_path("stdlib")).glob("*.py"))
    texts = [(path.name, path.read_text("utf-8")) for path in paths]
    return [(text, name >= "s") for name, text in texts if text.isascii()]


if __name__ == "__main__":
    main()
