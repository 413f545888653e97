"""New releases in the table: which are added, how the table stays as it is, and what an index may answer."""

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from exportcompat._drift import _package_index
from exportcompat.matrix.versions._releases import add_releases
from exportcompat.registry import ExportCompatError

JSON = "application/vnd.pypi.simple.v1+json"
TABLE = """\
# What is supported.

[cells]
torch = "2.13.0"  # not a list

[[exclusions]]
cases = ["mamba2"]

[torch]
releases = [
    # The first one that works.
    "2.6.0",
    "2.14.0", "2.14.1",  # two
]

[transformers]
releases = [
    "5.21.0", "5.21.1",
    "5.23.0",
    # The end.
]
"""


@dataclass
class Index:
    """A web server; `pages` are by path: status, headers and body, or a function that makes them."""

    url: str
    pages: dict[str, Any] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def put(self, package: str, *versions: str, yanked: tuple[str, ...] = ()) -> None:
        files = [file for version in versions for file in files_of(package, version)]
        files += [{**file, "yanked": "broken"} for version in yanked for file in files_of(package, version)]
        body = json.dumps({"meta": {"api-version": "1.4"}, "name": package, "files": files})
        self.pages[f"/simple/{package}/"] = (200, {"Content-Type": JSON}, body)


def files_of(package: str, version: str) -> list[dict[str, Any]]:
    names = [f"{package}-{version}-py3-none-any.whl", f"{package}-{version}.tar.gz"]
    return [{"filename": name, "url": f"../{name}", "hashes": {}, "yanked": False} for name in names]


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.asked.append((self.path, dict(self.headers)))
            page = found.pages.get(self.path, (404, {}, ""))
            status, headers, body = page() if callable(page) else page
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the name of the base class)
            pass

    monkeypatch.setenv("no_proxy", "127.0.0.1")
    # A client that has gone is part of some tests, and no news.
    monkeypatch.setattr(ThreadingHTTPServer, "handle_error", lambda *_: None)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        found = Index(f"http://127.0.0.1:{server.server_port}/simple")
        found.put("torch", "2.6.0", "2.14.0", "2.14.1")
        found.put("transformers", "5.21.0", "5.21.1", "5.23.0")
        yield found
        server.shutdown()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "axes.toml"
    path.write_text(TABLE)
    return path


