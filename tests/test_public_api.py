"""What `docs/stability.md` promises, line by line in `public_api.txt`.

A difference is a broken promise, or a new one. Where it is meant, and announced as that page says, write the file anew
with `python tests/test_public_api.py`.
"""

import argparse
import contextlib
import importlib
import inspect
import io
import json
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

import pytest

SNAPSHOT = Path(__file__).with_name("public_api.txt")
PACKAGES = (
    "exportcompat.registry",
    "exportcompat.patches",
    "exportcompat",
    "exportcompat.adapters",
    "exportcompat.compat.onnx_diagnostic",
)
OPERATORS = ("__call__", "__or__", "__enter__", "__exit__", "__getitem__", "__iter__", "__len__")
RELEASES = ("--torch", "2.13.0", "--transformers", "5.24.0")


def names() -> Iterator[str]:
    """Yield a line for each public name, and for each public method and attribute of a class."""
    seen: dict[int, str] = {}
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            path, value = f"{package}.{name}", getattr(module, name)
            if (first := seen.setdefault(id(value), path)) != path:
                yield f"{path} is {first}"
            else:
                yield from described(path, value)


def described(path: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        yield f"{path} inherits {', '.join(base.__name__ for base in value.__bases__)}"
        arguments = inspect.signature(value).parameters if "__init__" in vars(value) else {}
        if arguments:
            yield f"{path}{signature_of(value)}"
        members = [(name, member) for name, member in vars(value).items() if name not in arguments]
        yield from (described_member(path, name, member) for name, member in members if is_public(name))
    elif callable(value) and inspect.isfunction(inspect.unwrap(value)):
        yield f"{path}{signature_of(value)}"
    else:
        # The version is another one in each release.
        yield path if path.endswith("__version__") else f"{path} = {value}"


def is_public(name: str) -> bool:
    return not name.startswith("_") or name in OPERATORS


def described_member(path: str, name: str, member: Any) -> str:
    function = getattr(member, "__func__", member)
    return f"{path}.{name}{signature_of(function) if inspect.isfunction(function) else ''}"


def signature_of(function: Callable[..., Any]) -> str:
    """Return names, kinds and defaults of arguments. Versions of Python write annotations in different ways."""
    signature = inspect.signature(function)
    bare = [item.replace(annotation=item.empty) for item in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))


def options() -> Iterator[str]:
    """Yield a line for each command, and for each of its arguments."""
    for command, parser in commands().items():
        yield command
        for action in parser._actions:
            if not isinstance(action, argparse._HelpAction):
                words = " ".join(action.option_strings) or str(action.metavar or action.dest)
                choices = f" {{{','.join(map(str, action.choices))}}}" if action.choices else ""
                yield f"{command} {words}{choices}"


class ParserFoundError(Exception):
    """Carries a parser out of the command that has made it."""


def commands() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command but `matrix`, whichever module makes them."""

    def found(parser: argparse.ArgumentParser, *arguments: Any) -> NoReturn:
        raise ParserFoundError(parser)

    with mock.patch.object(argparse.ArgumentParser, "parse_args", found), pytest.raises(ParserFoundError) as caught:
        run("plan")
    (subparsers,) = (item for item in caught.value.args[0]._actions if isinstance(item, argparse._SubParsersAction))
    return {name: parser for name, parser in subparsers.choices.items() if name != "matrix"}


def keys() -> Iterator[str]:
    """Yield the path of each key in a report, and in what the commands print as JSON."""
    report = importlib.import_module("exportcompat").PatchReport()
    yield from (f"report: {key}" for key in report.to_dict())
    answer = importlib.import_module("exportcompat").Compatibility("llama", *RELEASES[1::2], "unknown", "none")
    yield from (f"works: {key}" for key in answer.to_dict())
    audits = importlib.import_module("exportcompat._audit")
    found = audits.Audit({}, (audits.Finding("wrong", "", ""),))
    yield from (f"audit: audits[].{path}" for path in dict.fromkeys(paths(found.to_dict())))
    for command in (("plan", *RELEASES), ("list",)):
        found = json.loads(run(*command, "--json"))
        yield from (f"{command[0]}: {path}" for path in dict.fromkeys(paths(found)))


def paths(data: Any, path: str = "") -> Iterator[str]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield f"{path}{key}"
            yield from paths(value, f"{path}{key}.")
    elif isinstance(data, list):
        for value in data:
            yield from paths(value, f"{path[:-1]}[].")


def run(*arguments: str) -> str:
    """Run the command in this process, and return what it has printed."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), mock.patch.object(sys, "argv", ["exportcompat", *arguments]):
        with pytest.raises(SystemExit) as ended:
            runpy.run_module("exportcompat", run_name="__main__")
    assert ended.value.code in (0, None)
    return out.getvalue()


def ids() -> Iterator[str]:
    """Yield the ids of all specs."""
    yield from importlib.import_module("exportcompat.patches").default_registry().ids()


PARTS = {"name": names, "option": options, "key": keys, "id": ids}


def recorded(kind: str) -> list[str]:
    lines = SNAPSHOT.read_text("utf-8").splitlines()
    return [line.removeprefix(f"{kind} ") for line in lines if line.startswith(f"{kind} ")]


def changes(before: list[str], now: list[str]) -> list[str]:
    return [f"- {line}" for line in before if line not in now] + [f"+ {line}" for line in now if line not in before]


def message(found: list[str]) -> str:
    return "\n".join([*found, "", str(__doc__)])


@pytest.mark.parametrize("kind", ["name", "option", "key"])
def test_nothing_public_has_changed(kind: str) -> None:
    if kind == "name":
        pytest.importorskip("torch", reason="a public class is a module of torch")
    before, now = recorded(kind), list(PARTS[kind]())
    assert before
    assert not (found := changes(before, now)), message(found)


def test_no_id_is_gone() -> None:
    # A new one is for the next release to note: a patch touches no list of ids.
    before, now = recorded("id"), list(ids())
    assert before
    assert not (found := [line for line in changes(before, now) if line.startswith("-")]), message(found)


def test_a_difference_is_seen() -> None:
    before, now = ["plan(versions=None)", "gone()", "kept()"], ["plan(version=None)", "kept()"]
    assert changes(before, now) == ["- plan(versions=None)", "- gone()", "+ plan(version=None)"]


if __name__ == "__main__":
    written = [f"{kind} {line}" for kind, part in PARTS.items() for line in part()]
    SNAPSHOT.write_text("\n".join(written) + "\n", "utf-8")
