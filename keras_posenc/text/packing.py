"""Several short rows in one: fewer tokens of padding, and rows of one length."""

import bisect

from keras_posenc.arguments import checks
from keras_posenc.text.documents import parts_of


@checks.renamed_argument("length", "max_length")
def pack_rows(rows, max_length):
    """Puts rows one behind the other into rows of at most `max_length` tokens.

    The longest row first, each goes where the least room is left ("best fit"). In each the position
    ids start again at 0: a model with `packed=True` separates the documents of a row by them.

    Args:
        rows: list of ids, or of `(token_ids, segment_ids)`, as `Tokenizer.encode_batch` and
            `windows` return them.
        max_length: int. Most tokens of a row.

    Returns:
        list of `(token_ids, segment_ids, position_ids)`, which `TextBatches` takes.

    Example:

    >>> for row in pack_rows([[2, 7, 3], [2, 8, 9, 9, 3], [2, 6, 3]], max_length=8):
    ...     print(row)
    ([2, 8, 9, 9, 3, 2, 7, 3], [0, 0, 0, 0, 0, 0, 0, 0], [0, 1, 2, 3, 4, 0, 1, 2])
    ([2, 6, 3], [0, 0, 0], [0, 1, 2])

    Reference: [Efficient Sequence Packing without
    Cross-contamination](https://arxiv.org/abs/2107.02027).
    """
    rows = [parts_of(row) for row in rows]
    sizes = [len(ids) for ids, *_ in rows]
    longest = max(sizes, default=0)
    if longest > max_length:
        raise ValueError(
            f"A row of {longest:,} tokens does not fit into max_length={max_length:,}: cut it "
            "before, or raise max_length."
        )
    packed, with_room, rooms = [], {}, []  # room -> packed rows with so much; the rooms in order
    for number in sorted(range(len(rows)), key=lambda n: -sizes[n]):
        place = bisect.bisect_left(rooms, sizes[number])
        if place == len(rooms):
            room, packed_row = max_length, ([], [], [])
            packed.append(packed_row)
        else:
            room = rooms[place]
            packed_row = with_room[room].pop()
            if not with_room[room]:
                del with_room[room], rooms[place]
        ids, segments, positions = rows[number]
        packed_row[0].extend(ids)
        packed_row[1].extend(segments)
        packed_row[2].extend(range(len(ids)) if positions is None else positions)
        room -= sizes[number]
        if room not in with_room:
            bisect.insort(rooms, room)
        with_room.setdefault(room, []).append(packed_row)
    return packed
