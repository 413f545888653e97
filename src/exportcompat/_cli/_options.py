"""What several subcommands take: options that choose specs, and JSON."""

import argparse
import json
from typing import Any

Commands = Any
"""What `add_subparsers` returns; its class is private to argparse."""


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Add `--include` and `--exclude`; both take several ids and may be repeated."""
    parser.add_argument("--include", nargs="+", action="extend", metavar="ID", help="only these specs")
    parser.add_argument("--exclude", nargs="+", action="extend", metavar="ID", default=[], help="all but these specs")


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add `--json`."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def to_json(data: object) -> str:
    """Return JSON as the commands print it."""
    return json.dumps(data, indent=2)
