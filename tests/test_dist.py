"""What is shipped: one package with everything in it, small, with one dependency."""

import ast
import email.message
import email.parser
import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import types
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import exportcompat
from exportcompat._extras import parse_toml

ROOT = Path(__file__).resolve().parents[1]
TREES = {
    "src/exportcompat": "exportcompat",
    **{name: f"exportcompat/{name}" for name in ("registry", "patches", "matrix")},
}
FOLDERS = {
    path.parent.relative_to(ROOT).as_posix(): "/".join([to, *path.parent.relative_to(ROOT / folder).parts])
    for folder, to in TREES.items()
    for path in (ROOT / folder).rglob("__init__.py")
}
"""Each folder with modules, and where it is in the package."""
METADATA = ("pyproject.toml", "setup.py", "README.md", "LICENSE")
MAX_BYTES: int = parse_toml((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["exportcompat"]["max-wheel-bytes"]


def copy_source(to: Path) -> Path:
    """Copy what a build reads. A build in place would leave folders behind and ship what old ones hold."""
    for folder in TREES:
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / folder, to / folder, ignore=ignored, dirs_exist_ok=True)
    for name in METADATA:
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, to / name)
    return to


def build_hook(name: str, out: Path) -> list[str]:
    code = f"import sys; from setuptools import build_meta; build_meta.{name}(sys.argv[1])"
    return [sys.executable, "-c", code, str(out)]


def wheel_command(out: Path) -> list[str]:
    """Return a command that builds the wheel of the current folder; the first choice needs no package index."""
    if has_setuptools():
        return build_hook("build_wheel", out)
    if uv := shutil.which("uv"):
        return [uv, "build", "--wheel", "--out-dir", str(out)]
    if importlib.util.find_spec("build"):
        return [sys.executable, "-m", "build", "--wheel", "--outdir", str(out)]
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(out), "."]
    pytest.skip("the wheel can only be built with setuptools, uv, build or pip; or name it in EXPORTCOMPAT_WHEEL")


def has_setuptools() -> bool:
    from importlib import metadata

    try:
        # Older ones do not know the licence fields of pyproject.toml.
        return int(metadata.version("setuptools").partition(".")[0]) >= 77
    except metadata.PackageNotFoundError:
        return False


