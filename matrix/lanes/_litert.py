"""LiteRT: `litert_torch.convert`, and its interpreter; every size is that of the sample."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from exportcompat import apply_patches
from exportcompat._verification import Discrepancy, Schedule, run
from exportcompat.matrix.cases import Case, Forward, Interface, Sample, TensorProgram, pytree_specs

from ._batched_experts import COST, LINE, batched_experts
from ._fixed_sizes import compare_fixed
from ._flat_model import flat_model
from ._lane import Lane

BATCH, PAST, NEW = 2, 24, 4
"""Texts, tokens in the cache and tokens of the call that is exported: beyond every limit of the telling cases."""

_FILE = "model.tflite"
_PADDING = (0, 2, 4)


def capture(subject: Any) -> Any:
    """Convert a model whose cache is put together within it; the package captures and converts in one step.

    Args:
        subject: a decoder or a `Forward`.
    """
    import torch

    litert: Any = import_module("litert_torch")
    with batched_experts(subject.model), torch.no_grad():
        return litert.convert(*flat_model(subject, Sample(BATCH, _past(subject), NEW)))


def _past(subject: Any) -> int:
    """Return the tokens in the cache of the sample; a layer with a window holds no more than it sees."""
    window = getattr(getattr(subject.model, "config", None), "sliding_window", None)
    return PAST if window is None else min(PAST, window - 2)


def convert(converted: Any, _: Any, folder: Path) -> None:
    """Write the file."""
    converted.export(str(folder / _FILE))


def load(folder: Path) -> TensorProgram:
    """Open a file in LiteRT's interpreter, which takes integers of 32 bits where torch has 64."""
    import numpy as np
    import torch

    runtime: Any = import_module("ai_edge_litert.interpreter")
    runner = runtime.Interpreter(str(folder / _FILE), num_threads=1).get_signature_runner()
    details = runner.get_input_details()

    def call(tensors: list[Any]) -> list[Any]:
        # An input that the result does not depend on is not in the file.
        feeds = {name: tensors[_place(name)].numpy() for name in details}
        found = runner(**{name: np.asarray(array, details[name]["dtype"]) for name, array in feeds.items()})
        return [torch.from_numpy(found[name].copy()) for name in sorted(found, key=_place)]

    return TensorProgram(folder, Interface.read(folder), call)


def _place(name: str) -> int:
    """Return the place of an input or an output, which names such as `args_3` end with."""
    return int(name.rpartition("_")[2])


class OneStep:
    """A decoder whose first call is eager's, and whose second one is the program's: it takes one past and no other.

    Args:
        program: what was exported.
        reference: the eager decoder, which makes the past.
    """

    takes_past, last_only = True, False

    def __init__(self, program: TensorProgram, reference: Any) -> None:
        self._program, self._reference = program, reference

    @property
    def inputs(self) -> list[str]:
        """The names of the inputs that are no cache."""
        return list(self._reference.tokens(Sample()))

    def empty_cache(self, batch: int) -> None:
        """Return nothing: eager begins without a cache."""

    def __call__(self, inputs: Mapping[str, Any], cache: Any) -> tuple[Any, Any]:
        """Return the logits, `(batch, sequence, vocabulary)`, and the past of the next call, if there is one."""
        if cache is None:
            return self._reference(inputs, None)  # type: ignore[no-any-return]
        feeds = {**self._leaves(cache), **inputs}
        return self._program.run(feeds)["logits"], None

    def _leaves(self, cache: Any) -> dict[str, Any]:
        """Return the tensors of a cache by the names of the program's inputs."""
        from torch.utils import _pytree as pytree

        with apply_patches(include=pytree_specs()):
            return dict(zip(self._reference.cache_names(cache), pytree.tree_leaves(cache), strict=True))


def compare(case: Case, program: TensorProgram) -> list[Discrepancy]:
    """Compare with eager at the sizes of the sample: other tokens, other pasts, padding."""
    if isinstance(case.decoder(), Forward):
        return compare_fixed(case, program)
    decoder = OneStep(program, case.decoder())
    schedules = [Schedule(BATCH, (_past(case.decoder()), NEW), padding) for padding in _PADDING]
    rows = [row for schedule in schedules for row in run(decoder, case.decoder(), schedule)]
    # Eager's own first call tells nothing.
    return [row for row in rows if row.past]


LANES = (
    Lane(
        name="litert",
        title="LiteRT, fixed sizes",
        capture=capture,
        convert=convert,
        load=load,
        compare=compare,
        packages=("litert-torch", "ai-edge-litert"),
        cases=(
            *("llama", "mistral_window", "phi3_longrope", "llama_dynamic", "mixtral"),
            *("qwen2_5_vl_vision", "whisper_encoder"),
        ),
        how_dynamic=f"those sizes alone: {BATCH} texts, {PAST} cached tokens (6 with a window), {NEW} new ones",
        notes=f"""\
`wrapper` takes and returns tensors alone. litert-torch 0.10.0 does not take a Llama whose lengths are dynamic: it makes
32-bit numbers of 64-bit ones (`'<=' not supported between instances of 'int' and 'Node'`).

{COST}""",
        snippet=f"""\
{LINE}with apply_patches(), torch.no_grad():
    converted = litert_torch.convert(wrapper, tensors)
converted.export("model.tflite")
""",
    ),
)
