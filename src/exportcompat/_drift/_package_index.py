"""A package index, as pip and uv read it (PEP 503 and 691): which files of a package it has, and one of them."""

import hashlib
import io
import json
import os
import re
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import unquote, urljoin, urlsplit
from urllib.request import Request, urlopen

from packaging.utils import canonicalize_name

from exportcompat.registry import ExportCompatError

_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.01"
_DEFAULT = "https://pypi.org/simple"
_VARIABLES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
_SCHEMES = ("https", "http", "file")
_LIMIT = 64 * 1024 * 1024
_TIMEOUT = 30.0
_PARTIAL = 206


@dataclass(frozen=True)
class File:
    """A file that an index has.

    Attributes:
        name: its name.
        url: where it is.
        sha256: its digest; empty where the index does not say.
        is_yanked: it should not be used any more.
        uploaded: when it was uploaded, as ISO 8601 has it; empty where the index does not say (PEP 700).
        requires_python: the versions of Python that it is for, as specifiers; empty for all.
    """

    name: str
    url: str
    sha256: str = ""
    is_yanked: bool = False
    uploaded: str = ""
    requires_python: str = ""


def offered(index: str, package: str) -> list[File]:
    """Return the files of a package that an index has.

    Args:
        index: the URL of a simple index.
        package: the package.

    Raises:
        ExportCompatError: the index cannot be read, or is none.
    """
    return _files(f"{index.rstrip('/')}/{canonicalize_name(package)}/")


def fetched_file(file: File, folder: Path) -> Path:
    """Return a file in a folder, which is fetched if it is not there yet, and checked against its digest.

    Raises:
        ExportCompatError: it cannot be fetched or written, or is not what the index says.
    """
    path = folder / Path(file.name).name
    if not path.is_file() or not _is_right(path.read_bytes(), file):
        _, body = _fetched(file.url)
        if not _is_right(body, file):
            raise ExportCompatError(f"{file.name} has not the digest that the index gives for it; fetch it again")
        _put(path, body)
    return path


def size_of(file: File) -> int:
    """Return the size of a file in bytes; 0 if it is not said.

    Raises:
        ExportCompatError: it cannot be reached.
    """
    with _answer(file.url, method="HEAD") as answer:
        return int(answer.headers.get("Content-Length") or 0)


def ranges_of(file: File) -> "RemoteFile":
    """Return a file of which only what is read is fetched."""
    return RemoteFile(file.url, size_of(file))


class RemoteFile(io.RawIOBase):
    """A file behind a URL whose server gives out ranges of bytes.

    Args:
        url: where it is.
        size: its size in bytes.
    """

    def __init__(self, url: str, size: int) -> None:
        self._url = url
        self._size = size
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._place = offset + (0, self._place, self._size)[whence]
        return self._place

    def tell(self) -> int:
        return self._place

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer from the current place.

        Raises:
            ExportCompatError: the server cannot be reached, or does not give out ranges.
        """
        end = min(self._place + len(buffer), self._size)
        if end <= self._place:
            return 0
        with _answer(self._url, Range=f"bytes={self._place}-{end - 1}") as answer:
            if answer.status != _PARTIAL:
                raise _unreachable(self._url, "the server does not give out parts of files; fetch it and give its path")
            body = answer.read(len(buffer))
        buffer[: len(body)] = body
        self._place += len(body)
        return len(body)


@contextmanager
def _answer(url: str, method: str = "GET", **headers: str) -> Iterator[Any]:
    try:
        request = _request(url)
        request.method = method
        for name, value in headers.items():
            request.add_header(name, value)
        # The scheme was checked when the request was made.
        with urlopen(request, timeout=_TIMEOUT) as answer:  # noqa: S310
            yield answer
    except HTTPError as error:
        raise _unreachable(url, f"{error.code} {error.reason}") from error
    except (OSError, HTTPException, ValueError) as error:
        raise _unreachable(url, str(error)) from error


def _is_right(body: bytes, file: File) -> bool:
    return not file.sha256 or hashlib.sha256(body).hexdigest() == file.sha256


def _put(path: Path, body: bytes) -> None:
    """Write a file as a whole: another process may want the same."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(body)
        part.replace(path)
    except OSError as error:
        raise ExportCompatError(f"{path} cannot be written ({error}); give another folder with --cache") from error


