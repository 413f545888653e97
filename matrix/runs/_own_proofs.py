"""What proves each spec that applies on the installed versions."""

from packaging.version import Version

from exportcompat import plan
from exportcompat.matrix.cases import parse_proof
from exportcompat.matrix.versions import releases
from exportcompat.registry import PatchingSpec, installed_version


def is_older() -> bool:
    """Say whether the installed transformers is older than the newest that is supported."""
    found = installed_version("transformers")
    return found is not None and found < Version(releases("transformers")[-1])


def own_proofs() -> list[tuple[PatchingSpec, str]]:
    """Return each spec that applies here with its first proof; on an older release fewer.

    There those are left out that apply to the newest as well, and of the specs that a module has for copies of one
    defect the first one is taken: the matrix proves all. Those that take too long, as the record of their case says,
    are left out everywhere. No release is older if it is the newest itself, or newer. A model may be younger than the
    oldest release of a range; the first proof is that of a model which exists.
    """
    versions = {"torch": str(installed_version("torch")), "transformers": releases("transformers")[-1]}
    others = [item.spec for item in plan(versions) if item.applies] if is_older() else []
    specs = [item.spec for item in plan() if item.applies and item.spec not in others]
    found = [(spec, [proof for proof in spec.proofs if parse_proof(proof)[0].exists()]) for spec in specs]
    first = [(spec, proofs[0]) for spec, proofs in found if proofs]
    quick = [(spec, proof) for spec, proof in first if spec.id not in parse_proof(proof)[0].slow_without]
    modules = {str(spec.replacement).partition(":")[0]: (spec, proof) for spec, proof in reversed(quick)}
    return [item for item in quick if not is_older() or item in modules.values()]
