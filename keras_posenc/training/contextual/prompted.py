"""Texts with the prompt of a directory before them, such as "passage: "."""


class Prompted:
    """A tokenizer that puts a prompt between the special tokens and the contents of a text."""

    def __init__(self, tokenizer, prompt):
        self.tokenizer = tokenizer
        self.prefix = list(tokenizer.contents([prompt])[0]) if prompt else []
        self.pad_id = tokenizer.pad_id

    def contents(self, texts):
        """The token ids of each text, without prompt and special tokens."""
        return self.tokenizer.contents(texts)

    def assemble(self, tokens):
        """The token ids and segment ids of a row."""
        return self.tokenizer.assemble([*self.prefix, *tokens])

    def special_tokens(self):
        """Number of tokens of a row that are no content."""
        return self.tokenizer.special_tokens() + len(self.prefix)
