"""The project's benchmarks: `python -m benchmarks.SUBPACKAGE.NAME` from the root of a clone."""
