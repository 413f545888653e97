"""The zoo: every model type of transformers, built tiny from its configuration, exported by one call, and compared."""

from ._build import build, build_type
from ._catalogue import Entry, entries
from ._page import write_page
from ._run import run_zoo

__all__ = ["Entry", "build", "build_type", "entries", "run_zoo", "write_page"]
