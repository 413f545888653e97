"""ExecuTorch: transformers' wrapper with a static cache, as optimum-executorch has it, to a `.pte` and its runtime."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from exportcompat._verification import Discrepancy, Schedule, run
from exportcompat.matrix.cases import Case, Forward, Interface, Sample, TensorProgram

from ._batched_experts import COST, LINE, batched_experts
from ._fixed_sizes import compare_fixed
from ._lane import Lane

LENGTH = 64
"""Tokens that a cache holds."""

_FILE = "model.pte"
_SCHEDULES = tuple(
    Schedule(1, lengths, 0, greedy)
    for lengths, greedy in (((5, *(1,) * 32), True), ((6, 1, 5, 1, 3, 9, 1, 20), False), ((40, 1, 3), False))
)


def capture(subject: Any) -> Any:
    """Capture a decoder with a static cache in its buffers, or a model without a cache at one shape.

    Args:
        subject: a decoder or a `Forward`.
    """
    import torch

    with torch.no_grad():
        if isinstance(subject, Forward):
            return torch.export.export(subject.model, (), subject.sample(Sample()), strict=False)
        with batched_experts(subject.model):
            return _exportable(subject.model).export(**_tokens(), strict=True)


def _exportable(model: Any) -> Any:
    """Return transformers' wrapper of a decoder, whose cache has a fixed length."""
    from transformers import GenerationConfig
    from transformers.integrations.executorch import TorchExportableModuleForDecoderOnlyLM

    size = {"batch_size": 1, "max_cache_len": LENGTH}
    model.generation_config = GenerationConfig(
        use_cache=True, cache_implementation="static", max_length=LENGTH, cache_config=size
    )
    return TorchExportableModuleForDecoderOnlyLM(model, **size)


def _tokens() -> dict[str, Any]:
    """Return three tokens, where they go, and that there may be as many as fit."""
    import torch

    length = torch.export.Dim("sequence", max=LENGTH - 1)
    return {
        "input_ids": torch.zeros((1, 3), dtype=torch.int64),
        "cache_position": torch.arange(3),
        "dynamic_shapes": {"input_ids": {1: length}, "cache_position": {0: length}},
    }


def convert(program: Any, _: Any, folder: Path) -> None:
    """Lower a program to portable kernels, with the settings of optimum-executorch's recipe, and write it."""
    exir: Any = import_module("executorch.exir")
    settings = exir.EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True)
    lowered = exir.to_edge_transform_and_lower({"forward": program}, partitioner=[], compile_config=settings)
    (folder / _FILE).write_bytes(lowered.to_executorch().buffer)


class StatefulDecoder:
    """A decoder that keeps its cache itself: a method that is loaded anew has an empty one.

    Args:
        program: as the runtime has loaded it.
    """

    takes_past, last_only = True, False

    def __init__(self, program: Any) -> None:
        self._program = program

    @property
    def inputs(self) -> list[str]:
        """The tokens, `(1, sequence)`, and where they go, `(sequence,)`."""
        return ["input_ids", "cache_position"]

    def empty_cache(self, batch: int) -> Any:
        """Return a method that nothing was called with; there is one sequence."""
        return self._program.load_method("forward")

    def __call__(self, inputs: Mapping[str, Any], cache: Any) -> tuple[Any, Any]:
        """Return the logits, `(1, sequence, vocabulary)`, and the method."""
        # The next call writes where the runtime has put its result.
        return cache.execute([inputs[name] for name in self.inputs])[0].clone(), cache


def load(folder: Path) -> tuple[Path, Any]:
    """Return the folder, and the program as the runtime has loaded it."""
    runtime: Any = import_module("executorch.runtime")
    return folder, runtime.Runtime.get().load_program((folder / _FILE).read_bytes())


def compare(case: Case, loaded: tuple[Path, Any]) -> list[Discrepancy]:
    """Compare with eager, whose cache grows: one sequence without padding, its first call, decoding, chunks.

    A model without a cache is compared at shapes of the sample's sizes.
    """
    folder, program = loaded
    if isinstance(case.decoder(), Forward):
        method = program.load_method("forward")
        return compare_fixed(case, TensorProgram(folder, Interface.read(folder), method.execute))
    decoder = StatefulDecoder(program)
    return [row for schedule in _SCHEDULES for row in run(decoder, case.decoder(), schedule)]


LANES = (
    Lane(
        name="executorch",
        title="ExecuTorch, a static cache",
        capture=capture,
        convert=convert,
        load=load,
        compare=compare,
        packages=("executorch",),
        cases=(
            *("llama", "mistral_window", "phi3_longrope", "llama_dynamic", "mixtral"),
            *("qwen2_5_vl_vision", "whisper_encoder"),
        ),
        how_dynamic=f"one sequence, any lengths up to {LENGTH} tokens in all; models without a cache at one shape",
        notes=f"""\
`optimum-executorch` goes this way; what it makes of a Llama with dynamic NTK is under
[Other exporters](exporters.md#optimum-executorch).

{COST}""",
        snippet=f"""\
{LINE}with apply_patches(), torch.no_grad():
    exportable = TorchExportableModuleForDecoderOnlyLM(model, batch_size=1, max_cache_len=2048)
    program = exportable.export(input_ids, cache_position=positions, dynamic_shapes=shapes, strict=True)
    lowered = to_edge_transform_and_lower({{"forward": program}}, partitioner=[])
Path("model.pte").write_bytes(lowered.to_executorch().buffer)
""",
    ),
)
