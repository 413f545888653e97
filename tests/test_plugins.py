"""Registries of other packages: loaded by name, and only then; whatever is wrong with one is said, and harms nobody."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from exportcompat import _cli, apply_patches
from exportcompat._plugins import installed_registries, load_registry, only_registries, with_registries
from exportcompat.patches import default_registry
from exportcompat.registry import DuplicateSpecError, Registry, RegistryError

SPECS = """
from exportcompat.registry import CompanionRule, PatchingSpec, Registry

SPEC = PatchingSpec(
    id="json-dumps",
    targets=("json:dumps",),
    replacement="plug_good:patch_dumps",
    requires=("packaging>=1",),
    reason="It does not shout.",
    upstream=(),
    proofs=(),
    kind="wrap",
)
SPECS = [SPEC]
RULE = CompanionRule(wanted="packaging>=1", when=("packaging",), why="it is needed")
REGISTRY = Registry(SPECS, companions=[RULE])


def make():
    return REGISTRY


def ours():
    from exportcompat.patches import default_registry

    return default_registry().narrow("experts-hit-loop", "transformers<9") | SPECS


def patch_dumps(original):
    def dumps(obj, **kwargs):
        return original(obj, **kwargs).upper()

    return dumps
"""
BROKEN = {
    "import": ("plug_broken:SPECS", "ZeroDivisionError: division by zero"),
    "exit": ("plug_exits:SPECS", "SystemExit: 3"),
    "no-module": ("no_such_module:SPECS", "ModuleNotFoundError: No module named 'no_such_module'"),
    "no-attribute": ("plug_good:NOTHING", "AttributeError: module 'plug_good' has no attribute 'NOTHING'"),
    "number": ("plug_good:__name__", "it is 'plug_good'; wanted a Registry, or specs"),
    "one": ("plug_good:SPEC", "wanted a Registry, or specs"),
}


@pytest.fixture
def _plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install a package with registries, of which `good` alone is sound."""
    entries = {
        "good": "plug_good:make",
        "whole": "plug_good:ours",
        **{name: value for name, (value, _) in BROKEN.items()},
    }
    files = {
        "plug_good.py": SPECS,
        "plug_broken.py": "1 / 0",
        "plug_exits.py": "raise SystemExit(3)",
        "plug-1.2.dist-info/METADATA": "Metadata-Version: 2.1\nName: plug\nVersion: 1.2\n",
        "plug-1.2.dist-info/entry_points.txt": "\n".join(
            ["[exportcompat.specs]", *(f"{name} = {value}" for name, value in entries.items())]
        ),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in ("plug_good", "plug_broken", "plug_exits"):
        sys.modules.pop(name, None)


pytestmark = pytest.mark.usefixtures("_plugins")


def test_what_is_offered_is_known_and_not_imported() -> None:
    offered = installed_registries()
    assert [(item.name, item.value, item.package) for item in offered if item.name == "good"] == [
        ("good", "plug_good:make", "plug 1.2")
    ]
    assert not {"plug_good", "plug_broken"} & sys.modules.keys()


@pytest.mark.parametrize("name", ["good", "plug_good:REGISTRY", "plug_good:SPECS", "plug_good"])
def test_a_registry_is_loaded_by_its_name(name: str) -> None:
    found = load_registry(name)
    assert [(spec.id, spec.origin) for spec in found] == [("json-dumps", name)]
    assert len(found.companions) == (name in ("good", "plug_good:REGISTRY"))
    assert "plug_broken" not in sys.modules
    with apply_patches(registry=default_registry() | found, include=["json-dumps"]):
        assert json.dumps("a") == '"A"'
    assert json.dumps("a") == '"a"'


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_reported(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    value, cause = BROKEN[name]
    with pytest.raises(RegistryError) as caught:
        load_registry(name)
    assert f"the registry {name!r} ({value} of plug 1.2) cannot be loaded: " in str(caught.value)
    assert cause in str(caught.value)
    # One line for people, and whoever does not ask for it has no harm.
    assert _cli.main(["list", "--registry", name]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert _cli.main(["list", "--registry", "good", "--json"]) == 0


def test_an_unknown_name_says_what_there_is() -> None:
    with pytest.raises(RegistryError, match="there is no registry 'goood'.*did you mean 'good'"):
        load_registry("goood")
    with pytest.raises(RegistryError, match=r"there is no registry 'qqq\.zz'.*known ones: exportcompat, .*good"):
        load_registry("qqq.zz")


def test_two_packages_with_one_name(tmp_path: Path) -> None:
    other = tmp_path / "other-3.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 3\n", "utf-8")
    (other / "entry_points.txt").write_text("[exportcompat.specs]\ngood = plug_good:SPECS\n", "utf-8")
    with pytest.raises(RegistryError, match=r"several packages offer a registry 'good': .*other 3.*plug 1\.2"):
        load_registry("good")


def test_registries_are_put_together() -> None:
    both = with_registries(default_registry(), ["good", "exportcompat", "good"])
    assert both.ids() == [*default_registry().ids(), "json-dumps"]
    assert only_registries(default_registry(), ["good"]).ids() == ["json-dumps"]
    assert only_registries(default_registry(), []) is default_registry()
    # One that is built on ours stands for them.
    whole = with_registries(default_registry(), ["whole"])
    assert whole.ids() == both.ids()
    assert whole.changed == {"experts-hit-loop": "narrowed to transformers<9"}
    with pytest.raises(DuplicateSpecError):
        with_registries(default_registry(), ["good", "plug_good:SPECS"])
    assert with_registries(Registry(), []).ids() == []


class TestCommands:
    """`--registry`, and where a spec is from."""

    @staticmethod
    def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
        assert _cli.main(list(arguments)) == 0
        return capsys.readouterr().out

    def test_list_says_where_a_spec_is_from(self, capsys: pytest.CaptureFixture[str]) -> None:
        text = self.run(capsys, "list")
        assert "json-dumps" not in text
        assert "'good' (plug_good:make of plug 1.2)" in text.splitlines()[-1]
        text = self.run(capsys, "list", "--registry", "good")
        assert "json-dumps (0 proofs)\n    packaging>=1\n    It does not shout.\n    from good\n" in text
        found = json.loads(self.run(capsys, "list", "--registry", "good", "--registry", "exportcompat", "--json"))
        assert {item["origin"] for item in found["specs"]} == {"exportcompat", "good"}
        assert {"name": "good", "value": "plug_good:make", "package": "plug 1.2"} in found["registries"]

    def test_show_and_plan(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert "  from:        good\n" in self.run(capsys, "show", "json-dumps", "--registry", "good")
        rows = json.loads(self.run(capsys, "plan", "--registry", "plug_good", "--json"))["specs"]
        assert rows[-1]["origin"] == "plug_good"
        assert rows[-1]["applies"] is True

    def test_drift_looks_at_that_registry_alone(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path, make_spec: Callable[..., Any]
    ) -> None:
        folder = tmp_path / "json"
        folder.mkdir()
        (folder / "__init__.py").write_text("__version__ = '9.0'\ndef loads(): pass\n", "utf-8")
        arguments = ["drift", "--registry", "good", "--package", f"JSON={folder}", "--no-diff"]
        assert _cli.main([*arguments, "--json"]) == 1
        rows = json.loads(capsys.readouterr().out)["findings"]
        assert [(row["package"], row["spec_id"], row["state"]) for row in rows] == [("json", "json-dumps", "gone")]
        (folder / "__init__.py").write_text("__version__ = '9.0'\ndef dumps(thing, **more): pass\n", "utf-8")
        assert _cli.main([*arguments, "--json"]) == 1
        (row,) = json.loads(capsys.readouterr().out)["findings"]
        assert (row["state"], "upstream has no parameter 'obj'" in row["detail"]) == ("misfit", True)
        (folder / "__init__.py").write_text("__version__ = '9.0'\ndef dumps(obj, **more): pass\n", "utf-8")
        assert "no source is known that it was proved against" in self.run(capsys, *arguments)
        assert _cli.main(["drift", "--package", "json"]) == 2
        assert "write NAME=SOURCE" in capsys.readouterr().err
