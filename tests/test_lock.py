"""The lock file of proved sources is what the engine reads, and knows what is installed here."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from packaging.version import Version

from exportcompat import apply_patches, plan
from exportcompat._drift._findings import for_version
from exportcompat.matrix._files import write_lock
from exportcompat.matrix.proofs import _fingerprints
from exportcompat.matrix.versions._version_axes import releases
from exportcompat.patches import default_registry
from exportcompat.registry import Fingerprints, PatchingSpec, fingerprint

LOCK = json.loads(default_registry().fingerprints.path.read_text("utf-8"))  # type: ignore[union-attr]

BESIDE = {"texts", "seen", "signatures", "occurrences", "names"}
"""What the lock file has besides the sources that were proved."""


def test_every_target_of_every_spec_was_proved_somewhere() -> None:
    # What is found by a word that upstream has copied has no single source.
    texts = {text for spec in default_registry() for text in spec.targets}
    targets = {text for text in texts if not text.startswith("methods_using(")}
    assert targets == LOCK.keys() - BESIDE
    assert all(releases for target in targets for releases in LOCK[target].values())


def test_it_is_in_order_whichever_command_wrote_it(tmp_path: Path) -> None:
    path = tmp_path / "lock.json"
    write_lock(path, {name: dict(reversed(list(LOCK[name].items()))) for name in reversed(LOCK)})
    assert path.read_text("utf-8") == default_registry().fingerprints.path.read_text("utf-8")  # type: ignore[union-attr]


def test_texts_stand_for_proved_fingerprints() -> None:
    proved = {found for target, releases in LOCK.items() if target not in BESIDE for found in releases}
    assert LOCK["texts"]
    assert proved.issuperset(LOCK["texts"].values())


@pytest.mark.parametrize("package", ["transformers", "torch"])
def test_every_target_is_there_in_every_release_of_its_range(package: str) -> None:
    for spec in default_registry():
        for target in (item for item in spec.places if item.package == package):
            has = {text for spans in LOCK["seen"].get(target.text, {}).values() for text in _within(package, spans)}
            wanted = {text for text in releases(package) if for_version([spec], package, text)}
            is_word = target.text.startswith("methods_using(")
            assert is_word or wanted <= has, (
                spec.id,
                target.text,
                sorted(wanted - has),
            )


def _within(package: str, spans: Sequence[str]) -> list[str]:
    """Return the releases of spans as the lock file has them, first and last with a dash between."""
    every, ends = releases(package), [span.split("-") for span in spans]
    return [text for first, last in ends for text in every[every.index(first) : every.index(last) + 1]]


UNPROVED = {
    "gemma3-token-types": "to 5.16 eager stops in a call of its proof; see `exclusions` in matrix/axes.toml",
    "gated-delta-rule": "Qwen's copies of 5.9 to 5.22 in part: the same code was proved for OLMo-hybrid on each",
    "placeholder-count": "Qwen3-VL's copy of 5.0 to 5.11: the same code was proved for Qwen2-VL",
    "mamba2-hybrid-scan": "Bamba's and Granite's copies to 5.14 in part: the same code was proved for Falcon-H1",
}
"""Specs that have sources in their range that were not proved, and why; a scope warns of drift there."""


def test_sources_in_a_range_are_proved() -> None:
    assert {spec.id for spec in default_registry() if _has_unproved(spec)} == UNPROVED.keys()


def _has_unproved(spec: PatchingSpec) -> bool:
    """Say whether some release in the range of a spec has a source that was not proved."""
    # Of a companion only the release that is installed is looked at.
    targets = [item for item in spec.places if item.package in ("torch", "transformers")]
    targets = [item for item in targets if not item.text.startswith("methods_using(")]
    return any(
        name not in LOCK[target.text] and any(for_version([spec], target.package, text) for text in inside)
        for target in targets
        for name, spans in LOCK["seen"][target.text].items()
        for inside in [_within(target.package, spans)]
    )


def test_sources_that_were_proved_were_seen() -> None:
    for target in LOCK.keys() - BESIDE:
        seen, proved = LOCK["seen"][target], {text for found in LOCK[target].values() for text in found}
        spans = [tuple(map(Version, span.split("-"))) for name in LOCK[target] for span in seen.get(name, [])]
        assert all(any(first <= Version(text) <= last for first, last in spans) for text in proved), target
        assert LOCK["signatures"][target].keys() == seen.keys()


def test_what_is_installed_is_what_was_proved() -> None:
    pytest.importorskip("transformers.cache_utils", reason="the sources are those of transformers")
    with apply_patches(on_drift="error") as report:
        assert report.drifted == []


def test_a_text_gives_the_fingerprint_of_its_source() -> None:
    pytest.importorskip("transformers.cache_utils", reason="the sources are those of transformers")
    fresh = Fingerprints(default_registry().fingerprints.path)  # type: ignore[union-attr]
    places = [place for item in plan() if item.applies for place in item.spec.places if place.is_loaded()]
    assert places
    for place in [place for place in places if place.source() is not None]:
        assert fresh.of(place.source()) == fingerprint(place.source()), place.text


def test_an_unknown_text_is_parsed(tmp_path: Path) -> None:
    path = tmp_path / "lock.json"
    path.write_text("{}", "utf-8")
    assert Fingerprints(path).of(fingerprint) == fingerprint(fingerprint)


def test_a_wrong_text_is_believed(tmp_path: Path) -> None:
    """The text is looked up before the source is parsed: that is what it is for."""
    from exportcompat.registry import source_hash

    path = tmp_path / "lock.json"
    path.write_text(json.dumps({"texts": {source_hash(fingerprint): "0123456789ab"}}), "utf-8")
    assert Fingerprints(path).of(fingerprint) == "0123456789ab"


def test_looking_at_releases_keeps_what_no_file_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lock.json"
    path.write_bytes(default_registry().fingerprints.path.read_bytes())  # type: ignore[union-attr]
    for name in ("surveys", "interfaces"):
        monkeypatch.setattr(_fingerprints, name, lambda *_: iter(()))
    monkeypatch.setattr(_fingerprints, "names_of", lambda *_: {"relied": {}})
    list(_fingerprints.refresh(path, _fingerprints.Options()))
    found = json.loads(path.read_text("utf-8"))
    assert list(found["seen"]) == list(_fingerprints._MADE)


def test_releases_of_companions_in_seasons_are_looked_at() -> None:
    looked_at = {package: _fingerprints.in_seasons(package) for package in _fingerprints.COMPANIONS}
    assert looked_at["onnxscript"][0] == "0.2.1" and "0.5.6" in looked_at["onnxscript"] and looked_at["onnx-ir"]
    assert LOCK["seen"]["onnxscript.optimizer:optimize_ir"].keys() > LOCK["onnxscript.optimizer:optimize_ir"].keys()
