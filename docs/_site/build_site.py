"""Put the pages of the site together: `python docs/_site/build_site.py FOLDER [RESULTS]`.

The folder gets `pages/` and `mkdocs.yml`. The pages are those of `docs/`, and those that are made of the modules of
`patches/`, of the commands' help, of the results and of the files at the root. In each of them an id of a spec becomes
a link to its patch. All of it is Markdown before MkDocs sees it, so that another generator could take its place.
exportcompat has to be installed with its tools.
"""

import os
import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from site_patches import Area, index_page, page, read_areas

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent
ROOT = DOCS.parent

AT_ROOT = {"CHANGELOG": "changelog.md", "CONTRIBUTING": "contributing.md", "README": "index.md"}
"""Files at the root of the repository, and the pages that they are on the site."""

WINGS = ("registry", "patches", "exporter", "matrix", "project")
"""The pages of decisions, in order."""

COMMANDS = ("", "plan", "list", "show", "export", "verify", "drift", "matrix")
ENTRIES = "<!-- entries -->"
PATCHES = "  - Patches: []\n"
_ID = re.compile(r"(?<![\[`])`([a-z0-9]+(?:-[a-z0-9]+)+)`(?![`\]{])")
_FENCE = re.compile(r"\s*(```|~~~)")
_LINK = re.compile(rf"\]\((?:\.\./)*({'|'.join(AT_ROOT)})\.md(#[\w-]+)?\)")


def main(arguments: Sequence[str]) -> None:
    """Write the folder anew, with the results of `matrix/results` or of another folder."""
    folder, results = (Path(text) for text in (*arguments, str(ROOT / "matrix" / "results"))[:2])
    areas = read_areas(ROOT / "patches")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(DOCS, folder / "pages", ignore=shutil.ignore_patterns("_site", "__pycache__"))
    for path, text in made_pages(areas).items():
        target = folder / "pages" / path
        target.parent.mkdir(exist_ok=True)
        target.write_text(text, "utf-8")
    write_results(folder / "pages", results)
    link_pages(folder / "pages", areas)
    settings = (HERE / "mkdocs.yml").read_text("utf-8")
    (folder / "mkdocs.yml").write_text(settings.replace(PATCHES, navigation(areas)), "utf-8")


def made_pages(areas: Sequence[Area]) -> dict[str, str]:
    """Return the pages that nobody writes by hand, by their paths."""
    return {
        "patches/index.md": index_page(areas),
        **{f"patches/{area.name}.md": page(area) for area in areas},
        "cli.md": cli_page(),
        "changelog.md": at_root("CHANGELOG.md"),
        "contributing.md": at_root("CONTRIBUTING.md"),
    }


def at_root(name: str) -> str:
    """Return a file of the root as a page, whose links lead to pages of `docs/`."""
    return (ROOT / name).read_text("utf-8").replace("](docs/", "](")


def cli_page() -> str:
    """Return what each command says with `--help`."""
    parts = ["# Command line", "", "Each command says with `--help` what it takes; this is that text."]
    for command in COMMANDS:
        name = f"exportcompat {command}".strip()
        parts += ["", f"## `{name}`", "", "```text", help_of(command), "```"]
    return "\n".join([*parts, ""])


def help_of(command: str) -> str:
    """Return what a command says with `--help`, in lines that fit a page."""
    words = [sys.executable, "-m", "exportcompat", *command.split(), "--help"]
    done = subprocess.run(words, check=True, capture_output=True, text=True, env={**os.environ, "COLUMNS": "88"})
    return done.stdout.strip()


def write_results(pages: Path, results: Path) -> None:
    """Write what works: tables, and a page with all that is known of each result, to which they lead."""
    for kind, name in (("html", "report.html"), ("md", "results.md")):
        words = ["exportcompat", "matrix", "report", "--format", kind, "--results", str(results)]
        command = [sys.executable, "-m", *words, "--out", str(pages / name)]
        subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    title, _, rest = (pages / "results.md").read_text("utf-8").partition("\n")
    lead = (
        "[All results on one page](report.html), to be filtered, each with its sample, its specs and what went wrong."
    )
    (pages / "results.md").write_text(f"{title}\n\n{lead}\n{rest}", "utf-8")


def navigation(areas: Iterable[Area]) -> str:
    """Return the lines of the navigation for the pages of the patches."""
    lines = [f"      - {area.title}: patches/{area.name}.md" for area in areas]
    return "\n".join(["  - Patches:", "      - patches/index.md", *lines, ""])


def link_pages(pages: Path, areas: Iterable[Area]) -> None:
    """Complete every page: links to pages that the repository has elsewhere, ids, the list of decisions."""
    targets = {
        spec.id: f"patches/{area.name}.md#{spec.id}" for area in areas for one in area.patches for spec in one.specs
    }
    for path in pages.rglob("*.md"):
        text = path.read_text("utf-8").replace(ENTRIES, "\n".join(decisions(pages / "decisions")))
        folder = path.parent.relative_to(pages).as_posix()
        text = _LINK.sub(partial(_to_root, folder), text)
        path.write_text("\n".join(linked(text.split("\n"), targets, folder)), "utf-8")


def _to_root(folder: str, found: re.Match[str]) -> str:
    return f"]({posixpath.relpath(AT_ROOT[found[1]], folder)}{found[2] or ''})"


def linked(lines: Iterable[str], targets: Mapping[str, str], folder: str) -> Iterator[str]:
    """Yield lines in which an id is a link, unless they are headings or code.

    Args:
        lines: of a page.
        targets: page and anchor by id, from the folder of all pages.
        folder: of the page, from the same folder.
    """

    def link(found: re.Match[str]) -> str:
        target = targets.get(found[1])
        return f"[{found[0]}]({posixpath.relpath(target, folder)})" if target else found[0]

    is_code = False
    for line in lines:
        is_code ^= bool(_FENCE.match(line))
        yield line if is_code or line.startswith(("#", "    ")) else _ID.sub(link, line)


def decisions(folder: Path) -> Iterator[str]:
    """Yield links to the entries of each page of decisions."""
    for wing in WINGS:
        title, *lines = (folder / f"{wing}.md").read_text("utf-8").splitlines()
        yield from ("", f"## {title.removeprefix('# Decisions: ')}", "")
        yield from (f"- [{line[3:]}]({wing}.md#{anchor(line[3:])})" for line in lines if line.startswith("## "))


def anchor(heading: str) -> str:
    """Return the anchor that Python's Markdown gives a heading: words joined by hyphens."""
    words = re.sub(r"[^\w\s-]", "", heading).strip().lower()
    return re.sub(r"[-\s]+", "-", words)


if __name__ == "__main__":
    main(sys.argv[1:])
