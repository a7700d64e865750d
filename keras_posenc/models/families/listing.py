"""The families as a table, for people."""

from keras_posenc.models.families import FAMILIES


def family_table(differences=None):
    """Lists what `build_transformer_model` loads.

    `differences`: dict, name of a family -> the largest difference found, as a share of the largest
    value, which `benchmarks/numerics/families.py` measures. Returns a list of dict, one a family:
    `model`, `family`, `model_type` (a list), `positions`, `compared` (to what), `paper`,
    `difference`.

    Example:

    >>> rows = {row["model"]: row for row in family_table({"bert": 2e-6})}
    >>> rows["bert"]["positions"], rows["bert"]["difference"]
    ('table', 2e-06)
    """
    rows = []
    for name, family in FAMILIES.items():
        row = {
            "model": name,
            "family": family.title,
            "model_type": list(family.model_types),
            "positions": family.positions,
            "compared": family.compared,
            "paper": family.paper,
        }
        if differences and name in differences:
            row["difference"] = differences[name]
        rows.append(row)
    return rows
