"""What the JSON files beside a tokenizer say: its family, its special tokens, its switches."""

import dataclasses
import functools
import pathlib
import re

from keras_posenc.untrusted import parse_json, quote, read_bytes, shorten

ROLES = ("pad", "cls", "sep", "mask", "unk", "bos", "eos")
MOST_ADDED = 2**16  # tokens; Gemma has 6,400

# Classes and model types that say nothing of the family.
NAMELESS = ("", "pretrained", "tokenizersbackend", "auto")


@dataclasses.dataclass
class Settings:
    """tokenizer_config.json, special_tokens_map.json and config.json of a folder, read when asked.

    Args:
        folder: `pathlib.Path`.
    """

    folder: pathlib.Path

    @functools.cached_property
    def config(self):
        """The object in tokenizer_config.json; {} where there is none."""
        return read_object(self.folder / "tokenizer_config.json")

    @functools.cached_property
    def names(self):
        """Dict role -> token, of the roles that the files name."""
        names = {}
        for file in ("special_tokens_map.json", "tokenizer_config.json"):
            settings = self.config if file == "tokenizer_config.json" else self._read(file)
            for role in ROLES:
                token = settings.get(f"{role}_token")
                if token is not None:
                    names[role] = self._content(token, file, f"{role}_token")
        return names

    @functools.cached_property
    def added(self):
        """Dict token -> (id, whether it is special), of what was added to the model's own."""
        added = {}
        entries = self.config.get("added_tokens_decoder") or {}
        file = "tokenizer_config.json"
        if not isinstance(entries, dict) or len(entries) > MOST_ADDED:
            raise ValueError(f"{self.folder / file}: added_tokens_decoder is no object of tokens.")
        for number, token in entries.items():
            if not number.isdecimal() or len(number) > 10:
                raise ValueError(f"{self.folder / file}: {quote(number)} is no token id.")
            special = not isinstance(token, dict) or token.get("special") is not False
            added[self._content(token, file, "added_tokens_decoder")] = int(number), special
        file = "added_tokens.json"
        for token, number in self._read(file).items():
            if not isinstance(number, int) or isinstance(number, bool) or number < 0:
                raise ValueError(f"{self.folder / file}: {quote(number)} is no token id.")
            added.setdefault(
                self._content(token, file, "a token"), (number, token in self.names.values())
            )
        return added

    @functools.cached_property
    def family(self):
        """The family in small letters, such as "xlmroberta"; None where no file says it."""
        name = self.config.get("tokenizer_class")
        if isinstance(name, str):
            name = re.sub("Tokenizer(Fast)?$", "", name).lower()
            if name not in NAMELESS:
                return name
        name = self._read("config.json").get("model_type")
        return re.sub("[-_]", "", name).lower() if isinstance(name, str) else None

    def switch(self, name):
        """What tokenizer_config.json says of a switch: True, False, or None.

        Raises:
            ValueError: it says something else.
        """
        value = self.config.get(name)
        if not isinstance(value, (bool, type(None))):
            where = f"{self.folder / 'tokenizer_config.json'}: {name}"
            raise ValueError(f"{where} is {quote(value)}, not true, false or null.")
        return value

    def _read(self, file):
        return read_object(self.folder / file)

    def _content(self, token, file, key):
        """A token is written as a string, or as an object of its content and how it is matched."""
        content = token.get("content") if isinstance(token, dict) else token
        if not isinstance(content, str) or not content:
            raise ValueError(f"{self.folder / file}: {key} is {quote(token)}, which is no token.")
        try:
            content.encode()
        except UnicodeEncodeError:
            where = self.folder / file
            raise ValueError(f"{where}: {key} has half a surrogate pair: {quote(token)}.") from None
        return content


def read_object(path):
    """The object in a JSON file; {} where there is no file."""
    if not path.is_file():
        return {}
    data = read_bytes(path)
    try:
        value = parse_json(data)
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {shorten(error)}.") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path} should hold a JSON object, not a {type(value).__name__}.")
    return value
