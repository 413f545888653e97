"""`Registry`: the specs that are known. It records; it neither selects nor applies."""

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from ._companions import CompanionRule
from ._errors import DuplicateSpecError, ReadOnlyError, SpecError, UnknownSpecError
from ._fingerprint import Fingerprints
from ._similar import did_you_mean
from ._spec import PatchingSpec
from ._versions import Range, parse_range, ranges_overlap

_LISTED = 12
"""Ids that a message names one by one."""


class Registry:
    """An ordered set of specs in which no target has two specs for the same versions.

    `one | other` has the specs of both, in this order; the left side stays as it is. What applies later is around what
    applied before. Each spec keeps the sources that it was proved against, also in `Registry([*one, *others])`.

    Args:
        specs: added in order.
        fingerprints: the sources that the specs were proved against, for those that bring none themselves; None knows
            none, and then none is drift.
        companions: which versions of other packages go with which; a scope warns where they do not.
        origin: who the specs are from, such as the name of a package, for those that do not say it themselves.
        read_only: nothing can be added. It is for a registry that others share.

    Raises:
        DuplicateSpecError: see `add`.
    """

    def __init__(
        self,
        specs: Iterable[PatchingSpec] = (),
        *,
        fingerprints: Fingerprints | None = None,
        companions: Iterable[CompanionRule] = (),
        origin: str = "",
        read_only: bool = False,
    ) -> None:
        self._specs: list[PatchingSpec] = []
        self._by_name: dict[str, list[PatchingSpec]] = {}
        self._packages: dict[str, None] = {}
        self._given = fingerprints
        self._companions = tuple(companions)
        self._origin = origin
        self._changed: dict[str, str] = {}
        self._is_read_only = False
        for spec in specs:
            self.add(spec)
        self._is_read_only = read_only

    @property
    def fingerprints(self) -> Fingerprints | None:
        """The sources that all specs were proved against; None if there are none, or of several specs different ones.

        Each spec has its own in `PatchingSpec.fingerprints`.
        """
        if not self._specs:
            return self._given
        found = {id(spec.fingerprints) for spec in self._specs}
        return self._specs[0].fingerprints if len(found) == 1 else None

    @property
    def companions(self) -> tuple[CompanionRule, ...]:
        """Which versions of other packages go with which."""
        return self._companions

    @property
    def changed(self) -> Mapping[str, str]:
        """What `override` and `narrow` did, by the id of the spec; a report has it too."""
        return dict(self._changed)

    def add(self, spec: PatchingSpec) -> None:
        """Add `spec`.

        Raises:
            DuplicateSpecError: another spec has the same id, or the same target, for some of the same versions. The
                message names both definers.
            ReadOnlyError: the registry is shared, as `default_registry()` is.
        """
        spec = _marked(spec, self._given, self._origin)
        if self._is_read_only:
            raise ReadOnlyError(
                f"spec {spec.id!r} cannot be added: this registry is shared by everybody in the process. Make one of "
                "your own: default_registry() | [spec]"
            )
        # An id has no colon, and every target has one.
        names = (spec.id, *spec.targets)
        for other in {id(item): item for name in names for item in self._by_name.get(name, ())}.values():
            if ranges_overlap(spec.ranges, other.ranges):
                shared = set(spec.targets) & set(other.targets)
                raise DuplicateSpecError(
                    _clash(spec, other, "id" if spec.id == other.id else f"target {min(shared)!r}")
                )
        for name in names:
            self._by_name.setdefault(name, []).append(spec)
        self._packages.update(dict.fromkeys(item.package for item in spec.ranges))
        self._specs.append(spec)

    def ids(self) -> list[str]:
        """Return each id once, in order."""
        return list(dict.fromkeys(spec.id for spec in self._specs))

    def packages(self) -> list[str]:
        """Return the packages that some spec has a range of."""
        return list(self._packages)

    def variants(self, spec_id: str) -> list[PatchingSpec]:
        """Return the specs that share `spec_id`.

        Raises:
            UnknownSpecError: there is none; the message names similar ids, or says where to find them.
        """
        found = [spec for spec in self._specs if spec.id == spec_id]
        if not found:
            near = did_you_mean(str(spec_id), self.ids())
            raise UnknownSpecError(f"no spec has the id {spec_id!r}{near or _known(self.ids())}")
        return found

    def override(self, *specs: PatchingSpec) -> "Registry":
        """Return a registry in which `specs` stand in place of all variants that have their ids now.

        `changed` and the report of a scope say so. To change a spec by some fields, give
        `dataclasses.replace(spec, ...)`, which keeps the sources that it was proved against.

        Raises:
            UnknownSpecError: no spec has one of the ids; `|` adds a new one.
            DuplicateSpecError: see `add`.
        """
        groups: dict[str, list[PatchingSpec]] = {}
        for spec in specs:
            groups.setdefault(spec.id, []).append(spec)
        said = {
            spec_id: f"overridden by {', '.join(item.definer for item in found)}" for spec_id, found in groups.items()
        }
        return self._with(groups, said)

    def narrow(self, spec_id: str, *requires: str) -> "Registry":
        """Return a registry in which a spec is for fewer versions; `changed` and the report of a scope say so.

        Args:
            spec_id: the spec. A variant that is for none of the versions goes.
            requires: requirement strings, such as `"transformers<5.6"`; they hold beside those that the spec has.

        Raises:
            UnknownSpecError: no spec has the id.
            SpecError: a requirement is malformed, none is given, or no variant is for such versions.
        """
        if not requires:
            raise SpecError(
                f"spec {spec_id!r}: nothing to narrow it to; write a requirement such as 'transformers<5.6'"
            )
        variants = self.variants(spec_id)
        found = [made for made in (_narrowed(spec, requires) for spec in variants) if made]
        if not found:
            ranges = " or ".join(", ".join(spec.requires) for spec in variants)
            raise SpecError(
                f"spec {spec_id!r} is for {ranges}, and for none of {', '.join(requires)}; exclude it instead"
            )
        return self._with({spec_id: found}, {spec_id: f"narrowed to {', '.join(requires)}"})

    def marked(self, origin: str) -> "Registry":
        """Return a registry whose specs say who they are from, but for those that say it already."""
        made = Registry(self, companions=self.companions, origin=origin)
        made._changed = dict(self._changed)
        return made

    def __or__(self, other: "Registry | Iterable[PatchingSpec]") -> "Registry":
        """Return a registry with the specs of both, and with the companions and changes of both.

        Raises:
            DuplicateSpecError: both have an id or a target for some of the same versions; see `override`.
            SpecError: the right side has something that is no spec.
        """
        if isinstance(other, (PatchingSpec, str)) or not isinstance(other, (Registry, Iterable)):
            raise SpecError(
                f"a registry and {other!r} cannot be put together; write registry | [spec], or two registries"
            )
        right = other if isinstance(other, Registry) else Registry(other)
        made = Registry([*self, *right], companions=dict.fromkeys((*self.companions, *right.companions)))
        made._changed = {**self._changed, **right._changed}
        return made

    def __iter__(self) -> Iterator[PatchingSpec]:
        return iter(tuple(self._specs))

    def __len__(self) -> int:
        return len(self._specs)

    def _with(self, groups: Mapping[str, list[PatchingSpec]], said: Mapping[str, str]) -> "Registry":
        """Return a copy with other variants of some ids, at the place of the first that each id has."""
        first = {spec_id: self.variants(spec_id)[0] for spec_id in groups}
        specs: list[PatchingSpec] = []
        for spec in self._specs:
            if spec.id not in groups:
                specs.append(spec)
            elif spec is first[spec.id]:
                specs += groups[spec.id]
        made = Registry(specs, companions=self.companions)
        made._changed = {**self._changed, **said}
        return made


