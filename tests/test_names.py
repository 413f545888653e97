"""Names of upstream that our own code goes by: what a release has, what the code mentions, what `drift` says of it."""

import json
import re
import zipfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from exportcompat import _cli
from exportcompat._cli import _main
from exportcompat._drift._archive import read_sources
from exportcompat._drift._interface import Interface, interface_of
from exportcompat._drift._name_changes import KnownNames, history, known_names, name_findings
from exportcompat.matrix.proofs._fingerprints import names_of
from exportcompat.matrix.proofs._mentions import OwnCode, mentions_in
from exportcompat.matrix.proofs._name_backtest import Adaptation, adaptations, name_events
from exportcompat.matrix.versions import releases
from exportcompat.patches import default_registry
from exportcompat.registry import ExportCompatError, Fingerprints, Registry

ROOT = Path(__file__).resolve().parents[1]
FILES = {
    "transformers/__init__.py": "",
    "transformers/cache_utils.py": """
class Cache:
    limit: int = 0
    def __init__(self, layers, **kwargs):
        self.layers = layers
    def get_seq_length(self):
        return 0

class DynamicCache(Cache):
    kind = "dynamic"

class StaticCache(
    Cache,
):
    def __init__(self, config, *, size=1):
        self.size, self.config = size, config
""",
    "transformers/generation/utils.py": """
class Output(ModelOutput):
    sequences: int

class GenerationMixin:
    def prepare_inputs_for_generation(self, input_ids, cache_position=None, **kwargs):
        return {}
""",
    "transformers/models/my/modeling_my.py": """
class MyLayer(nn.Module):
    def forward(
        self,
        hidden_states,  # the last :) of them
        past=None,
    ):
        return hidden_states

class MyOutput(ModelOutput):
    \"\"\"
    Args: none.
    \"\"\"
    logits: int
    past: int = 0

class MyModel(MyPreTrainedModel):
    def forward(self, input_ids: "Tensor", past: Cache | None = None, *, use_cache=len("("), **kwargs):
        def forward(self, inner): pass

def rotate(x):
    return x
""",
    "transformers/models/my/modeling_tf_my.py": "class TFMy(TFPreTrainedModel):\n    def forward(self, past): 0\n",
    "transformers/models/my/broken.py": "class Broken(PreTrainedModel):\n    def forward(self, past:\n",
}


def wheel(folder: Path, version: str, changes: dict[str, str] | None = None) -> Path:
    path = folder / f"transformers-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**FILES, **(changes or {})}.items():
            archive.writestr(name, text)
    return path


def interface(folder: Path, version: str = "5.23.0", changes: dict[str, str] | None = None) -> Interface:
    return interface_of(read_sources(wheel(folder, version, changes), "transformers"))


class TestInterface:
    def test_arguments_fields_and_classes_are_counted(self, tmp_path: Path) -> None:
        counts = interface(tmp_path).counts
        spread = {name: count for name, count in counts.items() if name.startswith(("forward(", "layer(", "output."))}
        assert spread == {
            **dict.fromkeys(("forward(input_ids)", "forward(past)", "forward(use_cache)", "forward(**)"), 1),
            **dict.fromkeys(("layer(hidden_states)", "layer(past)", "output.logits", "output.past"), 1),
        }
        plain = {name for name in counts if name.isidentifier()}
        classes = {
            "Cache",
            "DynamicCache",
            "StaticCache",
            "Output",
            "GenerationMixin",
            "MyLayer",
            "MyOutput",
            "MyModel",
        }
        assert plain == {*classes, "rotate", "TFMy", "Broken"}

    def test_a_cache_has_what_its_base_has_and_takes_what_its_own_constructor_takes(self, tmp_path: Path) -> None:
        counts = interface(tmp_path).counts
        own = {name.partition("StaticCache")[2] for name in counts if name.startswith("StaticCache") and name[11:]}
        methods = {".__init__", ".get_seq_length"}
        assert own == {"(config)", "(size)", ".size", ".config", ".layers", ".limit", *methods}
        assert {"DynamicCache(layers)", "DynamicCache(**)", "DynamicCache.kind"} <= counts.keys()

    def test_of_what_generates_the_mixin_alone_counts(self, tmp_path: Path) -> None:
        counts = interface(tmp_path).counts
        head = "GenerationMixin.prepare_inputs_for_generation"
        assert {name for name in counts if name.startswith(head)} == {
            head,
            *(f"{head}({item})" for item in ("input_ids", "cache_position", "**")),
        }
        assert "Output.sequences" not in counts


def said(before: dict[str, int], after: dict[str, int], common: dict[str, int] | None = None) -> dict[str, str]:
    rows = list(name_findings(KnownNames("5.23.0", before, common or {}), Interface("5.24.0", after)))
    assert all(item.is_alarm for item in rows)
    return {item.target: item.state for item in rows}


