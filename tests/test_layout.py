"""Where modules are, what they may import, and in which order specs apply."""

import ast
import graphlib
import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

import pytest

from exportcompat import patches
from exportcompat.patches import AREAS, default_registry
from exportcompat.patches._order import ORDER

ROOT = Path(__file__).resolve().parents[1]
TOP = "exportcompat"
FOLDERS = {TOP: "src/exportcompat", **{f"{TOP}.{name}": name for name in ("registry", "patches", "matrix")}}

_MATRIX = (
    "_cli",
    "matrix",
    "matrix.lanes",
    "matrix.proofs",
    "matrix.runs",
    "matrix.dataset",
    "matrix.reports",
    "matrix.store",
)
_EXPORT = (
    "_exporter",
    "_serving",
    "_sample_inputs",
    "_observer",
    "_encoder_decoder",
    "_verification",
    "patches",
    "registry",
)
LINES = (
    ("_cli", "matrix", "matrix.judge", "matrix.zoo", *_EXPORT),
    ("matrix.cases", "matrix.zoo"),
    ("_cli", "matrix", "matrix.judge", "matrix.store", "matrix.cases", "matrix.models", *_EXPORT),
    (*_MATRIX, "matrix.checks", "matrix.cases", "matrix.models", *_EXPORT),
    (*_MATRIX, "matrix.versions", "matrix.cases", "matrix.models", *_EXPORT),
    (*_MATRIX, "matrix.versions", "_drift", "registry"),
    ("_cli", "matrix", "matrix.dataset", "_dataset", "registry"),
    ("_cli", "_audit", "_dataset", "patches", "registry"),
    ("_cli", "adapters", "_drift", "registry"),
    ("_cli", "adapters", "patches", "registry"),
    ("compat", *_EXPORT),
)
"""The packages in the order in which they may import each other: each one those behind it, in one of the lines."""

SHARED: Mapping[str, set[str]] = {
    "_api": {"patches", "registry"},
    "_companions": {"patches", "registry"},
    "_errors": {"registry"},
    "_extras": {"registry"},
    "_lazy": set(),
    "_plugins": {"patches", "registry"},
    "_model_names": {"registry"},
    "_text_config": set(),
    "_version": set(),
    "matrix._files": {"registry"},
    "matrix._fork_server": set(),
}
"""The modules beside the packages, and the packages that each may import; whoever is not below these may use them."""

Edge = tuple[str, str, str]
"""The module that imports, the module that is imported, and a name that is taken from it; empty for the module."""


@lru_cache(maxsize=1)
def sources() -> dict[str, Path]:
    """Return the file of every module by its name; a package is called as its folder."""
    found = {}
    for package, folder in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            found[".".join([package, *(part for part in parts if part != "__init__")])] = path
    return found


@lru_cache(maxsize=1)
def edges() -> list[Edge]:
    """Return what every module imports from the package, also within functions and for type checkers alone."""
    return [edge for module, path in sources().items() for edge in imports(module, path)]


def imports(module: str, path: Path) -> Iterator[Edge]:
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((module, item.name, "") for item in node.names if item.name.split(".")[0] == TOP)
        elif isinstance(node, ast.ImportFrom):
            base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            if base.split(".")[0] == TOP:
                for item in node.names:
                    inner = f"{base}.{item.name}"
                    yield (module, inner, "") if inner in sources() else (module, base, item.name)


def package_of(module: str) -> str:
    """Return the package that a module is in, as `LINES` names it; empty for the top and for what is shared."""
    if module.removeprefix(f"{TOP}.") in SHARED:
        return ""
    path = sources()[module]
    name = module if path.name == "__init__.py" else module.rpartition(".")[0]
    parts = name.split(".")[1:]
    # The areas of the patches have a test of their own.
    return ".".join(parts[: 2 if parts[:1] == ["matrix"] else 1])


def test_nothing_is_imported_in_a_circle() -> None:
    graph: dict[str, set[str]] = {}
    for module, target, _ in edges():
        graph.setdefault(module, set()).add(target)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


def follows(importer: str, target: str) -> bool:
    return any(importer in line and target in line and line.index(importer) <= line.index(target) for line in LINES)


def test_packages_import_along_the_line() -> None:
    wrong = [
        f"{module} imports {target}"
        for module, target, _ in edges()
        if package_of(module) and package_of(target) and not follows(package_of(module), package_of(target))
    ]
    assert wrong == []


def test_every_package_is_in_a_line() -> None:
    assert {package_of(module) for module in sources()} - {""} == {name for line in LINES for name in line}


def test_what_is_shared_imports_little_and_is_below() -> None:
    modules = {name.removeprefix(f"{TOP}.") for name in sources() if not package_of(name)} - {TOP, "__main__"}
    assert modules == set(SHARED)
    for module, target, _ in edges():
        above, below = package_of(module), package_of(target)
        if not above and (name := module.removeprefix(f"{TOP}.")) in SHARED:
            assert below in {*SHARED[name], ""}, f"{module} imports {target}"
        if not below:
            assert above not in ("patches", "registry"), f"{module} imports {target}"


