"""Draws models, texts and ways to read them; `readings_draws.py` compares their vectors.

Texts have as many tokens as the bounds of the code, or one more or less: those of the length, of
chunks, of windows and their hops, of batches.
"""

import itertools
import json

import numpy as np
import oracles_readings

WORDS = "one two three four five six seven eight nine ten who lives where long short".split()
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *".!?:”。山", *WORDS, "##s", "##er"]
KINDS = [*WORDS, "Sevens", "twoer", "zzz", "TWÓ", "山", "山。", "one.” Two"]
GAPS = [" ", " ", " ", " ", "  ", ". ", "! ", "\n", "\n\n", "?”\n", "..", ": "]
WIDTH, INNER, HEADS = 16, 24, 2
PROMPTS = ("who lives ", "one two. ", "seven", "ten three four five six: ", "")
SETS = ({}, {"query": "who ", "document": "ten "}, {"passage": "six: "}, {"all": "two "})
READINGS = ("chunks", "passages", "late", "windows", "spans")
OPTIONS = [*READINGS, "titles", "headings", "prompt", "queries", "dimension", "max_length"]
OPTIONS += ["copies", "file", "output", "parts", "resumed", "shard", "opened", "saved", "search"]
APART = [*itertools.combinations(READINGS, 2), ("titles", "headings"), ("chunks", "max_length")]
APART += [(name, kind) for name in ("titles", "headings") for kind in ("chunks", "spans")]
APART += [("queries", "search")]


def excluded(one, other):
    return (one, other) in APART or (other, one) in APART


