import numpy as np
import pytest

from keras_posenc.analysis import decay_curve, pictures, plot
from keras_posenc.analysis.plot import to_svg

pytestmark = pytest.mark.once
ENCODINGS = {"none": [], "rotary": ["rotary"]}


def test_decay_curves_show_the_mean_of_the_heads_and_leave_gaps():
    logits = np.array([[1.0, 0.0, np.nan], [1.0, -40.0, np.nan]])
    weights = np.array([[0.7, 0.3, 0.0], [0.9, 0.1, 0.0]])
    curve = {"distance": np.arange(3), "logits": logits, "weights": weights}
    figure = pictures.decay_curves({"one": curve, "two": curve})
    left, right = figure.axes
    np.testing.assert_array_equal(left.lines[0].get_ydata(), [1, -20, np.nan])
    np.testing.assert_allclose(right.lines[1].get_ydata(), [0.8, 0.2, np.nan])
    assert left.get_ylim()[0] == -8 and right.get_yscale() == "log"
    assert [text.get_text() for text in figure.legends[0].texts] == ["one", "two"]
    assert left.get_xlabel() == "distance (tokens)"
    figure = pictures.decay_curves({"one": {**curve, "distance": np.arange(-1, 2)}})
    assert figure.axes[0].get_xlabel() == "query minus key (tokens)"


def test_ticks_of_a_logarithmic_axis_are_no_tex():
    """Its labels change where the figure is written, to numbers with no formula around them."""
    curves = {name: decay_curve(encodings, 48) for name, encodings in ENCODINGS.items()}
    figure = pictures.decay_curves(curves)
    to_svg(figure)
    right = figure.axes[1]
    labels = [tick.get_text() for tick in right.get_yticklabels(which="both")]
    shown = [label for label in labels if label]
    assert "0.02" in shown and not any("$" in label for label in shown)
    assert label_of([1000, 100000], 16384) == "16384"
    assert label_of([0.999981, 0.999999], 0.999985) == "0.999985"
    # On an axis of a narrow range, too, each tick has a label of its own.
    figure = pictures.decay_curves({"t5": decay_curve([{"name": "t5"}], 48)})
    to_svg(figure)
    shown = [t.get_text() for t in figure.axes[1].get_yticklabels(which="both") if t.get_text()]
    assert len(shown) > 2 and len(set(shown)) == len(shown)


def label_of(limits, tick):
    """The label of a tick of a logarithmic axis with these limits."""

    @pictures.styled
    def draw(figure):
        axes = figure.subplots()
        axes.set(yscale="log", ylim=limits)

    (axes,) = draw(size=(3, 3)).axes
    return axes.yaxis.get_minor_formatter()(tick)


def test_entropy_curves_stand_with_the_uniform_one():
    found = {"length": np.array([64, 128]), "entropy": np.array([[1.0, 3.0], [2.0, 4.0]])}
    (axes,) = pictures.entropy_curves({"rotary": found}).axes
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), [2, 3])
    np.testing.assert_allclose(axes.lines[1].get_ydata(), np.log([64, 128]))
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["64", "128"]


@pytest.mark.parametrize("count", [1, 3])
def test_similarity_maps(count):
    maps = {f"map {index}": np.eye(4) * index for index in range(count)}
    figure = pictures.similarity_maps(maps, np.arange(0, 40, 10))
    *panels, bar = figure.axes
    assert [axes.get_title(loc="left") for axes in panels] == list(maps)
    np.testing.assert_array_equal(panels[-1].images[0].get_array(), np.eye(4) * (count - 1))
    assert tuple(panels[0].images[0].get_extent()) == (-5, 35, 35, -5)
    assert bar.get_ylabel() == "cosine similarity"


def test_rotary_terms():
    names = ("qk", "ak", "qb", "ab", "sum")
    terms = {name: np.full((2, 3), index) for index, name in enumerate(names)}
    each, total = pictures.rotary_terms({**terms, "distance": np.arange(3)}, head=1).axes
    assert [line.get_ydata()[0] for line in each.lines] == [0, 1, 2, 3]
    assert [line.get_ydata()[0] for line in total.lines] == [4, 0]


@pytest.mark.parametrize("count", [5, 130])
def test_contextual_positions(count):
    gates = np.tril(np.full((1, 2, count, count), 0.5))
    found = {"gates": gates, "positions": np.flip(np.flip(gates, -1).cumsum(-1), -1)}
    tokens = [f"t{index}" for index in range(count)]
    figure = pictures.contextual_positions(found, tokens, head=1, query=2)
    every, one, bar, steps = figure.axes
    assert [patch.get_height() for patch in one.patches][:4] == [0.5, 0.5, 0.5, 0]
    np.testing.assert_array_equal(steps.lines[0].get_ydata()[:4], [1.5, 1, 0.5, np.nan])
    assert one.get_title(loc="left") == "Query 2: t2"
    assert len(every.get_xticklabels()) <= 60


@pytest.mark.parametrize("heads", [1, 4])
def test_cross_attention_has_a_map_for_each_head(heads):
    weights = np.arange(heads * 6).reshape(heads, 2, 3) / 24
    *panels, bar = pictures.cross_attention(weights, ["a", "b", "c"], ["x", "y"]).axes
    assert [axes.get_title(loc="left") for axes in panels] == [f"head {i}" for i in range(heads)]
    np.testing.assert_array_equal(panels[-1].images[0].get_array(), weights[-1])
    assert [tick.get_text() for tick in panels[0].get_xticklabels()] == ["a", "b", "c"]
    assert [tick.get_text() for tick in panels[0].get_yticklabels()] == ["x", "y"]
    assert bar.get_ylabel() == "weight"


def test_letters_that_the_font_lacks_are_drawn_by_the_browser(recwarn):
    names = ["正面", "<负面>"]
    one, two = (plot.to_svg(plot.confusion_matrix([[1, 2], [0, 3]], names)) for _ in range(2))
    assert one == two and ">正面</text>" in one and ">&lt;负面&gt;</text>" in one
    assert "<text" not in plot.to_svg(plot.confusion_matrix([[1, 2], [0, 3]], ["a", "é"]))
    assert not [each for each in recwarn if "Glyph" in str(each.message)]


def test_negative_correlations_and_the_loss_of_one_step_are_seen():
    group = {"more_than": 0, "up_to": 128, "documents": 3}
    series = {"v": [{**group, "spearman": -0.5}, {**group, "up_to": None, "spearman": 0.2}]}
    (axes,) = plot.score_by_length(series, "spearman", "Spearman").axes
    assert axes.get_ylim()[0] < -0.5 < 0.2 <= axes.get_ylim()[1]
    (axes,) = plot.losses([0.5]).axes
    assert axes.lines[0].get_marker() == "o"
    assert plot.losses([0.5, 0.4]).axes[0].lines[0].get_marker() == "None"
