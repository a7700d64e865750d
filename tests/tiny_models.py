"""The arguments of a model that is built in moments."""

SIZES = dict(
    vocab_size=30,
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=16,
    hidden_act="gelu",
    max_position=16,
    dropout_rate=0.0,
    attention_dropout_rate=0.0,
)
