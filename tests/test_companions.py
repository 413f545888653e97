"""Packages beside torch and transformers: they are known to specs, plans and reports, and have to go together."""

import json
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from exportcompat import CompanionError, CompanionWarning, apply_patches, plan
from exportcompat._companions import check_companions
from exportcompat._drift._archive import read_sources
from exportcompat.matrix.versions._version_axes import seasons
from exportcompat.patches import default_registry
from exportcompat.registry import (
    PACKAGES,
    CompanionRule,
    Environment,
    Fingerprints,
    PatchingSpec,
    Registry,
    SpecError,
    installed_version,
    mismatches,
    module_of,
    parse_target,
)

MakeSpec = Callable[..., PatchingSpec]

OF_2_6 = {"torch": "2.6.0", "onnxscript": "0.2.5", "onnx-ir": None, "onnx": "1.17.0", "protobuf": "5.29.3"}
"""What was current together with torch 2.6."""

RULE = CompanionRule(wanted="fakepkg>=2", when=("json",), why="it is old")


def test_a_spec_may_ask_for_a_companion(make_spec: MakeSpec) -> None:
    registry = Registry([make_spec(requires=("onnxscript>=0.2,<0.5", "onnx_ir"))])
    reasons = [
        plan({"onnxscript": script, "onnx-ir": ir}, registry=registry)[0]
        for script, ir in (("0.4.0", "0.1.7"), ("0.5.0", "0.1.7"), ("0.2.5", None))
    ]
    assert [(item.applies, item.reason) for item in reasons] == [
        (True, "onnxscript 0.4.0 is in >=0.2,<0.5; onnx-ir 0.1.7 is in any version"),
        (False, "onnxscript 0.5.0 is not in >=0.2,<0.5"),
        (False, "onnx-ir is not installed (wanted any version)"),
    ]


@pytest.mark.parametrize(
    ("target", "package"),
    [
        ("onnx_ir.serde:serialize", "onnx-ir"),
        ("google.protobuf.message:Message.Clear", "protobuf"),
        ("onnxscript.ir:load", "onnxscript"),
        ("torch.onnx:export", "torch"),
    ],
)
def test_the_package_of_a_target_is_the_one_that_is_installed(target: str, package: str) -> None:
    assert parse_target(target, "some-spec").package == package


def test_a_loaded_companion_is_asked_for_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    for package, version in {"protobuf": "5.1.2", "onnx-ir": "0.1.7"}.items():
        module = ModuleType(module_of(package))
        module.__version__ = version  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        assert str(installed_version(package)) == version


def test_a_build_of_another_name_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    from exportcompat.registry import _versions

    def version(name: str) -> str:
        if name == "onnxruntime-gpu":
            return "1.21.0"
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.delitem(sys.modules, "onnxruntime", raising=False)
    _versions._installed.cache_clear()
    try:
        assert str(installed_version("onnxruntime")) == "1.21.0"
        assert installed_version("protobuf-of-nobody") is None
    finally:
        _versions._installed.cache_clear()


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        ({}, 0),
        ({"protobuf": "7.36.2"}, 1),
        ({"protobuf": "7.36.2", "onnxscript": "0.4.0", "onnx-ir": "0.1.7"}, 1),
        ({"protobuf": "7.36.2", "onnxscript": "0.4.0", "onnx-ir": "0.1.8"}, 0),
        ({"protobuf": "7.36.2", "onnxscript": None}, 0),
        ({"protobuf": None}, 0),
    ],
)
def test_protobuf_7_needs_integers(changes: dict[str, str | None], count: int) -> None:
    found = list(mismatches(default_registry().companions, Environment({**OF_2_6, **changes})))
    assert len(found) == count
    for text in found:
        assert text.startswith("protobuf 7.36.2 does not go with onn")
        assert "wanted protobuf<7, because" in text
        assert text.endswith("Run: pip install 'protobuf<7'")


@pytest.mark.parametrize(
    ("torch", "least", "older"),
    [
        ("2.6.0", "0.1.0", ""),
        ("2.7.1", "0.2.2", "0.2.1"),
        ("2.8.0", "0.3.1", "0.3.0"),
        ("2.9.1", "0.4.0", "0.3.2"),
        ("2.10.0", "0.4.0", "0.3.2"),
        ("2.11.0", "0.6.0", "0.5.7"),
        ("2.15.0", "0.6.0", "0.5.7"),
    ],
)
def test_each_torch_has_its_least_onnxscript(torch: str, least: str, older: str) -> None:
    versions = {**OF_2_6, "torch": torch, "onnx-ir": "1.1.0"}
    assert not list(mismatches(default_registry().companions, Environment({**versions, "onnxscript": least})))
    if older:
        (text,) = mismatches(default_registry().companions, Environment({**versions, "onnxscript": older}))
        assert text.startswith(f"onnxscript {older} does not go with torch {torch}: wanted onnxscript>=")


def test_the_rules_let_every_season_pass() -> None:
    for row in seasons().values():
        environment = Environment({name: row.get(name) for name in PACKAGES if name != "transformers"})
        assert list(mismatches(default_registry().companions, environment)) == []


