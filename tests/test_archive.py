"""Sources of packages that are not installed: read as they are, and refused where they would do harm."""

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from exportcompat import ExportCompatError
from exportcompat._drift._archive import read_sources

FILES = {
    "pack/__init__.py": "__version__ = '1.2'\n",
    "pack/inner/module.py": "x = 'é'\n",
    "other/__init__.py": "y = 1\n",
}
WHEEL = "pack-1.2-py3-none-any.whl"
SDIST = "pack-1.2.tar.gz"


def wheel(folder: Path, files: dict[str, str], name: str = WHEEL) -> Path:
    with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return folder / name


def sdist(folder: Path, members: dict[str, str], links: dict[str, str] | None = None) -> Path:
    with tarfile.open(folder / SDIST, "w:gz") as archive:
        for path, text in members.items():
            info = tarfile.TarInfo(path)
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
        for path, to in (links or {}).items():
            info = tarfile.TarInfo(path)
            info.type, info.linkname = tarfile.SYMTYPE, to
            archive.addfile(info)
    return folder / SDIST


def tree(folder: Path) -> Path:
    for name, text in FILES.items():
        path = folder / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return folder


@pytest.mark.parametrize("kind", ["wheel", "sdist", "folder", "package"])
def test_the_modules_of_a_package_are_read(tmp_path: Path, kind: str) -> None:
    paths = {
        "wheel": lambda: wheel(tmp_path, FILES),
        "sdist": lambda: sdist(tmp_path, {f"pack-1.2/src/{name}": text for name, text in FILES.items()}),
        "folder": lambda: tree(tmp_path),
        "package": lambda: tree(tmp_path) / "src" / "pack",
    }
    sources = read_sources(paths[kind](), "pack")
    assert (sources.package, sources.version) == ("pack", "1.2")
    assert dict(sources) == {"pack": "__version__ = '1.2'\n", "pack.inner.module": "x = 'é'\n"}


@pytest.mark.parametrize("name", ["../pack/a.py", "/pack/a.py", "pack/../../a.py", "pack\\a.py"])
def test_a_name_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    for archive in (wheel(tmp_path, {**FILES, name: ""}), sdist(tmp_path, {"pack-1.2/pack/__init__.py": "", name: ""})):
        with pytest.raises(ExportCompatError, match="leads out of the archive; it is not read"):
            read_sources(archive, "pack")
    assert sorted(item.name for item in tmp_path.iterdir()) == sorted([WHEEL, SDIST])


def test_links_in_an_sdist_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.py"
    secret.write_text("password = 1\n", "utf-8")
    found = sdist(tmp_path, {"pack-1.2/pack/__init__.py": ""}, {"pack-1.2/pack/link.py": str(secret)})
    assert list(read_sources(found, "pack")) == ["pack"]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / WHEEL, "w") as archive:
        archive.writestr("pack/__init__.py", "x = 1")
        archive.writestr("pack/__init__.py", "x = 2")
    with pytest.raises(ExportCompatError, match="has two files 'pack/__init__.py'"):
        read_sources(tmp_path / WHEEL, "pack")


def test_what_is_too_large_is_refused(tmp_path: Path) -> None:
    large = {"pack/__init__.py": "#" * (9 << 20)}
    with pytest.raises(ExportCompatError, match="is larger than 8 MB"):
        read_sources(wheel(tmp_path, large), "pack")["pack"]
    with pytest.raises(ExportCompatError, match="is larger than 8 MB"):
        read_sources(sdist(tmp_path, {"pack-1.2/pack/__init__.py": large["pack/__init__.py"]}), "pack")


def test_a_size_that_an_archive_lies_about_is_found_out(tmp_path: Path) -> None:
    path = wheel(tmp_path, {"pack/__init__.py": "#" * (9 << 20)})
    data = bytearray(path.read_bytes())
    place = data.rindex(b"PK\x01\x02") + 24
    data[place : place + 4] = (100).to_bytes(4, "little")
    path.write_bytes(data)
    sources = read_sources(path, "pack")
    with pytest.raises(ExportCompatError, match=f"{WHEEL}.*it is not read|{WHEEL} cannot be read"):
        sources["pack"]


def test_more_than_any_package_has_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exportcompat._drift._archive._TOTAL", 20)
    for archive in (
        wheel(tmp_path, FILES),
        sdist(tmp_path, {f"pack-1.2/{name}": text for name, text in FILES.items()}),
    ):
        with pytest.raises(ExportCompatError, match="which no package has; it is not read"):
            read_sources(archive, "pack")


@pytest.mark.parametrize("size", [0, 10, -1])
def test_what_is_cut_off_is_named(tmp_path: Path, size: int) -> None:
    for path in (wheel(tmp_path, FILES), sdist(tmp_path, {f"pack-1.2/{name}": text for name, text in FILES.items()})):
        data = path.read_bytes()
        path.write_bytes(data[: size if size >= 0 else len(data) // 2])
        with pytest.raises(ExportCompatError, match=f"{path.name} cannot be read .*; fetch it again"):
            dict(read_sources(path, "pack"))


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("pack-1.2-py3-none-any.whl", "there is no file"),
        ("other-1.2-py3-none-any.whl", "is of 'other', wanted 'pack'"),
        ("pack.whl", "no name of a wheel or an sdist"),
        ("pack", "no name of a wheel or an sdist"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, name: str, problem: str) -> None:
    with pytest.raises(ExportCompatError, match=problem):
        read_sources(tmp_path / name, "pack")


def test_a_folder_must_have_the_package_and_its_version(tmp_path: Path) -> None:
    with pytest.raises(ExportCompatError, match="has no package 'pack'"):
        read_sources(tmp_path, "pack")
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("", "utf-8")
    with pytest.raises(ExportCompatError, match="does not say its version"):
        read_sources(tmp_path, "pack")


def test_an_archive_without_the_package_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportCompatError, match="has no module of 'pack'"):
        read_sources(wheel(tmp_path, {"other/__init__.py": ""}), "pack")
