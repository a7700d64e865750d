"""Where the benchmark is that was here until 0.5."""

raise ImportError(
    "`keras_posenc.bench` is no longer in the package. It is benchmarks/extrapolation in the "
    "repository: run `python -m benchmarks.extrapolation` in a clone, or "
    "`python -m benchmarks.long_texts.passkeys` for pass keys."
)
