"""The file of a cell's results: what is in it, what of it is old, and how it is replaced."""

import hashlib
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from exportcompat._extras import require
from exportcompat.matrix._files import held, write_text
from exportcompat.matrix.cases import Case
from exportcompat.registry import COMPANIONS, ExportCompatError

from ._file_format import READ, SCHEMA, packed, text_of, unpacked
from ._outcomes import WORKS
from ._result_key import key

PACKAGES = ("torch", "transformers", "onnx", "onnxscript", "onnxruntime")
"""What a case cannot be run without."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Installed:
    """What is installed where a result was found.

    Attributes:
        python: the version.
        packages: `name==version` of everything but ourselves, whose sources are in the key of a result; sorted.
    """

    python: str
    packages: tuple[str, ...]

    @classmethod
    def here(cls) -> "Installed":
        """Return what this process has."""
        found = dict[str, str]()
        for item in distributions():
            # A package that stands in two folders of the path is imported from the first.
            if item.metadata["Name"]:
                found.setdefault(item.metadata["Name"].lower(), item.version)
        packages = tuple(f"{name}=={version}" for name, version in sorted(found.items()) if name != "exportcompat")
        return cls(".".join(map(str, sys.version_info[:3])), packages)

    @property
    def digest(self) -> str:
        """A short name."""
        return hashlib.sha256(" ".join([self.python, *self.packages]).encode()).hexdigest()[:8]

    @cached_property
    def versions(self) -> dict[str, str]:
        """The versions that a result depends on: a local part (`+cpu`) and the patch release of Python are none.

        Raises:
            KeyError: one of `PACKAGES` is not installed.
        """
        pairs = [item.split("==", 1) for item in self.packages]
        found = {name.replace("_", "-"): version.partition("+")[0] for name, version in pairs}
        others = [name for name in COMPANIONS if name in found and name not in PACKAGES]
        return {"python": self.python.rpartition(".")[0], **{name: found[name] for name in (*PACKAGES, *others)}}


def file_name(transformers: str, torch: str) -> str:
    """Return the name of the file of a cell."""
    return f"transformers-{transformers}_torch-{torch}.json"


def write_results(path: Path, content: dict[str, Any]) -> None:
    """Write a result file: only what is in use, in an order that does not depend on when it was found.

    Args:
        path: the file.
        content: what `unpacked` returns.
    """
    write_text(path, text_of(packed(content)))


class Results:
    """The result file of one cell; it is replaced as a whole after each case.

    Args:
        path: the file.

    Raises:
        ExportCompatError: the file exists, is whole, and is not one of ours.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[str, Row] = {}
        self._environments: dict[str, Installed] = {}
        self._strings: list[str] = []
        self._read()

    def is_current(self, case: Case, installed: Installed | None = None) -> bool:
        """Say whether there is a result, and all that it depends on is as it was.

        Args:
            case: the case.
            installed: what the result has to be for; None for that in which it was found.
        """
        row = self.rows.get(case.name)
        if row is None:
            return False
        environment = installed or self._environments[row["environment"]]
        return bool(row["key"] == key(case, environment.versions, row))

    def versions(self, name: str) -> dict[str, str]:
        """Return the versions that the result of a case was found with."""
        return self._environments[self.rows[name]["environment"]].versions

    def set_keys(self, keys: Mapping[str, str]) -> None:
        """Give results other keys, by the names of their cases, and write the file."""
        with held(self.path.parent):
            self._read()
            self.rows |= {name: {**self.rows[name], "key": text} for name, text in keys.items()}
            for name in list(keys)[:1]:
                self._write(self.versions(name))

    def missing_proofs(self, case: Case, wanted: Sequence[str]) -> list[str]:
        """Return those proofs that a case lacks; only what works with all specs can prove one."""
        row = self.rows.get(case.name, {})
        return [proof for proof in wanted if row.get("state") in WORKS and proof not in row.get("proofs", {})]

    def add_proof(self, case: Case, proof: str, found: Mapping[str, str]) -> None:
        """Add what was found of a proof to the result of a case, and write the file."""
        with held(self.path.parent):
            self._read()
            row = self.rows[case.name]
            self.rows[case.name] = {**row, "proofs": {**row.get("proofs", {}), proof: dict(found)}}
            self._write(self._environments[row["environment"]].versions)

    def add(self, case: Case, row: Mapping[str, Any], installed: Installed) -> None:
        """Add a result and write the file. What worked before and does not now, is marked with what it was."""
        made = {"key": key(case, installed.versions, row), "date": time.strftime("%Y-%m-%d")}
        new = {**row, **made, "environment": installed.digest}
        with held(self.path.parent):
            # Another process may have added results since this one read the file.
            self._read()
            self.rows[case.name] = marked(new, self.rows.get(case.name, {}))
            self._environments[installed.digest] = installed
            self._write(installed.versions)

    def _read(self) -> None:
        content = _read(self.path)
        self.rows |= content.get("cases", {})
        self._strings = content.get("strings", self._strings)
        for name, item in content.get("environments", {}).items():
            self._environments[name] = Installed(item["python"], tuple(item["packages"]))

    def _write(self, versions: Mapping[str, str]) -> None:
        content = {
            "schema": SCHEMA,
            **{name: versions[name] for name in ("transformers", "torch")},
            "environments": {name: asdict(item) for name, item in self._environments.items()},
            "strings": self._strings,
            "cases": self.rows,
        }
        write_results(self.path, content)