def is_private(importer: str, target: str, name: str) -> bool:
    """Say whether a part of a path has an underscore and is not from a package around the importer."""
    parts = [*target.split("."), *([name] if name else [])]
    around = importer if sources()[importer].name == "__init__.py" else importer.rpartition(".")[0]
    owners = [".".join(parts[:index]) for index, part in enumerate(parts) if part.startswith("_") and part[:2] != "__"]
    return any(not f"{around}.".startswith(f"{owner}.") for owner in owners if owner in packages())


@lru_cache(maxsize=1)
def packages() -> set[str]:
    return {name for name, path in sources().items() if path.name == "__init__.py"}


def test_a_package_speaks_through_its_init() -> None:
    wrong = [f"{module}: {target} {name}" for module, target, name in edges() if is_private(module, target, name)]
    assert wrong == []


def test_a_package_says_what_others_take_from_it() -> None:
    for name in packages() - {TOP}:
        taken = {item for module, target, item in edges() if target == name and module != name and item}
        if taken:
            package = importlib.import_module(name)
            assert taken <= set(package.__all__), name


@pytest.mark.parametrize("name", sorted(packages()))
def test_a_package_has_what_it_says(name: str) -> None:
    try:
        package = importlib.import_module(name)
    except ModuleNotFoundError as error:
        pytest.skip(f"{name} needs {error.name}")
    assert [item for item in getattr(package, "__all__", ()) if not hasattr(package, item)] == []


def test_no_folder_hides_a_package_that_is_imported() -> None:
    folders = {part for path in sources().values() for part in path.relative_to(ROOT).parts[:-1]}
    assert not folders & {"torch", "transformers", "onnx"}


class TestAreas:
    """The folders of `patches`."""

    def test_are_listed_with_a_line_each(self) -> None:
        folders = [item.name for item in pkgutil.iter_modules(patches.__path__) if item.ispkg]
        assert sorted([area.name for area in AREAS] + ["toolkit"]) == folders
        assert [area.name for area in AREAS if not area.about.strip() or "\n" in area.about] == []

    @pytest.mark.parametrize("name", [*(area.name for area in AREAS), "toolkit"])
    def test_are_introduced_by_a_docstring_and_nothing_else(self, name: str) -> None:
        tree = ast.parse(sources()[f"{TOP}.patches.{name}"].read_text("utf-8"))
        text = ast.get_docstring(tree) or ""
        assert len(tree.body) == 1
        # Pages of the documentation are made of these paragraphs.
        wanted = [] if name == "toolkit" else ["What lives here: ", "Helpers: ", "Upstream: "]
        assert [paragraph for paragraph in wanted if f"\n\n{paragraph}" not in text] == []

    def test_name_helpers_that_exist(self) -> None:
        for area in AREAS:
            text = sources()[f"{TOP}.patches.{area.name}"].read_text("utf-8")
            named = [word for word in text.split("`")[1::2] if word.startswith(("_", "toolkit.")) and "/" not in word]
            for word in (word for word in named if not word.endswith(".py")):
                path = f"{word}" if word.startswith("toolkit.") else f"{area.name}.{word}"
                assert resolves(f"{TOP}.patches.{path}"), f"{area.name}: {word}"

    def test_share_through_the_toolkit_alone(self) -> None:
        wrong = [f"{module} imports {target}" for module, target, _ in edges() if not may_take(module, target)]
        assert wrong == []


def resolves(path: str) -> bool:
    """Say whether a path is a module, or a module and a name that it defines."""
    module, _, name = path.rpartition(".")
    if path in sources():
        return True
    tree = ast.parse(sources()[module].read_text("utf-8")) if module in sources() else ast.Module([], [])
    return name in [getattr(node, "name", "") for node in tree.body]


def may_take(module: str, target: str) -> bool:
    area, other = area_of(module), area_of(target)
    if area is None:
        return True
    return other is None or other in (area, "toolkit")


def area_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[2] if len(parts) > 2 and parts[1] == "patches" and not parts[2].startswith("_") else None


class TestOrder:
    """Specs apply in an order that is written down."""

    def test_is_that_of_the_list_then_by_area_and_name(self) -> None:
        found = list(dict.fromkeys(_module(spec.definer) for spec in default_registry()))
        others = [name for name in _modules() if name not in ORDER]
        assert found == [*ORDER, *others]

    def test_lists_each_module_once(self) -> None:
        assert len(set(ORDER)) == len(ORDER)
        assert [name for name in ORDER if name not in _modules()] == []


def _modules() -> list[str]:
    """Return the modules with specs, area by area, by name."""
    names = [name.removeprefix(f"{TOP}.patches.") for name in sources() if area_of(name)]
    order = [area.name for area in AREAS]
    public = [name for name in names if "." in name and not name.rpartition(".")[2].startswith("_")]
    return sorted(
        (name for name in public if name.split(".")[0] in order),
        key=lambda name: (order.index(name.split(".")[0]), name),
    )


def _module(definer: str) -> str:
    path = Path(definer.rpartition(":")[0])
    return f"{path.parent.name}.{path.stem}"