class Case:
    """A model, texts and arguments of `embed`, drawn of a generator; `options` are names."""

    def __init__(self, rng, options):
        self.rng, self.options = rng, set(options)
        if self.options & {"titles", "headings"} and not self.options & set(READINGS):
            self.options.add("late")
        self.kind = next((name for name in READINGS if name in self.options), "whole")
        self.reading = {"kind": "late" if self.kind == "windows" else self.kind}
        self.side = "query" if "queries" in self.options else "document"
        self._draw_model()
        self.prompts = SETS[rng.integers(len(SETS))]
        self.default = str(rng.choice(list(self.prompts))) if self.prompts else None
        self.prompt = None
        if "prompt" in self.options:
            self.prompt = str(rng.choice([*PROMPTS, *self.prompts]))
        self.before = self.prompt_of(self.side)
        self._draw_sizes(2 + len(self.tiny.tokens(self.before)))
        self._draw_texts()
        self.queries = [self._text(int(n)) for n in rng.integers(1, 40, 3)]
        self.size = int(rng.integers(1, WIDTH + 4)) if rng.random() < 0.2 else None
        self.dimension = int(rng.integers(1, self.width + 1))
        self.dimension = self.dimension if "dimension" in self.options else None

    def _draw_model(self):
        rng, width = self.rng, WIDTH

        def drawn(*shape):
            return rng.normal(0, 0.5, shape).astype("float32")

        shapes = dict.fromkeys(
            ("self.query", "self.key", "self.value", "output.dense"), (WIDTH,) * 2
        )
        shapes = {f"attention.{name}": shape for name, shape in shapes.items()}
        shapes |= {"intermediate.dense": (INNER, WIDTH), "output.dense": (WIDTH, INNER)}
        shapes |= dict.fromkeys(("attention.output.LayerNorm", "output.LayerNorm"), (WIDTH,))
        shapes = {f"encoder.layer.{n}.{name}": shapes[name] for n in (0, 1) for name in shapes}
        weights = {}
        for name, shape in ({"embeddings.LayerNorm": (WIDTH,)} | shapes).items():
            weights[f"{name}.weight"] = (len(shape) == 1) + drawn(*shape)
            weights[f"{name}.bias"] = drawn(shape[0])
        self.positions = int(rng.choice([40, 144]))  # longer texts extend the table
        tables = {"word": len(VOCABULARY), "position": self.positions, "token_type": 2}
        for name, count in tables.items():
            weights[f"embeddings.{name}_embeddings.weight"] = drawn(count, WIDTH)
        pooling, modules = "mean", []
        if self.kind not in ("late", "windows", "spans") and rng.random() < 0.5:
            pooling = str(rng.choice(list(oracles_readings.POOLINGS)))
        for name in rng.choice(["Dense", "LayerNorm", "Normalize"], int(rng.integers(4))).tolist():
            modules.append([name])
            if name == "Dense":
                modules[-1] += [drawn(12, width), drawn(12)]
                width = 12
            elif name == "LayerNorm":
                modules[-1] += [1 + drawn(width), drawn(width)]
        self.weights, self.width = weights, width
        self.tiny = oracles_readings.Tiny(VOCABULARY, weights, HEADS, pooling, modules)
        self.longest, self.dot = int(rng.choice([24, self.positions])), rng.random() < 0.5

    def prompt_of(self, side):
        """What stands before texts of a side."""
        if self.prompt is not None:
            return self.prompts.get(self.prompt, self.prompt)
        names = ("query",) if side == "query" else ("document", "passage", "corpus")
        found = [self.prompts[name] for name in names if name in self.prompts]
        return [*found, self.prompts.get(self.default, "")][0]

    def _draw_sizes(self, taken):
        rng, self.length = self.rng, self.longest
        if "max_length" in self.options or self.length <= taken:
            self.options.add("max_length")
            self.length = int(rng.choice([taken + 1, taken + 2, taken + 9, 33, 64, 130]))
        size, overlaps = int(rng.choice([1, 2, 3, 7, 12, 24])), 0
        if self.kind == "chunks":
            self.length = size = size + 2
            overlaps = size - 3
        elif self.kind == "windows":  # which are shorter than the length
            size = min(size, max(1, self.length - taken - 1))
            self.length = max(self.length, taken + 2)
            self.options.add("max_length")
            self.reading["windows"] = size + taken + int(rng.integers(self.length - taken - size))
        overlaps = size // 2 if self.kind in ("passages", "late", "windows") else overlaps
        self.reading |= {"size": size, "overlap": int(rng.integers(overlaps + 1))}
        room = self.length - taken
        hops = [n * (room - room // 4) for n in (1, 2, 3)]
        self.bounds = [1, room, *hops, *(room + n for n in hops), size, 2 * size, 14, 30, 62, 126]

    def _draw_texts(self):
        rng = self.rng
        lengths = rng.choice(self.bounds, int(rng.choice([1, 2, 3, 5, 9]))) + rng.integers(-1, 2)
        lengths = np.clip(lengths, 1, 200).tolist()
        if rng.random() < 0.1:  # more rows than a batch has
            lengths += rng.integers(1, 16, 90).tolist()
        if rng.random() < 0.1 and self.reading["size"] < 3:  # more means than a batch has
            lengths.append(1024 * self.reading["size"] + 2)
        self.texts = [self._text(length) for length in lengths]
        self.more = [self._of_text(text) for text in self.texts]
        for number in rng.integers(0, len(self.texts), 3 * ("copies" in self.options)).tolist():
            text = self.texts[number]
            self.texts.append(text.upper() if rng.random() < 0.5 else text)
            self.more.append(self.more[number])
        if self.kind == "spans" and not any(each["spans"] for each in self.more):
            self.more[0]["spans"] = [(0, len(self.texts[0]))]

    def _text(self, count):
        """A text of so many tokens."""
        rng, text = self.rng, ""
        while len(self.tiny.tokens(text)) < count + 3:
            rows = zip(rng.choice(KINDS, count), rng.choice(GAPS, count), strict=True)
            text += "".join(word + gap for word, gap in rows)
        return str(rng.choice(["", " ", "\n"])) + text[: self.tiny.tokens(text)[count - 1][2]]

    def _of_text(self, text):
        """The title of a text, its headings or its spans."""
        rng, count = self.rng, int(self.rng.integers(4))
        if "titles" in self.options:
            title = str(rng.choice(["", "one.", "two three", "山 four"]))
            return {"title": title, "headings": [(0, title)]}
        if "headings" in self.options:
            places = sorted(set(rng.integers(0, len(text) + 2, count).tolist()))
            named = [(place, str(rng.choice(WORDS))) for place in places]
            return {"title": named, "headings": named}
        if self.kind != "spans":
            return {}
        tokens, spans = self.tiny.tokens(text), []
        for first, last in np.sort(rng.integers(0, len(tokens), (count, 2))).tolist():
            spans.append((tokens[first][1], tokens[last][2]))
        return {"spans": spans}

    def expected(self, rows):
        """[(start, end, vector)] of each text of `rows`."""
        # A query has one vector, also where documents have one per chunk.
        plain = self.side == "query" and self.kind in ("passages", "late", "windows")
        found = []
        for row in rows:
            reading = {"kind": "whole"} if plain else self.reading | self.more[row]
            rest = (reading, self.before, self.length, self.dimension or self.size)
            found.append(oracles_readings.read(self.tiny, self.texts[row], *rest))
        return found

    def expected_queries(self):
        """What `search` compares with: queries that are read whole, or as the open model reads."""
        as_opened, reading = "opened" in self.options, {"kind": "whole"}
        before, length = self.prompt_of("query"), self.length
        if self.prompt is not None and not self.options & {"opened", "saved"}:
            before = self.prompts.get("query", "")
        if self.kind == "chunks":
            reading, length = (self.reading if as_opened else reading), self.longest
        rest = (reading, before, length, self.dimension or self.size)
        return [oracles_readings.read(self.tiny, text, *rest)[0][-1] for text in self.queries]

    def write(self, folder):
        """The directory of the model, as sentence-transformers writes it."""
        from safetensors.numpy import save_file

        sizes = {"hidden_size": WIDTH, "num_hidden_layers": 2, "intermediate_size": INNER}
        sizes |= {"num_attention_heads": HEADS, "vocab_size": len(VOCABULARY)}
        sizes |= {
            "max_position_embeddings": self.positions,
            "hidden_act": "gelu",
            "type_vocab_size": 2,
        }
        settings = {"prompts": self.prompts, "default_prompt_name": self.default}
        settings |= {
            "similarity_fn_name": "dot" if self.dot else "cosine",
            "truncate_dim": self.size,
        }
        kinds = ["Transformer", "Pooling", *(kind for kind, *_ in self.tiny.modules)]
        places = [f"{n}_{kind}" if n else "" for n, kind in enumerate(kinds)]
        files = {
            "config.json": sizes | {"model_type": "bert", "layer_norm_eps": 1e-12},
            "sentence_bert_config.json": {"max_seq_length": self.longest},
            "config_sentence_transformers.json": settings,
            "modules.json": [
                {"type": f"sentence_transformers.models.{kind}", "path": place}
                for kind, place in zip(kinds, places, strict=True)
            ],
            "1_Pooling/config.json": {"pooling_mode": self.tiny.pooling},
        }
        for place in places[2:]:
            tanh = "torch.nn.modules.activation.Tanh"
            files[f"{place}/config.json"] = {"activation_function": tanh}
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(json.dumps(content))
        (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", "utf-8")
        save_file(self.weights, folder / "model.safetensors")
        for place, (kind, *arrays) in zip(places[2:], self.tiny.modules, strict=True):
            names = [f"{'linear' if kind == 'Dense' else 'norm'}.{x}" for x in ("weight", "bias")]
            if arrays:
                path = folder / place / "model.safetensors"
                save_file(dict(zip(names, arrays, strict=True)), path)
