"""The command line, mostly in this process; what needs a fresh interpreter has its own."""

import argparse
import contextlib
import importlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from exportcompat import __main__, __version__, _cli, plan
from exportcompat._cli import _main, _plan, _registry_commands
from exportcompat._drift._evidence import describe, proved_on
from exportcompat.patches import default_registry
from exportcompat.registry import (
    COMPANIONS,
    PACKAGES,
    Environment,
    Fingerprints,
    PatchingSpec,
    Registry,
    SpecError,
    did_you_mean,
    installed_version,
    module_of,
)

HERE = Path(__file__).parent

UPSTREAM = '''
import functools


def plain(value):
    """Double it."""
    return value + value


def other(value):
    return value


def marked(function):
    @functools.wraps(function)
    def inner(*args):
        return function(*args) + "upstream"

    return inner


ITEMS = {"one": plain}
BUILT_IN = len
'''

REPLACEMENTS = """
import functools


def passing_on(original):
    @functools.wraps(original)
    def replacement(value):
        return original(value)  # caf\u00e9

    return replacement


def decorated(original):
    def decorate(function):
        @functools.wraps(function)
        def decoration(*args):
            return function(*args)

        return decoration

    @decorate
    def replacement(value):
        return original(value), "behind a decorator"

    return replacement


def failing(original):
    raise RuntimeError("the factory fails")
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "exportcompat", *arguments]
    return subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False, timeout=300)


def spec(spec_id: str = "first", **fields: Any) -> PatchingSpec:
    defaults: dict[str, Any] = {
        "targets": ("cli_upstream:plain",),
        "replacement": "cli_replacements:passing_on",
        "requires": ("packaging>=1",),
        "reason": "It breaks.",
        "upstream": ("https://example.org/1",),
        "proofs": ("case-a",),
        "kind": "wrap",
    }
    return PatchingSpec(id=spec_id, **{**defaults, **fields})


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Replace the registry of the command; its specs may have targets in `cli_upstream`."""
    (tmp_path / "cli_upstream.py").write_text(UPSTREAM, "utf-8")
    (tmp_path / "cli_replacements.py").write_text(REPLACEMENTS, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)

    def use(*specs: PatchingSpec) -> None:
        for module in (_plan, _registry_commands):
            monkeypatch.setattr(module, "default_registry", lambda: Registry(specs))

    yield use
    for name in ("cli_upstream", "cli_replacements"):
        sys.modules.pop(name, None)


