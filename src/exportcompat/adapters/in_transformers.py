"""Importing this module makes transformers' own exporters export inside `apply_patches()`; see `to_transformers`."""

from ._transformers_exporters import to_transformers

to_transformers()
