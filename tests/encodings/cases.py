"""Every row of `ENCODINGS` with some arguments, some pairs, and what each claims; for the laws."""

from laws import Case, D


def case(*encodings, **claims):
    return Case(encodings, **claims)


def spec(name, **arguments):
    return {"name": name, **arguments}


def scaled(kind, **fields):
    return spec("rotary", scaling={"rope_type": kind, **fields})


LONGER = {"factor": 2.0, "original_max_position_embeddings": 4}
LISTS = {"short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [1.0, 1.5, 2.0, 2.5]}
BUCKETS = {"num_buckets": 8, "max_distance": 5, "bidirectional": True}
assert len(LISTS["short_factor"]) == D // 2

CASES = [
    case("alibi", flat=True),
    case(spec("alibi", learned=True), flat=True),
    case(spec("alibi", direction="symmetric"), flat=True),
    case(spec("alibi", direction=(1.0, 0.5), learned=True), flat=True),
    case(spec("alibi", direction="one_sided"), flat=True, heads=6),
    case("content_bias", flat=True),
    case(spec("content_bias", max_distance=3, size=2, bidirectional=False), flat=True),
    case("cope"),
    case(spec("cope", npos_max=3, gate="separate_keys", scaling="before")),
    case(spec("cope", npos_max=4, gate="values")),
    case(spec("cope", npos_max=4, bidirectional=True)),
    case("dape"),
    case(spec("dape", bias="t5", bias_arguments=BUCKETS, units=3)),
    case("deberta"),
    case(spec("deberta", max_distance=8, buckets=4)),
    case(spec("deberta", max_distance=3, terms=["c2p"])),
    case("dual_chunk", odd=False, relative=None, flat=True),
    case(spec("dual_chunk", chunk_size=4, local_size=1), odd=False, relative=False, flat=True),
    case(spec("dual_chunk", chunk_size=4, local_size=2), odd=False, relative=False, flat=True),
    case("fire", flat=True),  # up to its threshold
    case(spec("fire", units=3, length=4), relative=False, flat=True),
    case("forget_gate", apart=False, gaps=False),
    case(spec("forget_gate", bidirectional=True), apart=False, gaps=False),
    case("kerple", flat=True),
    case(spec("kerple", kind="power"), flat=True),
    case(spec("kerple", kind="power", power=2.0), flat=True),
    case("log_cpb", flat=True),
    case(spec("log_cpb", units=3, train_length=9, scale=2.5, bound=None), flat=True),
    case("log_n"),
    case(spec("log_n", train_length=4, clipped=True)),
    case(spec("log_n", train_length=4, variant="softmax_plus")),
    case(spec("log_n", train_length=4, variant="yarn")),
    case("nezha"),
    case(spec("nezha", max_distance=2, values=False)),
    case("path", apart=False, gaps=False),
    case(spec("path", rank=2, kernel_size=1), apart=False, gaps=False),
    case("pope"),
    case(spec("pope", base=50.0)),
    case("rerope", odd=False, flat=True),
    case(spec("rerope", window=3), odd=False, flat=True),
    case(spec("rerope", window=2, leak=4.0, layout="half", rotary_dim=4), flat=True),
    case("rotary", odd=False, flat=True),
    case(spec("rotary", layout="half", rotary_dim=4), flat=True),
    case(spec("rotary", use_bias=True), odd=False),
    case(spec("rotary", use_bias="shared", rotary_dim=2)),
    case(spec("rotary", use_bias="scalar", bias_initializer="sandwich"), odd=False),
    case(spec("rotary", learned=True), odd=False, flat=True),
    case(scaled("linear", factor=2.0), odd=False, flat=True),
    case(scaled("yarn", **LONGER), odd=False),
    case(scaled("dynamic", **LONGER), odd=False, relative=False, whole_sequence=True),
    case(scaled("longrope", **LONGER, **LISTS), odd=False, relative=None, whole_sequence=True),
    case(spec("rotary", sections=[1, 3]), odd=False, axes=2),
    case(spec("rotary", sections=[2, 1, 1], section_order="round_robin"), odd=False, axes=3),
    case("rotary_bias", odd=False, flat=True),
    case(spec("rotary_bias", size=4), flat=True),
    case("sandwich", flat=True),
    case("selective", decodes=False, apart=False),
    case("self_extend", odd=False, flat=True),
    case(spec("self_extend", group_size=2, window=3), odd=False, relative=False, flat=True),
    case(spec("self_extend", group_size=3, window=2, layout="half"), relative=False, odd=False),
    case("shaw"),
    case(spec("shaw", max_distance=2, values=False)),
    case("sink_logits"),
    case(spec("sink_logits", initializer="ones")),
    case("squared_relu"),
    case("ssmax"),
    case(spec("ssmax", train_length=4, use_bias=True)),
    case("stick_breaking"),
    case("string", odd=False, flat=True),
    case(spec("string", shift=4, window=1, rotary_dim=4), flat=True),
    case("t5", flat=True),
    case(spec("t5", num_buckets=4, max_distance=5, bidirectional=False), flat=True),
    case("temperature", flat=True),
    case(spec("temperature", kind="learned", value=1.5)),
    case(spec("temperature", kind="llama4", value=2), relative=False),
    case(spec("temperature", kind="llama4", value=2, slope=0.7, offset=0), relative=False),
    case("transformer_xl"),
    case(spec("transformer_xl", size=6)),
    case("window", flat=True),
    case(spec("window", window=3), flat=True),
    case(spec("window", window=2, sinks=1), relative=False, flat=True),
    case(spec("window", window=2, global_tokens=2), relative=False, flat=True),
    case("xpos", odd=False, flat=True),
]

# Two or three at a time, in the order in which a list would hold them.
PAIRS = [
    case("rotary", "log_n"),
    case("alibi", "rotary", "ssmax"),
    case("cope", "rotary"),
    case("forget_gate", spec("cope", gate="separate_keys"), "xpos", apart=False, gaps=False),
    case("log_n", spec("rerope", window=3)),
    case(spec("window", window=4), "pope", "alibi", "log_n"),
    case(spec("window", window=4), spec("alibi", direction="symmetric"), "nezha"),
    case("transformer_xl", "rotary", "stick_breaking"),
    case("squared_relu", "shaw", "t5"),
    case("forget_gate", "path", spec("window", window=4), apart=False, gaps=False),
    case("alibi", spec("window", window=4), "sink_logits", "log_n"),
    case(spec("t5", num_buckets=4), "cope", "sink_logits", "sink_logits", "shaw"),
    case("log_n", spec("dual_chunk", chunk_size=4, local_size=1), "sink_logits", relative=False),
    case(spec("window", window=4), spec("content_bias", max_distance=2), "rotary"),
    case("sandwich", "rotary_bias", spec("rotary", use_bias=True)),
]