def build(command: list[str], source: Path, out: Path) -> Path:
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, f"{command} failed:\n{done.stdout}\n{done.stderr}"
    (built,) = [path for path in out.iterdir() if path.suffix in (".whl", ".gz")]
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Return the wheel that `EXPORTCOMPAT_WHEEL` names, or one that is built now."""
    if given := os.environ.get("EXPORTCOMPAT_WHEEL"):
        return zipfile.ZipFile(given)
    out = tmp_path_factory.mktemp("wheel")
    return zipfile.ZipFile(build(wheel_command(out), copy_source(tmp_path_factory.mktemp("source")), out))


@pytest.fixture(scope="module")
def core_metadata(wheel: zipfile.ZipFile) -> email.message.Message:
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return email.parser.Parser().parsestr(wheel.read(name).decode("utf-8"))


def shipped(wheel: zipfile.ZipFile) -> set[str]:
    return {name for name in wheel.namelist() if ".dist-info/" not in name}


def test_there_is_one_package_at_the_top(wheel: zipfile.ZipFile) -> None:
    assert {name.partition("/")[0] for name in shipped(wheel)} == {"exportcompat"}


def modules() -> set[str]:
    return {f"{to}/{path.name}" for folder, to in FOLDERS.items() for path in (ROOT / folder).glob("*.py")}


def tools() -> set[str]:
    """Return what `setup.py` leaves out: the matrix, but for the command that says where it is."""
    own = {name for name in modules() if name.startswith("exportcompat/matrix/")}
    return own - {"exportcompat/matrix/__init__.py", "exportcompat/matrix/__main__.py"}


def test_every_module_is_shipped_but_the_matrix(wheel: zipfile.ZipFile) -> None:
    assert {name for name in shipped(wheel) if name.endswith(".py")} == modules() - tools()


def test_data_is_shipped_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    data = {name for name in shipped(wheel) if not name.endswith(".py")}
    assert data == {"exportcompat/py.typed", "exportcompat/patches/fingerprints.json"}


def test_what_is_shipped_imports_no_tool_at_once(wheel: zipfile.ZipFile) -> None:
    for name in (name for name in shipped(wheel) if name.endswith(".py") and "/patches/" not in name):
        body = ast.parse(wheel.read(name)).body
        taken = [node.module or "" for node in body if isinstance(node, ast.ImportFrom) and node.level == 0]
        assert not [module for module in taken if module.startswith("exportcompat.matrix")], name


def test_a_session_has_the_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, whole, lean = tmp_path / "source", tmp_path / "whole", tmp_path / "lean"
    source.mkdir()
    copy_source(source)
    monkeypatch.setenv("EXPORTCOMPAT_TOOLS", "1")
    with zipfile.ZipFile(build(wheel_command(whole), source, whole)) as built:
        assert {name for name in shipped(built) if name.endswith(".py")} == modules()
        assert {"exportcompat/matrix/axes.toml", "exportcompat/matrix/report.html"} <= shipped(built)
    monkeypatch.delenv("EXPORTCOMPAT_TOOLS")
    # What the first build has left in the folder must not be shipped by the second.
    with zipfile.ZipFile(build(wheel_command(lean), source, lean)) as built:
        assert not tools() & shipped(built)


def test_a_patch_that_was_deleted_is_not_shipped(tmp_path: Path) -> None:
    source, first, second = tmp_path / "source", tmp_path / "first", tmp_path / "second"
    source.mkdir()
    copy_source(source)
    stale = source / "patches" / "deleted_patch.py"
    stale.write_text("SPECS = ()\n", "utf-8")
    with zipfile.ZipFile(build(wheel_command(first), source, first)) as built:
        assert "exportcompat/patches/deleted_patch.py" in shipped(built)
    stale.unlink()
    # The folder `build` of the first build is still there, as after `pip install .` in a checkout.
    assert (source / "build").exists()
    with zipfile.ZipFile(build(wheel_command(second), source, second)) as built:
        assert "exportcompat/patches/deleted_patch.py" not in shipped(built)


def test_a_command_that_is_not_shipped_says_where_it_is(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path / "unpacked")
    # An editable installation would find the rest in the checkout.
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); "
        "sys.meta_path[:] = [item for item in sys.meta_path if 'Editable' not in str(item)]; "
        "from exportcompat import _cli; sys.exit(_cli.main(['matrix', *sys.argv[2:]]))"
    )
    for command in (["summary"], ["run", "--list"], ["prove"], ["quickstart"]):
        done = isolated(code, tmp_path, str(tmp_path / "unpacked"), *command)
        assert done.returncode == 2
        assert done.stderr.startswith("exportcompat matrix: error: the wheel has not this command; in a checkout: pip")


def test_the_folders_at_the_root_are_parts_of_the_package(wheel: zipfile.ZipFile) -> None:
    wanted = {f"{folder}/__init__.py" for folder in FOLDERS.values()}
    assert wanted - tools() <= shipped(wheel)


def test_the_wheel_is_small(wheel: zipfile.ZipFile) -> None:
    assert wheel.filename is not None
    assert Path(wheel.filename).stat().st_size <= MAX_BYTES


def test_only_packaging_is_required(core_metadata: email.message.Message) -> None:
    requirements = [Requirement(text) for text in core_metadata.get_all("Requires-Dist", [])]
    always = [item.name for item in requirements if item.marker is None or item.marker.evaluate({"extra": ""})]
    assert always == ["packaging"]


def test_the_extras(core_metadata: email.message.Message) -> None:
    assert {"torch", "transformers", "onnx", "media", "all"} <= set(core_metadata.get_all("Provides-Extra", []))


def test_the_changelog_begins_with_this_version(core_metadata: email.message.Message) -> None:
    headings = [line for line in (ROOT / "CHANGELOG.md").read_text("utf-8").splitlines() if line.startswith("## ")]
    assert headings[0].split()[1] == core_metadata["Version"] == exportcompat.__version__


def test_the_licence_is_included(wheel: zipfile.ZipFile, core_metadata: email.message.Message) -> None:
    assert core_metadata["License-Expression"] == "Apache-2.0"
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/licenses/LICENSE")]
    assert "Apache License" in wheel.read(name).decode("utf-8")


def test_the_command_is_included(wheel: zipfile.ZipFile) -> None:
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/entry_points.txt")]
    assert "exportcompat = exportcompat.__main__:run" in wheel.read(name).decode("utf-8").splitlines()


def test_the_wheel_works_alone(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path / "unpacked")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import exportcompat; print(exportcompat.__file__); "
        "from exportcompat import _cli; sys.exit(_cli.main(['list']))"
    )
    done = isolated(code, tmp_path, str(tmp_path / "unpacked"))
    assert done.returncode == 0, done.stderr
    first, *lines = done.stdout.splitlines()
    assert Path(first).is_relative_to(tmp_path)
    assert any(line.startswith("dynamic-cache-pytree ") for line in lines)


def test_a_wheel_from_the_source_distribution_is_the_same(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    if not has_setuptools():
        pytest.skip("needs setuptools")
    folders = [tmp_path / name for name in ("source", "sdist", "unpacked", "again")]
    for folder in folders:
        folder.mkdir()
    source, sdist, unpacked, again = folders
    with tarfile.open(build(build_hook("build_sdist", sdist), copy_source(source), sdist)) as archive:
        archive.extractall(unpacked, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))  # type: ignore[arg-type]
    (root,) = unpacked.iterdir()
    with zipfile.ZipFile(build(build_hook("build_wheel", again), root, again)) as other:
        assert sorted(other.namelist()) == sorted(wheel.namelist())


@pytest.mark.parametrize("name", ["registry", "patches", "matrix", "src"])
def test_the_folders_have_no_names_of_their_own(name: str, tmp_path: Path) -> None:
    # Two modules of one source would register every spec twice.
    code = f"import importlib.util; print(importlib.util.find_spec({name!r}))"
    assert isolated(code, tmp_path).stdout == "None\n"


def isolated(code: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run code in `folder`; `-I` keeps that folder and PYTHONPATH out of what can be imported."""
    command = [sys.executable, "-I", "-c", code, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)


