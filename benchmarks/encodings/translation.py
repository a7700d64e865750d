"""A small encoder-decoder from Tyndale's English of 1530 to the King James Version's, and rivals.

    KERAS_BACKEND=torch python -m benchmarks.encodings.translation
    KERAS_BACKEND=torch python -m benchmarks.encodings.translation --table  # the results as a table

The first way is the Transformer as published, small: sines, one shared table, label smoothing,
Noam's rate and the mean of the last checkpoints. In the others rotary positions stand in for the
sines, in the attention to the source too, and label smoothing and Noam's rate are switched off
once each; averaging is, in all of them. Without Noam the rate is Keras's default for Adam. Rivals
that learn no network: the source as it is, the most frequent verse, and each word by its likeliest
one (IBM's model 1). The gospel of John is the test.

Results go to benchmarks/results/translation.json, a row for each way and seed, and are not computed
again; a training that was interrupted goes on from its last checkpoint in build/translation.
"""

import collections
import itertools
import pathlib
import platform
import time

import keras
import numpy as np
import sacrebleu
import tokenizers
from keras import ops

from benchmarks.encodings.old_english import pairs
from benchmarks.shared.kept import Study, keys, markdown, options
from keras_posenc import Generator, build_encoder_decoder
from keras_posenc.backend.seeding import set_random_seed
from keras_posenc.losses import SmoothedSparseCategoricalCrossentropy
from keras_posenc.training import Noam, average_checkpoints
from keras_posenc.training.training_state import load_state, save_state

RESULTS = pathlib.Path(__file__).parents[1] / "results" / "translation.json"
PAD, START, END = range(3)
SIZES = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
VOCABULARY, LENGTHS, TOKENS = 1000, (24, 40, 64), 1024
STEPS, WARMUP, FACTOR, EVERY, AVERAGED = 450, 200, 0.7, 30, 5
ROTARY = {
    "absolute_positions": False,
    "encodings": ["rotary"],
    "cross_encodings": ["rotary"],
}
WAYS = {
    "as published": {},
    "rotary": {"build": ROTARY},
    "rotary, without label smoothing": {"build": ROTARY, "smoothing": 0.0},
    "rotary, without Noam": {"build": ROTARY, "rate": 1e-3},
}


def main():
    parser = options(__doc__, RESULTS, "build/translation", seeds=[0])
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--beams", type=int, help="write with so many beams, too")
    parser.add_argument("--verses", type=int, help="test on the first ones only")
    arguments = parser.parse_args()
    study = Study(arguments.results)
    if not arguments.table:
        texts = Texts(pairs(), arguments.verses)
        if not any("rival" in row for row in study.rows):
            study.rows += [{"rival": name, **scores} for name, scores in texts.rivals().items()]
            study.write(study.path, study.rows)

        def measure(seed, way, steps):
            folder = arguments.folder / f"{way}-{seed}-{steps}".replace(" ", "-")
            return run(texts, WAYS[way], seed, steps, folder, arguments.beams)

        rows = keys(seed=arguments.seeds, way=arguments.ways, steps=[arguments.steps])
        study.run(rows, measure, ["test"])
    print(table(study.rows))