def test_nothing_new_leaves_the_file_alone(table: Path, index: Index) -> None:
    before = table.stat()
    assert list(add_releases(table, index.url)) == ["nothing new"]
    assert (table.stat().st_mtime_ns, table.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    assert [path for path, _ in index.asked] == ["/simple/torch/", "/simple/transformers/"]
    assert index.asked[0][1]["Accept"].startswith(JSON)


def test_new_releases_stand_in_the_line_of_their_minor_and_all_else_stays(table: Path, index: Index) -> None:
    index.put("torch", "2.6.0", "2.14.0", "2.14.1", "2.14.10", "2.14.2", "2.15.0")
    index.put("transformers", "5.21.0", "5.21.1", "5.23.0", "5.24.1", "5.24.0", "5.30.0")
    assert list(add_releases(table, f"{index.url}/")) == [
        "torch 2.14.2: added",
        "torch 2.14.10: added",
        "torch 2.15.0: added",
        "transformers 5.24.0: added",
        "transformers 5.24.1: added",
        "transformers 5.30.0: added",
    ]
    wanted = TABLE.replace('"2.14.1",  # two\n', '"2.14.1", "2.14.2", "2.14.10",  # two\n    "2.15.0",\n').replace(
        '    "5.23.0",\n', '    "5.23.0",\n    "5.24.0", "5.24.1",\n    "5.30.0",\n'
    )
    assert table.read_text() == wanted
    assert list(table.parent.iterdir()) == [table]
    assert list(add_releases(table, index.url)) == ["nothing new"]


def test_only_final_releases_that_are_not_yanked(table: Path, index: Index) -> None:
    index.put("torch", "2.6.0", "2.14.0", "2.14.1", "2.15.0rc1", "2.15.0.dev20260101", "3.0a0")
    index.put("transformers", "5.21.0", "5.21.1", "5.23.0", yanked=("5.24.0",))
    assert list(add_releases(table, index.url)) == ["nothing new"]


def test_one_file_that_is_not_yanked_is_enough(table: Path, index: Index) -> None:
    index.put("torch", "2.6.0", "2.14.0", "2.14.1", "2.15.0")
    status, headers, body = index.pages["/simple/torch/"]
    content = json.loads(body)
    content["files"][-1]["yanked"] = True
    index.pages["/simple/torch/"] = (status, headers, json.dumps(content))
    assert list(add_releases(table, index.url)) == ["torch 2.15.0: added"]


def test_builds_of_a_release_are_one_and_other_files_none(table: Path, index: Index) -> None:
    index.put("torch", "2.6.0", "2.14.0", "2.14.1", "2.15.0+cpu", "2.15.0+cu130")
    index.put("transformers", "5.21.0", "5.21.1", "5.23.0")
    status, headers, body = index.pages["/simple/transformers/"]
    content = json.loads(body)
    names = [
        "transformers_cli-9.0.0-py3-none-any.whl",
        "transformers-cli-9.0.0.tar.gz",
        "transformers-9.0.0.egg",
        "9.txt",
    ]
    content["files"] += [{"filename": name, "url": name} for name in names]
    index.pages["/simple/transformers/"] = (status, headers, json.dumps(content))
    assert list(add_releases(table, index.url)) == ["torch 2.15.0: added"]


def test_gaps_are_counted_and_what_is_gone_is_said(table: Path, index: Index) -> None:
    index.put("torch", "2.5.0", "2.6.0", "2.7.0", "2.7.1", "2.14.1", yanked=("2.8.0",))
    index.put("transformers", "5.21.0", "5.23.0", "5.23.1", yanked=("5.21.1",))
    assert list(add_releases(table, index.url)) == [
        "torch 2.14.0: the index does not have it; it stays in the table",
        "torch: 2 left out: not newer than 2.14.1",
        "transformers 5.23.1: added",
        "transformers 5.21.1: the index has yanked it; it stays in the table",
    ]
    assert table.read_text() == TABLE.replace('"5.23.0",', '"5.23.0", "5.23.1",')


def html(package: str, *versions: str, yanked: tuple[str, ...] = ()) -> str:
    names = [(file["filename"], "") for version in versions for file in files_of(package, version)]
    names += [(file["filename"], ' data-yanked=""') for version in yanked for file in files_of(package, version)]
    return "<!DOCTYPE html><body><a href=''></a><a name='x'>" + "".join(
        f'<a href="../../files/{name.replace("+", "%2B")}#sha256=00"{mark}>a file</a><br>' for name, mark in names
    )


@pytest.mark.parametrize("kind", ["text/html; charset=UTF-8", "application/vnd.pypi.simple.v1+html"])
def test_an_index_may_answer_with_html(table: Path, index: Index, kind: str) -> None:
    pages = {
        "torch": html("torch", "2.6.0", "2.14.0", "2.14.1", "2.15.0+cpu", yanked=("2.16.0",)),
        "transformers": html("transformers", "5.21.0", "5.21.1", "5.23.0"),
    }
    for package, page in pages.items():
        index.pages[f"/simple/{package}/"] = (200, {"Content-Type": kind}, page)
    assert list(add_releases(table, index.url)) == ["torch 2.15.0: added"]


def test_an_index_may_be_a_folder(table: Path, tmp_path: Path) -> None:
    for package, versions in {"torch": ["2.6.0", "2.14.0", "2.14.1", "2.14.2"], "transformers": ["5.21.0"]}.items():
        folder = tmp_path / "simple" / package
        folder.mkdir(parents=True)
        (folder / "index.html").write_text(html(package, *versions))
    assert "torch 2.14.2: added" in list(add_releases(table, (tmp_path / "simple").as_uri()))


@pytest.mark.parametrize(
    ("body", "status", "headers", "message"),
    [
        ("", 404, {}, r"/simple/torch/ cannot be read \(404 Not Found\); check the network, or give another index"),
        ("{", 200, {}, r"/simple/torch/ answered with JSON of another form .*; give such an index with --index"),
        ("[]", 200, {}, "answered with JSON of another form"),
        ('{"meta": {"api-version": "1.0"}, "files": [7]}', 200, {}, "answered with JSON of another form"),
        ('{"meta": {"api-version": "2.0"}, "files": []}', 200, {}, "answered with version 2.0 of the form"),
        ('{"meta": {"api-version": "1.0"}, "files": []}', 200, {}, "has no final release of torch; give another index"),
        ("<p>Please sign in", 200, {"Content-Type": "text/html"}, "has no final release of torch; give another index"),
        ("x", 200, {"Content-Type": "image/png"}, "answered with a page of type 'image/png'"),
        ("x", 200, {"Content-Length": "10"}, r"cannot be read \(it ended after 1 of 10 bytes\); check the network"),
    ],
)
def test_a_bad_answer_is_named_and_nothing_is_written(
    table: Path, index: Index, body: str, status: int, headers: dict[str, str], message: str
) -> None:
    index.pages["/simple/torch/"] = (status, {"Content-Type": JSON, **headers}, body)
    index.put("transformers", "5.30.0")
    with pytest.raises(ExportCompatError, match=message):
        list(add_releases(table, index.url))
    assert table.read_text() == TABLE


def test_an_answer_that_is_too_large_is_not_read_to_its_end(
    table: Path, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_package_index, "_LIMIT", 1024**2)
    index.pages["/simple/torch/"] = (200, {"Content-Type": JSON}, " " * (1024**2 + 1))
    with pytest.raises(ExportCompatError, match="torch/ answered with more than 1 MB"):
        list(add_releases(table, index.url))


def test_an_index_that_does_not_answer_is_named(table: Path, index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    def wait() -> tuple[int, dict[str, str], str]:
        time.sleep(0.5)
        return 404, {}, ""

    monkeypatch.setattr(_package_index, "_TIMEOUT", 0.1)
    index.pages["/simple/torch/"] = wait
    with pytest.raises(ExportCompatError, match=r"torch/ cannot be read \(.*timed out\)"):
        list(add_releases(table, index.url))


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://127.0.0.1:9/simple", r"http://127.0.0.1:9/simple/torch/ cannot be read \(.*refused"),
        ("ftp://example.org", "cannot be read .its scheme is none of https, http, file"),
        ("pypi.org/simple", "cannot be read .its scheme is none of https, http, file"),
        ("http://[bad/simple", "cannot be read .Invalid IPv6 URL"),
        ("file:///no/such/folder", "file:///no/such/folder/torch/ cannot be read"),
    ],
)
def test_an_index_that_is_none_is_named(table: Path, url: str, message: str) -> None:
    with pytest.raises(ExportCompatError, match=message):
        list(add_releases(table, url))


