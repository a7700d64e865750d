"""A pretrained masked language model, stretched: its accuracy at 512 and at 1,536 positions.

    pip install --no-deps --target FOLDER rxnfp==0.1.0
    KERAS_BACKEND=torch python -m benchmarks.stretching.stretched_reactions --packages FOLDER
    KERAS_BACKEND=torch python -m benchmarks.stretching.stretched_reactions --table  # the results

The model is the BERT of rxnfp with its own MLM head, pretrained on chemical reactions (SMILES): 12
layers of 256 and 512 positions. Its texts are reactions that are written here, by combining groups
in seven classes of reactions, one after another with [SEP] between. So a text is much longer than
what the model was pretrained on, and easier. Hidden tokens are predicted in windows of 512 tokens
by the original model, then in one pass of 1,536 by hierarchical positions: before any training, and
after steps of masked training on other reactions. No group of the training's is in the test's.

Results go to benchmarks/results/stretched_reactions.json, a row for each number alpha and seed.
"""

import itertools
import pathlib
import re
import time

import numpy as np

from benchmarks.shared.kept import Study, keys, markdown, options, spread, write_lines
from benchmarks.stretching.recovery import compiled
from keras_posenc import build_transformer_model
from keras_posenc.backend.seeding import set_random_seed

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "stretched_reactions.json"
MODEL = "rxnfp/models/transformers/bert_pretrained"
WINDOW, WINDOWS, TEXTS, HIDDEN, RATE = 512, 3, 12, 0.15, 1e-4
TOKENS = re.compile(r"\[[^]]+]|Br|Cl|>>|[BCNOPSFIbcnops]|[().=#+/\\@~*$-]|%[0-9]{2}|[0-9]")
# Groups that bind by their last atom, and by their first one; every other one is for the test.
LEFT = """C CC CCC CC(C) CC(C)C CCOC(=O)C COC(=O)CC N#CC c1ccc(cc1) Fc1ccc(cc1) Clc1ccc(cc1)
    Brc1ccc(cc1) COc1ccc(cc1) Cc1ccc(cc1) Fc1cccc(c1) Clc1cccc(c1) COc1cccc(c1) N#Cc1ccc(cc1)
    CC(=O)c1ccc(cc1) c1ccnc(c1) c1ccoc1C Cc1ccccc1 c1ccc2ccccc2c1 FC(F)(F)c1ccc(cc1)""".split()
RIGHT = """C CC CCC C(C)C CCOC CCO CC#N C1CCCCC1 C1CCCC1 c1ccccc1 c1ccc(F)cc1 c1ccc(Cl)cc1
    c1ccc(OC)cc1 c1ccc(C)cc1 c1cccc(F)c1 c1cccc(Cl)c1 c1ccc(C#N)cc1 c1ccncc1 c1cccnc1 Cc1ccccc1
    Cc1ccc(F)cc1 CCc1ccccc1 c1ccc2ccccc2c1 c1ccc(C(F)(F)F)cc1""".split()
SOLVENTS = ["CN(C)C=O", "ClCCl", "C1CCOC1", "O", "CCO", "CC#N", "CCN(CC)CC", "C1COCCO1"]
CLASSES = (
    "{l}C(=O)O.N{r}.{s}>>{l}C(=O)N{r}",
    "{l}C=O.N{r}.{s}>>{l}CN{r}",
    "{l}CBr.O{r}.{s}>>{l}CO{r}",
    "COC(=O){r}.{s}>>OC(=O){r}",
    "CC(C)(C)OC(=O)N{r}.{s}>>N{r}",
    "{l}Br.OB(O){r}.{s}>>{l}{r}",
    "{l}S(=O)(=O)Cl.N{r}.{s}>>{l}S(=O)(=O)N{r}",
)


def main():
    parser = options(__doc__, RESULTS, None)
    parser.add_argument("--packages", type=pathlib.Path, help="the folder with rxnfp")
    parser.add_argument("--alphas", nargs="+", type=float, default=[0.4, 0.2])
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--texts", type=int, default=TEXTS, help="of the test")
    arguments = parser.parse_args()
    study = Study(arguments.results, write_lines)
    if not arguments.table:
        if arguments.packages is None:
            parser.error("give --packages, the folder in which rxnfp was installed")
        model = arguments.packages / MODEL
        vocabulary = vocabulary_of(model)

        def measure(seed, alpha, steps):
            return measured(model, vocabulary, seed, alpha, steps, arguments.texts)

        rows = keys(seed=arguments.seeds, alpha=arguments.alphas, steps=[arguments.steps])
        study.run(rows, measure, ["unstretched", "before", "after"])
    print(table(study.rows))


