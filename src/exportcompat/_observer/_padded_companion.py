"""A padded text beside those of a call, where eager mode leaves its mask out if nothing is padded.

Attention by sdpa needs no mask for a prompt without padding: its kernel is told to be causal. A model that hands it a
mask of its own all the same is not causal then, and its tokens see those behind them: Doge to transformers 5.17 does
so. With padding in any text of a batch the mask is there, for all of them.
"""

from collections.abc import Callable, Mapping
from typing import Any

from exportcompat._extras import require

Call = Mapping[str, Any]

_TOKENS, _MASK = "input_ids", "attention_mask"
_APART = 1e-3
"""By how much logits differ that depend on a later token; those that do not are computed alike."""

NOTE = (
    "in eager mode tokens of a prompt without padding see those behind them, which is a fault of this release: "
    "compared in a batch with a padded text, where they do not"
)


def is_prompt(call: Call) -> bool:
    """Say whether a call has two tokens or more and a mask that hides none of them."""
    tokens, mask = call.get(_TOKENS), call.get(_MASK)
    if tokens is None or mask is None or mask.dim() != 2 or tokens.shape[1] < 2:
        return False
    return all(tensor.shape[0] == tokens.shape[0] for tensor in call.values()) and bool(mask.all())


def needs_companion(logits_of: Callable[[Call], Any], prompt: Call) -> bool:
    """Say whether tokens of a prompt see those behind them, and do not beside a padded text.

    Args:
        logits_of: returns the logits of a call, `(batch, sequence, ...)`.
        prompt: a call that `is_prompt`.
    """
    batch = prompt[_TOKENS].shape[0]

    def beside(call: Call) -> Any:
        return without_companion(logits_of(with_companion(call)), batch)

    return not _is_causal(logits_of, prompt) and _is_causal(beside, prompt)


def _is_causal(logits_of: Callable[[Call], Any], prompt: Call) -> bool:
    torch = require("torch", "torch")
    changed = prompt[_TOKENS].clone()
    # Token 0 or 1 instead of any other one: every vocabulary has these.
    changed[:, -1] = (changed[:, -1] == 0).to(changed.dtype)
    first, other = (logits_of(call)[:, :-1] for call in (prompt, {**prompt, _TOKENS: changed}))
    # Of a model that gives the logits of the last token alone (FSMT to 4.57) there are none to compare.
    largest = float(first.abs().max()) if first.numel() else 0.0
    return bool(torch.allclose(first, other, rtol=0, atol=_APART * max(1.0, largest)))


def with_companion(call: Call) -> dict[str, Any]:
    """Return a call with one text more, the last one: the first text again, without its first token."""
    torch = require("torch", "torch")
    rows = {name: torch.cat([tensor, tensor[:1]]) for name, tensor in call.items()}
    rows[_MASK][-1, 0] = 0
    return rows


def without_companion(logits: Any, batch: int) -> Any:
    """Return the logits of the texts before the companion; each has as many rows as it has streams of codes."""
    return logits[: logits.shape[0] // (batch + 1) * batch]
