"""Where tokens stand in their text: checks of texts, spans and lists of characters."""

from keras_posenc.files.untrusted import quote

# Characters of a text. The library takes 80 bytes for one of ASCII, twice that with offsets.
MOST_CHARACTERS = 2**23


def check_texts(texts):
    """Raises TypeError or ValueError unless these are texts in a list, in valid Unicode."""
    if isinstance(texts, str):
        raise TypeError("Expected a list of texts, not one str; encode() takes one.")
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            kind = type(text).__name__
            raise TypeError(f"Text {number} is a {kind}, not a str: {quote(text)}.")
        check_text(f"Text {number}", text)


def check_text(name, text):
    """Refuses a str that a tokenizer cannot read, by the name that it has in the error."""
    if len(text) > MOST_CHARACTERS:
        raise ValueError(
            f"{name} has {len(text)} characters, and one text may have {MOST_CHARACTERS}, because "
            "a tokenizer takes 80 bytes or more for each: split it, for example at blank lines or "
            "ends of lines."
        )
    check_unicode(name, text)


def check_unicode(name, text):
    """Refuses a str that UTF-8 cannot hold."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{name} has half a surrogate pair, {text[error.start]!r}, at character "
            f"{error.start}: it was decoded wrongly; drop or replace it."
        ) from None


def in_chunks(texts, most):
    """Splits texts into lists of at most `most`, and `MOST_CHARACTERS` where one has not more."""
    chunk, characters = [], 0
    for text in texts:
        if chunk and (len(chunk) == most or characters + len(text) > MOST_CHARACTERS):
            yield chunk
            chunk, characters = [], 0
        chunk.append(text)
        characters += len(text)
    if chunk:
        yield chunk


def without_spaces(text, start, end):
    """A span that leaves out the spaces at its ends, which some tokenizers count to a token.

    That of a token that is nothing but spaces is empty.
    """
    part = text[start:end]
    end -= len(part) - len(part.rstrip())
    return min(start + len(part) - len(part.lstrip()), end), end


def characters_of(tokens, expected, spans, special):
    """The positions of the characters that each of some tokens stands for.

    `tokens`: list of str, the first of `expected`, among special tokens. `expected`: list of str,
    all tokens of a text. `spans`: their (start, end). `special`: tokens that stand for no
    character. Returns a list of lists of ints.
    """
    places, place = [], 0
    for token in tokens:
        if place < len(expected) and token == expected[place]:
            places.append(list(range(*spans[place])))
            place += 1
        elif token in special:
            places.append([])
        else:
            here = quote(expected[place]) if place < len(expected) else "its end"
            raise ValueError(
                f"{quote(token)} is not the next token of the text, which has {here} there."
            )
    return places
