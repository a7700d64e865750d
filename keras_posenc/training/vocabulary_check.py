"""Whether a tokenizer, a length and a model belong together: rows of tables, and the padding id."""

from keras_posenc.models.inputs import id_inputs
from keras_posenc.text.shapes import max_position_of


def check_table(tokenizer, table):
    """Refuses a tokenizer with tokens that a model's table, or a number of its rows, has no row
    for."""
    if not isinstance(table, int):
        bounds = {ids.name: ids.bound for ids in id_inputs(table)}
        table = next((bounds[name] for name in bounds if name.endswith("token_ids")), None)
    most = max(tokenizer.vocab_size, tokenizer.pad_id + 1)
    if table is not None and most > table:
        raise ValueError(
            f"The tokenizer has {most} tokens, and the model's table {table} rows: the ids from "
            f"{table} on have none. Give the tokenizer of this model; if tokens were added to it, "
            "resize the table by as many rows (`resize_token_embeddings` in transformers)."
        )


def check_max_length(model, name, length):
    """Refuses a length for which a model has no positions, before a text is read."""
    served = max_position_of(model)
    if served is not None and isinstance(length, int) and length > served:
        raise ValueError(
            f"{name}={length}: the model has {served} positions. Give at most that many: chunks= "
            "reads texts of any length, and `stretch` or a training with a longer stage makes more "
            "positions."
        )


def padding_id(tokenizer, of_config):
    """The id to pad with, which no text has: models mask it in every place.

    That of the model's config, unless the tokenizer adds it to every text, as those of Qwen3's
    embedders do; then that of another special token, if there is one.
    """
    added = set(tokenizer.encode("a")[0])
    candidates = [of_config, tokenizer.pad_id, *tokenizer.reserved_ids]
    unused = (token for token in candidates if token is not None and token not in added)
    return next(unused, tokenizer.pad_id)
