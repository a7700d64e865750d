"""Equal parts of a list of texts, which several processes share."""


def read_shard(shard):
    """Reads `shard`, "i/n", as a function that takes the i-th of n equal parts of a list."""
    if shard is None:
        return lambda items: items
    numbers = str(shard).split("/")
    if len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
        raise ValueError(f'`shard` must be "i/n", such as "1/4". Received: {shard!r}')
    number, count = map(int, numbers)
    if not 1 <= number <= count:
        raise ValueError(f'`shard` must be "i/n" with i from 1 to n. Received: {shard!r}')

    def part(items):
        found = items[(number - 1) * len(items) // count : number * len(items) // count]
        if len(items) and not len(found):
            raise ValueError(
                f"`shard` is of no text: {len(items)} texts have at most {len(items)} parts. "
                f"Received: {shard!r}"
            )
        return found

    return part
