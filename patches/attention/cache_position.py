"""A model counts its tokens from 0 although there is a past, unless it is told where they are.

Symptom: a graph of Gemma2 in 4.44 is wrong wherever the cache is filled; so is an eager call without
`cache_position`, which `generate` always passes; so is one of Nemotron to 4.46. No client of an exported decoder does.
Mamba and Mamba2 to 5.3, and Jamba and Zamba to 4.57, refuse a cache without it, or count from 0 too; so do Bamba and
Falcon-H1 to 5.3.
Cause: `cache_position` defaults to `arange(0, new)`, which makes the causal mask that of a prompt.
What is done: while it is traced, the default begins at the length of the cache.
Can go: with transformers 4.44 for Gemma2, with 4.46 for Nemotron, with 4.57 for Zamba and Jamba (run on 4.54.1, 4.57.6,
5.0.0, 5.2.0 and 5.3.0), and with 5.3 for the others, after which no model takes the argument (run on 5.3.0).
"""

import inspect
from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_model_forward(original: Callable[..., Any]) -> Callable[..., Any]:
    """Begin the default of `cache_position` behind the cache while `forward` is traced."""
    import torch

    from exportcompat.patches.toolkit.tracing import is_traced

    signature = inspect.signature(original)

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(self, *args, **kwargs).arguments
        ids, past = given.get("input_ids"), given.get("cache_params", given.get("past_key_values"))
        tokens: Any = given.get("inputs_embeds") if ids is None else ids
        if given.get("cache_position") is not None or past is None or not is_traced(tokens):
            return original(self, *args, **kwargs)
        # A cache of states alone does not count; only whether there is a past is asked of the positions then.
        begin = past.get_seq_length() if hasattr(past, "get_seq_length") else 0
        given["cache_position"] = torch.arange(begin, begin + tokens.shape[1], device=tokens.device)
        return original(**given)

    return forward


def _spec(spec_id: str, target: str, releases: str, proof: str, source: str) -> PatchingSpec:
    return PatchingSpec(
        id=spec_id,
        targets=(f"transformers.models.{target}.forward",),
        replacement=f"{__name__}:patch_model_forward",
        requires=(f"transformers{releases}", "torch>=2.6"),
        reason="Tokens are counted from 0 although there is a past, or a cache is refused: no graph, or wrong.",
        upstream=(f"https://github.com/huggingface/transformers/blob/{source}",),
        proofs=(proof,),
        defect=(r"cache_position = torch\.arange\((0, |(hidden_states|inputs_embeds)\.shape)",),
        kind="wrap",
    )


_GEMMA2 = "v4.44.2/src/transformers/models/gemma2/modeling_gemma2.py"
_NEMOTRON = "v4.46.3/src/transformers/models/nemotron/modeling_nemotron.py"
_MAMBA = "v4.57.6/src/transformers/models/mamba/modeling_mamba.py"

SPECS = (
    _spec("cache-position-default", "gemma2.modeling_gemma2:Gemma2Model", ">=4.44,<4.45", "gemma2_window", _GEMMA2),
    _spec("nemotron-cache-position", "nemotron.modeling_nemotron:NemotronModel", ">=4.44,<4.47", "nemotron", _NEMOTRON),
    _spec("mamba-cache-position", "mamba.modeling_mamba:MambaModel", ">=4.44,<5.4", "mamba", _MAMBA),
    _spec(
        "falcon-mamba-cache-position",
        "falcon_mamba.modeling_falcon_mamba:FalconMambaModel",
        ">=4.45,<5.4",
        "falcon_mamba",
        _MAMBA,
    ),
    _spec("mamba2-cache-position", "mamba2.modeling_mamba2:Mamba2Model", ">=4.48,<5.4", "mamba2", _MAMBA),
    _spec("bamba-cache-position", "bamba.modeling_bamba:BambaModel", ">=4.48,<5.4", "bamba", _MAMBA),
    _spec("falcon-h1-cache-position", "falcon_h1.modeling_falcon_h1:FalconH1Model", ">=4.53,<5.4", "falcon_h1", _MAMBA),
    _spec("jamba-cache-position", "jamba.modeling_jamba:JambaModel", ">=4.44,<5.0", "jamba", _MAMBA),
    _spec("zamba-cache-position", "zamba.modeling_zamba:ZambaModel", ">=4.57,<5.0", "zamba", _MAMBA),
)
