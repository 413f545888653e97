"""The sources of a package that is not installed: a wheel, an sdist or a folder, read and never run.

Nothing is written to the disk. What an archive holds is not trusted: names that lead out of it, sizes beyond what
Python packages have, and damage are refused with an error that names the file.
"""

import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO

from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename

from exportcompat.registry import ExportCompatError, module_of

_MEMBERS = 200_000
_FILE = 8 << 20
_TOTAL = 512 << 20
_VERSION = re.compile(r"""^__version__(?:\s*:\s*\w+)?\s*=\s*["']([^"']+)["']""", re.MULTILINE)
_DAMAGE = (OSError, EOFError, ValueError, zipfile.BadZipFile, tarfile.TarError, zlib.error, NotImplementedError)
"""What the readers of the standard library raise for archives that are damaged or made to do damage."""


class Sources(Mapping[str, str]):
    """The Python modules of one package, by dotted name; a text is read when it is first asked for.

    Args:
        package: the package.
        version: its version.
        origin: where it was found, for messages.
        readers: reads the text of each module.
    """

    def __init__(self, package: str, version: str, origin: str, readers: Mapping[str, Callable[[], bytes]]) -> None:
        self.package = package
        self.version = version
        self.origin = origin
        self._readers = readers
        self._texts: dict[str, str] = {}

    def __getitem__(self, module: str) -> str:
        if module not in self._texts:
            # What is no UTF-8 is no Python either, and is found out by whoever parses it.
            self._texts[module] = self._readers[module]().decode("utf-8", "replace")
        return self._texts[module]

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)

    def __contains__(self, module: object) -> bool:
        return module in self._readers


def read_sources(path: Path, package: str, known: str = "") -> Sources:
    """Return the sources of a package in a wheel, an sdist (`.tar.gz`) or a folder.

    Args:
        path: the archive; or a folder that is the package, or has it in itself or in `src`.
        package: the package's name.
        known: the version of what is in a folder; empty where the folder has to say it.

    Raises:
        ExportCompatError: there is nothing there, it is damaged, it is not of this package, or it is made to do harm.
    """
    if path.is_dir():
        return _folder(path, package, known)
    version = _version_in_name(path, package)
    if not path.is_file():
        raise ExportCompatError(f"there is no file {path}; give a wheel, an sdist or a folder with {package}")
    try:
        return (
            read_wheel(path, path.name, package, version) if path.suffix == ".whl" else _sdist(path, package, version)
        )
    except ExportCompatError:
        raise
    except _DAMAGE as error:
        raise _damaged(path.name, error) from error


def read_wheel(file: Path | IO[bytes], origin: str, package: str, version: str) -> Sources:
    """Return the sources in a wheel, which stays open.

    Args:
        file: the wheel.
        origin: its name, for messages.
        package: the package's name.
        version: its version.

    Raises:
        ExportCompatError: see `read_sources`.
    """
    try:
        archive = zipfile.ZipFile(file)
    except _DAMAGE as error:
        raise _damaged(origin, error) from error
    members = archive.infolist()
    _check_names(origin, [member.filename for member in members])
    _check_sizes(origin, (member.file_size for member in members if member.filename.endswith(".py")))
    found = {_module(member.filename, package): member for member in members}
    readers = {name: _reader(archive, member, origin) for name, member in found.items() if name}
    return Sources(package, version, origin, _required(readers, package, origin))


def _reader(archive: zipfile.ZipFile, member: zipfile.ZipInfo, origin: str) -> Callable[[], bytes]:
    def read() -> bytes:
        try:
            # The size that an archive claims need not be true.
            with archive.open(member) as file:
                return _limited(file.read(_FILE + 1), member.filename, origin)
        except (*_DAMAGE, RuntimeError) as error:
            raise _damaged(origin, error) from error

    return read


def _sdist(path: Path, package: str, version: str) -> Sources:
    """Read everything at once: a compressed tape has no index."""
    readers: dict[str, Callable[[], bytes]] = {}
    names, total = list[str](), 0
    with tarfile.open(path, "r|gz") as archive:
        for member in archive:
            names.append(member.name)
            total += member.size
            _check_total(path.name, len(names), total)
            name = _module(_below_root(member.name), package)
            # A link has no text of its own, and where it leads to need not be in the archive.
            if name and member.isfile() and (file := archive.extractfile(member)):
                readers[name] = _constant(_limited(file.read(_FILE + 1), member.name, path.name))
    _check_names(path.name, names)
    return Sources(package, version, path.name, _required(readers, package, path.name))


