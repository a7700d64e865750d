"""Whether tokens see later ones: the keys by which config files make encoders of decoders."""

from keras_posenc.files.untrusted import quote

# Of Gemma 3 and of embedding models made of decoders; `is_causal` of any decoder, from transformers
# 5.2 on, is an alias of the field `causal`.
BIDIRECTIONAL = "use_bidirectional_attention"


def read_direction(values, family):
    """Whether a model is causal. `values`: dict, the keys of the config file."""
    keys = {key: value for key, value in values.items() if family.ours(key) == "causal"}
    both_ways = values.get(BIDIRECTIONAL)
    for key, value in (*keys.items(), (BIDIRECTIONAL, both_ways or False)):
        if not isinstance(value, bool) and key not in family.required:
            raise ValueError(f"`{key}` must be true or false. Received: {quote(value)}")
    by_type = not family.causal or values.get("model_type") in family.bidirectional
    causal = next(map(bool, keys.values()), not (by_type or both_ways))
    if causal and both_ways:
        raise ValueError(f"`{next(iter(keys))}` and `{BIDIRECTIONAL}` are true: drop one of them.")
    if causal and not family.causal:
        raise ValueError(
            f'{family.title} is no causal model; application="lm" makes one of it. Received: '
            f"`{next(iter(keys))}` true"
        )
    return causal


def write_direction(causal, values, family):
    """The keys to write so that a reader computes the same, as a dict.

    `values`: dict, the keys that are written.
    """
    known = BIDIRECTIONAL in family.keys and values.get(BIDIRECTIONAL)
    return {} if causal == family.causal or known else {"is_causal": causal}
