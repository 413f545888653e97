"""torch's cache of FakeTensor results evaluates a symbolic size where it is not known.

Symptom: `RuntimeError: 8*s72 is not tracked with proxy`, or `NameError: name 'L' is not defined`, for a model that
builds its mask with `torch.vmap`: every decoder of transformers 4.53-4.57, and models of any other origin. With torch
2.8 it is rarer: an encoder whose lengths are quotients (SEW-D).
Cause: a result that is kept in the cache is made once more from its sizes and strides. That compares expressions
which the graph being recorded has never seen, and each comparison is recorded.
What is done: the FakeTensor modes of an export do without the cache. It saves time only (an export of a two-layer
decoder takes as long without it), and is never asked for what is not in it.
Can go: with torch 2.9; torch 2.10 exports the same models without it (run on 2.9.1, 2.10.0, 2.11.0 and 2.12.0).
SEW-D does not need it with torch 2.6 and 2.7 (run on 2.6.0 and 2.7.1).
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_fake_tensor_mode_init(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `FakeTensorMode.__init__` switch the cache off in modes that are made for an export."""

    def initialize(self: Any, *args: Any, export: bool = False, **kwargs: Any) -> None:
        original(self, *args, export=export, **kwargs)
        if export:
            self.cache_enabled = False

    return initialize


def _spec(spec_id: str, requires: str, what: str, proof: str) -> PatchingSpec:
    return PatchingSpec(
        id=spec_id,
        targets=("torch._subclasses.fake_tensor:FakeTensorMode.__init__",),
        replacement=f"{__name__}:patch_fake_tensor_mode_init",
        requires=(requires,),
        reason=f"The FakeTensor cache compares sizes that the graph has not seen, as {what}: no graph.",
        upstream=("https://github.com/pytorch/pytorch/issues/163713",),
        proofs=(proof,),
        kind="wrap",
    )


SPECS = (
    _spec("torch-fake-tensor-cache", "torch>=2.9,<2.10", "masks made by vmap do", "vmap_gpt"),
    _spec("torch-fake-tensor-cache-2-8", "torch>=2.8,<2.9", "quotients of lengths do", "sew_d"),
)
