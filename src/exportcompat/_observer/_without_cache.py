"""The sentence that says that a file of a model which generates has no cache, why, and what gives it one."""

from inspect import Signature
from itertools import pairwise

from exportcompat.patches.toolkit.cache_names import cache_name
from exportcompat.registry import ExportCompatError, NoCacheError

from ._compared_call import Observed
from ._record import Record

NO_CACHE = "no_cache"
"""The key of the sentence in the metadata of a file."""

OBSERVED, BY_FORWARD = "observed", "forward"
"""The key that says, and the word for it, that whole texts were given to `forward` instead of a call of `generate`."""


def refused(refusal: NoCacheError) -> str:
    """Return the sentence for a model whose cache no graph can have."""
    return _sentence(refusal.reason, f"for a cache, {refusal.remedy}" if refusal.remedy else "no setting gives it one")


def refused_where_asked(reason: str) -> ExportCompatError:
    """Return an error with the words of a `NoCacheError`, after which no file for whole texts is made by itself."""
    return ExportCompatError(str(NoCacheError(reason)))


def without_cache(observed: Observed) -> str:
    """Return the sentence if a model generates, each call with a token more, and has no cache; empty for others."""
    shapes = [record.inputs.tensors["input_ids"].shape for record in observed.records if _has_tokens(record)]
    grows = any(late[1] == early[1] + 1 for early, late in pairwise(shapes))
    if observed.aligned.is_decoder or not grows:
        return ""
    call = f"{type(observed.model).__name__}.{observed.method}"
    return _sentence(f"{call} was called without one", _hint(observed.signature))


def _sentence(reason: str, hint: str) -> str:
    return f"the file has no cache and computes the whole text for each token: {reason}; {hint}"


def _has_tokens(record: Record) -> bool:
    tokens = record.inputs.tensors.get("input_ids")
    return tokens is not None and tokens.dim() == 2


def _hint(signature: Signature) -> str:
    name = cache_name(signature.parameters)
    if not name:
        return "it takes none"
    return f"let prepare_inputs_for_generation hand {name} on, or export inputs that have it"
