"""Where encodings act before the map: which cells are open, and what the heads say of position."""

from keras_posenc.maps.diagonals import all_distances


def encode(q, k, v, grid, rules, forms_map):
    """Lets the encodings act on the heads (B, T, H, D) and on the grid.

    Args:
        forms_map: bool. The attention matrix is materialised: a term that depends on distances
            alone is then added to the logits, and its `heads` are skipped.

    Returns:
        q, k and the `Grid`, whose content is what came in.
    """
    grid = grid.replace(queries=q, keys=k, values=v)
    for encoding in rules.encodings:
        grid = encoding.restrict(grid)
    by_distance = {}
    of_distance = _of_distance_alone(rules.encodings) if forms_map else []
    if of_distance and (distances := all_distances(grid)) is not None:
        by_distance = {e: e.execution.by_distance(distances) for e in of_distance}
    for encoding in rules.encodings:
        if encoding not in by_distance:
            q, k = encoding.heads(q, k, grid)
    return q, k, grid.replace(distance_biases=by_distance, encoded=(q, k))


def _of_distance_alone(encodings):
    """The encodings with `by_distance`, but those whose term a later one might scale."""
    by_distance = []
    for encoding in reversed(encodings):
        if encoding.execution.by_distance is not None:
            by_distance.append(encoding)
        elif encoding.overrides("heads"):
            break
    return by_distance
