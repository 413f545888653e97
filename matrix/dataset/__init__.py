"""The results and the specs as data for others: files that `exportcompat-data` ships, with a schema of their own."""

from ._folder import write_dataset

__all__ = ["write_dataset"]
