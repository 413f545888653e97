"""Leave the matrix out of the wheel: who applies patches needs none of it, and its data is here.

An editable installation has it, and so has a wheel that is built with `EXPORTCOMPAT_TOOLS=1`, as every session does.
"""

import os
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

PACKAGE = "exportcompat.matrix"
KEPT = {"__init__", "__main__"}
"""What is left of the matrix in the wheel: a command that says where the others are."""


class LeanBuild(build_py):
    """Builds without the matrix."""

    @property
    def _is_whole(self) -> bool:
        return bool(self.editable_mode or os.environ.get("EXPORTCOMPAT_TOOLS"))

    def run(self) -> None:
        """Build into a clean folder: what an earlier build has left there would be shipped, and read as a spec."""
        shutil.rmtree(Path(self.build_lib, "exportcompat"), ignore_errors=True)
        super().run()

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        """Return package, name and file of each module."""
        if not self._is_whole and package.startswith(f"{PACKAGE}."):
            # A source distribution has no such folder, which would be an error.
            return []
        found: list[tuple[str, str, str]] = super().find_package_modules(package, package_dir)
        return [item for item in found if self._is_whole or package != PACKAGE or item[1] in KEPT]

    def find_data_files(self, package: str, src_dir: str) -> list[str]:
        """Return the files of a package that are no modules: those of the matrix are for what is left out."""
        found: list[str] = super().find_data_files(package, src_dir)
        return found if self._is_whole or not f"{package}.".startswith(f"{PACKAGE}.") else []


setup(cmdclass={"build_py": LeanBuild})
