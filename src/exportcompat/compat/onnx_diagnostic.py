"""The context managers of onnx-diagnostic 0.9 and its observer, with the patches and the observer of this package.

Code moves by its import:

>>> # from onnx_diagnostic.torch_export_patches import register_additional_serialization_functions, torch_export_patches
>>> # from onnx_diagnostic.investigate.input_observer import InputObserver
>>> from exportcompat.compat.onnx_diagnostic import (
...     InputObserver, register_additional_serialization_functions, torch_export_patches
... )

What an argument asked for there and nothing does here is refused, and the message says what to do instead.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from exportcompat._api import apply_patches, plan
from exportcompat._observer import InputObserver as _InputObserver
from exportcompat._observer import Tell
from exportcompat._verification import CPU, Contract, Discrepancies
from exportcompat.registry import ExportCompatError, PatchReport

__all__ = [
    "InputObserver",
    "Modificator",
    "register_additional_serialization_functions",
    "torch_export_patches",
]

_INSTEAD = {
    "custom_patches": "write a spec for each, and pass apply_patches(registry=default_registry() | yours)",
    "dump_rewriting": "no code is written anew; `exportcompat show ID` prints how a patch differs",
    "patch_details": "the report has what was applied: `with torch_export_patches(...) as modificator` gives it as "
    "modificator.report",
    "patch_diffusers": "there are no patches for diffusers",
    "profile": "run pyinstrument around the export",
    "rewrite": "branches on data are mended by patches of their own, see `exportcompat plan`",
}


class Modificator:
    """What `torch_export_patches` gives: it returns inputs as they are, and has the report of the scope.

    Attributes:
        report: what was applied and used.
    """

    def __init__(self, report: PatchReport) -> None:
        self.report = report

    def __call__(self, inputs: Any) -> Any:
        """Return the inputs."""
        return inputs


@contextmanager
def torch_export_patches(
    *,
    patch_sympy: bool = True,
    patch_torch: bool | int = True,
    patch_transformers: bool = False,
    catch_constraints: bool = True,
    stop_if_static: int = 0,
    verbose: int = 0,
    patch: bool = True,
    **others: Any,
) -> Iterator[Modificator]:
    """Apply the patches inside a `with`, as `apply_patches` does.

    Which of them are needed is told by the installed versions alone: there is nothing to choose by package.

    Args:
        patch_sympy: no matter.
        patch_torch: no matter.
        patch_transformers: no matter: a model of transformers needs its caches to be registered.
        catch_constraints: no matter: an error of torch is never swallowed.
        stop_if_static: from 1 on, raise where the graph is right for some sizes only; 0 warns.
        verbose: no matter: `print(modificator.report)`.
        patch: False registers caches, and patches nothing.
        others: the remaining arguments of onnx-diagnostic, which have to be unset.

    Raises:
        ExportCompatError: an argument asks for something that there is not here.
        TypeError: an argument is unknown there too.
    """
    _check_unset(others)
    with apply_patches(include=None if patch else _nodes(), on_assumption="error" if stop_if_static else "warn") as (
        report
    ):
        yield Modificator(report)


@contextmanager
def register_additional_serialization_functions(
    patch_transformers: bool = True, patch_diffusers: bool = False, verbose: int = 0
) -> Iterator[Modificator]:
    """Register caches and outputs of transformers as pytree nodes inside a `with`; nothing else is patched.

    Args:
        patch_transformers: no matter: they are registered, as the name says.
        patch_diffusers: has to be False.
        verbose: no matter.

    Raises:
        ExportCompatError: `patch_diffusers` is True.
    """
    _check_unset({"patch_diffusers": patch_diffusers})
    with apply_patches(include=_nodes()) as report:
        yield Modificator(report)


def _check_unset(others: Mapping[str, Any]) -> None:
    for name, value in others.items():
        if name not in _INSTEAD:
            raise TypeError(f"torch_export_patches has no argument {name!r}")
        if value:
            raise ExportCompatError(f"{name}={value!r} is not to be had here: {_INSTEAD[name]}")


def _nodes() -> list[str]:
    """Return the ids of the specs that register pytree nodes, and are for the installed versions."""
    return [item.spec.id for item in plan() if item.applies and item.spec.kind == "pytree"]


class InputObserver(_InputObserver):
    """`exportcompat.InputObserver` with the arguments of onnx-diagnostic.

    `check_discrepancies` gives `Discrepancies`, whose columns have whole words: `absolute` for `abs`, `relative` for
    `rel`, `success` for `SUCCESS`.

    Args:
        value_if_missing: values for arguments that some calls do not have, by name.

    Raises:
        ExportCompatError: a value is for a position.
    """

    def __init__(self, value_if_missing: Mapping[str, Any] | None = None) -> None:
        positions = [name for name in value_if_missing or () if not isinstance(name, str)]
        if positions:
            raise ExportCompatError(f"value_if_missing has {positions[0]!r}: name the argument instead of its position")
        super().__init__(value_if_missing)

    def check_discrepancies(
        self,
        onnx_model: Any,
        *,
        tolerance: float | None = None,
        names: Mapping[str, str] | None = None,
        progress_bar: bool | Tell = False,
        provider: str = CPU,
        contract: Contract | None = None,
        atol: float | None = None,
        rtol: float | None = None,
        hist: Any = None,
        include_io: bool = True,
        skip_none: bool = True,
    ) -> Discrepancies:
        """Compare a file with what was observed; see `exportcompat.InputObserver.check_discrepancies`.

        Args:
            onnx_model: path of the file, or a `torch.onnx.ONNXProgram`.
            tolerance: see there.
            names: see there.
            progress_bar: see there.
            provider: see there.
            contract: see there.
            atol: the same as `tolerance`.
            rtol: no matter: a large element is no reason for a large difference.
            hist: no matter.
            include_io: no matter: each row has `inputs` and `outputs`.
            skip_none: no matter.
        """
        limit = atol if tolerance is None else tolerance
        return super().check_discrepancies(
            onnx_model,
            tolerance=limit,
            names=names,
            progress_bar=progress_bar,
            provider=provider,
            contract=contract,
        )
