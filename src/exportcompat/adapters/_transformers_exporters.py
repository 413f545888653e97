"""transformers' own exporters (`transformers.exporters`, from 5.13 on) and their `register_patch`."""

import functools
import importlib
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from exportcompat._api import apply_patches
from exportcompat._extras import require
from exportcompat.registry import DriftWarning, ExportCompatError, PatchingSpec, Registry

from ._foreign import about, as_id, as_target, chained, fitting, ranges_from_installed
from ._installed_sources import InstalledSources

_UTILS = "transformers.exporters.utils"
_WAYS_OUT = {"dynamo": "torch.export.export", "onnx": "torch.onnx.export"}
"""What each exporter calls while its patches are in place, by the name under which the patches are registered."""

_SOURCE = "https://github.com/huggingface/transformers/blob/main/src/transformers/exporters/"


def to_transformers(registry: Registry | None = None, **options: Any) -> None:
    """Make transformers' `DynamoExporter`, `OnnxExporter` and those that build on them export inside `apply_patches()`.

    `import exportcompat.adapters.in_transformers` does it with the specs of this package. One patch is registered for
    each of the two functions that the exporters call, so the scope is open for that call alone, and has every kind of
    spec. A further call adds to what is registered; there is no way back but a new process.

    Args:
        registry: see `apply_patches`.
        options: other arguments of `apply_patches`.

    Raises:
        ExportCompatError: the installed transformers has no exporters.
        MissingExtraError: transformers is not installed.
    """
    utils = _utils()
    for backend, path in _WAYS_OUT.items():
        utils.register_patch(backend, path)(functools.partial(_inside, path, {"registry": registry, **options}))


def _inside(path: str, options: dict[str, Any], original: Callable[..., Any]) -> Callable[..., Any]:
    module, _, name = path.rpartition(".")

    @functools.wraps(original)
    def export(*args: Any, **kwargs: Any) -> Any:
        owner = importlib.import_module(module)
        held = getattr(owner, name)
        # Some spec may be about this very function, and wraps what stands there.
        setattr(owner, name, original)
        try:
            with _scope(options):
                return getattr(owner, name)(*args, **kwargs)
        finally:
            setattr(owner, name, held)

    return export


@contextmanager
def _scope(options: dict[str, Any]) -> Iterator[None]:
    """Open a scope without warnings that a function is another one where transformers has just replaced it."""
    theirs = [as_target(f"{owner}.{name}") for backend in _WAYS_OUT for owner, name, _ in _patches(backend)]
    with ExitStack() as stack:
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", f".*target '({'|'.join(map(re.escape, theirs))})' has drifted", DriftWarning
            )
            stack.enter_context(apply_patches(**options))
        yield


def from_transformers(*backends: str) -> Registry:
    """Return the patches that transformers' exporters register, as specs.

    The range of each begins with what is installed, and its source is compared with that one. Those of several backends
    that write to one place are one spec, the later ones around the earlier. Fixes of graphs are no patches, and are not
    among them.

    Args:
        backends: such as `"dynamo"`, `"onnx"`, `"openvino"` or `"executorch.xnnpack"`, in the order in which they
            apply; none means those of `OnnxExporter`, `"onnx"` and `"dynamo"`.

    Raises:
        ExportCompatError: the installed transformers has no exporters, or none for a backend.
        MissingExtraError: transformers is not installed.
    """
    backends = backends or ("onnx", "dynamo")
    places: dict[str, list[tuple[str, Any]]] = {}
    for backend in backends:
        for owner, attribute, factory in _patches(backend):
            places.setdefault(as_target(f"{owner}.{attribute}"), []).append((backend, factory))
    groups: dict[tuple[tuple[str, Any], ...], list[str]] = {}
    for target, found in places.items():
        groups.setdefault(tuple(found), []).append(target)
    return Registry(
        (_spec(found, tuple(targets)) for found, targets in groups.items()),
        fingerprints=InstalledSources(),
        origin="transformers",
    )


def _spec(found: tuple[tuple[str, Any], ...], targets: tuple[str, ...]) -> PatchingSpec:
    factories = [factory for _, factory in found]
    _load(targets)
    names = [item.__name__.removeprefix("_patch_") for item in factories]
    factory, kind = fitting(chained(factories), targets, "wrap")
    backend = found[-1][0]
    said = " ".join(filter(None, map(about, factories)))
    return PatchingSpec(
        id=as_id("transformers", backend, *dict.fromkeys(names)),
        targets=targets,
        replacement=factory,  # type: ignore[arg-type]
        requires=ranges_from_installed(targets),
        reason=said or f"transformers patches it for its {backend} exporter.",
        upstream=(f"{_SOURCE}exporter_{backend.partition('.')[0]}.py",),
        kind=kind,
    )


def _load(targets: Iterable[str]) -> None:
    """Import what is patched, so that arguments can be compared, but for models: there are dozens of them."""
    for module in {target.partition(":")[0] for target in targets}:
        if not module.startswith("transformers.models."):
            # What is not installed is not patched either.
            with suppress(ImportError):
                importlib.import_module(module)


def _patches(backend: str) -> list[tuple[str, str, Any]]:
    utils = _utils()
    try:
        importlib.import_module(f"transformers.exporters.exporter_{backend.partition('.')[0]}")
    except ImportError as error:
        raise ExportCompatError(f"transformers' exporter for {backend!r} cannot be had: {error}") from error
    if backend not in utils._PATCHES:
        raise ExportCompatError(f"transformers has no patches for {backend!r}; there are {', '.join(utils._PATCHES)}")
    found: list[tuple[str, str, Any]] = utils._PATCHES[backend]
    # What `to_transformers` has registered is no patch of theirs.
    return [item for item in found if getattr(item[2], "func", None) is not _inside]


def _utils() -> Any:
    transformers = require("transformers", "transformers")
    try:
        return importlib.import_module(_UTILS)
    except ModuleNotFoundError as error:
        if error.name not in (_UTILS, _UTILS.rpartition(".")[0]):
            raise
        raise ExportCompatError(
            f"transformers {transformers.__version__} has no exporters of its own, which came with 5.13; use "
            "apply_patches() around torch.export"
        ) from None