class Texts:
    """Pairs of texts as ids of one vocabulary, their batches, and what is measured on them."""

    def __init__(self, parts, verses=None):
        self.parts = {**parts, "test": parts["test"][:verses]}
        self.tokenizer = trained_tokenizer(text for pair in parts["train"] for text in pair)
        self.ids = {
            name: [self.encode(column) for column in zip(*part, strict=True)]
            for name, part in self.parts.items()
        }

    def encode(self, texts):
        return [encoding.ids for encoding in self.tokenizer.encode_batch(list(texts))]

    def decode(self, rows):
        return [self.tokenizer.decode([int(i) for i in row if i > END]) for row in rows]

    def arrays(self, part, chosen, length):
        """Sources (B, length) with an end, and targets (B, length + 1) between start and end."""
        old, new = self.ids[part]
        sources = [[*old[i], END] for i in chosen]
        targets = [[START, *new[i], END] for i in chosen]
        return padded(sources, length), padded(targets, length + 1)

    def batches(self, rng):
        """Batches of about `TOKENS` tokens for ever, epoch by epoch, of texts of like lengths."""
        longest = np.array(
            [max(map(len, pair)) + 1 for pair in zip(*self.ids["train"], strict=True)]
        )
        while True:
            epoch = []
            for low, length in zip((0, *LENGTHS), LENGTHS, strict=False):
                bucket = rng.permutation(np.flatnonzero((low < longest) & (longest <= length)))
                count = TOKENS // length
                epoch += [(bucket[i : i + count], length) for i in range(0, len(bucket), count)]
            for place in rng.permutation(len(epoch)):
                yield epoch[place]

    def by_token(self, model, part):
        """Cross-entropy (nats) and accuracy of the next token of true targets."""
        loss = right = count = 0
        whole = range(len(self.parts[part]))
        for start in range(0, len(whole), 32):
            source, target = self.arrays(part, whole[start : start + 32], LENGTHS[-1])
            logits = model.predict_on_batch([source, target[:, :-1]])
            log_p, answers = ops.convert_to_numpy(ops.log_softmax(logits)), target[:, 1:]
            kept = answers != PAD
            loss -= np.take_along_axis(log_p, answers[..., None], -1)[..., 0][kept].sum()
            right += (log_p.argmax(-1) == answers)[kept].sum()
            count += kept.sum()
        return {"loss": round(float(loss / count), 4), "accuracy": round(float(right / count), 4)}

    def by_text(self, texts, part="test"):
        """BLEU and chrF, with half of the 95% interval of BLEU by resampling verses."""
        references = [[new for _, new in self.parts[part]]]
        bleu = sacrebleu.BLEU()
        found = bleu.corpus_score(texts, references, n_bootstrap=500)
        chrf = sacrebleu.corpus_chrf(texts, references)
        return {
            "bleu": round(found.score, 2),
            "bleu_half": round(found._ci, 2),
            "chrf": round(chrf.score, 2),
        }

    def written(self, model, part="test", **search):
        generator = Generator(model, START, END, max_length=LENGTHS[-1], **search)
        sources = [[*ids, END] for ids in self.ids[part][0]]
        return self.decode(generator.predict(sources, batch_size=128, verbose=0))

    def rivals(self):
        old = [source for source, _ in self.parts["test"]]
        verses = collections.Counter(new for _, new in self.parts["train"])
        ((frequent, _),) = verses.most_common(1)
        likeliest = likeliest_words(self.parts["train"])
        by_word = [" ".join(likeliest.get(word, word) for word in text.split()) for text in old]
        candidates = {
            "the source as it is": old,
            "the most frequent verse": [frequent] * len(old),
            "each word by its likeliest (IBM model 1)": by_word,
        }
        return {name: {"test": self.by_text(texts)} for name, texts in candidates.items()}


def trained_tokenizer(texts):
    """Byte pairs over both sides, a space part of the word that follows."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    tokenizer.decoder = tokenizers.decoders.Metaspace()
    special = ["[PAD]", "[START]", "[END]", "[UNK]"]
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=special, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def likeliest_words(pairs, rounds=5):
    """The word that each word becomes most likely: IBM's model 1 by expectation-maximization."""
    split = [(old.split(), new.split()) for old, new in pairs]
    chances = collections.defaultdict(lambda: collections.defaultdict(lambda: 1.0))
    for _ in range(rounds):
        counts = collections.defaultdict(lambda: collections.defaultdict(float))
        for old, new in split:
            for word in new:
                total = sum(chances[source][word] for source in old)
                for source in old:
                    counts[source][word] += chances[source][word] / total
        for found in counts.values():
            total = sum(found.values())
            for word in found:
                found[word] /= total
        chances = counts
    return {source: max(found, key=found.get) for source, found in chances.items()}


