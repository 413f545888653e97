"""Foreign patches as specs of ours: what they are called, which versions they are for, and what is known of sources.

What needs the other packages is in `tests/export/test_other_exporters.py`.
"""

import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from exportcompat import _cli, apply_patches
from exportcompat.adapters import InstalledSources, from_litert_torch, from_optimum, write_sources
from exportcompat.adapters._foreign import as_id, as_target, chained, ranges_declared, ranges_from_installed
from exportcompat.adapters._litert_torch import assignments
from exportcompat.adapters._optimum import Switch
from exportcompat.registry import (
    BUILTIN,
    ExportCompatError,
    Fingerprints,
    PatchingSpec,
    Registry,
    SpecError,
    fingerprint,
)

PATCH = """
import contextlib
from litert_torch.generative.export_hf.model_ext import patches as patches_lib
from litert_torch.generative import core
import json
import transformers
from transformers.models.qwen3 import modeling_qwen3

if json:
    class Norm:
        pass

def forward(self):
    pass

@patches_lib.register_patch(["qwen3", "qwen3_text"])
@contextlib.contextmanager
def qwen3_litert_patch():
    from transformers.models.lfm2 import modeling_lfm2

    original = modeling_qwen3.Qwen3RMSNorm
    modeling_qwen3.Qwen3RMSNorm = Norm
    functions = transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS
    functions["sdpa"] = core.attention
    if original is None:
        modeling_lfm2.Lfm2Layer.forward = forward
    json.decoder.JSONDecoder = lambda: None
    try:
        yield
    finally:
        modeling_qwen3.Qwen3RMSNorm = original

def helper():
    modeling_qwen3.Other = Norm
"""


@dataclass
class ForeignSpec:
    """The fields of optimum's `PatchingSpec`."""

    o: Any
    name: str
    custom_op: Any
    orig_op: Any = None
    op_wrapper: Any = None


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("json.dumps", "json:dumps"),
        ("json.decoder.JSONDecoder.decode", "json.decoder:JSONDecoder.decode"),
        ("email.mime.text.MIMEText", "email.mime.text:MIMEText"),
        ("no_such_package.module.Class.method", "no_such_package:module.Class.method"),
    ],
)
def test_a_dotted_path_is_a_target(path: str, target: str) -> None:
    assert as_target(path) == target


def test_ids() -> None:
    assert as_id("optimum", "torch.nn:Tensor.__len__") == "optimum-torch-nn-tensor-len"


