"""Do the specs fit the sources of a release, which is neither installed nor run, and on what do they rest?"""

from typing import TYPE_CHECKING

from exportcompat._lazy import later

if TYPE_CHECKING:
    from ._definitions import Definition, Package
    from ._evidence import describe, newest_surveyed, proved_on
    from ._findings import MEANING, Finding, Locked, difference, findings, for_version, to_data
    from ._interface import PREPARATION, Interface, interface_of
    from ._name_changes import COMMON, NAMES, PACKAGE, KnownNames, history, known_names, name_findings, name_findings_of
    from ._package_index import File, configured_index, offered, without_user
    from ._sources import INSTALLED, sources_of
    from ._survey import Survey, Surveyor

__all__ = [
    "COMMON",
    "INSTALLED",
    "MEANING",
    "NAMES",
    "PACKAGE",
    "PREPARATION",
    "Definition",
    "File",
    "Finding",
    "Interface",
    "KnownNames",
    "Locked",
    "Package",
    "Survey",
    "Surveyor",
    "configured_index",
    "describe",
    "difference",
    "findings",
    "for_version",
    "history",
    "interface_of",
    "known_names",
    "name_findings",
    "name_findings_of",
    "newest_surveyed",
    "offered",
    "proved_on",
    "sources_of",
    "to_data",
    "without_user",
]

_OWNERS = {
    "Definition": "_definitions",
    "Package": "_definitions",
    "describe": "_evidence",
    "newest_surveyed": "_evidence",
    "proved_on": "_evidence",
    "Finding": "_findings",
    "Locked": "_findings",
    "MEANING": "_findings",
    "difference": "_findings",
    "findings": "_findings",
    "for_version": "_findings",
    "to_data": "_findings",
    "Interface": "_interface",
    "PREPARATION": "_interface",
    "interface_of": "_interface",
    "COMMON": "_name_changes",
    "NAMES": "_name_changes",
    "KnownNames": "_name_changes",
    "PACKAGE": "_name_changes",
    "history": "_name_changes",
    "known_names": "_name_changes",
    "name_findings": "_name_changes",
    "name_findings_of": "_name_changes",
    "File": "_package_index",
    "configured_index": "_package_index",
    "offered": "_package_index",
    "without_user": "_package_index",
    "INSTALLED": "_sources",
    "sources_of": "_sources",
    "Survey": "_survey",
    "Surveyor": "_survey",
}
"""What is imported when it is first asked for: a plan needs no archives and no package index."""

__getattr__ = later(__name__, _OWNERS)
