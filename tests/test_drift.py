"""What `drift` says of a release: each state is seen once, with what tells it apart from the others."""

import ast
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.version import Version

from exportcompat import _cli
from exportcompat._cli import _main
from exportcompat._drift._archive import read_sources
from exportcompat._drift._definitions import Definition, Package
from exportcompat._drift._findings import Locked, findings, for_version
from exportcompat._drift._signature_fit import static_signature_mismatch
from exportcompat._drift._survey import Surveyor
from exportcompat.patches import default_registry
from exportcompat.registry import Fingerprints, PatchingSpec, Registry

KEYS = {"package", "version", "spec_id", "target", "state", "detail", "diff", "alarm"}
CACHE = "transformers/cache_utils.py"
ROPE = "transformers/modeling_rope_utils.py"
NODE = "pytree(transformers.cache_utils:DynamicCache)"
LAYER = "transformers.cache_utils:DynamicSlidingWindowLayer.update"
FILES = {
    "transformers/__init__.py": "",
    CACHE: """
class Cache:
    pass

class DynamicCache(Cache):
    def __init__(self, layers=()):
        super().__init__(layers=layers)

class DynamicSlidingWindowLayer:
    def update(self, key_states, value_states, *args, **kwargs):
        self.cumulative_length += 1
        return key_states, value_states
    def get_mask_sizes(self, query_length):
        return self.cumulative_length, 0
""",
    ROPE: """
def dynamic_rope_update(rope_forward):
    def dynamic_frequency_update(self, position_ids, device):
        if seq_len > max_seq_len_cached:
            self.register_buffer("inv_freq", inv_freq, persistent=False)
    return rope_forward
""",
}
SWITCH = """
class MyRope:
    def forward(self, n):
        if n > self.limit:
            self.register_buffer("long_inv_freq", self.make(n))
"""
IDS = ("dynamic-cache-pytree", "sliding-layer-full-past", "rotary-frequencies")


def wheel(folder: Path, version: str, changes: dict[str, str] | None = None) -> Path:
    path = folder / f"transformers-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**FILES, **(changes or {})}.items():
            archive.writestr(name, text)
    return path


def specs(lock: Fingerprints | None = None) -> list[PatchingSpec]:
    found = for_version(default_registry(), "transformers", "5.24.0")
    return [replace(spec, fingerprints=lock) for spec in found if spec.id in IDS]


@pytest.fixture
def lock(tmp_path: Path) -> Fingerprints:
    """Write a lock file in which everything in `FILES` is proved on 5.23.0."""
    survey = Surveyor(Package(read_sources(wheel(tmp_path, "5.23.0"), "transformers"))).survey(specs())
    rows = {target: {place.fingerprint: ["5.23.0"]} for (_, target), place in survey.places.items()}
    known = {spec_id: sorted(names) for spec_id, names in survey.occurrences.items()}
    (tmp_path / "lock.json").write_text(json.dumps({**rows, "occurrences": known}), "utf-8")
    return Fingerprints(tmp_path / "lock.json")


def found(tmp_path: Path, lock: Fingerprints, changes: dict[str, str]) -> dict[str, tuple[str, str]]:
    surveyor = Surveyor(Package(read_sources(wheel(tmp_path, "5.24.0", changes), "transformers")))
    rows = findings(surveyor.survey(specs()), specs(lock), Locked(specs(lock)), surveyor.moved)
    return {row.target: (row.state, row.detail) for row in rows if row.state != "unchanged"}


def edited(old: str, new: str, file: str = CACHE) -> dict[str, str]:
    assert old in FILES[file]
    return {file: FILES[file].replace(old, new)}


def test_comments_docstrings_annotations_and_other_files_change_nothing(tmp_path: Path, lock: Fingerprints) -> None:
    changes = edited("def update(self, key_states,", 'def update(self, key_states: int,  # "x"\n       ')
    assert found(tmp_path, lock, {**changes, "transformers/new.py": "x = 1"}) == {}


def test_another_body_with_the_same_defect_is_changed(tmp_path: Path, lock: Fingerprints) -> None:
    changes = edited("return key_states, value_states", "return value_states, key_states")
    assert found(tmp_path, lock, changes) == {LAYER: ("changed", "")}


def test_what_never_had_a_source_is_not_gone(tmp_path: Path) -> None:
    path = tmp_path / "lock.json"
    path.write_text(json.dumps({"transformers:where": {"builtin": ["5.23.0"]}}), "utf-8")
    known = [
        PatchingSpec(
            id=name,
            targets=(f"transformers:{name}",),
            replacement="m:f",
            requires=("transformers",),
            reason="It breaks.",
            kind="wrap",
            fingerprints=Fingerprints(path),
        )
        for name in ("where", "other")
    ]
    surveyor = Surveyor(Package(read_sources(wheel(tmp_path, "5.24.0"), "transformers")))
    rows = findings(surveyor.survey(known), known, Locked(known), surveyor.moved)
    assert {row.spec_id: row.state for row in rows} == {"where": "unchanged", "other": "gone"}


def test_arguments_that_the_replacement_does_not_take_are_a_misfit(tmp_path: Path, lock: Fingerprints) -> None:
    state, detail = found(tmp_path, lock, edited("self, key_states, value_states,", "self, states,"))[LAYER]
    assert state == "misfit"
    assert "upstream has no parameter 'key_states'" in detail


