"""Run the proofs of every spec that applies here, leave-one-out, and note the sources that were proved."""

import json
import sys
from collections.abc import Collection, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from exportcompat import plan
from exportcompat.matrix._files import write_lock
from exportcompat.matrix.cases import parse_proof
from exportcompat.matrix.checks import Outcome, check, quiet
from exportcompat.registry import PatchingSpec, fingerprint, installed_version, source_hash

Lock = dict[str, dict[str, Any]]


def prove(lock: Path | None, ids: Collection[str] = (), cases: Collection[str] = ()) -> int:
    """Print a line per proof; with a lock file, add this environment's fingerprints where every proof holds.

    Args:
        lock: the file; None for none.
        ids: the specs to prove; all that apply if there is none.
        cases: what proves them, in place of their own proofs: a model with a copy of what is replaced, say.

    Returns:
        0 if each proof fails without its spec and works with it.

    Raises:
        ExportCompatError: there is no such case.
    """
    specs = [item.spec for item in plan() if item.applies and (not ids or item.spec.id in ids)]
    broken = 0
    for spec in specs:
        held = [_holds(spec, proof) for proof in cases or spec.proofs]
        broken += not all(held)
        if lock is not None and all(held) and held:
            _record(lock, spec)
    return 1 if broken else 0


def _holds(spec: PatchingSpec, proof: str) -> bool:
    case, sample = parse_proof(proof)
    if not case.exists():
        return True
    with quiet():
        without = check(case, sample, exclude=[spec.id], again=False)
        together = _with_all(proof)
    # A spec without proofs changes no result, so it is enough that a case works with it.
    holds = together.state == "works" and (without.state != "works" or not spec.proofs)
    detail = "" if holds else f"  {without.problems[:1]} / {together.problems[:2]}"
    print(f"{spec.id:26} {proof:20} without: {without.state:6} with: {together.state}{detail}", flush=True)
    return holds


@lru_cache(maxsize=None)
def _with_all(proof: str) -> Outcome:
    case, sample = parse_proof(proof)
    return check(case, sample, again=False)


def _record(lock: Path, spec: PatchingSpec) -> None:
    """Add what the targets of `spec` are here; the file is replaced as a whole or not at all."""
    known: Lock = json.loads(lock.read_text("utf-8")) if lock.exists() else {}
    texts = known.setdefault("texts", {})
    for target, found, release, key in _sources(spec):
        if key:
            texts[key] = found
        releases = known.setdefault(target, {}).setdefault(found, [])
        if release not in releases:
            releases.append(release)
            releases.sort(key=lambda text: [int(part) for part in text.split(".")])
    write_lock(lock, known)


def _sources(spec: PatchingSpec) -> Iterator[tuple[str, str, str, str]]:
    """Yield target, fingerprint, release and text key of each loaded target."""
    for target in spec.places:
        version: Any = installed_version(target.package)
        if target.module in sys.modules and (source := target.source()) is not None:
            yield target.text, fingerprint(source), version.base_version, source_hash(source)
