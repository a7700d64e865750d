"""Names of arguments that bert4keras and transformers have for what is called otherwise here."""

HERE = {
    "maxlen": "max_length=",
    "max_len": "max_length=",
    "first_text": "first, without a name",
    "text": "first, without a name",
    "second_text": "second=",
    "text_pair": "second=",
    "second_maxlen": "max_length=, for both texts together",
    "first_maxlen": "max_length=, for both texts together",
    "truncation": "max_length=, which is enough",
    "truncation_side": "truncate_from=",
    "padding": "TextBatches, which pads",
    "pad_to_multiple_of": "pad_to= of TextBatches",
    "return_tensors": "np.array of what is returned",
    "return_offsets_mapping": "offsets=True",
    "return_overflowing_tokens": "the method windows",
    "add_special_tokens": "the methods contents and tokenize, which add none",
    "skip_special_tokens": "nothing: they are always left out",
    "token_dict": "path, without a name, or vocabulary=",
    "do_lower_case": "lowercase=",
}


def refuse(function, arguments):
    """Raises one TypeError for arguments of others' names, with their names here.

    Args:
        function: str, what was called.
        arguments: dict, the arguments that it does not know.
    """
    names = ", ".join(arguments)
    known = [f"{name} is {HERE[name]}" for name in arguments if name in HERE]
    here = f": {'; '.join(known)}" if known else ""
    raise TypeError(f"{function} has no argument {names}{here}.")
