"""Pages of the patches, made of their docstrings and their specs."""

import ast
import importlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from exportcompat.patches import default_registry
from exportcompat.registry import PatchingSpec

PACKAGE = "exportcompat.patches"
PARTS = (
    "Symptom",
    "Cause",
    "What is done",
    "What it cannot do",
    "Can go",
    "Source",
    "What lives here",
    "Helpers",
    "Upstream",
)
"""What the parts of a docstring begin with: those of a patch, and those of an area."""

_PART = re.compile(rf"^({'|'.join(PARTS)}): ", re.MULTILINE)
_LIST = re.compile(r"^(?!- |  )(.+)\n(?=- )", re.MULTILINE)
_SPECS = re.compile(r"^SPECS\b", re.MULTILINE)
_RELEASE = re.compile(r"/blob/v?([^/]+)/")


@dataclass(frozen=True)
class Patch:
    """A module of `patches/`.

    Attributes:
        name: of the module, without its package.
        text: its docstring.
        specs: its records, in order.
    """

    name: str
    text: str
    specs: tuple[PatchingSpec, ...]

    @property
    def ids(self) -> list[str]:
        """Each id once."""
        return list(dict.fromkeys(spec.id for spec in self.specs))

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        return self.text.partition("\n")[0]


@dataclass(frozen=True)
class Area:
    """A folder of `patches/`.

    Attributes:
        name: of the folder.
        text: the docstring of the package; may be empty.
        patches: its modules, in the order of their names.
    """

    name: str
    text: str
    patches: tuple[Patch, ...]

    @property
    def title(self) -> str:
        """The name as a heading: torch's modules as they are written, others as words."""
        return (
            self.name.replace("_", "." if self.name.startswith("torch_") else " ")
            .capitalize()
            .replace("Torch.", "torch.")
        )


def read_areas(folder: Path) -> list[Area]:
    """Return the areas of `patches/` that have specs, in the order in which these apply.

    Modules that lie in the folder itself are put together by the package that they are about.
    """
    found = [_area(path) for path in sorted(folder.iterdir()) if (path / "__init__.py").exists()]
    found += _flat(folder)
    order = default_registry().ids()
    return sorted((area for area in found if area.patches), key=lambda area: order.index(area.patches[0].ids[0]))


def _area(folder: Path) -> Area:
    return Area(folder.name, _docstring(folder / "__init__.py"), tuple(_patches(folder, f"{PACKAGE}.{folder.name}")))


def _flat(folder: Path) -> Iterator[Area]:
    modules = list(_patches(folder, PACKAGE))
    for prefix in ("torch_onnx", "torch", "transformers"):
        own = tuple(module for module in modules if module.name.startswith(f"{prefix}_"))
        modules = [module for module in modules if module not in own]
        yield Area(prefix, "", own)


def _patches(folder: Path, package: str) -> Iterator[Patch]:
    """Yield the modules of a folder that have specs; what patches share is not imported, as it may need torch."""
    for path in sorted(folder.glob("[!_]*.py")):
        if _SPECS.search(path.read_text("utf-8")):
            module = importlib.import_module(f"{package}.{path.stem}")
            yield Patch(path.stem, _docstring(path), tuple(module.SPECS))


def _docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""


def index_page(areas: Sequence[Area]) -> str:
    """Return the page that leads to those of the areas."""
    count = len({spec_id for area in areas for patch in area.patches for spec_id in patch.ids})
    lines = [
        "# Patches",
        "",
        f"{count} defects of torch and transformers, each with the versions that have it. `exportcompat plan` says",
        "which of them apply to what is installed, and a report which were used; both name them by the ids below.",
    ]
    for area in areas:
        lines += ["", f"## [{area.title}]({area.name}.md)", "", *_first_paragraph(area.text)]
        lines += ["| patch | what goes wrong |", "|---|---|"]
        lines += [
            f"| {', '.join(f'`{spec_id}`' for spec_id in patch.ids)} | {_cell(patch.summary)} |"
            for patch in area.patches
        ]
    return "\n".join([*lines, ""])


def _first_paragraph(text: str) -> list[str]:
    return [text.partition("\n\n")[0], ""] if text else []


def page(area: Area) -> str:
    """Return the page of an area: its docstring, and each of its patches."""
    lines = [f"# {area.title}", "", as_markdown(area.text), ""]
    for patch in area.patches:
        lines += _section(patch)
    return "\n".join([*lines, ""])


def _section(patch: Patch) -> Iterator[str]:
    """Yield a patch: what its docstring says, a row for each record, and targets and links, which most need not see."""
    is_one = len(patch.ids) == 1
    anchor = f" {{ #{patch.ids[0]} }}" if is_one else ""
    yield from (f"## `{patch.ids[0] if is_one else patch.name}`{anchor}", "", as_markdown(patch.text), "")
    yield from ("| id | versions | proved by |", "|---|---|---|")
    seen: set[str] = set()
    for spec in patch.specs:
        mark = "" if is_one or spec.id in seen else f"{{ #{spec.id} }}"
        seen.add(spec.id)
        yield f"| `{spec.id}`{mark} | {_codes(spec.requires)} | {_codes(spec.proofs)} |"
    yield from ("", '??? quote "Targets and upstream"', "")
    yield from (f"    - `{target}`" for target in dict.fromkeys(text for spec in patch.specs for text in spec.targets))
    links = dict.fromkeys(link for spec in patch.specs for link in spec.upstream)
    yield from ("", f"    Upstream: {', '.join(f'[{_label(link)}]({link})' for link in links)}" if links else "", "")


def as_markdown(text: str) -> str:
    """Return a docstring as Markdown: each of its parts a paragraph that begins in bold, and each list a list."""
    return _LIST.sub(r"\1\n\n", _PART.sub(r"\n**\1:** ", text))


def _codes(texts: Sequence[str]) -> str:
    return ", ".join(f"`{text}`" for text in texts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _label(link: str) -> str:
    """Return the end of a link, with the release that it is of."""
    end = link.rstrip("/").rpartition("/")[2]
    release = _RELEASE.search(link)
    if release:
        return f"{end} of {release[1]}"
    return f"#{end}" if end.isdigit() else end
