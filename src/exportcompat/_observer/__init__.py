"""What is seen of a model while it runs: its arguments and their axes, inputs to export it with, calls to compare."""

from ._compared_call import first_line
from ._dynamic_axes import BATCH, PAST, SEQUENCE, TOTAL
from ._eager_refusal import eager_refusal
from ._inner_model import inner_model
from ._observe import Inputs, Parts, is_encoder_decoder, observe, observe_encoder_decoder
from ._observer import InputObserver, with_windows
from ._progress import Tell
from ._random_numbers import check_repeatable
from ._rows import takes_more_rows
from ._tree import flatten

__all__ = [
    "BATCH",
    "PAST",
    "SEQUENCE",
    "TOTAL",
    "InputObserver",
    "Inputs",
    "Parts",
    "Tell",
    "check_repeatable",
    "eager_refusal",
    "first_line",
    "flatten",
    "inner_model",
    "is_encoder_decoder",
    "observe",
    "observe_encoder_decoder",
    "takes_more_rows",
    "with_windows",
]
