"""The adapters with the packages that they are for: transformers' own exporters, optimum-onnx and litert-torch."""

import functools
import importlib
import importlib.util
import warnings
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the adapters are for its exporters")

from exportcompat import ExportCompatError, apply_patches
from exportcompat.adapters import from_litert_torch, from_optimum, from_transformers, to_optimum, to_transformers
from exportcompat.patches import default_registry
from exportcompat.registry import DriftWarning, Registry, installed_version
from exportcompat.registry._scope import ENGINE


def has(module: str) -> bool:
    """Say whether a module can be imported; packages refuse what is too old or too new for them."""
    try:
        importlib.import_module(module)
    except ImportError:
        return False
    return True


class StopExportError(Exception):
    """Ends an export where it has shown enough."""


@pytest.fixture
def utils(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return transformers' table of patches, which is given back."""
    found = pytest.importorskip("transformers.exporters.utils", reason="transformers has exporters from 5.13 on")
    importlib.import_module("transformers.exporters.exporter_onnx")
    # It makes caches nodes of pytrees for good, and the proofs of ours that do so would find nothing to do.
    dynamo = importlib.import_module("transformers.exporters.exporter_dynamo")
    monkeypatch.setattr(dynamo, "register_pytree_node", lambda _: None)
    monkeypatch.setattr(found, "_PATCHES", {name: list(items) for name, items in found._PATCHES.items()})
    return found


@pytest.fixture
def model() -> Any:
    """Return a Llama of one layer whose rotary frequencies depend on the length (dynamic NTK), beyond 16 tokens."""
    from transformers import LlamaConfig, LlamaForCausalLM

    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    config = LlamaConfig(
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        vocab_size=32,
        max_position_embeddings=16,
        initializer_range=0.5,
        use_cache=False,
    )
    setattr(config, "rope_parameters" if hasattr(config, "rope_parameters") else "rope_scaling", rope)
    torch.manual_seed(0)
    return LlamaForCausalLM(config).eval()


class TestTransformers:
    """`register_patch` of transformers' exporters."""

    def test_its_patches_are_specs(self, utils: Any) -> None:
        to_transformers()
        found = from_transformers()
        # Those of two backends for one place are one spec, and what we have registered is not theirs.
        targets = [target for spec in found for target in spec.targets]
        assert len(targets) == len(set(targets))
        assert not {"torch.export:export", "torch.onnx:export"} & set(targets)
        assert {f"{owner}.{name}" for backend in ("onnx", "dynamo") for owner, name, _ in utils._PATCHES[backend]} - {
            "torch.export.export",
            "torch.onnx.export",
        } == {target.replace(":", ".") for target in targets}
        (where,) = (spec for spec in found if spec.targets == ("torch:where",))
        assert (where.id, where.origin, where.kind) == ("transformers-onnx-where", "transformers", "wrap")
        assert where.requires == (f"torch>={installed_version('torch').base_version}",)  # type: ignore[union-attr]
        assert where.replacement == "transformers.exporters.exporter_onnx:_patch_where"

    def test_its_patches_apply_as_they_are(self, utils: Any) -> None:
        found = from_transformers()
        before = torch.where, torch.Tensor.unsqueeze, torch.split
        with warnings.catch_warnings():
            warnings.simplefilter("error", DriftWarning)
            with apply_patches(registry=found) as report:
                assert torch.where is not before[0] and torch.split is not before[2]
        assert report.drifted == []
        assert report.skipped == {}
        # Both name their arguments as they like.
        assert {"transformers-onnx-split", "transformers-onnx-prepare-for-export"} <= report.applied.keys()
        assert before == (torch.where, torch.Tensor.unsqueeze, torch.split)

    def test_a_backend_that_does_not_exist(self, utils: Any) -> None:
        with pytest.raises(ExportCompatError, match="transformers' exporter for 'no_such' cannot be had"):
            from_transformers("no_such")
        with pytest.raises(ExportCompatError, match=r"no patches for 'onnx\.no_such'; there are "):
            from_transformers("onnx.no_such")

    def test_its_exporters_export_in_a_scope(self, utils: Any, model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[set[str]] = []

        @functools.wraps(torch.export.export)
        def export(*args: Any, **kwargs: Any) -> Any:
            seen.append({patch.spec.id for patch in ENGINE.patches()})
            raise StopExportError

        monkeypatch.setattr(torch.export, "export", export)
        from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter

        inputs = {"input_ids": torch.ones(2, 20, dtype=torch.int64)}
        to_transformers(exclude=["torch-export-size-numbers"])
        with pytest.raises(StopExportError):
            OnnxExporter().export(model, inputs, config=OnnxConfig(dynamic=True))
        (ids,) = seen
        # Also a spec for the very function through which the scope comes in.
        assert {"rotary-frequencies", "torch-export-size-one"} <= ids
        assert "torch-export-size-numbers" not in ids
        assert torch.export.export is export

    def test_a_model_that_it_refuses_exports(self, utils: Any, model: Any) -> None:
        from transformers.exporters.exporter_dynamo import DynamoConfig, DynamoExporter

        to_transformers()
        before = torch.export.export
        ids = torch.arange(24)[None].repeat(2, 1)
        with warnings.catch_warnings():
            # transformers has put functions of its own in the places of some targets.
            warnings.simplefilter("error", DriftWarning)
            made = DynamoExporter().export(model, {"input_ids": ids}, config=DynamoConfig(dynamic=True))
        assert torch.export.export is before
        # On both sides of the limit, at lengths that the export did not see.
        for length in (10, 30):
            ids = torch.arange(length)[None].repeat(3, 1)
            with torch.no_grad():
                wanted = model(ids).logits
            assert wanted.abs().max() > 1
            assert (made(input_ids=ids).logits - wanted).abs().max() < 1e-3


def test_an_older_transformers_has_no_exporters() -> None:
    pytest.importorskip("transformers")
    if has("transformers.exporters.utils"):
        pytest.skip("this one has")
    with pytest.raises(ExportCompatError, match=r"has no exporters of its own, which came with 5\.13"):
        to_transformers()


@pytest.mark.skipif(not has("optimum.exporters.onnx.model_patcher"), reason="needs optimum-onnx")
class TestOptimum:
    """`PatchingSpec` of optimum-onnx."""

    def test_its_patches_are_specs_that_apply(self) -> None:
        from optimum.exporters.onnx.model_patcher import UNSUPPORTED_OPS_PATCHING_SPEC, onnx_compatible_tril

        found = from_optimum()
        assert len(found) == len(UNSUPPORTED_OPS_PATCHING_SPEC)
        places = [(item.o, item.name) for item in UNSUPPORTED_OPS_PATCHING_SPEC]
        before = [getattr(*place) for place in places]
        with apply_patches(registry=found) as report:
            assert torch.equal(torch.tril(torch.ones(3, 3)), onnx_compatible_tril(torch.ones(3, 3)))
            assert len(torch.ones(3)) == 3
        assert list(report.applied) == found.ids()
        assert {"optimum-torch-tril", "optimum-torch-tensor-len"} <= set(report.used)
        assert [getattr(*place) for place in places] == before

    def test_it_exports_in_a_scope(self, model: Any, tmp_path: Path) -> None:
        ort = pytest.importorskip("onnxruntime")
        from optimum.exporters.onnx import export
        from optimum.exporters.onnx.model_configs import LlamaOnnxConfig

        class Config(LlamaOnnxConfig):  # type: ignore[misc]
            PATCHING_SPECS = to_optimum()

        before = held()
        assert "transformers.cache_utils:DynamicLayer.update" in before
        export(model, Config(model.config, task="text-generation"), tmp_path / "model.onnx")
        # Nothing of ours is left where optimum gives back what it has found, after the scope is closed.
        assert held() == before
        assert not Config.PATCHING_SPECS[0].o.is_on
        session = ort.InferenceSession(tmp_path / "model.onnx")
        for length in (10, 30):
            ids = torch.arange(length)[None].repeat(3, 1)
            with torch.no_grad():
                wanted = model(ids).logits
            feeds = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "position_ids": ids}
            names = [item.name for item in session.get_inputs()]
            (found,) = session.run(["logits"], {name: feeds[name].numpy() for name in names})
            assert abs(found - wanted.numpy()).max() < 1e-3 < wanted.abs().max()

    def test_ids_are_checked_before_the_export(self) -> None:
        with pytest.raises(ExportCompatError, match="no-such-id"):
            to_optimum(exclude=["no-such-id"])
        assert to_optimum(Registry())[0].name == "is_on"


@pytest.mark.skipif(importlib.util.find_spec("litert_torch") is None, reason="needs litert-torch")
class TestLitertTorch:
    """Context managers of litert-torch 0.10."""

    def test_all_that_is_replaced_is_found(self) -> None:
        found = from_litert_torch()
        assert len(found) == 19
        assert {spec.requires for spec in found} == {("transformers",)}
        version = installed_version("transformers")
        assert version is not None
        # It is for transformers 5.
        for spec in found if version.major >= 5 else ():
            assert spec.fingerprints is not None
            assert list(spec.fingerprints.releases(spec.targets[0]).values()) == [[version.base_version]]

    @pytest.mark.parametrize("model_type", ["qwen3", "gemma3", "gemma4", "lfm2_vl", "gemma3n", "whisper"])
    def test_a_scope_puts_there_what_its_context_puts(self, model_type: str) -> None:
        if not has("litert_torch.generative.export_hf.model_ext.patches") or not has("ai_edge_litert"):
            pytest.skip("needs the packages that litert-torch imports")
        from litert_torch.generative.export_hf.model_ext.patches import get_patch_context

        found, targets = from_litert_torch(model_type=model_type), list[Any]()
        for spec in found:
            targets += spec.places
            importlib.import_module(spec.places[0].module)
        context = get_patch_context(model_type)
        before = [target.source() for target in targets]
        with context:
            wanted = [target.source() for target in targets]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DriftWarning)
            with apply_patches(registry=found) as report:
                patched = [target.source() for target in targets]
        # A class that is made with other arguments than upstream's is left out, and said to be.
        assert report.skipped.keys() <= {"litert-torch-lfm2-vl-lfm2shortconv"}
        applied = [spec.id in report.applied for spec in found]
        assert any(applied)
        for old, new, theirs, is_there in zip(before, patched, wanted, applied, strict=True):
            assert (new is not old) == is_there
            # A function is counted, so it is another one.
            assert not is_there or not isinstance(theirs, type) or new is theirs
        assert [target.source() for target in targets] == before


def held() -> dict[str, Any]:
    """Return what is in the places of all specs whose modules are loaded."""
    targets = [target for spec in default_registry() for target in spec.places]
    plain = [target for target in targets if target.is_loaded() and not target.is_spread and not target.is_pytree]
    found: dict[str, Any] = {}
    for target in plain:
        # What does not resolve is for other releases.
        try:
            found |= {slot.label: slot.read() for slot in target.slots(())}
        except ExportCompatError:
            continue
    return found
