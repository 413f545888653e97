"""What `drift` would have said of names that our own code goes by, and what that code had to learn.

What broke is read from a list of what the code knows of releases, each with the place where it does. The names are
those that the code goes by today, as far as the release before had them; nobody has kept what it went by at the time.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from exportcompat._drift import Finding, Interface, KnownNames, known_names, name_findings
from exportcompat._extras import parse_toml
from exportcompat.registry import ExportCompatError, Fingerprints

from ._backtest import Event

ADAPTATIONS = Path(__file__).parents[1] / "adaptations.toml"


@dataclass(frozen=True)
class Adaptation:
    """What our own code knows of a release, because it would fail without.

    Attributes:
        release: the first that is so.
        names: the words that changed; the first one stands for all in tables.
        place: the file that knows it, in a checkout.
        what: what changed, in a sentence.
    """

    release: str
    names: tuple[str, ...]
    place: str
    what: str


def adaptations(path: Path = ADAPTATIONS) -> list[Adaptation]:
    """Return what is in a file like `adaptations.toml`.

    Raises:
        ExportCompatError: it cannot be read, or an entry is not of that form.
    """
    try:
        rows = parse_toml(path.read_text("utf-8"))["adaptations"]
        return [Adaptation(**{**row, "names": tuple(row["names"])}) for row in rows]
    except (OSError, ValueError, KeyError, TypeError) as error:
        form = "release, names, place and what in each [[adaptations]]"
        raise ExportCompatError(f"{path} cannot be read ({type(error).__name__}: {error}); it needs {form}") from error


def name_events(sources: Fingerprints, releases: Sequence[str], known: Iterable[Adaptation]) -> Iterator[Event]:
    """Yield what our code had to learn of each release but the first, and what was announced besides.

    Args:
        sources: the lock file, which has the names of all releases.
        releases: they, oldest first.
        known: what our code had to learn.
    """
    known = list(known)
    for before, release in pairwise(releases):
        found = list(name_findings(known_names(sources, before), _interface(known_names(sources, release))))
        learnt = [item for item in known if item.release == release]
        for item in learnt:
            yield Event(release, item.names[0], True, tuple(each for each in found if _is_about(each, item)))
        others = [each for each in found if not any(_is_about(each, item) for item in learnt)]
        for owner in dict.fromkeys(map(_owner, others)):
            yield Event(release, owner, False, tuple(each for each in others if _owner(each) == owner))


def _interface(names: KnownNames) -> Interface:
    return Interface(names.version, {**names.common, **names.relied})


def _is_about(finding: Finding, adaptation: Adaptation) -> bool:
    return not set(re.findall(r"\w+", finding.target)).isdisjoint(adaptation.names)


def _owner(finding: Finding) -> str:
    """Return what one look at upstream answers: the class that has lost names, or the argument, whoever takes it."""
    words: list[str] = re.findall(r"\w+", finding.target)
    return words[0] if words[0][0].isupper() else words[-1]
