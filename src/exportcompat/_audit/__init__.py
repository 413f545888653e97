"""What is known to break, or to be wrong, on the versions that a project pins, and which patch mends it."""

from ._findings import Audit, Finding, audit
from ._pins import Pins, installed_pins, read_pins

__all__ = [
    "Audit",
    "Finding",
    "Pins",
    "audit",
    "installed_pins",
    "read_pins",
]
