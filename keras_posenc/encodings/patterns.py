"""Layer patterns: encodings that differ from layer to layer."""

from keras_posenc.arguments import checks
from keras_posenc.arguments.hints import Encodings


def alternate(number_of_layers: int, every: int, full: Encodings, local: Encodings):
    """Returns the encodings of each layer when every `every`-th layer differs from the rest.

    Layers `every`, 2 `every`, ... (counted from 1) get `full`, the others `local`. Two published
    patterns:

    - RNoPE-SWA. Every fourth layer has full attention without positions, and the others have rotary
      positions and a window.
    - HWFA. The last of L layers has full attention without positions and with log-n scaling. The
      others have rotary positions and a window w. The windows together, (w - 1) (L - 1) + 1
      positions, are about three quarters of the training length.

    Args:
        number_of_layers: int. Number of layers L.
        every: int between 1 and `number_of_layers`; the latter means the last layer alone.
        full, local: lists of names, dicts or `Encoding` instances; see `encodings.get`.

    Returns:
        list of `number_of_layers` lists.

    Example:

    >>> window = {"name": "window", "window": 512}
    >>> alternate(4, 4, full=["log_n"], local=["rotary", window])[2:]
    [['rotary', {'name': 'window', 'window': 512}], ['log_n']]

    Reference: [Rope to Nope and Back Again](https://arxiv.org/abs/2501.18795); Su Jianlin,
    [HWFA](https://www.spaces.ac.cn/archives/9603), 2023.
    """
    checks.whole("number_of_layers", number_of_layers)
    checks.whole("every", every)
    if every > number_of_layers:
        raise ValueError(
            f"`every` must be at most the {number_of_layers} layers, or no layer would see "
            f"everything. Received: {every}"
        )
    for name, specs in (("full", full), ("local", local)):
        if not isinstance(specs, (list, tuple)):
            raise TypeError(f"`{name}` must be a list of encodings. Received: {specs!r}")
    return [list(full if layer % every == 0 else local) for layer in range(1, number_of_layers + 1)]