def test_a_source_without_the_defect_is_fixed(tmp_path: Path, lock: Fingerprints) -> None:
    state, detail = found(tmp_path, lock, edited("        self.cumulative_length += 1\n", ""))[LAYER]
    assert (state, "self\\.cumulative_length" in detail) == ("fixed", True)


def test_what_has_another_place_is_moved(tmp_path: Path, lock: Fingerprints) -> None:
    changes = {
        CACHE: "from .caches import DynamicSlidingWindowLayer as Layer\n",
        "transformers/caches.py": FILES[CACHE],
    }
    rows = found(tmp_path, lock, changes)
    assert rows[NODE] == ("moved", "it is transformers.caches:DynamicCache")
    assert rows[LAYER] == ("moved", f"it is transformers.caches:{LAYER.partition(':')[2]}")


def test_what_is_imported_from_elsewhere_has_its_place(tmp_path: Path, lock: Fingerprints) -> None:
    changes = {CACHE: "from .caches import *\nfrom .caches import DynamicCache, DynamicSlidingWindowLayer\n"}
    assert found(tmp_path, lock, {**changes, "transformers/caches.py": FILES[CACHE]}) == {}


def test_what_has_no_place_is_gone(tmp_path: Path, lock: Fingerprints) -> None:
    assert found(tmp_path, lock, edited("class DynamicCache(", "class Cache2("))[NODE] == ("gone", "")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("class MyCache(DynamicCache):\n    def __init__(self):\n        super().__init__(layers=[])\n", "MyCache"),
        (SWITCH, "MyRope.forward"),
    ],
)
def test_a_new_occurrence_of_a_defect_is_named_once(tmp_path: Path, lock: Fingerprints, text: str, name: str) -> None:
    rows = found(tmp_path, lock, {"transformers/models/mine.py": text})
    assert rows == {f"transformers.models.mine:{name}": ("new", "it matches what the spec says of its defect")}


@pytest.mark.parametrize(("left", "state"), [(3, "unchanged"), (2, "unchanged"), (1, "gone"), (0, "gone")])
def test_a_spec_that_goes_by_a_name_is_gone_with_most_of_its_modules(tmp_path: Path, left: int, state: str) -> None:
    named = PatchingSpec(
        id="named",
        targets=("methods_using(transformers:wanted)",),
        replacement="exportcompat.patches.attention.alibi_slice:patch_mpt_attention",
        requires=("transformers>=5.0",),
        reason="-",
        upstream=(),
        proofs=("llama",),
        kind="wrap",
        defect=("wanted = 1",),
    )
    method = "class A:\n    def forward(self):\n        wanted = {}\n        return wanted\n"
    # The others only mention the name, without the defect.
    models = {f"transformers/models/m{n}.py": method.format(1 if n < left else 2) for n in range(3)}
    survey = Surveyor(Package(read_sources(wheel(tmp_path, "5.24.0", models), "transformers"))).survey([named])

    class Before(Locked):
        def modules(self, spec: PatchingSpec) -> int:
            return 3

    (finding,) = findings(survey, [named], Before([named]), lambda _: "")
    assert finding.state == state


@pytest.mark.parametrize(("arguments", "fits"), [("hidden_states, cu_seqlens", True), ("states, cu_seqlens", False)])
def test_of_several_replacements_it_is_the_one_of_the_name(arguments: str, fits: bool) -> None:
    text = f"def forward(self, {arguments}, **kwargs):\n    return self\n"
    specs = [
        item for item in for_version(default_registry(), "transformers", "5.23.0") if item.id == "segment-attention"
    ]
    (spec,) = [item for item in specs if all(part.admits(Version("2.13.0")) for part in item.ranges[1:])]
    found = static_signature_mismatch(spec, Definition("models", "Attention.forward", ast.parse(text).body[0], text))
    assert (found is None) == fits


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = _cli.main(["drift", *arguments])
    out, err = capsys.readouterr()
    return status, out, err


def test_the_command_shows_a_diff_against_the_proved_source(
    tmp_path: Path, lock: Fingerprints, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_main, "default_registry", lambda: Registry(specs(lock)))
    old, new = tmp_path / "transformers-5.23.0-py3-none-any.whl", wheel(tmp_path, "5.24.0", edited("+= 1", "+= 2"))
    status, out, err = run(capsys, "--transformers", str(new), "--against", str(old))
    assert (status, err) == (0, "")
    assert out.startswith("transformers 5.24.0: 3 unchanged, 1 changed\n")
    assert "  -        self.cumulative_length += 1\n  +        self.cumulative_length += 2\n" in out
    # Under another name it is gone, and a cache that is no node.
    gone = wheel(tmp_path, "5.24.0", edited("class DynamicCache(", "class Other("))
    status, out, err = run(capsys, "--transformers", str(gone), "--no-diff", "--json")
    assert status == 1
    assert "2 findings need a look" in err
    found = json.loads(out)
    assert [row["state"] for row in found["findings"]].count("gone") == 1
    # The keys are promised in docs/stability.md.
    assert found.keys() == {"findings", "alarms"}
    assert found["findings"][0].keys() == KEYS


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "say what to look at"),
        (("--transformers", "five"), "'five' is no version of transformers"),
        (("--transformers", "./no/such/folder"), "is no folder"),
        (("--installed", "--against", "5.23.0"), "--against is for one package"),
    ],
)
def test_wrong_input_is_named(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str) -> None:
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, "")
    assert message in err
