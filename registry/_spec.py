"""`PatchingSpec`: one declarative record for one defect."""

import re
import sys
from dataclasses import dataclass, field
from typing import Literal, get_args

from ._errors import SpecError
from ._fingerprint import Fingerprints
from ._objects import factory_name, is_local, target_name
from ._targets import Target, parse_target
from ._versions import Range, parse_range

Kind = Literal["wrap", "replace", "pytree"]

_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


@dataclass(frozen=True, kw_only=True)
class PatchingSpec:
    """What goes wrong on which versions, and what to put in its place.

    Attributes:
        id: name in lower case with hyphens; variants for disjoint version ranges may share it.
        targets: places to write, as strings that are resolved when the spec is applied:
            `"pkg.mod:function"` and `"pkg.mod:Class.method"` (an attribute), `"pkg.mod:MAPPING[key]"` (a mapping
            item), `"pytree(pkg.mod:Class)"` (a pytree node), `"decorated(pkg.mod:decorator)"` (every method that
            the decorator made, in any module that imported the decorator by name), `"imported(pkg.mod:function)"`
            (the function in every module that imported it by name), `"methods_using(pkg:name)"` (every method of the
            package whose code has the name). A function, method or class may stand for its name, and so may an owner
            with an attribute, such as `(torch, "where")`.
        replacement: `"pkg.mod:factory"`; `factory(original)` returns what to put in place. For a pytree node
            `original` is None and the factory returns the keyword arguments of `register_pytree_node`. The factory
            itself may stand for its name.
        requires: requirement strings, such as `"transformers>=4.56,<5.24"`. Bounds compare by release.
        reason: what goes wrong without the spec.
        upstream: links to the upstream issue, commit or source.
        proofs: names of the cases that fail without the spec and pass with it.
        defect: regular expressions that the source of each target matches as long as the defect is there, all of them;
            for a pytree node the source is that of the class. They are tried on code without comments and docstrings,
            as `ast.unparse` writes it. Empty: nothing is known.
        spreads: other code that matches `defect` has the defect too.
        higher_order: higher-order operators that it puts into a graph, such as `"scan"`. Empty: what it puts there
            lowers to core ATen, which every backend takes.
        kind: `"wrap"` (passes every call on to the original, changed or not), `"replace"` (does without it) or
            `"pytree"`.
        definer: file and line of the definition; filled in.
        fingerprints: the sources that it was proved against; a registry fills it in.
        origin: who it is from, such as the name of a package; a registry fills it in.

    Raises:
        SpecError: a field is malformed; the message says what to write.
    """

    id: str
    targets: tuple[str, ...]
    replacement: str
    requires: tuple[str, ...]
    reason: str
    upstream: tuple[str, ...] = ()
    proofs: tuple[str, ...] = ()
    kind: Kind
    defect: tuple[str, ...] = ()
    spreads: bool = False
    higher_order: tuple[str, ...] = ()
    definer: str = field(default="", compare=False, repr=False)
    fingerprints: Fingerprints | None = field(default=None, compare=False, repr=False)
    origin: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        self._check_id()
        self._name_objects()
        for name in ("targets", "requires", "upstream", "proofs", "defect", "higher_order"):
            self._check_strings(name)
        self._check_text()
        self._check_defect()
        object.__setattr__(self, "_places", tuple(parse_target(text, self.id) for text in self.targets))
        object.__setattr__(self, "_ranges", tuple(parse_range(text) for text in self.requires))
        self._check_kind()
        self._check_once()
        if not self.definer:
            object.__setattr__(self, "definer", _caller())

    @property
    def places(self) -> tuple[Target, ...]:
        """The parsed targets."""
        return self._places  # type: ignore[attr-defined,no-any-return]

    @property
    def ranges(self) -> tuple[Range, ...]:
        """The parsed requirements."""
        return self._ranges  # type: ignore[attr-defined,no-any-return]

    @property
    def is_local(self) -> bool:
        """Say whether a target or the factory is an object that this process alone has."""
        return any(map(is_local, (*self.targets, self.replacement)))

    def _name_objects(self) -> None:
        """Put names in the place of objects, for the fields are strings to everybody else."""
        if isinstance(self.targets, tuple):
            names = [target_name(item, self.id) for item in self.targets]
            is_class = [isinstance(item, type) and self.kind == "pytree" for item in self.targets]
            found = (f"pytree({name})" if is_node else name for name, is_node in zip(names, is_class, strict=True))
            object.__setattr__(self, "targets", tuple(found))
        object.__setattr__(self, "replacement", factory_name(self.replacement))

    def _check_id(self) -> None:
        if not isinstance(self.id, str) or not _ID.fullmatch(self.id):
            raise SpecError(f"spec id {self.id!r}: write lower-case words joined by hyphens, such as 'rope-switch'")

    def _check_strings(self, name: str) -> None:
        value = getattr(self, name)
        if isinstance(value, str) or not isinstance(value, tuple) or not all(isinstance(v, str) for v in value):
            raise self._error(name, value, 'a tuple of strings, such as ("transformers>=4.56",)')
        if not value and name in ("targets", "requires"):
            raise self._error(name, value, "at least one")

    def _check_text(self) -> None:
        if not isinstance(self.replacement, str) or not _NAME.fullmatch(self.replacement):
            raise self._error("replacement", self.replacement, '"package.module:factory"')
        if not isinstance(self.reason, str) or not self.reason.strip():
            raise self._error("reason", self.reason, "a sentence that says what goes wrong without the spec")
        for link in self.upstream:
            if not link.startswith("https://"):
                raise self._error("upstream", link, "links that begin with https://")

    def _check_defect(self) -> None:
        for text in self.defect:
            try:
                re.compile(text)
            except re.error as error:
                raise self._error("defect", text, f"a regular expression ({error})") from None
        if self.spreads and not self.defect:
            raise self._error("defect", self.defect, "at least one where spreads=True")

    def _check_kind(self) -> None:
        if self.kind not in get_args(Kind):
            raise self._error("kind", self.kind, " or ".join(map(repr, get_args(Kind))))
        nodes = [place.is_pytree for place in self.places]
        if any(nodes) != (self.kind == "pytree") or (any(nodes) and not all(nodes)):
            raise self._error("kind", self.kind, "'pytree' exactly when every target is a pytree(...)")

    def _check_once(self) -> None:
        for text in self.targets:
            if self.targets.count(text) > 1:
                raise self._error("targets", self.targets, f"{text!r} once")
        names = [item.package for item in self.ranges]
        for name in names:
            if names.count(name) > 1:
                raise self._error("requires", self.requires, f"one string for {name}, with all its bounds")

    def _error(self, name: str, found: object, wanted: str) -> SpecError:
        return SpecError(f"spec {self.id!r}: {name} is {found!r}; wanted {wanted}")


def _caller() -> str:
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__") in (__name__, "dataclasses"):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