def _is_public_part(package: types.ModuleType, name: str) -> bool:
    part = getattr(package, name)
    return isinstance(part, types.ModuleType) and part.__name__ == f"{package.__name__}.{name}"


@pytest.mark.parametrize("name", ["exportcompat", "exportcompat.registry", "exportcompat.patches"])
class TestPublicNames:
    """What a package shows is what its `__all__` says."""

    def test_exist(self, name: str) -> None:
        package = importlib.import_module(name)
        assert [public for public in package.__all__ if not hasattr(package, public)] == []

    def test_are_sorted_and_named_once(self, name: str) -> None:
        public = importlib.import_module(name).__all__
        # As the linter has them: constants, classes, functions.
        assert public == sorted(set(public), key=lambda name: (not name.isupper(), name))

    def test_are_no_private_modules(self, name: str) -> None:
        package = importlib.import_module(name)
        private = [public for public in package.__all__ if public.startswith("_") and not public.startswith("__")]
        modules = [public for public in package.__all__ if isinstance(getattr(package, public), types.ModuleType)]
        assert private == []
        assert modules == []


@pytest.mark.parametrize("name", ["exportcompat", "exportcompat.registry"])
def test_nothing_else_is_shown(name: str) -> None:
    package = importlib.import_module(name)
    shown = [public for public in vars(package) if not public.startswith("_")]
    assert [public for public in shown if public not in package.__all__ and not _is_public_part(package, public)] == []