def _constant(value: bytes) -> Callable[[], bytes]:
    return lambda: value


def _folder(path: Path, package: str, known: str) -> Sources:
    parts = module_of(package).split(".")
    places = [path, path.joinpath(*parts), path.joinpath("src", *parts)]
    root = next((item for item in places if item.name == parts[-1] and (item / "__init__.py").is_file()), None)
    if root is None:
        raise ExportCompatError(
            f"{path} has no package {package!r}; give the folder that has it, or the package itself"
        )
    inside = "/".join(parts)
    found = {_module(f"{inside}/{file.relative_to(root).as_posix()}", package): file for file in root.rglob("*.py")}
    readers = {name: _file_reader(file) for name, file in found.items() if name and file.is_file()}
    version = known or _version_in_sources(root, readers, module_of(package))
    if version is None:
        raise ExportCompatError(
            f"{root} does not say its version: there is no __version__ in __init__.py or version.py, and no version.txt"
        )
    return Sources(package, version, str(path), readers)


def _version_in_sources(root: Path, readers: Mapping[str, Callable[[], bytes]], package: str) -> str | None:
    texts = [readers[name]().decode("utf-8", "replace") for name in (package, f"{package}.version") if name in readers]
    found = next((match[1] for match in map(_VERSION.search, texts) if match), None)
    # A checkout of torch has its version in a file beside the package; the module is made when it is built.
    beside = root.parent / "version.txt"
    return found or (beside.read_text("utf-8").strip() if beside.is_file() else None)


def _file_reader(file: Path) -> Callable[[], bytes]:
    def read() -> bytes:
        try:
            with file.open("rb") as stream:
                return _limited(stream.read(_FILE + 1), str(file), str(file.parent))
        except OSError as error:
            raise _damaged(str(file), error) from error

    return read


def _module(name: str, package: str) -> str:
    """Return the module that a file of an archive is; empty if it is none of the package."""
    path = PurePosixPath(name)
    root = tuple(module_of(package).split("."))
    if path.suffix != ".py" or path.parts[: len(root)] != root:
        return ""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _below_root(name: str) -> str:
    """Return a name without the folder that every sdist has, and without `src`."""
    parts = PurePosixPath(name).parts[1:]
    return "/".join(parts[1:] if parts[:1] == ("src",) else parts)


def _version_in_name(path: Path, package: str) -> str:
    try:
        name, version = (parse_wheel_filename if path.suffix == ".whl" else parse_sdist_filename)(path.name)[:2]
    except ValueError:
        raise ExportCompatError(
            f"{path} is no folder, and no name of a wheel or an sdist (such as {package}-5.23.0-py3-none-any.whl)"
        ) from None
    if name != canonicalize_name(package):
        raise ExportCompatError(f"{path.name} is of {name!r}, wanted {package!r}")
    return str(version)


def _check_names(origin: str, names: list[str]) -> None:
    seen = set[str]()
    for name in names:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
            raise ExportCompatError(f"{origin} has the file {name!r}, which leads out of the archive; it is not read")
        if name in seen and name.endswith(".py"):
            raise ExportCompatError(f"{origin} has two files {name!r}; it is not read")
        seen.add(name)


def _check_sizes(origin: str, sizes: Iterable[int]) -> None:
    total = 0
    for count, size in enumerate(sizes, start=1):
        total += size
        _check_total(origin, count, total)


def _check_total(origin: str, count: int, total: int) -> None:
    if count > _MEMBERS or total > _TOTAL:
        raise ExportCompatError(
            f"{origin} has more than {_MEMBERS} files or {_TOTAL >> 20} MB, which no package has; it is not read"
        )


def _limited(data: bytes, name: str, origin: str) -> bytes:
    if len(data) > _FILE:
        raise ExportCompatError(
            f"{origin}: {name!r} is larger than {_FILE >> 20} MB, which no module is; it is not read"
        )
    return data


def _required(
    readers: Mapping[str, Callable[[], bytes]], package: str, origin: str
) -> Mapping[str, Callable[[], bytes]]:
    if not readers:
        raise ExportCompatError(f"{origin} has no module of {package!r}; give another file")
    return readers


def _damaged(name: str, error: BaseException) -> ExportCompatError:
    return ExportCompatError(f"{name} cannot be read ({type(error).__name__}: {error}); fetch it again")
