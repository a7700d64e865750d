"""Names on the Hugging Face Hub in the place of a path: what downloads them."""

import os
import re

# owner/name, as the Hub shows it; hf:// or the address of its page before it, a revision behind.
NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
ADDRESS = re.compile(r"(?:hf:/+|https?:/+(?:www\.)?huggingface\.co/)")
REVISION = re.compile(r"(?:@|/(?:tree|resolve|blob)/)(?P<revision>[\w.-]+)/?\Z")
# The models that are known without their owner: those of the Hub's first years, and those that
# sentence-transformers completes itself.
OWNERS = {
    r"albert-(base|large|x+large)-v[12]": "albert",
    r"bert-(base|large)-[\w-]+": "google-bert",
    r"camembert-base": "almanach",
    r"distil(bert|roberta)-base[\w-]*|distilgpt2": "distilbert",
    r"gpt2(-medium|-large|-xl)?|openai-gpt": "openai-community",
    r"roberta-(base|large)(-mnli)?|xlm-(roberta|mlm|clm)-[\w-]+": "FacebookAI",
    r"t5-(small|base|large|3b|11b)": "google-t5",
    r"xlnet-(base|large)-cased": "xlnet",
    r"(all|paraphrase|multi-qa|msmarco|stsb|nli|distiluse|average_word_embeddings|gtr-t5"
    r"|sentence-t5)-[\w.-]+|LaBSE": "sentence-transformers",
}


def from_hub(path):
    """The end of an error about a path that is missing: the download, if it names a model.

    `org/name` is a name on the Hugging Face Hub unless there is a folder `org`.

    Example:

    >>> from_hub("bert-base-uncased")
    ' To download ... hf download google-bert/bert-base-uncased --local-dir bert-base-uncased...'
    """
    name, address = ADDRESS.subn("", os.fspath(path), count=1)
    revision = REVISION.search(name) if address or "@" in name else None
    name = name[: revision.start()] if revision else name.rstrip("/") if address else name
    owners = [owner for pattern, owner in OWNERS.items() if re.fullmatch(pattern, name)]
    name = f"{owners[0]}/{name}" if owners else name
    owner, _, model = name.partition("/")
    if not NAME.fullmatch(name) or (os.path.exists(owner) and not (address or owners)):
        return ""
    option = f" --revision {revision['revision']}" if revision else ""
    return (
        " To download this model from the Hugging Face Hub: pip install huggingface_hub; "
        f"hf download {name}{option} --local-dir {model}; then give the path {model}."
    )