def run(texts, way, seed, steps, folder, beams=None):
    """Trains a model in one way, and measures it with and without averaged checkpoints."""
    set_random_seed(seed)
    sizes = {**SIZES, "intermediate_size": 4 * SIZES["hidden_size"]}
    model = build_encoder_decoder(VOCABULARY, **sizes, **way.get("build", {}))
    noam = Noam(SIZES["hidden_size"], WARMUP, FACTOR)
    rate = way.get("rate", noam)
    smoothing = way.get("smoothing", 0.1)
    model.compile(
        keras.optimizers.Adam(rate, beta_1=0.9, beta_2=0.98, epsilon=1e-9),
        SmoothedSparseCategoricalCrossentropy(smoothing, from_logits=True, ignore_class=PAD),
    )
    state = training(texts, model, seed, steps, folder)
    found = {
        **state,
        "parameters": model.count_params(),
        "versions": {
            "backend": keras.backend.backend(),
            "keras": keras.__version__,
            "python": platform.python_version(),
            "sacrebleu": sacrebleu.__version__,
        },
    }
    last = {**texts.by_token(model, "test"), **texts.by_text(texts.written(model))}
    kept = [steps - number * EVERY for number in range(AVERAGED)]
    average_checkpoints(model, [checkpoint(folder, step) for step in kept if step > 0])
    written = texts.written(model)
    averaged = {**texts.by_token(model, "test"), **texts.by_text(written)}
    found["test"] = {"last": last, "averaged": averaged}
    if beams:
        found["test"][f"{beams} beams"] = texts.by_text(texts.written(model, beams=beams))
    found["written"] = written[:10]
    return found


def training(texts, model, seed, steps, folder):
    """Trains to the last step, from the last checkpoint that is there: the account of it."""
    folder.mkdir(parents=True, exist_ok=True)
    path, state = folder / "state.zip", {"step": 0, "curve": {}, "processor_seconds": 0.0}
    if path.exists():
        model.optimizer.build(model.trainable_variables)
        state = load_state(path, model)
    batches, done = texts.batches(np.random.default_rng(seed)), state["step"]
    losses, started = [], time.process_time()
    for step, (chosen, length) in enumerate(itertools.islice(batches, steps), 1):
        if step <= done:
            continue
        source, target = texts.arrays("train", chosen, length)
        loss = model.train_on_batch([source, target[:, :-1]], target[:, 1:])
        losses.append(float(np.ravel(loss)[0]))
        if (steps - step) % EVERY == 0:
            found = state["curve"][str(step)] = texts.by_token(model, "validation")
            print(f"step {step}, loss {np.mean(losses):.3f}", found, flush=True)
            losses = []
            state["processor_seconds"] += round(time.process_time() - started, 1)
            started, state["step"] = time.process_time(), step
            model.save_weights(checkpoint(folder, step))
            save_state(path, model, state)
    return state


def checkpoint(folder, step):
    return folder / f"{step}.weights.h5"


def padded(rows, length):
    return keras.utils.pad_sequences(rows, length, padding="post", value=PAD)


def table(rows):
    """Markdown: rivals, then each way with averaged checkpoints and without."""
    heads = ["", "steps", "loss", "tokens right", "BLEU", "chrF"]
    lines = [heads]

    def line(name, found, steps=""):
        by_token = (
            [f"{found['loss']:.2f}", f"{found['accuracy']:.1%}"] if "loss" in found else [""] * 2
        )
        bleu = f"{found['bleu']:.1f} ± {found['bleu_half']:.1f}"
        lines.append([name, str(steps), *by_token, bleu, format(found["chrf"], ".1f")])

    for row in rows:
        if "rival" in row:
            line(row["rival"], row["test"])
    for row in (row for row in rows if "way" in row):
        line(row["way"], row["test"]["averaged"], row["steps"])
        line(f"{row['way']}, last checkpoint alone", row["test"]["last"], row["steps"])
        for search in row["test"].keys() - {"averaged", "last"}:
            line(f"{row['way']}, {search}", row["test"][search], row["steps"])
    return markdown(lines)


if __name__ == "__main__":
    main()
