"""Checks of one spec on other versions, each in an environment of its own, with the results kept."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exportcompat.matrix._files import write_json
from exportcompat.matrix.cases import find_case
from exportcompat.matrix.runs import Environments, run_check
from exportcompat.matrix.store import key


@dataclass(frozen=True)
class Answer:
    """What became of a case on some versions, without a spec and with it.

    Attributes:
        without: the state with every spec but this one.
        together: the state with every spec that applies.
        problem: what was wrong without it.
    """

    without: str
    together: str
    problem: str = ""

    @property
    def is_needed(self) -> bool:
        """Say whether the case fails without the spec."""
        return self.without in ("wrong", "fails")


class Probes:
    """Asks, and remembers the answers in a file.

    Args:
        folder: where the environments and the answers are.
        wheel: what is installed there; None for the answers that are known already.
    """

    def __init__(self, folder: Path, wheel: Path | None) -> None:
        self._environments = Environments(folder, wheel)
        self._file = folder / "answers.json"
        self._known: dict[str, Any] = self._read()

    def ask(self, spec_id: str, case: str, found: Mapping[str, str]) -> Answer:
        """Check a case on the given versions, or return the answer that is known."""
        key = " ".join([spec_id, case, *(f"{name}=={found[name]}" for name in sorted(found)), _code(case, found)])
        if key not in self._known:
            python = self._environments.python(found)
            without = run_check(case, patched=True, python=python, exclude=[spec_id])
            together = without if without["state"] == "absent" else run_check(case, patched=True, python=python)
            problem = "; ".join(without["problems"][:1])
            self._known[key] = [without["state"], together["state"], problem]
            write_json(self._file, self._known)
        return Answer(*self._known[key])

    def _read(self) -> dict[str, Any]:
        try:
            known: dict[str, Any] = json.loads(self._file.read_text("utf-8"))
        except (OSError, ValueError):
            # There is none yet, or it was cut short: everything is asked again.
            return {}
        return known


def _code(case: str, versions: Mapping[str, str]) -> str:
    """Return the key that a broken result would have: an answer is as old as whatever a result may rest on."""
    return key(find_case(case.partition(":")[0]), versions, {"state": "fails"})
