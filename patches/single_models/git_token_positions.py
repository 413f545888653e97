"""GIT counts a single token behind a cache from the end of the cache, and a graph counts it as it is given.

Symptom: off by 2 to 5 in each call with one token, as generation makes them; a call of several tokens is right.
Cause: `if pixel_values is None and past_key_values is not None and input_ids.shape[1] == 1:` the length of the cache is
added to the positions. A dynamic number of tokens is not 1 while it is traced.
What is done: while it is traced, the length of the cache, or 0, is added by a comparison in the graph.
Can go: with transformers 5.17; 5.18 adds nothing.
"""

import inspect
from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source
from exportcompat.registry import PatchingSpec


def patch_git_forward(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `GitModel.forward`, made to move the positions of a single token by a length that is computed."""
    from exportcompat.patches.toolkit.cache_names import cache_of

    signature = inspect.signature(original)

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(self, *args, **kwargs).arguments
        cache = cache_of(given)
        if cache is not None and given.get("pixel_values") is None and _is_dynamic(given.get("input_ids")):
            given["position_ids"] = _moved(given["position_ids"], given["input_ids"], cache.get_seq_length())
        # Decorators of upstream take arguments by name alone.
        named = {name: value for name, value in given.items() if name not in ("self", "kwargs")}
        return original(self, **named, **given.get("kwargs", {}))

    return forward


def _is_dynamic(tokens: Any) -> bool:
    """Say whether the number of tokens, `(batch, new)`, is to be found out in each call."""
    import torch

    return tokens is not None and isinstance(tokens.shape[1], torch.SymInt)


def _moved(positions: Any, tokens: Any, length: Any) -> Any:
    """Return positions, `(batch, new)`, moved by the length of the cache if there is one token."""
    import torch

    # torch takes a size for 2 or more and would answer by itself; a tensor is compared in the file.
    is_one = torch.full((), tokens.shape[1], dtype=torch.int64) == 1
    return positions + torch.where(is_one, torch.full((), length, dtype=torch.int64), 0)


SPECS = (
    PatchingSpec(
        id="git-token-positions",
        targets=("transformers.models.git.modeling_git:GitModel.forward",),
        replacement=f"{__name__}:patch_git_forward",
        requires=("transformers>=5.3,<5.18", "torch>=2.6"),
        reason="A single token is counted from the end of the cache by an if on the length: wrong numbers.",
        upstream=(source("models/git/modeling_git.py", "v5.6.0"), source("models/git/modeling_git.py", "v5.18.0")),
        proofs=("git",),
        kind="wrap",
    ),
)
