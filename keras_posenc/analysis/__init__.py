"""What checkpoints hold, what encodings do to attention, and pages and pictures about both."""

from keras_posenc.analysis.checkpoint_contents import (
    copy_settings,
    heads_in,
    inspect_checkpoint,
    open_model,
)
from keras_posenc.analysis.contextual import write_contextual_report
from keras_posenc.analysis.gallery import describe_encoding, encoding_table, facts
from keras_posenc.analysis.measure import (
    attention_map,
    decay_curve,
    entropy,
    entropy_by_length,
    position_similarity,
)
from keras_posenc.analysis.observe import (
    attention_inputs,
    contextual_positions,
    cross_attention,
    entropy_by_layer,
    rotary_terms,
    rotary_terms_of,
)
from keras_posenc.analysis.plot import require_matplotlib
from keras_posenc.analysis.report import write_report
from keras_posenc.analysis.stretching import write_stretch_report
from keras_posenc.keras_support.lazy import names_on_request

__all__ = [
    "attention_inputs", "attention_map", "contextual_positions", "copy_settings", "cross_attention",
    "decay_curve", "describe_encoding", "encoding_table", "entropy", "entropy_by_layer",
    "entropy_by_length", "facts", "heads_in", "inspect_checkpoint", "open_model",
    "position_similarity", "require_matplotlib", "rotary_terms", "rotary_terms_of", "write_report",
    "write_contextual_report", "write_stretch_report",
]  # fmt: skip

names_on_request(__name__)
