"""`exportcompat show`: everything about one spec, and how its replacements differ from what is installed."""

import difflib
import importlib
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from exportcompat.patches import area_of
from exportcompat.registry import Decision, DecoratedTarget, Environment, PatchingSpec, Registry, Target, plan

_KINDS = {
    "wrap": "wrap (hands calls on to the original)",
    "replace": "replace (does without the original)",
    "pytree": "pytree (makes a class a pytree node)",
}
_NODE_FUNCTIONS = ("flatten_fn", "unflatten_fn", "flatten_with_keys_fn")

Comparison = tuple[str, list[str], list[str]]
"""What is compared, the lines of the original, and those of the replacement."""


def show(spec_id: str, registry: Registry, environment: Environment) -> Iterator[str]:
    """Yield lines about every variant of `spec_id`; for those that apply, the modules of its targets are imported.

    Raises:
        UnknownSpecError: no spec has the id.
    """
    count = len(registry.variants(spec_id))
    decisions = [decision for decision in plan(registry, environment) if decision.spec.id == spec_id]
    for number, decision in enumerate(decisions, 1):
        yield f"{spec_id} (variant {number} of {count})" if count > 1 else spec_id
        yield from _facts(decision)
        if decision.applies:
            yield from _differences(decision.spec)
        if number < count:
            yield ""


def show_data(spec_id: str, registry: Registry, environment: Environment) -> dict[str, Any]:
    """Return what `show` says of `spec_id`, as plain data and without the sources.

    Raises:
        UnknownSpecError: no spec has the id.
    """
    variants = registry.variants(spec_id)
    decisions = [decision for decision in plan(registry, environment) if decision.spec.id == spec_id]
    return {"id": spec_id, "area": area_of(variants[0]), "variants": [_variant_data(item) for item in decisions]}


def _variant_data(decision: Decision) -> dict[str, Any]:
    spec = decision.spec
    names = ("requires", "targets", "upstream", "proofs", "defect", "higher_order")
    lists = {name: list(getattr(spec, name)) for name in names}
    texts = {name: getattr(spec, name) for name in ("reason", "kind", "replacement", "spreads", "definer", "origin")}
    return {**texts, **lists, "is_local": spec.is_local, "applies": decision.applies, "decision": decision.reason}


def _facts(decision: Decision) -> Iterator[str]:
    spec = decision.spec
    yield from _field("reason", spec.reason)
    yield from _field("kind", _KINDS[spec.kind])
    yield from _field("versions", *spec.requires)
    yield from _field("targets", *spec.targets)
    yield from _field("replacement", spec.replacement)
    yield from _field("local", "yes: some of it is an object of this process alone") if spec.is_local else ()
    yield from _field("upstream", *spec.upstream)
    yield from _field("proofs", *spec.proofs)
    yield from _field("operators", *spec.higher_order) if spec.higher_order else ()
    yield from _field("defined at", spec.definer)
    yield from _field("from", spec.origin) if spec.origin else ()
    yield from _field("applies", f"{'yes' if decision.applies else 'no'}: {decision.reason}")


def _field(name: str, *values: str) -> Iterator[str]:
    for number, value in enumerate(values or ("none",)):
        yield f"  {f'{name}:' if number == 0 else '':<13}{value}"


def _differences(spec: PatchingSpec) -> Iterator[str]:
    for target in spec.places:
        yield ""
        try:
            comparisons = list(_compare(spec, target))
        except Exception as error:
            # Importing upstream code can fail in any way; whatever else is known is shown all the same.
            yield f"{target.text} cannot be compared: {type(error).__name__}: {error}"
            continue
        if not comparisons:
            yield f"{target.text}: nothing that is loaded has it; import the model first"
        for label, before, after in comparisons:
            yield from difflib.unified_diff(before, after, label, spec.replacement, lineterm="")


def _compare(spec: PatchingSpec, target: Target) -> Iterator[Comparison]:
    importlib.import_module(target.module)
    factory = _factory(spec.replacement)
    if target.is_pytree:
        yield from _compare_node(target, factory(None))
    elif isinstance(target, DecoratedTarget):
        # Which methods it has made depends on the models that are loaded; the code is the same for all of them.
        made = target.source()(_example)
        yield target.text, _source(made.__code__), _source_behind(factory(made), made)
    elif target.is_spread:
        for slot in target.slots(list(sys.modules.values())):
            method, _ = slot.original()
            made = factory(method)
            if made is not method:
                yield slot.label, _source(method), _source_behind(made, method)
    else:
        original = target.source()
        before = _source(original)
        label = target.text if before else f"{target.text} (has no Python source)"
        yield label, before, _source_behind(factory(original), original)


def _compare_node(target: Target, made: dict[str, Any]) -> Iterator[Comparison]:
    (slot,) = target.slots(())
    nodes = getattr(sys.modules.get("torch.utils._pytree"), "SUPPORTED_NODES", {})
    registered = nodes.get(getattr(slot, "cls", None))
    for name in _NODE_FUNCTIONS:
        if name in made:
            before = _source(getattr(registered, name, None))
            yield f"{target.text} {name}{'' if before else ' (not registered)'}", before, _source(made[name])


def _example(*args: Any, **kwargs: Any) -> None:
    """Stand for a method that a decorator is applied to; it is never called."""


def _factory(name: str) -> Callable[[Any], Any]:
    module, _, attribute = name.partition(":")
    factory: Callable[[Any], Any] = getattr(importlib.import_module(module), attribute)
    return factory


def _source_behind(replacement: Any, original: Any) -> list[str]:
    """Return the source of what decorators of the replacement hide; the original is not taken for that."""
    if not callable(replacement):
        return []
    function = inspect.unwrap(replacement, stop=lambda outer: getattr(outer, "__wrapped__", None) is original)
    return _source(getattr(function, "__code__", function))


def _source(thing: Any) -> list[str]:
    try:
        return textwrap.dedent(inspect.getsource(thing)).splitlines()
    except (OSError, TypeError):
        return []
