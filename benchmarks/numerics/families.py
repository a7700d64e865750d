"""How closely each family's tiny models answer as transformers or the published code does.

    KERAS_BACKEND=torch python -m benchmarks.numerics.families [CASE ...]

adds this backend's figures, of all cases or of those named, to benchmarks/results/families.json:
the largest difference as a share of the largest value, over padded batches of 12 and of 40 tokens.
"""

import json
import pathlib
import sys
import tempfile

import keras

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "families.json"
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "models")]


def differences(chosen=()):
    """Yields (family, the largest difference), of all cases or of those chosen."""
    import test_families
    import test_parity_families as written

    def of(cases):
        return [name for name in cases if not chosen or name in chosen]

    for name in of(test_families.CASES):
        with tempfile.TemporaryDirectory() as folder:
            case = test_families.Case(name, pathlib.Path(folder))
            transformer = case.ours.transformer
            lengths = [12] if transformer.config.position_table else [12, 40]
            for length in lengths:
                yield transformer.family, case.compare(case.ours, case.reference, length)
    makers = {"nezha": test_families.nezha, "albert_unshared": test_families.unshared_albert}
    for name in of(makers):
        with tempfile.TemporaryDirectory() as folder:
            yield name, test_families.difference(*makers[name](pathlib.Path(folder)))
    for name in of(written.CASES):
        ours, weights = written.built(name)
        for length in (12, 40):
            yield ours.transformer.family, written.compare(name, ours, weights, length)


def main():
    found = {}
    for family, difference in differences(sys.argv[1:]):
        found[family] = max(found.get(family, 0.0), float(f"{difference:.1e}"))
        print(f"{family:16}{difference:.1e}", flush=True)
    known = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    before = known.get(keras.backend.backend(), {}) if sys.argv[1:] else {}
    known[keras.backend.backend()] = dict(sorted({**before, **found}.items()))
    RESULTS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    main()
