"""The pages of the API reference: every public name, where it belongs."""

PAGES = {
    "attention": (
        "Attention",
        "keras_posenc",
        ["PositionalAttention", "LogNAttention", "GatedAttentionUnit", "SharedTable"],
    ),
    "encodings": ("Encodings", "keras_posenc.encodings", None),  # what ENCODINGS has
    "positions": (
        "Positions",
        "keras_posenc",
        [
            "HierarchicalPositionEmbedding",
            "TiledPositionEmbedding",
            "InterpolatedPositionEmbedding",
            "FreshPositionEmbedding",
            "LearnedPositionEmbedding",
            "SinusoidalPositionEmbedding",
            "position_embedding",
            "RandomPositionIds",
            "PaddedPositionIds",
            "AbacusPositionIds",
            "CoupledPositionIds",
            "SegmentPositionIds",
        ],
    ),
    "models": (
        "Models",
        "keras_posenc",
        [
            "build_transformer_model",
            "Transformer",
            "TransformerModel",
            "embedder",
            "register_family",
            "Family",
            "ConditionalLayerNormalization",
            "RMSNormalization",
            "build_encoder_decoder",
            "Generator",
            "Config",
            "Extension",
            "read_config",
            "layout_map",
            "export_model",
        ],
    ),
    "structured": (
        "Tags and spans",
        "keras_posenc",
        [
            "ConditionalRandomField",
            "MaximumEntropyMarkovModel",
            "ViterbiDecoder",
            "ChainMarginals",
            "GlobalPointer",
            "EfficientGlobalPointer",
        ],
    ),
    "heads": ("Heads", "keras_posenc.heads", "__all__"),
    "losses": ("Losses", "keras_posenc.losses", "__all__"),
    "metrics": ("Metrics", "keras_posenc.metrics", "__all__"),
    "checkpoints": (
        "Checkpoints",
        "keras_posenc.checkpoints",
        ["open_checkpoint", "load_checkpoint", "save_checkpoint"],
    ),
    "text": ("Text", "keras_posenc.text", "__all__"),
    "training": ("Training", "keras_posenc.training", "__all__"),
    "retrieval": ("Retrieval", "keras_posenc.retrieval", "__all__"),
    "tasks": ("Tasks", "keras_posenc.tasks", "__all__"),
    "bench": ("Benchmark", "keras_posenc.bench", "__all__"),
    "analysis": ("Analysis", "keras_posenc.analysis", "__all__"),
}


def pages():
    """dict name of the page -> Markdown."""
    names = {name: members(name) for name in PAGES}
    rows = "\n".join(
        f"| [{PAGES[name][0]}]({name}.md) | {', '.join(f'`{member}`' for member in found)} |"
        for name, found in names.items()
    )
    index = f"# API reference\n\n| page | names |\n|---|---|\n{rows}\n"
    return {"index": index, **{name: _page(name, found) for name, found in names.items()}}


def members(name):
    """The public names on a page, in its order."""
    import importlib

    from keras_posenc.encodings import ENCODINGS

    _, module, listed = PAGES[name]
    if listed == "__all__":
        listed = sorted(importlib.import_module(module).__all__, key=str.lower)
    if listed is None:
        classes = {kind.__name__ for kind in ENCODINGS.values()}
        listed = ["Encoding", "Grid", "alternate", *sorted(classes)]
    return listed


def _page(name, found):
    title, module, _ = PAGES[name]
    parts = [f"# {title}", *(f"::: {module}.{member}" for member in found)]
    return "\n\n".join(parts) + "\n"