class TestFindings:
    def test_a_renamed_argument_is_lost_and_gained(self) -> None:
        rows = said({"forward(past)": 900}, {"forward(cache)": 890, "forward(past)": 3}, {"forward(cache)": 14})
        assert rows == {"forward(past)": "lost", "forward(cache)": "gained"}

    @pytest.mark.parametrize(("before", "after", "is_lost"), [(20, 9, True), (20, 10, False), (19, 0, False)])
    def test_what_many_have_is_lost_with_most_of_them(self, before: int, after: int, is_lost: bool) -> None:
        assert said({"layer(past)": before}, {"layer(past)": after}) == ({"layer(past)": "lost"} if is_lost else {})

    @pytest.mark.parametrize(("before", "after", "has_come"), [(9, 40, True), (10, 40, False), (0, 39, False)])
    def test_what_many_have_anew_is_gained(self, before: int, after: int, has_come: bool) -> None:
        rows = said({}, {"forward(cache)": after}, {"forward(cache)": before})
        assert rows == ({"forward(cache)": "gained"} if has_come else {})

    def test_arguments_of_layers_are_not_gained(self) -> None:
        assert said({}, {"layer(cache)": 900}) == {}

    def test_of_a_class_that_is_gone_its_parts_are_not_told(self) -> None:
        known = {"HybridCache": 1, "HybridCache(size)": 1, "HybridCache.layers": 1}
        assert said(known, {}) == {"HybridCache": "lost"}
        assert said(known, {"HybridCache": 1}) == {"HybridCache(size)": "lost", "HybridCache.layers": "lost"}

    def test_a_constructor_that_takes_any_argument_has_lost_none(self) -> None:
        rows = said({"C": 1, "C(size)": 1, "C.size": 1}, {"C": 1, "C(**)": 1})
        assert rows == {"C.size": "lost"}

    def test_what_generate_prepares_anew_is_gained_unless_models_took_it(self) -> None:
        head = "GenerationMixin.prepare_inputs_for_generation"
        after = {f"{head}({item})": 1 for item in ("old", "new", "**", "taken")}
        assert said({f"{head}(old)": 1}, after, {"forward(taken)": 500}) == {f"{head}(new)": "gained"}


CODE = """
from transformers.cache_utils import DynamicCache
from other import Elsewhere
class StaticDecoder:
    name = "StaticCache"
    layer = "SlidingLayer"
    def make(self):
        return self.cls(**{"size": 1})
class Own: ...
def run(cache, layer, model, value):
    model.forward(use_cache=True)
    return cache.get_seq_length(), getattr(layer, "window", None), value.shape, "Own", "past", "limit"
"""


class TestOwnCode:
    def test_goes_by_what_it_mentions_where_that_can_be_meant(self) -> None:
        code = OwnCode(mentions_in(CODE))
        names = [
            "forward(past)",
            "layer(use_cache)",
            "output.past",
            "DynamicCache",
            "StaticCache",
            "StaticCache(size)",
            "DynamicCache.get_seq_length",
            "SlidingLayer.window",
            "GenerationMixin.past",
        ]
        assert [name for name in names if not code.goes_by(name)] == []

    def test_does_not_go_by_what_is_its_own_or_meant_otherwise(self) -> None:
        code = OwnCode(mentions_in(CODE))
        # A class of its own, one of another package, an argument beside another class, an attribute of something else.
        names = [
            "Own",
            "Elsewhere",
            "forward(shape)",
            "DynamicCache(size)",
            "DynamicCache.shape",
            "DynamicCache.window",
            "Other.window",
            "DynamicCache(**)",
            "forward(**)",
            "StaticCache.get_seq_length(size)",
        ]
        assert [name for name in names if code.goes_by(name)] == []

    def test_a_quoted_name_is_no_class_of_upstream_where_that_is_not_mentioned(self) -> None:
        assert OwnCode(mentions_in('from transformers import X\nkind = "Rotary"')).goes_by("Rotary")
        assert not OwnCode(mentions_in('kind = "Rotary"')).goes_by("Rotary")


def lock_of(folder: Path, found: list[Interface]) -> Fingerprints:
    path = folder / "lock.json"
    path.write_text(json.dumps({"names": names_of(found, OwnCode(mentions_in(CODE)))}), "utf-8")
    return Fingerprints(path)


