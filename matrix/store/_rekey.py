"""Keys set anew where the code that a result rests on is shown to be the same as it was.

A move, a new name, a comment or a docstring changes no normal form; anything else does, and what is not shown to be the
same keeps its old key, and so is run again.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from exportcompat.matrix._files import write_json
from exportcompat.matrix.cases import CASES

from ._result_key import code_of, key
from ._results import Results

Evidence = dict[str, dict[str, dict[str, str]]]
"""What each result that is current rests on, by file and case; see `code_of`."""


def write_evidence(folder: Path, path: Path) -> str:
    """Write down what every result that is current rests on, for `rekey` after a change; return a line about it."""
    found: Evidence = {}
    for file in sorted(folder.glob("transformers-*.json")):
        results = Results(file)
        names = [name for name in results.rows if name in CASES and results.is_current(CASES[name])]
        found[file.name] = {name: code_of(CASES[name], results.versions(name), results.rows[name]) for name in names}
    write_json(path, found)
    return f"{path}: what {sum(map(len, found.values()))} current results rest on"


def rekey(folder: Path, path: Path) -> Iterator[str]:
    """Give each result its key of today if it rests on the same code as when `write_evidence` was called.

    Args:
        folder: the result files.
        path: what `write_evidence` has written.

    Yields:
        A line for each file with results that rest on other code now, and what differs; then how many there are.
    """
    evidence: Evidence = json.loads(path.read_text("utf-8"))
    same, others = 0, 0
    for name, before in evidence.items():
        results = Results(folder / name)
        current = {case: _code(results, case) for case in before if case in CASES and case in results.rows}
        kept = [case for case, code in current.items() if code == before[case]]
        results.set_keys({case: key(CASES[case], results.versions(case), results.rows[case]) for case in kept})
        changed = {part for case in before.keys() - set(kept) for part in _changed(before[case], current.get(case, {}))}
        same, others = same + len(kept), others + len(before) - len(kept)
        if changed:
            yield f"{name}: {len(before) - len(kept)} of {len(before)} rest on other code: {', '.join(sorted(changed))}"
    yield f"{same} results rest on the same code and have their keys of today; {others} do not, and are old"


def _code(results: Results, case: str) -> dict[str, Any]:
    return code_of(CASES[case], results.versions(case), results.rows[case])


def _changed(before: dict[str, str], after: dict[str, Any]) -> Iterator[str]:
    for part in before.keys() | after.keys():
        if before.get(part) != after.get(part):
            yield part.partition(" ")[0]
