"""The subcommands `list` and `show`: what the specs are."""

import argparse
from collections.abc import Iterable, Iterator
from typing import Any

from exportcompat.patches import AREAS, area_of, default_registry
from exportcompat.registry import Environment, PatchingSpec

from ._options import Commands, add_json, add_registry, registry_of, to_json


def add_list(commands: Commands) -> None:
    """Add the parser of `list`."""
    text = "list the specs with their version ranges"
    parser = commands.add_parser("list", help=text, description=text, allow_abbrev=False)
    parser.add_argument("--area", metavar="NAME", help=f"those of one area: {', '.join(area.name for area in AREAS)}")
    parser.add_argument(
        "--model", metavar="MODEL_TYPE", help="those that concern a model of the installed transformers"
    )
    add_registry(parser, "the specs of this registry alone")
    add_json(parser)
    parser.set_defaults(run=_list)


def _list(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield every id with the ranges of its variants.

    Raises:
        ExportCompatError: there is no such area, model or registry.
        MissingExtraError: a model is asked for, and transformers is not installed.
    """
    groups = _groups(arguments)
    offered = _offered()
    if arguments.json:
        specs = [{**entry, **more} for more, entries in groups for entry in entries]
        yield to_json({"specs": specs, "registries": [vars(item) for item in offered]})
        return
    for more, entries in groups:
        if more:
            what = f"in the code of {arguments.model}" if more["in_model"] else "in what all models share"
            yield f"{len(entries)} {'spec writes' if len(entries) == 1 else 'specs write'} {what}:"
        yield from (line for entry in entries for line in _list_lines(entry))
    others = [item for item in offered if item.name not in arguments.registry]
    if others:
        yield f"other registries, for --registry: {', '.join(map(str, others))}"


def _groups(arguments: argparse.Namespace) -> list[tuple[dict[str, bool], list[dict[str, Any]]]]:
    """Return the entries of `list` in groups, each with what JSON says of it besides."""
    registry = registry_of(arguments, default_registry(), alone=True)
    found: list[tuple[dict[str, bool], Iterable[PatchingSpec]]] = [({}, registry)]
    if arguments.model:
        own, shared = _choice().of_model(registry, arguments.model)
        found = [({"in_model": True}, own), ({"in_model": False}, shared)]
    if arguments.area:
        found = [(more, _choice().of_area(specs, arguments.area)) for more, specs in found]
    ids = [(more, dict.fromkeys(spec.id for spec in specs)) for more, specs in found]
    return [(more, [_list_data(item, registry.variants(item)) for item in items]) for more, items in ids]


def _offered() -> list[Any]:
    """Return the registries that other packages offer; none of them is imported."""
    from exportcompat._plugins import installed_registries

    return installed_registries()


def _choice() -> Any:
    # difflib would make every other command slower.
    from . import _choice

    return _choice


def _list_lines(entry: dict[str, Any]) -> Iterator[str]:
    yield f"{entry['id']} ({entry['proofs']} {'proof' if entry['proofs'] == 1 else 'proofs'})"
    yield from (f"    {', '.join(requires)}" for requires in entry["ranges"])
    yield f"    {entry['reason']}"
    if entry["origin"] not in ("", "exportcompat"):
        yield f"    from {entry['origin']}"


def _list_data(spec_id: str, variants: list[PatchingSpec]) -> dict[str, Any]:
    return {
        "id": spec_id,
        "area": area_of(variants[0]),
        "ranges": [list(spec.requires) for spec in variants],
        "reason": " / ".join(dict.fromkeys(spec.reason for spec in variants)),
        "proofs": len({proof for spec in variants for proof in spec.proofs}),
        "origin": variants[0].origin,
    }


def add_show(commands: Commands) -> None:
    """Add the parser of `show`."""
    text = "show one spec, and how its replacements differ from what is installed"
    parser = commands.add_parser("show", help=text, description=text, allow_abbrev=False)
    parser.add_argument("id", metavar="ID", help="id of the spec, as `exportcompat list` has it")
    add_registry(parser, "the specs of this registry alone")
    add_json(parser)
    parser.set_defaults(run=_show)


def _show(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield everything about one spec.

    Raises:
        UnknownSpecError: no spec has the id.
        RegistryError: a registry that is named cannot be had.
    """
    # difflib and inspect would make every other command slower.
    from ._show import show, show_data

    registry = registry_of(arguments, default_registry(), alone=True)
    if arguments.json:
        yield to_json(show_data(arguments.id, registry, Environment()))
    else:
        yield from show(arguments.id, registry, Environment())
