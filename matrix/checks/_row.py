"""The result of one case on the installed versions: without patches, and with them."""

import gc
import math
import sys
import time
from typing import Any

from exportcompat._observer import first_line
from exportcompat.matrix.cases import Case, Sample, parse_proof

_SHOWN = 3
"""Problems that a result keeps."""

HARMED = "harmed: it works without patches"


def check_case(case: Case) -> dict[str, Any]:
    """Check a case without and with patches.

    Returns:
        The fields of a result, without what says when and where: `state` (`native`, `patched`, `wrong`, `fails`, or
        `absent` where this release has no such model, or `unsupported` where it cannot make or call it), `problems`,
        and for what was exported `plain` (state, problem and seconds without patches), `sample`, `difference`,
        `calls`, `seconds`, `applied`, `used`, the `modules` of models that were loaded, the classes of its `caches`.
    """
    from ._check import quiet

    if not case.exists():
        return {"state": "absent", "problems": []}
    with quiet():
        try:
            case.decoder()
        except Exception as error:
            # This release cannot make the model itself; what it says is the reason.
            return {"state": "unsupported", "problems": [first_line(error)]}
        return _exported(case)


def ablate(case: Case, proof: str) -> dict[str, str]:
    """Check a case that works with all specs without one of them.

    Args:
        case: the case.
        proof: the id of the spec, with a sample behind a colon where it is not the usual one.

    Returns:
        The states `without` and `with`, and the `problem` without.
    """
    from ._check import check, quiet

    spec_id, colon, text = proof.partition(":")
    _, sample = parse_proof(f"{case.name}{colon}{text}")
    with quiet():
        without = check(case, sample, exclude=[spec_id], again=False)
        # The usual sample has been checked for the row.
        together = check(case, sample, again=False).state if text else "works"
    return proved(without.state, together, "".join(without.problems[:1]))


def proved(without: str, together: str = "works", problem: str = "") -> dict[str, str]:
    """Return what a row holds of a proof."""
    return {"without": without, "with": together, "problem": problem}


def broken(problem: str) -> dict[str, Any]:
    """Return the result of a case whose check itself came to no end."""
    return {"state": "fails", "problems": [problem]}


def _exported(case: Case) -> dict[str, Any]:
    from ._check import check

    begin = time.perf_counter()
    plain = check(case, Sample(), patched=False)
    # What a failed export leaves behind, torch 2.6 may take for weights of the next one when it is collected meanwhile.
    gc.collect()
    patched = check(case, Sample())
    row = {name: value for name, value in patched.to_dict().items() if name != "case"}
    return {
        **row,
        "state": state_of(plain.state, patched.state),
        "problems": problems_of(plain.state, patched.state, row["problems"])[:_SHOWN],
        # What is no number at all has no difference; JSON could not hold it either.
        "difference": row["difference"] if math.isfinite(row["difference"] or 0.0) else None,
        "plain": {"state": plain.state, "problem": "".join(plain.problems[:1]), "seconds": round(plain.seconds, 1)},
        "seconds": round(patched.seconds, 1),
        "total_seconds": round(time.perf_counter() - begin, 1),
        "modules": loaded_models(),
        "caches": caches_of(case),
    }


def caches_of(case: Case) -> list[str]:
    """Return the classes of a case's caches; some cases take their cache apart, which needs the patches."""
    from exportcompat import apply_patches

    with apply_patches(exclude=case.exclude):
        return sorted(cache_classes(case.decoder().cache(1, 1)))


def cache_classes(cache: Any) -> set[str]:
    """Return the classes of a cache and of the caches that it is made of, as `module:name`; none for plain tuples."""
    cls = type(cache)
    if not cls.__module__.startswith("transformers."):
        return set()
    parts = (value for value in vars(cache).values() if type(value).__name__.endswith("Cache"))
    return {f"{cls.__module__}:{cls.__qualname__}"}.union(*map(cache_classes, parts))


def state_of(plain: str, patched: str) -> str:
    """Return the state of a case from those of its two exports; harm is worse than no help."""
    if patched != "works":
        return patched
    return "native" if plain == "works" else "patched"


def problems_of(plain: str, patched: str, problems: list[str]) -> list[str]:
    """Return the problems of a case, before them that the patches have made them: nothing is worse for a user."""
    return [HARMED, *problems] if plain == "works" and patched != "works" else problems


def loaded_models() -> list[str]:
    """Return the names of the modules of models that are loaded, sorted."""
    return sorted(name for name in sys.modules if name.startswith("transformers.models.") and ".modeling_" in name)
