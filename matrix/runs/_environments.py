"""Virtual environments with given versions, made with uv."""

import hashlib
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from exportcompat.matrix.versions import PYTHON
from exportcompat.registry import ExportCompatError


class InstallError(ExportCompatError):
    """An environment cannot be made."""


class Environments:
    """Environments in one folder; each is made when it is asked for, and kept until it is dropped.

    Args:
        folder: where they are.
        wheel: the wheel of exportcompat that is installed in each; None where none will be asked for.
    """

    def __init__(self, folder: Path, wheel: Path | None) -> None:
        self._folder = folder
        self._wheel = wheel

    def python(self, found: Mapping[str, str]) -> str:
        """Return the interpreter of the environment with the given versions, by package.

        Raises:
            ExportCompatError: there is no wheel, or no uv.
            InstallError: the versions cannot be installed.
        """
        place = self._folder / "_".join(f"{name}-{found[name]}" for name in sorted(found))
        return self._made(place, [f"{name}=={text}" for name, text in found.items()])

    def newest(self) -> str:
        """Return the interpreter of a new environment with the newest torch and transformers, pre-releases included.

        Raises:
            ExportCompatError: there is no wheel, or no uv.
            InstallError: they cannot be installed together.
        """
        place = self._folder / "newest"
        shutil.rmtree(place, ignore_errors=True)
        return self._made(place, ["torch", "transformers", "--prerelease", "allow", "--upgrade"])

    def _made(self, place: Path, wanted: list[str]) -> str:
        if self._wheel is None:
            raise ExportCompatError("an environment has to be made, and there is no wheel to install; give --wheel")
        python, marker = place / "bin" / "python", place / "wheel"
        wheel = hashlib.sha256(self._wheel.read_bytes()).hexdigest()
        if not marker.exists():
            shutil.rmtree(place, ignore_errors=True)
            _uv("venv", "--python", PYTHON, str(place))
            _uv("pip", "install", "--python", str(python), *wanted, f"{self._wheel}[all]")
        elif marker.read_text("utf-8") != wheel:
            _uv("pip", "install", "--python", str(python), "--no-deps", "--reinstall", str(self._wheel))
        marker.write_text(wheel, "utf-8")
        return str(python)

    def drop(self, package: str, version: str) -> None:
        """Remove the environments that have a version of a package."""
        for place in self._folder.glob(f"*{package}-{version}*"):
            if f"{package}-{version}" in place.name.split("_"):
                shutil.rmtree(place, ignore_errors=True)


def _uv(*arguments: str) -> None:
    program = shutil.which("uv")
    if program is None:
        raise ExportCompatError("environments are made with uv, which is not installed; run: pip install uv")
    done = subprocess.run([program, *arguments, "--quiet"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise InstallError(f"uv {' '.join(arguments)} failed: {done.stderr.strip()[-500:]}")