def vocabulary_of(model):
    lines = (model / "vocab.txt").read_text("utf-8").splitlines()
    return {token: i for i, token in enumerate(lines)}


def measured(model, vocabulary, seed, alpha, steps, texts):
    """The accuracy on hidden tokens, in the first window and beyond it, of one seed."""

    def build(**arguments):
        rates = {"dropout_rate": 0.0, "attention_dropout_rate": 0.0}
        return build_transformer_model(str(model), with_mlm="linear", **rates, **arguments)

    test = hidden(vocabulary, texts, (seed, 0), is_test=True)
    set_random_seed(seed)
    long = build(hierarchical_position=alpha, max_position=WINDOW * WINDOWS)
    found = {"unstretched": accuracy(build(), test, 1), "before": accuracy(long, test, WINDOWS)}
    compiled(long, RATE)
    started = time.process_time()
    for step in range(steps):
        ids, targets, mask = hidden(vocabulary, 1, (seed, 1 + step), is_test=False)
        long.train_on_batch(inputs(ids), targets, mask.astype("float32"))
    seconds = round(time.process_time() - started)
    return {**found, "after": accuracy(long, test, WINDOWS), "seconds of training": seconds}


def hidden(vocabulary, rows, seed, is_test):
    """Texts with hidden tokens, the tokens, and where they are hidden, (rows, 1,536) each."""
    rng = np.random.default_rng(seed)
    targets = np.array([text(vocabulary, rng, is_test) for _ in range(rows)], "int32")
    special = np.isin(targets, [vocabulary["[CLS]"], vocabulary["[SEP]"]])
    mask = (rng.random(targets.shape) < HIDDEN) & ~special
    return np.where(mask, vocabulary["[MASK]"], targets).astype("int32"), targets, mask


def text(vocabulary, rng, is_test):
    """The ids of a text: reactions that fill windows of [CLS], 510 tokens and [SEP]."""
    size, ids = (WINDOW - 2) * WINDOWS, []
    groups = {"l": LEFT[is_test::2], "r": RIGHT[is_test::2], "s": SOLVENTS}
    while len(ids) < size:
        chosen = {name: some[rng.integers(len(some))] for name, some in groups.items()}
        reaction = CLASSES[rng.integers(len(CLASSES))].format(**chosen)
        ids += [vocabulary[token] for token in TOKENS.findall(reaction)] + [vocabulary["[SEP]"]]
    windows = np.reshape(ids[:size], (WINDOWS, WINDOW - 2))
    ends = ((vocabulary["[CLS]"], vocabulary["[SEP]"]),)
    return np.pad(windows, ((0, 0), (1, 1)), constant_values=((0, 0), *ends)).reshape(-1)


def inputs(ids):
    return {"token_ids": ids, "segment_ids": np.zeros_like(ids)}


def accuracy(model, test, windows):
    """In % of the hidden tokens, of the first window and of the others, in passes of `windows`."""
    ids, targets, mask = test
    pieces = ids.reshape(-1, windows * WINDOW)
    answers = [model.predict_on_batch(inputs(piece[None])).argmax(-1) for piece in pieces]
    right = np.concatenate(answers).reshape(targets.shape) == targets
    first = np.arange(targets.shape[1]) < WINDOW
    parts = [mask & first, mask & ~first]
    return [round(100 * float(right[part].mean()), 2) for part in parts]


def table(rows):
    """Markdown: accuracy in the first window and beyond, by alpha and steps."""
    lines = [["alpha", "steps", "tokens", "original, by windows", "before training", "after it"]]
    kinds = dict.fromkeys((row["alpha"], row["steps"]) for row in rows)
    for (alpha, steps), (i, tokens) in itertools.product(kinds, enumerate(["0-511", "512-1,535"])):
        runs = [row for row in rows if (row["alpha"], row["steps"]) == (alpha, steps)]
        cells = [
            spread([row[name][i] for row in runs]) for name in ("unstretched", "before", "after")
        ]
        lines.append([str(alpha), str(steps), tokens, *cells])
    return markdown(lines)


if __name__ == "__main__":
    main()