def marked(row: Row, old: Row) -> Row:
    """Return a result, marked if it does not work with how the one that it replaces worked, now or before."""
    was = old.get("was", old.get("state"))
    return {**row, "was": was} if row["state"] not in WORKS and was in WORKS else row


def results_here(folder: Path) -> tuple[Results, Installed]:
    """Return what a folder has of the installed versions, and what is installed."""
    here = Installed.here()
    return Results(folder / file_name(here.versions["transformers"], here.versions["torch"])), here


def proof_texts(row: Row) -> list[str]:
    """Return what is known of a case at the end of a range, for people: how it is without a spec, and the problem."""
    found = row.get("proofs", {}).items()
    return [": ".join(filter(None, (f"without {name} {item['without']}", item["problem"]))) for name, item in found]


def read_results(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Return what is in the result files of a folder, by the releases of transformers and torch.

    Raises:
        ExportCompatError: there are none, or a file does not fit `results.schema.json`.
        MissingExtraError: fastjsonschema is not installed.
    """
    found = {}
    for path in sorted(folder.glob("transformers-*.json")):
        content = check_content(path)
        found[content["transformers"], content["torch"]] = content
    if not found:
        raise ExportCompatError(f"there are no results in {folder}; run: nox -s matrix")
    return found


def check_content(path: Path) -> dict[str, Any]:
    """Return what is in one result file, checked.

    Raises:
        ExportCompatError: it cannot be read, does not fit `results.schema.json`, or does not say what was installed for
            a result.
        MissingExtraError: fastjsonschema is not installed.
    """
    validate = _validator()
    try:
        found = json.loads(path.read_text("utf-8"))
        # An older schema is checked as what it would be now.
        found = packed({**found, "schema": SCHEMA}) if found["schema"] in READ[:-1] else found
        validate(found)
        content = unpacked(found)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        # The errors of the validator are such too.
        raise ExportCompatError(f"{path} is no whole result file ({error}); run its cell again") from error
    for case, row in content["cases"].items():
        # A reference is what the schema cannot check.
        if row["environment"] not in content["environments"]:
            raise ExportCompatError(
                f"{path} does not say what was installed for {case} (environment {row['environment']}); "
                "run its cell again, with --fresh"
            )
    return content


@lru_cache(maxsize=1)
def _validator() -> Any:
    schema = json.loads((Path(__file__).parents[1] / "results.schema.json").read_text("utf-8"))
    return require("fastjsonschema", "all").compile(schema)


def _read(path: Path) -> dict[str, Any]:
    """Return what is in a file; nothing where there is none, or it is half-written or of the first schema."""
    if not path.exists():
        return {}
    try:
        content = json.loads(path.read_text("utf-8"))
    except ValueError:
        # A half-written file is no result; every case is checked again.
        return {}
    schema = content.get("schema") if isinstance(content, dict) else None
    if schema not in (1, *READ):
        raise ExportCompatError(f"{path} is no result file of schema {SCHEMA}; move it away and run again")
    # Rows of the first schema do not say which models were loaded, so none of them is current.
    return unpacked(content) if schema in READ else {}