def _files(url: str) -> list[File]:
    """Return the files of a page of an index, in its JSON form or in HTML."""
    kind, body = _fetched(url)
    if kind.endswith("json"):
        return _json_files(url, body)
    if kind.endswith("html"):
        page = _Page(url)
        page.feed(body.decode("utf-8", "replace"))
        return page.files
    raise _bad_answer(url, f"a page of type {kind!r}")


def _json_files(url: str, body: bytes) -> list[File]:
    try:
        content = json.loads(body)
        # An index may add to its form within a major version.
        if str(content["meta"]["api-version"]).partition(".")[0] != "1":
            raise _bad_answer(url, f"version {content['meta']['api-version']} of the form")
        return [_file_of(url, item) for item in content["files"]]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise _bad_answer(url, f"JSON of another form ({error!r})") from error


def _file_of(url: str, item: Any) -> File:
    digest = str((item.get("hashes") or {}).get("sha256", ""))
    return File(
        name=str(item["filename"]),
        url=urljoin(url, str(item["url"])),
        sha256=digest,
        is_yanked=bool(item.get("yanked", False)),
        uploaded=str(item.get("upload-time") or ""),
        requires_python=str(item.get("requires-python") or ""),
    )


class _Page(HTMLParser):
    """Collects the files of a page of links.

    Args:
        url: where the page is.
    """

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self.files: list[File] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "a" and found.get("href"):
            parts = urlsplit(found["href"] or "")
            name, digest = unquote(parts.path.rpartition("/")[2]), re.fullmatch("sha256=([0-9a-f]+)", parts.fragment)
            url = urljoin(self._url, parts._replace(fragment="").geturl())
            self.files.append(File(name, url, digest[1] if digest else "", "data-yanked" in found))


def _fetched(url: str) -> tuple[str, bytes]:
    """Return the type and the body of what is behind a URL."""
    with _answer(url) as answer:
        kind, body = answer.headers.get_content_type(), _body(answer)
    if len(body) > _LIMIT:
        raise _bad_answer(url, f"more than {_LIMIT // 1024**2} MB")
    return kind, body


def _body(answer: Any) -> bytes:
    """Read an answer up to the limit; what ends early is an error, which `read` with a limit does not make of it."""
    body: bytes = answer.read(_LIMIT + 1)
    wanted = int(answer.headers.get("Content-Length", 0))
    if len(body) < min(wanted, _LIMIT):
        raise OSError(f"it ended after {len(body)} of {wanted} bytes")
    return body


def _request(url: str) -> Request:
    """Return a request with the credentials of the URL, which urllib does not take from there."""
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES:
        raise _unreachable(url, f"its scheme is none of {', '.join(_SCHEMES)}")
    if parts.scheme == "file" and url.endswith("/"):
        # A web server would add the name.
        url = f"{url}index.html"
    request = Request(without_user(url), headers={"Accept": _ACCEPT})  # noqa: S310 (checked above)
    if parts.username:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        # A redirect may lead to another host, which must not learn them.
        request.add_unredirected_header("Authorization", f"Basic {b64encode(user.encode()).decode()}")
    return request


def without_user(url: str) -> str:
    """Return a URL without credentials, also for messages, which may end up in public logs."""
    return re.sub("//[^/]*@", "//", url, count=1)


def _unreachable(url: str, reason: str) -> ExportCompatError:
    return ExportCompatError(
        f"{without_user(url)} cannot be read ({reason}); check the network, or give another index with --index"
    )


def _bad_answer(url: str, what: str) -> ExportCompatError:
    return ExportCompatError(
        f"{without_user(url)} answered with {what}, not with a page of a simple index (PEP 503 or 691); "
        "give such an index with --index"
    )


def configured_index() -> str:
    """Return the index that uv or pip is configured with, or PyPI."""
    for name in _VARIABLES:
        if os.environ.get(name):
            return _without_name(os.environ[name])
    return _pip_index() or _DEFAULT


def _without_name(text: str) -> str:
    """Return the URL of `NAME=URL`, which uv takes too, or of a URL alone."""
    name, _, url = text.partition("=")
    return url if url and "/" not in name else text


def _pip_index() -> str:
    """Return what pip's configuration says; nothing if that is nothing, or there is no pip."""
    command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""
