"""What several subcommands take: options that choose specs, and JSON."""

import argparse
import json
from typing import Any

from exportcompat.registry import Registry

Commands = Any
"""What `add_subparsers` returns; its class is private to argparse."""


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Add `--include` and `--exclude`; both take several ids and may be repeated."""
    parser.add_argument("--include", nargs="+", action="extend", metavar="ID", help="only these specs")
    parser.add_argument("--exclude", nargs="+", action="extend", metavar="ID", default=[], help="all but these specs")


def add_registry(parser: argparse.ArgumentParser, what: str = "also the specs of this registry") -> None:
    """Add `--registry`."""
    parser.add_argument(
        "--registry",
        action="append",
        metavar="PACKAGE",
        default=[],
        help=f"{what}: an entry point of exportcompat.specs, a module, or module:attribute; may be repeated",
    )


def registry_of(arguments: argparse.Namespace, base: Registry, *, alone: bool = False) -> Registry:
    """Return `base` with what `--registry` names, or what it names alone.

    What writes to the same places as `base` can be looked at, and not be applied together with it.

    Raises:
        RegistryError: there is no such registry, or it is broken.
    """
    if not arguments.registry:
        return base
    # Looking for entry points would make every other call slower.
    from exportcompat._plugins import only_registries, with_registries

    return (only_registries if alone else with_registries)(base, arguments.registry)


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add `--json`."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def to_json(data: object) -> str:
    """Return JSON as the commands print it."""
    return json.dumps(data, indent=2)