def test_credentials_are_sent_to_the_index_alone_and_never_shown(table: Path, index: Index) -> None:
    index.pages["/simple/torch/"] = (302, {"Location": "/elsewhere"}, "")
    with pytest.raises(ExportCompatError, match="cannot be read") as caught:
        list(add_releases(table, index.url.replace("//", "//me:top%20secret@")))
    assert "secret" not in str(caught.value) and "me:" not in str(caught.value)
    assert [headers.get("Authorization") for _, headers in index.asked] == ["Basic bWU6dG9wIHNlY3JldA==", None]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('    "2.6.0",\n', ""),
        ('"2.14.1",  # two', '"2.14.1"'),
        ('"2.14.1",  # two', '"2.14.1" # "9.9", two'),
        ("two\n]", 'two\n]\nbest = "2.1"'),
    ],
)
def test_other_tables_are_edited_too(table: Path, index: Index, old: str, new: str) -> None:
    table.write_text(TABLE.replace(old, new))
    index.put("torch", "2.6.0", "2.14.0", "2.14.1", "2.15.0")
    assert "torch 2.15.0: added" in list(add_releases(table, index.url))
    assert '    "2.15.0",\n]\n' in table.read_text()


def test_the_indent_is_kept(table: Path, index: Index) -> None:
    table.write_text(TABLE.replace("    ", "\t"))
    index.put("torch", "2.6.0", "2.14.0", "2.14.1", "2.15.0")
    list(add_releases(table, index.url))
    assert '\n\t"2.15.0",\n' in table.read_text()


