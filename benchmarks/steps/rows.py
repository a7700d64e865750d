"""What is measured: the configurations, the shapes, and the environment each library runs in."""

import dataclasses
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
ENVIRONMENTS = ROOT / "build" / "peers"
NAME = re.compile(r"[\w.-]*")  # that a line of requirements begins with

# Steps of installation, each a pip command line; constraints.txt pins what they pull in.
TENSORFLOW = "tensorflow-cpu==2.21.0"
PINNED = {
    "keras_hub": [["keras-hub==0.32.0", "keras==3.15.1", TENSORFLOW, "jax==0.10.2"]],
    # torch first and by its number, as in the Makefile; the others write what onnxruntime reads.
    "transformers": [
        ["torch==2.13.0"],
        ["transformers==5.23.0", "onnx==1.23.2", "onnxscript==0.7.2"],
    ],
    "onnxruntime": [["onnxruntime==1.31.1"]],
    "bert4keras": [
        [TENSORFLOW, "tf-keras==2.21.0", "setuptools<80"],
        ["--no-deps", "bert4keras==0.11.5"],
    ],
}


@dataclasses.dataclass(frozen=True)
class Row:
    """One configuration of one library."""

    name: str
    library: str
    backend: str = ""
    jit: bool | None = None
    modes: tuple = ("forward", "train")
    drops_attention: bool = True

    @property
    def ours(self):
        return self.library == "keras_posenc"


TRAIN, FORWARD, LIMIT = ("train",), ("forward",), ("limit",)
ROWS = [
    Row("posenc-jax", "keras_posenc", "jax"),
    Row("posenc-tf", "keras_posenc", "tensorflow", jit=False),
    Row("posenc-tf-jit", "keras_posenc", "tensorflow", jit=True),
    Row("posenc-torch", "keras_posenc", "torch"),
    Row("posenc-jax-nodrop", "keras_posenc", "jax", None, TRAIN, False),
    Row("posenc-tf-nodrop", "keras_posenc", "tensorflow", False, TRAIN, False),
    Row("posenc-torch-nodrop", "keras_posenc", "torch", None, TRAIN, False),
    Row("kerashub-jax", "keras_hub", "jax"),
    Row("kerashub-tf", "keras_hub", "tensorflow", jit=False),
    Row("kerashub-tf-jit", "keras_hub", "tensorflow", jit=True),
    Row("transformers", "transformers", "torch"),
    Row("transformers-nodrop", "transformers", "torch", None, TRAIN, False),
    Row("onnxruntime", "onnxruntime", "", None, FORWARD),
    Row("bert4keras", "bert4keras", "tensorflow"),
    Row("matmul-jax", "matmul", "jax", None, LIMIT),
    Row("matmul-tf", "matmul", "tensorflow", None, LIMIT),
    Row("matmul-torch", "matmul", "torch", None, LIMIT),
    Row("matmul-numpy", "matmul", "numpy", None, LIMIT),
]
NAMES = {row.name: row for row in ROWS}

# Every batch but the two long ones has about the tokens that one text of 2,048 has.
SHAPES = [(8, 128), (4, 512), (2, 1024), (1, 2048), (1, 4096), (1, 8192)]
MODELS = {
    "minilm": {"layers": 6, "width": 384, "heads": 12, "inner": 1536},
    "bert-base": {"layers": 12, "width": 768, "heads": 12, "inner": 3072},
}
VOCABULARY, CLASSES = 30522, 20


def gigaflops(model, mode, batch, length):
    """Multiplications and additions of the matmuls of a step, in 1e9; backward counts twice."""
    sizes = MODELS[model]
    width, inner = sizes["width"], sizes["inner"]
    token = 8 * width**2 + 4 * width * inner + 4 * length * width
    return sizes["layers"] * batch * length * token * (3 if mode == "train" else 1) / 1e9


def python_of(library, here=False):
    """The interpreter of a library; a peer's environment is made when it is missing or outdated.

    Args:
        library: a key of `PINNED`, or what runs in this environment.
        here: bool. Take this environment also for a peer.
    """
    if here or library not in PINNED:
        return sys.executable
    folder = ENVIRONMENTS / library
    python, stamp = folder / "bin" / "python", folder / ".pins"
    pins = repr(PINNED[library])
    if not stamp.exists() or stamp.read_text() != pins:
        print(f"installing {library} into {folder.relative_to(ROOT)}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        constraints = folder / "constraints.txt"
        known = (ROOT / "constraints.txt").read_text("utf-8")
        constraints.write_text(constraints_beside(known, sum(PINNED[library], [])))
        for packages in PINNED[library]:
            command = [python, "-m", "pip", "install", "-q", "-c", constraints]
            subprocess.run([*command, *packages], check=True)
        stamp.write_text(pins)
    return str(python)


def constraints_beside(known, packages):
    """Lines of a file of constraints, without those of packages that are named, and without hashes:
    with them pip asks for those of packages that the file does not have, too."""
    named = {NAME.match(package)[0] for package in packages}
    lines = known.replace("\\\n", " ").splitlines()
    kept = [line for line in lines if NAME.match(line)[0] not in named]
    return "\n".join(line.split(" --hash=")[0].rstrip() for line in kept) + "\n"


def environment_of(row):
    """The variables a row's process runs under: the caller's, and the backend."""
    variables = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONWARNINGS": "ignore"}
    if row.library in ("keras_posenc", "keras_hub"):
        variables["KERAS_BACKEND"] = row.backend
    if row.library == "bert4keras":
        variables |= {"TF_KERAS": "1", "TF_USE_LEGACY_KERAS": "1"}
    return variables
