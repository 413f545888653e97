"""The site: every spec has its page, ids are links, and the check of links finds what is broken."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import exportcompat
import exportcompat.adapters
import exportcompat.registry
from exportcompat.patches import default_registry

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "_site"
MODULES = ("build_site", "site_links", "site_patches")


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return what puts the site together; its modules lie beside each other, outside the package."""
    monkeypatch.syspath_prepend(FOLDER)
    import build_site

    yield build_site
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture
def areas(site: Any) -> Any:
    return site.read_areas(ROOT / "patches")


def test_every_spec_is_on_the_page_of_its_area(site: Any, areas: Any) -> None:
    pages = {area.name: site.page(area) for area in areas}
    for area in areas:
        for spec_id in (spec_id for patch in area.patches for spec_id in patch.ids):
            assert f"{{ #{spec_id} }}" in pages[area.name], spec_id
    found = {spec_id for area in areas for patch in area.patches for spec_id in patch.ids}
    assert found == set(default_registry().ids())


def test_the_index_leads_to_every_spec(site: Any, areas: Any) -> None:
    text = site.index_page(areas)
    assert [spec_id for spec_id in default_registry().ids() if f"`{spec_id}`" not in text] == []


def test_areas_are_folders_where_there_are_some(site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patches, spec = sys.modules["site_patches"], next(iter(default_registry()))
    (tmp_path / "caches").mkdir()
    (tmp_path / "caches" / "__init__.py").write_text('"""Defects of caches.\n\nWhat lives here: nodes."""\n')
    (tmp_path / "caches" / "node.py").write_text('"""A cache is no node."""\n\nSPECS = ()\n')
    (tmp_path / "caches" / "_helper.py").write_text('"""Is no patch."""\n')
    (tmp_path / "caches" / "shared.py").write_text("import no_such_module\n")
    (tmp_path / "no_area").mkdir()
    made = type("Module", (), {"SPECS": (spec,)})
    monkeypatch.setattr(patches.importlib, "import_module", {"exportcompat.patches.caches.node": made}.__getitem__)
    (area,) = patches.read_areas(tmp_path)
    assert (area.name, area.title, [patch.name for patch in area.patches]) == ("caches", "Caches", ["node"])
    assert "**What lives here:** nodes." in patches.page(area)


def test_parts_of_a_docstring_are_paragraphs(site: Any) -> None:
    text = "It is wrong.\n\nSymptom: none,\nat all.\nCause: this:\n- one\n- two\n"
    assert sys.modules["site_patches"].as_markdown(text).splitlines() == [
        "It is wrong.",
        "",
        "",
        "**Symptom:** none,",
        "at all.",
        "",
        "**Cause:** this:",
        "",
        "- one",
        "- two",
    ]


def test_an_id_in_a_text_is_a_link(site: Any) -> None:
    lines = ["See `a-b` and `c-d`.", "# `a-b`", "    `a-b`", "```", "`a-b`", "```", "[`a-b`](x) `a-b`{ #a-b }"]
    assert list(site.linked(lines, {"a-b": "patches/x.md#a-b"}, "gallery")) == [
        "See [`a-b`](../patches/x.md#a-b) and `c-d`.",
        *lines[1:],
    ]


def test_decisions_are_listed_with_their_places(site: Any) -> None:
    lines = list(site.decisions(ROOT / "docs" / "decisions"))
    assert (
        "- [Rotary frequencies are picked with `torch.where`](patches.md#rotary-frequencies-are-picked-with-torchwhere)"
        in lines
    )
    headings = [
        line for path in (ROOT / "docs" / "decisions").glob("*.md") for line in path.read_text("utf-8").splitlines()
    ]
    assert sum(line.startswith("- ") for line in lines) == sum(line.startswith("## ") for line in headings)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('<a href="none.html">x</a>', "index.html leads to none.html: there is no such file"),
        ('<a href="other.html#none">x</a>', "index.html leads to other.html#none: there is no such place on that page"),
        ('<a href="#none">x</a>', "index.html leads to #none: there is no such place on that page"),
        ('<img src="none.png">', "index.html leads to none.png: there is no such file"),
        (
            '<script src="https://cdn.example/x.js"></script>',
            "index.html loads https://cdn.example/x.js from another host",
        ),
        ('<link href="//cdn.example/x.css">', "index.html loads //cdn.example/x.css from another host"),
        ('<a href="other.html#here">x</a><a href="https://example.org">x</a><a id="y" href="#y">x</a>', ""),
    ],
)
def test_links_are_followed(site: Any, tmp_path: Path, body: str, problem: str) -> None:
    import site_links

    (tmp_path / "index.html").write_text(body)
    (tmp_path / "other.html").write_text('<h2 id="here">x</h2>')
    assert list(site_links.problems(tmp_path)) == ([problem] if problem else [])


def test_a_folder_without_pages_is_no_whole_site(site: Any, tmp_path: Path) -> None:
    import site_links

    assert list(site_links.problems(tmp_path / "none")) == [f"{tmp_path / 'none'} has no pages"]


def test_the_reference_has_every_public_name() -> None:
    pages = "".join(path.read_text("utf-8") for path in (ROOT / "docs" / "api").glob("*.md"))
    described = re.findall(r"^::: exportcompat\.(?:\w+\.)?(\w+)$", pages, re.MULTILINE)
    packages = (exportcompat, exportcompat.registry, exportcompat.adapters)
    public = {name for package in packages for name in package.__all__} - {"__version__"}
    # `plan` is two functions: one that reads what is installed, and one that is given it.
    assert set(described) == public
    assert [name for name in described if described.count(name) > 1 and name != "plan"] == []


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_of_the_files_at_the_root_lead_somewhere(name: str) -> None:
    found = re.findall(r"\]\(([^)#]+)[^)]*\)", (ROOT / name).read_text("utf-8"))
    assert found
    assert [link for link in found if "://" not in link and not (ROOT / link).exists()] == []