def test_what_is_installed_goes_together() -> None:
    check_companions()


def test_a_malformed_rule_is_refused() -> None:
    with pytest.raises(SpecError, match="is not a version range"):
        CompanionRule(wanted="<7", when=(), why="it is old")


def test_a_plan_says_what_does_not_go_together(capsys: pytest.CaptureFixture[str]) -> None:
    from exportcompat import _cli

    given = {**OF_2_6, "protobuf": "7.36.2"}
    arguments = [text for name, version in given.items() for text in (f"--{name}", version or "none")]
    assert _cli.main(["plan", *arguments]) == 0
    first, second, third, *_ = capsys.readouterr().out.splitlines()
    assert "onnxscript 0.2.5, onnx-ir not installed, onnx 1.17.0, onnxruntime" in first
    assert second.startswith("warning: protobuf 7.36.2 does not go with onnxscript 0.2.5: wanted protobuf<7, because ")
    assert third == ""
    assert _cli.main(["plan", *arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mismatched"] == [second.removeprefix("warning: ")]


@pytest.fixture
def broken(fakepkg: ModuleType, make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """Return a registry with a rule that is broken here."""
    monkeypatch.setattr(json, "__version__", "1.0", raising=False)
    return Registry([make_spec("fakepkg:f")], companions=[RULE])


MESSAGE = "fakepkg 1.0 does not go with json 1.0: wanted fakepkg>=2, because it is old. Run: pip install 'fakepkg>=2'"


def test_a_scope_warns_and_works(broken: Registry, fakepkg: ModuleType) -> None:
    before = fakepkg.f
    with pytest.warns(CompanionWarning) as found, apply_patches(registry=broken) as report:
        assert list(report.applied) == ["fake-spec"]
    assert fakepkg.f is before
    assert [str(item.message) for item in found] == [MESSAGE]
    assert found[0].filename == __file__
    assert report.mismatched == report.to_dict()["mismatched"] == [MESSAGE]


def test_an_export_is_refused_before_any_work(broken: Registry, tmp_path: object) -> None:
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    from exportcompat import export

    with pytest.raises(CompanionError) as refused:
        # No model is looked at.
        export(None, {}, f"{tmp_path}/model.onnx", patches={"registry": broken})
    assert str(refused.value) == MESSAGE


def test_the_command_refuses_before_a_model_is_loaded(
    broken: Registry, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from exportcompat import _cli
    from exportcompat._cli import _export

    monkeypatch.setattr(_export, "default_registry", lambda: broken)
    assert _cli.main(["export", "no-such-model", "no-such-folder"]) == 2
    assert capsys.readouterr().err == f"exportcompat: error: {MESSAGE}\n"


@pytest.mark.parametrize(("package", "folder"), [("onnx-ir", "onnx_ir"), ("protobuf", "google/protobuf")])
def test_the_sources_of_a_companion_are_found_under_its_module(package: str, folder: str, tmp_path: Path) -> None:
    place = tmp_path / folder
    place.mkdir(parents=True)
    (place / "__init__.py").write_text("__version__ = '1.2.3'\n", "utf-8")
    (place / "serde.py").write_text("def load(): ...\n", "utf-8")
    found = read_sources(tmp_path, package)
    assert (found.package, found.version) == (package, "1.2.3")
    assert sorted(found) == [module_of(package), f"{module_of(package)}.serde"]
    assert read_sources(place, package, "2.0").version == "2.0"


def test_a_wheel_of_a_companion_is_read(tmp_path: Path) -> None:
    path = tmp_path / "onnx_ir-0.1.7-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("onnx_ir/__init__.py", "")
        archive.writestr("other/__init__.py", "")
    found = read_sources(path, "onnx-ir")
    assert (found.version, list(found)) == ("0.1.7", ["onnx_ir"])


def test_drift_looks_at_a_companion(
    tmp_path: Path, make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from exportcompat import _cli
    from exportcompat._cli import _main  # noqa: F401

    (tmp_path / "onnx_ir").mkdir()
    (tmp_path / "onnx_ir" / "__init__.py").write_text("__version__ = '0.1.7'\ndef save(model): return model\n", "utf-8")
    lock = tmp_path / "lock.json"
    lock.write_text("{}", "utf-8")
    specs = [
        make_spec("onnx_ir:save", id="there", requires=("onnx-ir<0.2",)),
        make_spec("onnx_ir:load", id="later", requires=("onnx-ir>=0.2",)),
        make_spec("onnx_ir:gone", id="gone", requires=("onnx-ir",)),
    ]
    registry = Registry(specs, fingerprints=Fingerprints(lock))
    monkeypatch.setattr(_cli._main, "default_registry", lambda: registry)
    assert _cli.main(["drift", "--onnx-ir", str(tmp_path), "--no-diff", "--json"]) == 1
    rows = json.loads(capsys.readouterr().out)["findings"]
    found = {row["spec_id"]: (row["package"], row["version"], row["target"]) for row in rows}
    assert found == {"there": ("onnx-ir", "0.1.7", "onnx_ir:save"), "gone": ("onnx-ir", "0.1.7", "onnx_ir:gone")}
