"""The JSON files next to a tokenizer: its family, its special tokens, its switches."""

import dataclasses
import functools
import re

from keras_posenc.files.untrusted import SURROGATES, quote
from keras_posenc.folders.folder import Folder
from keras_posenc.folders.keras_hub import tokenizer_settings
from keras_posenc.text.added import FLAGS, MOST_ADDED, Added
from keras_posenc.text.truncation import PLACES

ROLES = ("pad", "cls", "sep", "mask", "unk", "bos", "eos")
NAMING = ("tokenizer_config.json", "special_tokens_map.json")
LISTS = ("additional_special_tokens", "extra_special_tokens")

# Classes and model types that do not identify the family.
NAMELESS = ("", "pretrained", "tokenizersbackend", "auto")


@dataclasses.dataclass
class TokenizerSettings:
    """A folder's tokenizer_config.json, special_tokens_map.json and config.json, if asked for."""

    folder: Folder

    @functools.cached_property
    def config(self):
        """The object in tokenizer_config.json; {} where there is none."""
        return tokenizer_settings(self.folder) or self.folder.json("tokenizer_config.json")

    @functools.cached_property
    def names(self):
        """Dict role -> token, of the roles that the files name."""
        names = {}
        for file in reversed(NAMING):
            for role in ROLES:
                token = self._read(file).get(f"{role}_token")
                if token is not None:
                    names[role] = self._content(token, file, f"{role}_token")
        return names

    @functools.cached_property
    def added(self):
        """Dict token -> `Added`, of what was added to the model's own."""
        added = {}
        for file, key, token, number in self._entries():
            content = self._content(token, file, key)
            entry = self._entry(token, file, key, number)
            if content in self._special:
                entry = dataclasses.replace(entry, special=True)
            before = added.setdefault(content, entry)
            if entry.id is not None and before.id not in (None, entry.id):
                raise ValueError(
                    f"{quote(content)} is token {entry.id} in {key} of {self.folder.path / file}, "
                    f"and token {before.id} in tokenizer_config.json. The ids must be equal."
                )
            if before.id is None:
                added[content] = dataclasses.replace(before, id=entry.id)
        if len(added) > MOST_ADDED:
            raise ValueError(
                f"{self.folder}: its files add {len(added)} tokens, more than {MOST_ADDED}."
            )
        return added

    @functools.cached_property
    def found(self):
        """Dict token -> `Added`, of `added` and of how the tokens of roles are matched."""
        found = {}
        for file in reversed(NAMING):
            for key in (f"{role}_token" for role in ROLES):
                token = self._read(file).get(key)
                if isinstance(token, dict):
                    found[self._content(token, file, key)] = self._entry(token, file, key, None)
        return found | self.added

    def _entries(self):
        """(file, key, token, id or None) of all that the files add, the most detailed first."""
        file = "tokenizer_config.json"
        entries = self.config.get("added_tokens_decoder") or {}
        if not isinstance(entries, dict):
            raise ValueError(
                f"{self.folder.path / file}: added_tokens_decoder is no object of tokens."
            )
        for number, token in entries.items():
            if not (number.isascii() and number.isdecimal()) or len(number) > 10:
                raise ValueError(f"{self.folder.path / file}: {quote(number)} is no token id.")
            yield file, "added_tokens_decoder", token, int(number)
        for file in NAMING:
            for key in LISTS:
                for token in self._listed(file, key):
                    yield file, key, token, None
        file = "added_tokens.json"
        for token, number in self._read(file).items():
            if not isinstance(number, int) or isinstance(number, bool) or number < 0:
                raise ValueError(f"{self.folder.path / file}: {quote(number)} is no token id.")
            yield file, "a token", token, number

    @functools.cached_property
    def _special(self):
        """Set of the tokens that the files call special."""
        listed = [(file, key) for file in NAMING for key in LISTS]
        more = {self._content(t, *each) for each in listed for t in self._listed(*each)}
        return more | set(self.names.values())

    def _listed(self, file, key):
        """The tokens of a list, or of an object with a name for each."""
        tokens = self._read(file).get(key) or []
        if not isinstance(tokens, (list, dict)):
            raise ValueError(f"{self.folder.path / file}: {key} is {quote(tokens)}, not a list.")
        return list(tokens.values()) if isinstance(tokens, dict) else tokens

    def _entry(self, token, file, key, number):
        """An `Added` of a token that is written as a string or as an object."""
        if not isinstance(token, dict):
            return Added(number, key != "a token")
        flags = {name: token[name] for name in ("special", *FLAGS) if name in token}
        for name, flag in flags.items():
            if not isinstance(flag, bool):
                where = f"{self.folder.path / file}: {key} has {name} {quote(flag)}"
                raise ValueError(f"{where}, not true or false.")
        return Added(number, flags.pop("special", False), flags)

    @functools.cached_property
    def family(self):
        """The family in small letters, such as "xlmroberta"; None if no file has it."""
        name = self.config.get("tokenizer_class")
        if isinstance(name, str):
            name = re.sub("Tokenizer(Fast)?$", "", name).lower()
            if name not in NAMELESS:
                return name
        name = self._read("config.json").get("model_type")
        return re.sub("[-_]", "", name).lower() if isinstance(name, str) else None

    @property
    def truncate_from(self):
        """Where longer texts are cut, of `PLACES`."""
        for name in ("truncate_from", "truncation_side"):
            if (given := self.config.get(name)) is not None:
                if given not in PLACES:
                    where = f"{self.folder.path / 'tokenizer_config.json'}: {name}"
                    raise ValueError(f"{where} is {quote(given)}, not {', '.join(PLACES)}.")
                return given
        return PLACES[0]

    def switch(self, name):
        """The value of a switch in tokenizer_config.json: True, False, or None."""
        value = self.config.get(name)
        if not isinstance(value, (bool, type(None))):
            where = f"{self.folder.path / 'tokenizer_config.json'}: {name}"
            raise ValueError(f"{where} is {quote(value)}, not true, false or null.")
        return value

    def _read(self, file):
        return self.config if file == "tokenizer_config.json" else self.folder.json(file)

    def _content(self, token, file, key):
        """A token is written as a string, or as an object of its content and how it is matched."""
        content = token.get("content") if isinstance(token, dict) else token
        if not isinstance(content, str) or not content:
            raise ValueError(
                f"{self.folder.path / file}: {key} is {quote(token)}, which is no token."
            )
        if SURROGATES.search(content):
            where = self.folder.path / file
            raise ValueError(f"{where}: {key} has half a surrogate pair: {quote(token)}.")
        return content