def test_ranges(fakepkg: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    targets = ["fakepkg:f", "fakepkg:g", "no_such_package:f"]
    assert ranges_from_installed(targets) == ("fakepkg>=1.0", "no-such-package")
    assert ranges_declared("no-such-package", targets) == ("fakepkg", "no-such-package")
    said = ["Fakepkg<2,>=1", "no_such_package<5.0.dev0", "fakepkg>3; extra == 'tests'"]
    monkeypatch.setattr(metadata, "requires", lambda _: said)
    # A bound that is no plain release is no range.
    assert ranges_declared("their-package", targets) == ("fakepkg<2,>=1", "no-such-package")


def test_several_factories_for_one_place_are_around_each_other() -> None:
    made = chained([lambda original: f"a({original})", lambda original: f"b({original})"])
    assert made("x") == "b(a(x))"


class TestInstalledSources:
    """What is installed stands for what a patch was written for."""

    def test_has_the_installed_release(self, fakepkg: Any) -> None:
        sources = InstalledSources()
        assert sources.releases("fakepkg:f") == {fingerprint(fakepkg.f): ["1.0"]}
        assert sources.releases("fakepkg:no_such") == sources.releases("no_such_package:f") == {}
        assert sources.releases("fakepkg:NUMBER") == {BUILTIN: ["1.0"]}
        # Found without an import; `json` is in no distribution, so it has no version.
        assert (sources.seen("fakepkg:f"), sources.occurrences("x")) == ({}, None)
        assert isinstance(pickle.loads(pickle.dumps(sources)), InstalledSources)

    def test_reads_what_is_not_loaded(self) -> None:
        import sys

        (found,) = InstalledSources().releases("packaging.licenses:canonicalize_license_expression").items()
        assert found[0] not in ("", BUILTIN)
        assert "packaging.licenses" not in sys.modules

    def test_is_written_to_a_lock_file(self, fakepkg: Any, make_spec: Callable[..., Any], tmp_path: Path) -> None:
        path, specs = tmp_path / "lock.json", [make_spec()]
        write_sources(specs, path)
        fakepkg.__version__ = "1.1"
        write_sources(specs, path)
        fakepkg.f = fakepkg.g
        fakepkg.__version__ = "2.0"
        write_sources(specs, path)
        rows = Fingerprints(path).releases("fakepkg:f")
        assert list(rows.values()) in ([["1.0", "1.1"], ["2.0"]], [["2.0"], ["1.0", "1.1"]])
        path.write_text("[1]", "utf-8")
        with pytest.raises(ExportCompatError, match="maps no targets to fingerprints; name another file"):
            write_sources(specs, path)
        path.write_text("{", "utf-8")
        with pytest.raises(ExportCompatError, match="cannot be read"):
            write_sources(specs, path)


class TestOptimum:
    """`PatchingSpec`s of optimum's kind, which other projects have too."""

    def test_become_specs(self, fakepkg: Any) -> None:
        def custom(x: int) -> int:
            """Give a number.

            And more.
            """
            return 7

        foreign = [
            ForeignSpec(fakepkg, "f", custom),
            # Another name for an argument, which the engine would refuse.
            ForeignSpec(fakepkg.Thing, "method", lambda me, number: number + 1),
            ForeignSpec(fakepkg, "g", lambda x: x, op_wrapper=lambda op: lambda x: (op(x), "wrapped")),
        ]
        found = from_optimum(foreign)
        assert [(spec.id, spec.targets, spec.kind) for spec in found] == [
            ("optimum-fakepkg-f", ("fakepkg:f",), "replace"),
            (found.ids()[1], list(found)[1].targets, "wrap"),
            ("optimum-fakepkg-g", ("fakepkg:g",), "replace"),
        ]
        assert {(spec.origin, spec.requires) for spec in list(found)[::2]} == {("optimum", ("fakepkg",))}
        # The class is one of a function, so nobody else can have it.
        assert [spec.targets[0].startswith("fakepkg:") for spec in found] == [True, False, True]
        assert next(iter(found)).reason == "Give a number."
        before = (fakepkg.f, fakepkg.g, vars(fakepkg.Thing)["method"])
        with apply_patches(registry=found) as report:
            assert (fakepkg.f(1), fakepkg.Thing().method(1), fakepkg.g(1)) == (7, 2, (1, "wrapped"))
        assert (report.drifted, report.used) == ([], found.ids())
        assert before == (fakepkg.f, fakepkg.g, vars(fakepkg.Thing)["method"])

    def test_versions_can_be_given(self, fakepkg: Any) -> None:
        found = from_optimum([ForeignSpec(fakepkg, "f", len)], requires=("fakepkg<1",))
        with apply_patches(registry=found) as report:
            assert fakepkg.f(1) == 1
        assert report.skipped == {"optimum-fakepkg-f": "fakepkg 1.0 is not in <1"}

    def test_an_instance_is_refused(self) -> None:
        with pytest.raises(SpecError, match="write its owner and the attribute"):
            from_optimum([ForeignSpec(3, "real", len)])

    def test_drift_is_seen(self, fakepkg: Any) -> None:
        found = from_optimum([ForeignSpec(fakepkg, "f", lambda x: 7)])
        for spec in found:
            assert spec.fingerprints is not None
            assert spec.fingerprints.releases("fakepkg:f") == {fingerprint(fakepkg.f): ["1.0"]}
        fakepkg.f = fakepkg.g
        with pytest.warns(match="has drifted"), apply_patches(registry=found) as report:
            assert fakepkg.f(1) == 7
        assert [drift.target for drift in report.drifted] == ["fakepkg:f"]

    def test_a_switch_is_a_scope(self, fakepkg: Any, make_spec: Callable[..., PatchingSpec]) -> None:
        switch = Switch({"registry": Registry([make_spec()])})
        assert switch.is_on is False
        for _ in range(2):
            switch.is_on = True
            assert (fakepkg.f(1), switch.is_on) == (("patched", 1), True)
            switch.is_on = False
            assert (fakepkg.f(1), switch.is_on) == (1, False)
        switch.is_on = False


class TestLitertTorch:
    """Context managers, read and not run."""

    def test_assignments_before_the_yield_are_patches(self) -> None:
        module = "litert_torch.generative.export_hf.model_ext.qwen3.patch"
        found = [(item.target, item.value.removeprefix(module)) for item in assignments(module, PATCH)]
        assert found == [
            ("transformers.models.qwen3.modeling_qwen3:Qwen3RMSNorm", ".Norm"),
            (
                "transformers.modeling_utils:ALL_ATTENTION_FUNCTIONS[sdpa]",
                "litert_torch.generative.core.attention",
            ),
            ("transformers.models.lfm2.modeling_lfm2:Lfm2Layer.forward", ".forward"),
            ("json.decoder:JSONDecoder", ""),
        ]
        assert {item.models for item in assignments(module, PATCH)} == {("qwen3", "qwen3_text")}

    def test_drift_says_which_do_not_fit(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        files = {
            "litert_torch/__init__.py": "__version__ = '0.10.0'",
            "litert_torch/generative/export_hf/model_ext/qwen3/patch.py": PATCH,
            "transformers/__init__.py": "__version__ = '9.0.0'",
            "transformers/modeling_utils.py": "ALL_ATTENTION_FUNCTIONS = {}",
            "transformers/models/qwen3/modeling_qwen3.py": "class Qwen3RMSNorm:\n    pass\n",
        }
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, "utf-8")
        specs = from_litert_torch(str(tmp_path / "litert_torch"))
        assert len(specs) == 4
        assert len(from_litert_torch(str(tmp_path / "litert_torch"), model_type="llama")) == 0
        monkeypatch.setattr("exportcompat.adapters.from_litert_torch", lambda: specs)
        arguments = ["drift", "--registry", "litert_torch", "--transformers", str(tmp_path / "transformers")]
        assert _cli.main([*arguments, "--no-diff", "--json"]) == 1
        found = json.loads(capsys.readouterr().out)["findings"]
        rows = {row["target"].rpartition(":")[2]: row["state"] for row in found}
        assert rows["Lfm2Layer.forward"] == "gone"
        assert rows["Qwen3RMSNorm"] == "changed"

    def test_what_is_computed_cannot_be_applied(self, tmp_path: Path) -> None:
        from exportcompat.adapters._litert_torch import _Named

        assert _Named("json.decoder.JSONDecoder", "f")(None) is json.decoder.JSONDecoder
        # A function whose arguments have other names than upstream's takes any.
        assert _Named("json.loads", "f")(json.loads) is json.loads
        assert _Named("json.loads", "f")(as_id)("[1]") == [1]
        with pytest.raises(TypeError, match="what f puts there is not known without running it"):
            _Named("", "f")(None)

    def test_a_missing_package_is_said(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("exportcompat.adapters._litert_torch.PACKAGE", "nobodys-litert-torch")
        assert _cli.main(["drift", "--registry", "litert_torch", "--installed"]) == 2
        assert "nobodys-litert-torch is not installed" in capsys.readouterr().err
