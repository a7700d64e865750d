"""What makes a model of sentence-transformers of an encoder: pooling, normalisation, prompts."""

import json

from keras_posenc.checkpoints.model_settings import MODEL_CONFIG
from keras_posenc.checkpoints.sentence_transformers import (
    FLAGS,
    MODULES,
    POOLING_OF_MODE,
    TRANSFORMER_CONFIGS,
)


def embedder_files(pooling, width, longest, prompts):
    """The files beside weights, config and tokenizer; vectors have length 1.

    Args:
        pooling: str, one of the values of `POOLING_OF_MODE`.
        width: int, the numbers of a token's features.
        longest: int or None. Tokens after which texts are cut.
        prompts: dict or None, the prompts by name; that of the "document" is put before all texts.

    Returns:
        dict path -> str.
    """
    parts = (("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize"))
    modules = [
        {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for n, (kind, path) in enumerate(parts)
    ]
    flags = {flag: POOLING_OF_MODE[mode] == pooling for flag, mode in FLAGS.items()}
    prompts = prompts or {"query": "", "document": ""}
    files = {
        MODULES: modules,
        TRANSFORMER_CONFIGS[0]: {"max_seq_length": longest, "do_lower_case": False},
        "1_Pooling/config.json": {"word_embedding_dimension": width, **flags},
        MODEL_CONFIG: {
            "model_type": "SentenceTransformer",
            "prompts": prompts,
            "default_prompt_name": "document" if prompts["document"] else None,
            "similarity_fn_name": "cosine",
        },
    }
    return {
        path: json.dumps(content, indent=2, ensure_ascii=False) for path, content in files.items()
    }
