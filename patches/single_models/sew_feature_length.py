"""SEW squeezes the length of a sound, and adds what is lost of it by an `if` on the length.

Symptom: a file whose result is one state short or long, or which stops in ONNX Runtime, for every sound whose length
leaves another remainder than the sample's.
Cause: `if hidden_states.shape[1] < n_input_timesteps: pad`, in the encoders of SEW and SEW-D.
What is done: while it is traced, what comes back from the upsampling is padded to the length that went in, by a number
of states that is computed and may be 0; upstream's `if` then has nothing left to do.
Can go: when torch exports an `if` on sizes as one graph.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def padded(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `forward` of an encoder of `(batch, states, hidden)` whose upsampling gives as many states as went in."""

    def forward(self: Any, hidden_states: Any, *args: Any, **kwargs: Any) -> Any:
        from exportcompat.patches.toolkit.tracing import is_traced

        if not is_traced(hidden_states):
            return original(self, hidden_states, *args, **kwargs)
        upsample, length, names = self.upsample, hidden_states.shape[1], vars(self)
        # A function of the instance hides the module, which stays where it is.
        names["upsample"] = lambda states: _to_length(upsample(states), length)
        try:
            return original(self, hidden_states, *args, **kwargs)
        finally:
            del names["upsample"]

    return forward


def _to_length(states: Any, length: Any) -> Any:
    """Return `(batch, length, hidden)`, with zeros behind the given states."""
    from torch.nn.functional import pad

    return pad(states, (0, 0, 0, length - states.shape[1]))


SPECS = (
    PatchingSpec(
        id="sew-feature-length",
        targets=(
            "transformers.models.sew.modeling_sew:SEWEncoder.forward",
            "transformers.models.sew_d.modeling_sew_d:SEWDEncoder.forward",
        ),
        replacement=f"{__name__}:padded",
        requires=("transformers>=4.44", "torch>=2.6"),
        reason="SEW adds what it has lost of a sound's length by an `if` on the length: the sample's answer is kept.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/models/sew/modeling_sew.py",
            "https://github.com/huggingface/transformers/blob/v4.57.6/src/transformers/models/sew_d/modeling_sew_d.py",
        ),
        proofs=("sew", "sew_d"),
        kind="wrap",
    ),
)
