"""optimum's `PatchingSpec` (`optimum.exporters.onnx.model_patcher`, in optimum-onnx)."""

import importlib
from collections.abc import Collection, Iterable
from typing import Any

from exportcompat._api import apply_patches, plan
from exportcompat._companions import chosen_registry
from exportcompat.registry import MissingExtraError, PatchingSpec, Registry, Scope, target_name

from ._foreign import Always, about, as_id, fitting, ranges_declared
from ._installed_sources import InstalledSources

_PATCHER = "optimum.exporters.onnx.model_patcher"
_SOURCE = "https://github.com/huggingface/optimum-onnx/blob/main/optimum/exporters/onnx/model_patcher.py"
_ITS_OWN = (
    "transformers.cache_utils:DynamicLayer.update",
    "transformers.cache_utils:Cache",
    "transformers.masking_utils:find_packed_sequence_indices",
    "transformers.masking_utils:ALL_MASK_ATTENTION_FUNCTIONS[sdpa]",
    "transformers.masking_utils:ALL_MASK_ATTENTION_FUNCTIONS[eager]",
)
"""Where `ModelPatcher` writes after it has applied `PatchingSpec`s, and gives back what it found there, last of all."""


def from_optimum(specs: Iterable[Any] | None = None, *, requires: tuple[str, ...] = ()) -> Registry:
    """Return `PatchingSpec`s of optimum as specs of ours.

    Args:
        specs: objects with `o`, `name`, `custom_op` and `op_wrapper`, of optimum or of a fork of it; None for those
            that optimum applies to all models.
        requires: the versions that they are for; empty for those that optimum-onnx says it works with.

    Raises:
        SpecError: one writes to an object that is neither a class nor a module.
        DuplicateSpecError: two of them write to one place.
        MissingExtraError: no specs are given, and optimum-onnx is not installed or refuses what is.
    """
    found = _patcher().UNSUPPORTED_OPS_PATCHING_SPEC if specs is None else specs
    made = [_spec(item, requires) for item in found]
    return Registry(made, fingerprints=InstalledSources(), origin="optimum")


def to_optimum(registry: Registry | None = None, *, exclude: Collection[str] = (), **options: Any) -> list[Any]:
    """Return what optimum has to apply so that it exports inside `apply_patches()`: a list for `PATCHING_SPECS`.

        class MyOnnxConfig(LlamaOnnxConfig):
            PATCHING_SPECS = to_optimum()

    It is one `PatchingSpec` whose attribute is a switch: optimum sets it when it patches, which opens the scope, and
    sets it back when it restores, which closes it. So specs of every kind are had. What optimum's `ModelPatcher`
    replaces itself is left to it, since it would not be given back.

    Args:
        registry: see `apply_patches`.
        exclude: ids not to apply.
        options: other arguments of `apply_patches`.

    Raises:
        MissingExtraError: optimum-onnx is not installed, or refuses what is.
    """
    known = chosen_registry(registry)
    own = {spec.id for spec in known if set(spec.targets).intersection(_ITS_OWN)}
    left = [*exclude, *own]
    plan(exclude=left, registry=known)
    switch = Switch({"registry": known, "exclude": left, **options})
    return [_patcher().PatchingSpec(o=switch, name="is_on", custom_op=True, orig_op=False)]


class Switch:
    """A scope that is open as long as an attribute says so.

    Args:
        arguments: those of `apply_patches`.
    """

    def __init__(self, arguments: dict[str, Any]) -> None:
        self._arguments = arguments
        self._scopes: list[Scope] = []

    @property
    def is_on(self) -> bool:
        """Say whether the scope is open; setting it opens or closes it."""
        return bool(self._scopes)

    @is_on.setter
    def is_on(self, value: bool) -> None:
        if value:
            scope = apply_patches(**self._arguments)
            scope.__enter__()
            self._scopes.append(scope)
        elif self._scopes:
            self._scopes.pop().__exit__(None, None, None)


def _patcher() -> Any:
    try:
        return importlib.import_module(_PATCHER)
    except ImportError as error:
        # It is one of the packages that refuse a transformers which is too new.
        raise MissingExtraError(
            f"{_PATCHER} cannot be imported: {error}; install optimum-onnx and a transformers that it works with"
        ) from error


def _spec(item: Any, requires: tuple[str, ...]) -> PatchingSpec:
    custom = item.custom_op if item.op_wrapper is None else item.op_wrapper(item.custom_op)
    target = target_name((item.o, item.name), f"optimum-{item.name}")
    factory, kind = fitting(Always(custom), [target], "replace")
    return PatchingSpec(
        id=as_id("optimum", target),
        targets=(target,),
        replacement=factory,  # type: ignore[arg-type]
        requires=requires or ranges_declared("optimum-onnx", [target]),
        reason=about(item.custom_op) or f"optimum puts something else there for its exports: {target}.",
        upstream=(_SOURCE,),
        kind=kind,
    )