def test_line_ends_are_kept(table: Path, index: Index) -> None:
    table.write_bytes(TABLE.replace("\n", "\r\n").encode())
    index.put("torch", "2.6.0", "2.14.0", "2.14.1", "2.14.2", "2.15.0")
    list(add_releases(table, index.url))
    added = TABLE.replace('"2.14.1",  # two\n', '"2.14.1", "2.14.2",  # two\n    "2.15.0",\n')
    assert table.read_bytes() == added.replace("\n", "\r\n").encode()


@pytest.mark.parametrize(
    "text",
    [
        TABLE.replace(
            '[\n    # The first one that works.\n    "2.6.0",\n    "2.14.0", "2.14.1",  # two\n]', '["2.14.0"]'
        ),
        TABLE.replace('    "2.14.0", "2.14.1",  # two\n]', "    '2.14.0',\n]"),
        TABLE.replace("two\n]", 'two\n]\nothers = [\n    "2.1",\n]'),
        TABLE.replace('"2.14.1",  # two\n]', '"2.14.1" ]'),
    ],
)
def test_a_table_of_another_form_is_left_alone(table: Path, index: Index, text: str) -> None:
    assert text != TABLE
    table.write_text(text)
    index.put("torch", "2.6.0", "2.14.0", "2.14.1", "2.15.0")
    with pytest.raises(ExportCompatError, match="axes.toml has another form .*; add these .* by hand: .*torch 2.15.0$"):
        list(add_releases(table, index.url))
    assert table.read_text() == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[torch", "axes.toml is no TOML .*; mend it"),
        ("", "axes.toml has no releases to begin with; give a file like axes.toml"),
        ("[torch]\nreleases = []\n", "axes.toml has no releases to begin with"),
        ('[torch]\nreleases = ["newest"]\n', "axes.toml has a release that is no version .*newest.*; correct it"),
        (None, "the table .*axes.toml cannot be read"),
    ],
)
def test_a_table_that_is_none_is_named(table: Path, text: str | None, message: str) -> None:
    table.unlink() if text is None else table.write_text(text)
    with pytest.raises(ExportCompatError, match=message):
        list(add_releases(table, "file:///no/such/folder"))


@pytest.fixture
def pip_says(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, str], None]:
    """Return a function that sets what pip answers; until then, and in the environment, nothing is configured."""

    def say(status: int, text: str) -> None:
        found = subprocess.CompletedProcess([], status, text, "")
        monkeypatch.setattr(subprocess, "run", lambda *_, **__: found)

    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    say(1, "ERROR: No such key")
    return say


def test_the_index_is_the_configured_one(pip_says: Callable[[int, str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    found = [_package_index.configured_index()]
    pip_says(0, "https://pip.example/simple\n")
    found.append(_package_index.configured_index())
    for name in ("PIP_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX"):
        monkeypatch.setenv(name, f"https://{name.lower()}.example/simple?a=b")
        found.append(_package_index.configured_index())
    monkeypatch.setenv("UV_DEFAULT_INDEX", "company=https://named.example/simple")
    assert [*found, _package_index.configured_index()] == [
        "https://pypi.org/simple",
        "https://pip.example/simple",
        "https://pip_index_url.example/simple?a=b",
        "https://uv_index_url.example/simple?a=b",
        "https://uv_default_index.example/simple?a=b",
        "https://named.example/simple",
    ]


def test_no_index_given_means_the_configured_one(
    table: Path, index: Index, pip_says: Callable[[int, str], None]
) -> None:
    pip_says(0, f"{index.url}\n")
    assert list(add_releases(table, None)) == ["nothing new"]