@pytest.fixture
def hide(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that makes packages look as if they were not installed."""

    def hide_packages(*names: str) -> None:
        for name in names:
            monkeypatch.delitem(sys.modules, module_of(name), raising=False)
        from exportcompat.registry import _versions

        known = metadata.version

        def version(name: str) -> str:
            if name in names:
                raise metadata.PackageNotFoundError(name)
            return known(name)

        monkeypatch.setattr(metadata, "version", version)
        _versions._installed.cache_clear()

    return hide_packages


@pytest.fixture(autouse=True)
def _forget_installed_versions() -> Iterator[None]:
    from exportcompat.registry import _versions

    yield
    _versions._installed.cache_clear()


def companions() -> dict[str, str | None]:
    """Return what is installed beside torch and transformers."""
    found = {name: installed_version(name) for name in COMPANIONS}
    return {name: str(version) if version else None for name, version in found.items()}


def beside() -> str:
    """Return what the first line of a plan says of them."""
    return "".join(f", {name} {version or 'not installed'}" for name, version in companions().items())


def test_plan_has_one_row_per_spec(capsys: pytest.CaptureFixture[str]) -> None:
    assert _cli.main(["plan", "--all", "--torch", "2.13.0", "--transformers", "5.23.0"]) == 0
    first, empty, head, *rows = capsys.readouterr().out.splitlines()
    rows = rows[: rows.index("")]
    assert first == f"torch 2.13.0, transformers 5.23.0{beside()}"
    assert empty == ""
    assert head.split() == ["ID", "APPLIES", "PROVED", "REASON"]
    assert [row.split()[0] for row in rows] == [item.id for item in default_registry()]


def test_plan_says_which_apply_and_why(use: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    use(spec("old", requires=("torch<2.9",)), spec("quite-new", targets=("m:f",), requires=("torch>=2.9",)))
    versions = ["--torch", "2.9.0.dev20250801+cu128", "--transformers", "none"]
    assert _cli.main(["plan", "--all", *versions]) == 0
    assert capsys.readouterr().out.splitlines()[:-1] == [
        f"torch 2.9.0.dev20250801+cu128, transformers not installed{beside()}",
        "",
        "ID         APPLIES  PROVED  REASON",
        "old        no               torch 2.9.0.dev20250801+cu128 is not in <2.9",
        "quite-new  yes      no      torch 2.9.0.dev20250801+cu128 is in >=2.9",
        "",
        "1 spec applies, 1 does not",
    ]
    assert _cli.main(["plan", *versions]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [
        "ID         PROVED  WHAT GOES WRONG WITHOUT IT",
        f"quite-new  no      {spec().reason}",
        "",
        "1 spec applies, 1 does not (--all lists them, and why)",
        "  1 PROVED 'no': no release is noted, as for what is found by a word in any model; `show ID` has the proofs",
    ]


@pytest.mark.parametrize(
    ("versions", "said"),
    [
        (["--torch", "2.5.1", "--transformers", "4.57.6"], "torch 2.5.1 is not supported; torch>=2.6 is"),
        (["--torch", "2.13.0", "--transformers", "4.43.0"], "transformers 4.43.0 is not supported"),
        (["--torch", "2.13.0", "--transformers", "99.0"], "transformers 99.0 is newer than 5."),
        (["--torch", "2.13.0", "--transformers", "5.23.0"], ""),
    ],
)
def test_plan_warns_outside_of_supported_versions(
    versions: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _cli.main(["plan", *versions]) == 0
    found = [line for line in capsys.readouterr().out.splitlines() if line.startswith("warning: t")]
    assert [line for line in found if said in line] == found
    assert bool(found) is bool(said)
    assert _cli.main(["plan", "--json", *versions]) == 0
    assert [f"warning: {text}" for text in json.loads(capsys.readouterr().out)["warnings"]] == found


def test_plan_of_a_model(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = {"model_type": "llava", "text_config": {"model_type": "gemma3_text"}, "vision_config": {"hidden_size": 8}}
    (tmp_path / "config.json").write_text(json.dumps(config), "utf-8")
    versions = ["--torch", "2.13.0", "--transformers", "4.52.4", "--json"]
    ids = {}
    for name in (str(tmp_path), "llama", "Gemma3ForCausalLM", "google/gemma-3-1b-it"):
        assert _cli.main(["plan", "--model", name, *versions]) == 0
        ids[name] = {item["id"] for item in json.loads(capsys.readouterr().out)["specs"] if item["applies"]}
    assert "gemma3-cache" in ids[str(tmp_path)] & ids["Gemma3ForCausalLM"] & ids["google/gemma-3-1b-it"]
    assert "gemma3-cache" not in ids["llama"] and "dynamic-cache-pytree" in ids["llama"]
    assert_refused(["plan", "--model", "gemma33"], capsys, "no model type 'gemma33' is known; did you mean 'gemma3'")
    (tmp_path / "config.json").write_text("{", "utf-8")
    assert_refused(["plan", "--model", str(tmp_path)], capsys, "config.json cannot be read")


def test_a_misspelt_package_is_refused() -> None:
    with pytest.raises(SpecError, match="a version of 'transfomers' is given.*; did you mean 'transformers'"):
        plan({"transfomers": "5.23.0"})


@pytest.mark.parametrize(
    ("version", "said"),
    [("2.9.0", "yes"), ("2.9.0+cu128", "yes"), ("2.10.0", "on 2.9.0 and 2.11.0"), ("3.0", "on 2.11.0")],
)
def test_plan_says_what_was_proved(version: str, said: str, tmp_path: Path) -> None:
    lock = tmp_path / "lock.json"
    releases = {"m:f": {"a": ["2.8.0", "2.9.0"], "b": ["2.11.0"]}, "m:g": {"c": ["2.9.0", "2.11.0"]}}
    lock.write_text(json.dumps({target.replace("m:", "torch:"): found for target, found in releases.items()}))
    both = spec("both", targets=("torch:f", "torch:g"), requires=("torch",))
    assert describe(both, Fingerprints(lock), Environment({"torch": version})) == said
    assert proved_on(both, Fingerprints(lock)) == ["2.9.0", "2.11.0"]
    assert describe(spec("other", targets=("torch:h",)), Fingerprints(lock), Environment({"torch": version})) == "no"


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("2.9.1", "same source as 2.9.0"),
        ("2.10.0", "other source than 2.9.0"),
        ("2.12.0", "on 2.9.0"),
        ("2.13.0", "unknown"),
    ],
)
def test_plan_says_what_it_rests_on(version: str, said: str, tmp_path: Path) -> None:
    lock = tmp_path / "lock.json"
    seen = {"a": ["2.9.0-2.9.1"], "b": ["2.10.0-2.11.0", "2.12.5-2.12.5"]}
    lock.write_text(json.dumps({"torch:f": {"a": ["2.9.0"]}, "seen": {"torch:f": seen}}))
    rests = describe(spec("one", targets=("torch:f",)), Fingerprints(lock), Environment({"torch": version}))
    assert rests == said


def test_plan_as_json(use: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    use(spec("first", requires=("torch>=2.9", "packaging>=1")))
    assert _cli.main(["plan", "--torch", "2.10", "--transformers", "none", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    packaging = metadata.version("packaging")
    assert found == {
        "versions": {"torch": "2.10", "transformers": None, **companions(), "packaging": packaging},
        "mismatched": [],
        "warnings": [],
        "specs": [
            {
                "id": "first",
                "applies": True,
                "reason": f"torch 2.10 is in >=2.9; packaging {packaging} is in >=1",
                "requires": ["torch>=2.9", "packaging>=1"],
                "targets": ["cli_upstream:plain"],
                "kind": "wrap",
                "origin": "",
                "proved_on": [],
                "rests_on": "no",
            }
        ],
    }


def test_plan_of_what_is_installed(
    use: Callable[..., None], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", argparse.Namespace(__version__="2.7.1+cpu"))
    use(spec(requires=("torch>=2.9",)))
    assert _cli.main(["plan", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    # All packages that matter are named although no spec asks for them.
    assert list(found["versions"]) == list(PACKAGES)
    assert found["versions"]["torch"] == "2.7.1+cpu"
    assert found["specs"][0]["applies"] is False


def test_plan_without_torch_and_transformers(hide: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    hide(*PACKAGES)
    assert _cli.main(["plan", "--all"]) == 0
    first, _, _, *rows = capsys.readouterr().out.splitlines()
    rows = rows[: rows.index("")]
    assert first == ", ".join(f"{name} not installed" for name in PACKAGES)
    assert len(rows) == len(default_registry())
    assert all(row.split()[1] == "no" and "is not installed (wanted" in row for row in rows)


@pytest.mark.parametrize("text", ["none", "None", " NONE "])
def test_none_means_not_installed(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _cli.main(["plan", "--torch", text, "--transformers", text, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [name for name, version in found["versions"].items() if version is None] == ["torch", "transformers"]
    assert not any(item["applies"] for item in found["specs"])


@pytest.mark.parametrize("given", [["--include", "a", "c"], ["--include", "a", "--include", "c"], ["--exclude", "b"]])
def test_plan_of_some_ids(given: list[str], use: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    use(*(spec(name, targets=(f"m:{name}",)) for name in "abc"))
    assert _cli.main(["plan", "--json", *given]) == 0
    found = json.loads(capsys.readouterr().out)["specs"]
    assert [item["id"] for item in found if item["applies"]] == ["a", "c"]


@pytest.mark.parametrize("option", ["--include", "--exclude"])
def test_plan_of_an_unknown_id(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert_refused(["plan", option, "nonsense"], capsys, "known ids are what `exportcompat list` prints")


def test_plan_of_an_id_that_cannot_apply(capsys: pytest.CaptureFixture[str]) -> None:
    some = next(iter(default_registry())).id
    arguments = ["plan", "--torch", "none", "--transformers", "none", "--include", some]
    assert_refused(arguments, capsys, f"spec '{some}' was asked for and cannot apply: ")


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("text", ["", "latest", "2.x", "2.9 .0", ">=2.9", "\N{SNOWMAN}", "1" * 3000 + "!"])
def test_malformed_version(package: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert_refused(["plan", f"--{package}", text], capsys, f"is not a version of {package}")


@pytest.mark.parametrize("arguments", [["plan"], ["list"], ["show", "broken"]])
def test_every_error_of_the_package_is_one_message(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> Registry:
        raise SpecError("the registry is broken")

    for module in (_plan, _registry_commands):
        monkeypatch.setattr(module, "default_registry", broken)
    assert_refused(arguments, capsys, "the registry is broken")


def assert_refused(arguments: list[str], capsys: pytest.CaptureFixture[str], text: str) -> None:
    assert _cli.main(arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("exportcompat: error: ")
    assert output.err.count("\n") == 1
    assert text in output.err


def test_list(use: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    first = spec("first", requires=("torch>=2.6,<2.9", "packaging>=1"), proofs=("a", "b"))
    second = spec("first", requires=("torch>=2.9",), proofs=("b", "c"), targets=("m:f",))
    use(first, spec("second", targets=("m:g",), reason="Other."), second)
    assert _cli.main(["list"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "first (3 proofs)",
        "    torch>=2.6,<2.9, packaging>=1",
        "    torch>=2.9",
        "    It breaks.",
        "second (1 proof)",
        "    packaging>=1",
        "    Other.",
    ]


def test_list_as_json(use: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    first = spec("first", requires=("torch<2.9",), proofs=("a", "b"))
    use(first, spec("first", requires=("torch>=2.9",), targets=("m:f",), reason="Otherwise."))
    assert _cli.main(["list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "specs": [
            {
                "id": "first",
                "area": None,
                "ranges": [["torch<2.9"], ["torch>=2.9"]],
                "reason": "It breaks. / Otherwise.",
                "proofs": 3,
                "origin": "",
            }
        ],
        "registries": [],
    }


def test_list_of_an_area(capsys: pytest.CaptureFixture[str]) -> None:
    assert _cli.main(["list", "--area", "recurrent", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["specs"]
    assert {item["area"] for item in found} == {"recurrent"}
    assert "mamba-scan" in [item["id"] for item in found]
    assert _cli.main(["list", "--area", "recurent"]) == 2
    assert "there is no area 'recurent'; did you mean 'recurrent'?; areas: torch_export" in capsys.readouterr().err


def test_list_of_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("transformers", reason="the model is looked at")
    assert _cli.main(["list", "--model", "mixtral", "--json"]) == 0
    found = {item["id"]: item["in_model"] for item in json.loads(capsys.readouterr().out)["specs"]}
    assert found["rotary-frequencies"]
    assert not found["dynamic-cache-pytree"]
    assert "qwen-vl-grids" not in found
    assert _cli.main(["list", "--model", "mixtrall"]) == 2
    assert "no model type 'mixtrall' is known; did you mean 'mixtral'" in capsys.readouterr().err


def test_show_as_json(use: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    shown = spec()
    use(shown)
    assert _cli.main(["show", "first", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (variant,) = found["variants"]
    assert (found["id"], found["area"], variant["applies"]) == ("first", None, True)
    assert variant["targets"] == list(shown.targets) and variant["requires"] == list(shown.requires)


def test_show_has_every_fact(use: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    use(spec(upstream=("https://example.org/1", "https://example.org/2"), proofs=()))
    assert _cli.main(["show", "first"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:9] == [
        "first",
        "  reason:      It breaks.",
        "  kind:        wrap (hands calls on to the original)",
        "  versions:    packaging>=1",
        "  targets:     cli_upstream:plain",
        "  replacement: cli_replacements:passing_on",
        "  upstream:    https://example.org/1",
        "               https://example.org/2",
        "  proofs:      none",
    ]
    assert lines[9].startswith("  defined at:  ")
    assert "test_cli.py:" in lines[9]
    assert lines[10] == f"  applies:     yes: packaging {metadata.version('packaging')} is in >=1"


DIFFERENCES = {
    "cli_upstream:plain": [
        "--- cli_upstream:plain",
        "+++ cli_replacements:passing_on",
        "@@ -1,3 +1,3 @@",
        "-def plain(value):",
        '-    """Double it."""',
        "-    return value + value",
        "+@functools.wraps(original)",
        "+def replacement(value):",
        "+    return original(value)  # caf\u00e9",
    ],
    "cli_upstream:ITEMS[one]": [
        "--- cli_upstream:ITEMS[one]",
        "+++ cli_replacements:passing_on",
        "@@ -1,3 +1,3 @@",
        "-def plain(value):",
        '-    """Double it."""',
        "-    return value + value",
        "+@functools.wraps(original)",
        "+def replacement(value):",
        "+    return original(value)  # caf\u00e9",
    ],
    "cli_upstream:BUILT_IN": [
        "--- cli_upstream:BUILT_IN (has no Python source)",
        "+++ cli_replacements:passing_on",
        "@@ -0,0 +1,3 @@",
        "+@functools.wraps(original)",
        "+def replacement(value):",
        "+    return original(value)  # caf\u00e9",
    ],
    "decorated(cli_upstream:marked)": [
        "--- decorated(cli_upstream:marked)",
        "+++ cli_replacements:passing_on",
        "@@ -1,3 +1,3 @@",
        "-@functools.wraps(function)",
        "-def inner(*args):",
        '-    return function(*args) + "upstream"',
        "+@functools.wraps(original)",
        "+def replacement(value):",
        "+    return original(value)  # caf\u00e9",
    ],
}


@pytest.mark.parametrize("target", DIFFERENCES)
def test_show_compares_sources(target: str, use: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    use(spec("zeroth", targets=("cli_upstream:other",)), spec(targets=(target,)))
    assert _cli.main(["show", "first"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "first"
    assert lines[10:] == ["", *DIFFERENCES[target]]


def test_show_looks_behind_decorators_of_the_replacement(
    use: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    use(spec(replacement="cli_replacements:decorated"))
    assert _cli.main(["show", "first"]) == 0
    output = capsys.readouterr().out
    assert '+    return original(value), "behind a decorator"' in output
    assert "decoration" not in output


def test_show_of_two_variants_compares_the_one_that_applies(
    use: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    use(spec(requires=("packaging<1",), targets=("cli_upstream:other",)), spec())
    assert _cli.main(["show", "first"]) == 0
    output = capsys.readouterr().out
    first, second = output.split("\n\nfirst (variant 2 of 2)\n")
    assert first.startswith("first (variant 1 of 2)\n")
    assert "  applies:     no: packaging " in first
    assert "---" not in first
    assert "--- cli_upstream:plain" in second


def test_show_without_the_package(
    use: Callable[..., None], hide: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    hide("torch")
    use(spec(requires=("torch>=2.6",)))
    assert _cli.main(["show", "first"]) == 0
    output = capsys.readouterr().out
    assert output.splitlines()[-1] == "  applies:     no: torch is not installed (wanted >=2.6)"
    assert "It breaks." in output
    assert "cli_upstream" not in sys.modules


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"targets": ("cli_absent:f",)}, "cli_absent:f cannot be compared: ModuleNotFoundError: No module named"),
        ({"targets": ("cli_upstream:f",)}, "cli_upstream:f cannot be compared: AttributeMissingError: spec 'first'"),
        ({"replacement": "cli_replacements:absent"}, "cli_upstream:plain cannot be compared: AttributeError: "),
        ({"replacement": "cli_replacements:failing"}, "cannot be compared: RuntimeError: the factory fails"),
    ],
)
def test_show_says_why_it_cannot_compare(
    fields: dict[str, Any], message: str, use: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    fields["targets"] = (*fields.get("targets", ("cli_upstream:plain",)), "cli_upstream:other")
    use(spec(**fields))
    assert _cli.main(["show", "first"]) == 0
    output = capsys.readouterr().out
    assert message in output
    if "replacement" not in fields:
        assert "--- cli_upstream:other" in output


def test_show_of_an_unknown_id(capsys: pytest.CaptureFixture[str]) -> None:
    assert_refused(["show", "nonsense"], capsys, "known ids are what `exportcompat list` prints")


@pytest.mark.parametrize("spec_id", default_registry().ids())
def test_show_every_spec(spec_id: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    assert _cli.main(["show", spec_id]) == 0
    output = capsys.readouterr().out
    assert "cannot be compared" not in output
    shown = "\n+++ exportcompat.patches." in output or ": nothing that is loaded has it; import the model" in output
    assert ("  applies:     yes" in output) == shown


def test_show_a_pytree_node(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    assert _cli.main(["show", "dynamic-cache-pytree"]) == 0
    lines = capsys.readouterr().out.splitlines()
    labels = [line.split()[2] for line in lines if line.startswith("--- ")]
    assert labels == ["flatten_fn", "unflatten_fn", "flatten_with_keys_fn"]
    assert "+def flatten(cache: Any) -> tuple[list[Any], CacheLayout]:" in lines


NODE = """
class Node:
    pass


def theirs(node):
    return [], None


def ours(node):
    return [], 1


def node(original):
    return {"flatten_fn": ours, "serialized_type_name": "Node"}
"""


@pytest.mark.parametrize(
    ("is_registered", "label", "change"),
    [
        (False, "flatten_fn (not registered)", ["@@ -0,0 +1,2 @@", "+def ours(node):", "+    return [], 1"]),
        (
            True,
            "flatten_fn",
            ["@@ -1,2 +1,2 @@", "-def theirs(node):", "-    return [], None", "+def ours(node):", "+    return [], 1"],
        ),
    ],
)
def test_show_compares_nodes(
    is_registered: bool,
    label: str,
    change: list[str],
    use: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (tmp_path / "cli_upstream.py").write_text(NODE, "utf-8")
    upstream = importlib.import_module("cli_upstream")
    nodes = {upstream.Node: argparse.Namespace(flatten_fn=upstream.theirs)} if is_registered else {}
    monkeypatch.setitem(sys.modules, "torch.utils._pytree", argparse.Namespace(SUPPORTED_NODES=nodes))
    use(spec(targets=("pytree(cli_upstream:Node)",), replacement="cli_upstream:node", kind="pytree"))
    assert _cli.main(["show", "first"]) == 0
    lines = capsys.readouterr().out.splitlines()[10:]
    assert lines == ["", f"--- pytree(cli_upstream:Node) {label}", "+++ cli_upstream:node", *change]


@pytest.mark.parametrize("kind", ["wrap", "replace"])
def test_show_names_the_kind(kind: str, use: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    use(spec(kind=kind))
    assert _cli.main(["show", "first"]) == 0
    assert f"  kind:        {kind} (" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["show"], ["plan", "--tor", "2.9"], ["list", "--torch", "1"]])
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        _cli.main(arguments)
    assert stop.value.code == 2
    assert "usage: exportcompat" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["exprt", "a", "b"], "did you mean 'export'?"),
        (["LIST"], "did you mean 'list'?"),
        (
            ["plan", "--transfomers", "4.57"],
            "unrecognized arguments: --transfomers 4.57; did you mean '--transformers'?",
        ),
        (["export", "a", "b", "--oppset=23"], "unrecognized arguments: --oppset=23; did you mean '--opset'"),
        (["export", "a", "b", "--dtype", "float23"], "did you mean 'float32'"),
        (["list", "more"], "unrecognized arguments: more\n"),
    ],
)
def test_misspelt_commands_and_options(arguments: list[str], wanted: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        _cli.main(arguments)
    assert (stop.value.code, wanted in capsys.readouterr().err) == (2, True)


@pytest.mark.parametrize("name", ["LLAMA", "LLaMA", "Lama"])
def test_what_was_meant_in_another_case(name: str) -> None:
    assert did_you_mean(name, ["mistral", "llama"]) == "; did you mean 'llama'?"
    assert did_you_mean("llama", ["LLaMA"]) == "; did you mean 'LLaMA'?"


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        _cli.main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"exportcompat {__version__}\n"


@pytest.mark.parametrize("command", [(), ("plan",), ("list",), ("show",)])
def test_help(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        _cli.main([*command, "--help"])
    assert stop.value.code == 0
    assert "usage: " + " ".join(("exportcompat", *command)) in capsys.readouterr().out


def test_another_command_is_one_entry(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def add(commands: Any) -> None:
        commands.add_parser("greet").set_defaults(run=lambda _: iter(["hello", "again"]))

    monkeypatch.setattr(_main, "COMMANDS", (*_main.COMMANDS, add))
    assert _cli.main(["greet"]) == 0
    assert capsys.readouterr().out == "hello\nagain\n"


def test_characters_that_the_terminal_lacks(use: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", newline="\n")
    monkeypatch.setattr(sys, "stdout", stream)
    use(spec())
    assert _cli.main(["show", "first"]) == 0
    assert rb"# caf\xe9" in stream.buffer.getvalue()


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_closed_pipe(unbuffered: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "exportcompat", "list"]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with contextlib.closing(os.fdopen(writer, "wb")) as closed:
        done = subprocess.run(
            command,
            cwd=HERE,
            stdout=closed,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
            check=False,
            timeout=60,
        )
    assert done.stderr == ""
    assert done.returncode == 1


@pytest.mark.parametrize("arguments", [["plan"], ["plan", "--torch", "2.9", "--json"], ["list"]])
def test_torch_and_transformers_are_not_imported(arguments: list[str]) -> None:
    code = (
        f"import sys; from exportcompat._cli import main; status = main({arguments!r}); "
        "sys.stderr.write(str(sorted({'torch', 'transformers', 'numpy', 'difflib'} & set(sys.modules)))); "
        "sys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=HERE, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0
    assert done.stderr == "[]"


def test_the_module_runs_as_a_program() -> None:
    done = run("plan", "--torch", "none", "--transformers", "none", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["versions"] == {"torch": None, "transformers": None, **companions()}
    refused = run("plan", "--torch", "x")
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1


def test_the_installed_command_is_this_one() -> None:
    (entry,) = [item for item in metadata.entry_points(group="console_scripts") if item.name == "exportcompat"]
    assert entry.load() is __main__.run


@pytest.mark.parametrize("command", [["plan"], ["matrix", "run"]])
def test_an_interrupt_is_one_line(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from exportcompat.matrix import __main__ as matrix

    def stop(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(_plan, "plan", stop)
    monkeypatch.setattr(matrix, "main", stop)
    assert __main__.run(command) == 130
    assert capsys.readouterr().err == "exportcompat: interrupted\n"


@pytest.mark.parametrize("stopped", ["exportcompat._cli", "exportcompat.registry", "packaging", "importlib.metadata"])
@pytest.mark.parametrize("statement", ["raise KeyboardInterrupt", "exec('raise KeyboardInterrupt')"])
def test_an_interrupt_of_an_import_is_one_line(stopped: str, statement: str) -> None:
    code = (
        "import runpy, sys\nclass Finder:\n    def find_spec(name, *others):\n"
        f"        if name == {stopped!r}:\n            {statement}\n"
        "sys.meta_path.insert(0, Finder)\nsys.argv = ['exportcompat', 'plan']\n"
        "runpy.run_module('exportcompat', run_name='__main__', alter_sys=True)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=HERE, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "exportcompat: interrupted\n")