class TestLock:
    def test_has_the_names_of_every_release_that_was_looked_at(self, tmp_path: Path) -> None:
        first = Interface("5.1.0", {"forward(past)": 30, "forward(other)": 10, "forward(rare)": 9, "Unknown": 1})
        last = Interface("5.3.0", {"forward(past)": 31, "StaticCache": 1, "StaticCache(**)": 1})
        lock = lock_of(tmp_path, [first, Interface("5.2.0", first.counts), last])
        relied: object = lock.releases("names")["relied"]
        assert relied == {"StaticCache": "5.3.0:1", "forward(past)": "5.1.0:30 5.3.0:31"}
        assert known_names(lock, "5.2.9") == KnownNames("5.2.0", {"forward(past)": 30}, {"forward(other)": 10})
        assert known_names(lock, "5.0.0") == KnownNames("", {}, {})
        assert known_names(lock, "6").common == {"StaticCache(**)": 1}

    def test_what_goes_and_comes_back_is_in_the_history(self) -> None:
        assert history({"1": 0, "2": 5, "3": 5, "4": 0, "5": 5}) == "2:5 4:0 5:5"

    def test_of_the_patches_knows_every_supported_release(self) -> None:
        assert str(lock().releases("names")["releases"]).split() == releases("transformers")


def lock() -> Fingerprints:
    found = default_registry().fingerprints
    assert found is not None
    return found


class TestBacktest:
    def test_the_rename_of_5_24_is_announced_with_what_was_known_of_5_23(self) -> None:
        before, after = known_names(lock(), "5.23.0"), known_names(lock(), "5.24.0")
        rows = name_findings(before, Interface("5.24.0", {**after.common, **after.relied}))
        states = {item.target: item.state for item in rows}
        assert states["forward(past_key_values)"] == states["output.past_key_values"] == "lost"
        assert states["forward(cache)"] == "gained"
        assert states["GenerationMixin.prepare_inputs_for_generation(cache)"] == "gained"

    def test_the_page_has_what_the_lock_file_says(self) -> None:
        events = list(name_events(lock(), releases("transformers"), adaptations()))
        page = (ROOT / "docs/drift.md").read_text("utf-8")
        assert all(f"| {item.release} | `{item.spec_id}` | {item.kind} |" in page for item in events)
        kinds = Counter(item.kind for item in events)
        assert f"| the names alone | {kinds['announced']} | {kinds['missed']} | {kinds['false']} |" in page

    def test_fewer_than_one_alarm_in_five_is_false(self) -> None:
        page = (ROOT / "docs/drift.md").read_text("utf-8")
        row = re.search(r"\| and the names that our code goes by \| (\d+) \| \d+ \| (\d+) \|", page)
        assert row is not None
        announced, false = map(int, row.groups())
        assert false * 5 < announced + false

    def test_what_was_not_announced_is_missed_and_what_was_not_learnt_is_false(self, tmp_path: Path) -> None:
        past = {"forward(past)": 900, "StaticCache": 1, "DynamicCache": 1, "DynamicCache.get_seq_length": 1}
        cache = {"StaticCache": 1, "DynamicCache": 1, "forward(cache)": 900}
        found = lock_of(tmp_path, [Interface("5.23.0", past), Interface("5.24.0", cache)])
        known = [Adaptation("5.24.0", (name,), "a.py", "It changed.") for name in ("past", "unseen")]
        events = {(item.spec_id, item.kind) for item in name_events(found, ["5.23.0", "5.24.0"], known)}
        assert events == {("past", "announced"), ("unseen", "missed"), ("cache", "false"), ("DynamicCache", "false")}


class TestAdaptations:
    @pytest.mark.parametrize("item", adaptations(), ids=lambda item: f"{item.release}-{item.names[0]}")
    def test_stands_where_it_says(self, item: Adaptation) -> None:
        assert item.release in releases("transformers")
        text = (ROOT / item.place).read_text("utf-8")
        assert all(re.search(rf"\b{name}\b", text) for name in item.names)

    @pytest.mark.parametrize("text", ["", "[[adaptations]]\nrelease = '5.0.0'", "[[adaptations]\n"])
    def test_another_form_is_named(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "adaptations.toml"
        path.write_text(text, "utf-8")
        with pytest.raises(
            ExportCompatError, match=r"adaptations.toml cannot be read .*; it needs release, names, place"
        ):
            adaptations(path)


def test_the_command_says_what_is_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = lock_of(tmp_path, [interface(tmp_path)])
    spec = next(item for item in default_registry() if item.id == "dynamic-cache-pytree")
    registry = Registry([replace(spec, fingerprints=sources, requires=("transformers<1",))])
    monkeypatch.setattr(_main, "default_registry", lambda: registry)
    edited = FILES["transformers/cache_utils.py"].replace("size", "length").replace("get_seq_length", "count")
    changed = wheel(tmp_path, "5.24.0", {"transformers/cache_utils.py": edited})
    status = _cli.main(["drift", "--transformers", str(changed), "--no-diff"])
    out = capsys.readouterr().out
    assert status == 1
    assert "exportcompat  lost   StaticCache(size)" in out
    assert "DynamicCache.get_seq_length" in out
    same = wheel(tmp_path, "5.23.1")
    assert _cli.main(["drift", "--transformers", str(same), "--no-diff"]) == 0