def _marked(spec: PatchingSpec, fingerprints: Fingerprints | None, origin: str) -> PatchingSpec:
    """Return a spec that says where it is from and what it was proved against; the given one stays as it is."""
    if not isinstance(spec, PatchingSpec):
        raise SpecError(f"{spec!r} is no PatchingSpec; give specs")
    fields = {"fingerprints": spec.fingerprints or fingerprints, "origin": spec.origin or origin}
    if all(getattr(spec, name) is value for name, value in fields.items()):
        return spec
    # `replace` would check every field once more, which takes as long as the rest of the registry.
    marked = copy.copy(spec)
    vars(marked).update(fields)
    return marked


def _narrowed(spec: PatchingSpec, requires: Iterable[str]) -> PatchingSpec | None:
    """Return a spec for fewer versions; None if there are none."""
    bounds = {item.package: item for item in spec.ranges}
    for item in map(parse_range, requires):
        known = bounds.get(item.package)
        both = Range(item.package, known.specifiers & item.specifiers if known else item.specifiers)
        if not both.overlaps(both):
            return None
        bounds[item.package] = both
    return replace(spec, requires=tuple(map(str, bounds.values())))


def _clash(spec: PatchingSpec, other: PatchingSpec, what: str) -> str:
    return (
        f"specs {other.id!r} ({', '.join(other.requires)}; {other.definer}) and {spec.id!r} "
        f"({', '.join(spec.requires)}; {spec.definer}) have the same {what} for some of the same versions; "
        "make their ranges disjoint, or put one in place of the other with registry.override(spec)"
    )


def _known(ids: list[str]) -> str:
    """Return what there is instead of an id that is like none, in words; a list of many helps nobody."""
    if len(ids) <= _LISTED:
        return f"; known ids: {', '.join(ids) or 'none'}"
    return f"; the {len(ids)} known ids are what `exportcompat list` prints, and `plan --model` those of a model"
