import numpy as np

from keras_posenc.bench import Settings
from keras_posenc.bench.run import Clock, Contender

SMALL = Settings(steps=20, layers=1, size=8, heads=2, batch_size=4, train_lengths=(3,))


def test_a_contender_begins_anew_with_every_seed():
    contender = Contender("bucket_sort", SMALL, "transformer", "rotary", "sorted")

    def losses(seed):
        contender.begin(seed)
        return [contender.step(seed, number) for number in range(3)]

    first, other, again = losses(0), losses(1), losses(0)
    np.testing.assert_allclose(first, again, rtol=1e-5)
    assert abs(first[0] - other[0]) > 1e-4


def test_the_clock_tells_compiling_from_running():
    clock = Clock()
    clock.times = {("train", 1): [5.0, 1.0, 1.0, 2.0], ("test", 1): [9.0], ("test", 2): [1.0, 1.5]}
    assert clock.compiling() == 4.0
    assert clock.steady("train", 1) == 1.0
    with clock("train", 3):
        pass
    assert 0 <= clock.times["train", 3][0] < 1
