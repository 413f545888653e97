"""What specs that are made of foreign patches have in common: names, ranges and factories."""

import functools
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import metadata
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from exportcompat.registry import Kind, SpecError, installed_version, parse_range, parse_target, signature_mismatch

Factory = Callable[[Any], Any]


def as_target(path: str) -> str:
    """Return the target that a dotted path, such as `torch.Tensor.view`, is; no module but its parents is imported.

    >>> as_target("json.decoder.JSONDecoder.decode")
    'json.decoder:JSONDecoder.decode'
    """
    parts = path.split(".")
    for end in range(len(parts) - 1, 1, -1):
        if _is_module(".".join(parts[:end])):
            return f"{'.'.join(parts[:end])}:{'.'.join(parts[end:])}"
    return f"{parts[0]}:{'.'.join(parts[1:])}"


def as_id(*words: str) -> str:
    """Return words as the id of a spec.

    >>> as_id("optimum", "torch.Tensor", "__len__")
    'optimum-torch-tensor-len'
    """
    return re.sub(r"[^a-z0-9]+", "-", "-".join(words).lower()).strip("-")


def ranges_from_installed(targets: Iterable[str]) -> tuple[str, ...]:
    """Return a range for each package that targets are in: what is installed, and what comes after it.

    A foreign patch does not say what it is for. It is for what it came with; later releases are for `drift` to judge.
    """
    packages = dict.fromkeys(parse_target(text, text).package for text in targets)
    versions = {name: installed_version(name) for name in packages}
    return tuple(f"{name}>={version.base_version}" if version else name for name, version in versions.items())


def ranges_declared(package: str, targets: Iterable[str]) -> tuple[str, ...]:
    """Return the versions that a package says it works with, of each package that targets are in.

    Any version counts of what it says nothing about, or in a form that no range has, and if it is not installed.
    """
    try:
        said = [Requirement(text) for text in metadata.requires(package) or ()]
    except metadata.PackageNotFoundError:
        said = []
    bounds = {str(canonicalize_name(item.name)): item for item in said if not item.marker and not item.extras}
    packages = dict.fromkeys(parse_target(text, text).package for text in targets)
    return tuple(_range(name, bounds.get(name)) for name in packages)


def _range(package: str, said: Requirement | None) -> str:
    text = f"{package}{said.specifier}" if said else package
    try:
        parse_range(text)
    except SpecError:
        return package
    return text


def fitting(factory: Factory, targets: Sequence[str], kind: Kind) -> tuple[Factory, Kind]:
    """Return the factory and its kind; one that takes any arguments where the patch names them as it likes.

    The engine refuses a replacement whose arguments have other names than upstream's, which is right for patches that
    were written for it. Foreign ones that do not fit what they came with are taken as they are.
    """
    if all(_fits(factory, target, kind) for target in targets):
        return factory, kind
    return functools.partial(_with_any_arguments, factory), "wrap"


def _with_any_arguments(factory: Factory, original: Any) -> Any:
    return _any_arguments(factory(original))


def as_it_fits(made: Any, original: Any) -> Any:
    """Return a replacement; one that takes any arguments if those of the given one do not fit the original."""
    return made if _agree(original, made, "wrap") else _any_arguments(made)


def _any_arguments(made: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        return made(*args, **kwargs)

    return call if callable(made) and not isinstance(made, type) else made


def _fits(factory: Factory, text: str, kind: Kind) -> bool:
    target = parse_target(text, text)
    if not target.is_loaded():
        return True
    try:
        (slot,) = target.slots(())
        original = slot.original()[0]
        made = factory(original)
    except Exception:
        # What does not resolve is said when it is applied.
        return True
    return _agree(original, made, kind)


def _agree(original: Any, made: Any, kind: Kind) -> bool:
    try:
        wanted = list(inspect.signature(original).parameters.values())
        found = list(inspect.signature(made, follow_wrapped=False).parameters.values())
    except (TypeError, ValueError):
        # A built-in function has no signature.
        return True
    return signature_mismatch(wanted, found, kind) is None


def _is_module(name: str) -> bool:
    try:
        return name in sys.modules or importlib.util.find_spec(name) is not None
    except (ImportError, ValueError, AttributeError):
        return False


def chained(factories: Sequence[Factory]) -> Factory:
    """Return one factory for several that write to one place, each around what the one before has made."""
    return factories[0] if len(factories) == 1 else functools.partial(_chained, tuple(factories))


def _chained(factories: Sequence[Factory], original: Any) -> Any:
    return functools.reduce(lambda made, factory: factory(made), factories, original)


def about(function: Any) -> str:
    """Return the first line of a docstring as a sentence; empty if there is none."""
    text = inspect.getdoc(function) or ""
    return text.partition("\n")[0].strip()


class Always:
    """A factory that returns the same replacement, whatever the original is.

    Args:
        made: the replacement.
    """

    def __init__(self, made: Any) -> None:
        self.made = made

    def __call__(self, original: Any) -> Any:
        return self.made
