"""What is seen of a model while it runs: its arguments and their axes, inputs to export it with, calls to compare."""

from ._compared_call import first_line
from ._dynamic_axes import BATCH, GRIDS, PAST, SEQUENCE, TOTAL
from ._eager_refusal import eager_refusal
from ._inner_model import as_written, inner_model
from ._last_keys import mask_makers, masks_of_last_keys
from ._observe import (
    Inputs,
    Parts,
    check_inputs,
    is_encoder_decoder,
    observe,
    observe_encoder_decoder,
    observe_whole_texts,
    runs_generate,
)
from ._observer import InputObserver, no_cache, no_cache_facts, refused_together, takes_one_token_alone, with_windows
from ._progress import Tell
from ._random_numbers import check_repeatable
from ._rows import takes_more_rows
from ._tree import flatten
from ._without_cache import BY_FORWARD, NO_CACHE, OBSERVED, refused, refused_where_asked

__all__ = [
    "BATCH",
    "BY_FORWARD",
    "GRIDS",
    "NO_CACHE",
    "OBSERVED",
    "PAST",
    "SEQUENCE",
    "TOTAL",
    "InputObserver",
    "Inputs",
    "Parts",
    "Tell",
    "as_written",
    "check_inputs",
    "check_repeatable",
    "eager_refusal",
    "first_line",
    "flatten",
    "inner_model",
    "is_encoder_decoder",
    "mask_makers",
    "masks_of_last_keys",
    "no_cache",
    "no_cache_facts",
    "observe",
    "observe_encoder_decoder",
    "observe_whole_texts",
    "refused",
    "refused_together",
    "refused_where_asked",
    "runs_generate",
    "takes_more_rows",
    "takes_one_token_alone",
    "with_windows",
]
