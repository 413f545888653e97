"""All cases, by name, and how one of them is found."""

import fnmatch
from collections.abc import Iterable, Mapping

from exportcompat.registry import ExportCompatError, did_you_mean

from . import causal_lm, encoder_decoders, encoders, multimodal, qwen_vl, toy_gpt
from ._case import Case
from ._decoder import Sample
from .routes import routes

_FAMILIES = (toy_gpt, causal_lm, encoder_decoders, encoders, qwen_vl, multimodal)


def _joined() -> dict[str, Case]:
    direct = {case.name: case for family in _FAMILIES for case in family.CASES}
    return {**direct, **{case.name: case for case in routes(direct)}}


CASES: Mapping[str, Case] = _joined()


def family_of(name: str) -> str:
    """Return the file that has the record of a case, without its ending; a case by another way is of its model's."""
    owners = {case.make: family.__name__.rpartition(".")[2] for family in _FAMILIES for case in family.CASES}
    return owners[find_case(name).make]


def find_case(name: str) -> Case:
    """Return a case.

    Raises:
        ExportCompatError: there is no case of that name; the message names similar ones, or all.
    """
    if name not in CASES:
        hint = did_you_mean(name, CASES) or f"; cases: {', '.join(CASES)}"
        raise ExportCompatError(f"there is no case {name!r}{hint}")
    return CASES[name]


def parse_proof(text: str) -> tuple[Case, Sample]:
    """Parse the name of a proof: a case, and a sample behind a colon where it is not the usual one.

    Raises:
        ExportCompatError: the case or the sample does not exist.
    """
    name, _, sample = text.partition(":")
    return find_case(name), Sample.parse(sample) if sample else Sample()


def chosen(patterns: Iterable[str]) -> list[Case]:
    """Return the cases that match a pattern.

    Raises:
        ExportCompatError: a pattern matches no case.
    """
    patterns = list(patterns) or ["*"]
    for pattern in patterns:
        if not fnmatch.filter(CASES, pattern):
            hint = did_you_mean(pattern, CASES) or f"; cases: {', '.join(CASES)}"
            raise ExportCompatError(f"no case matches {pattern!r}{hint}")
    return [case for case in CASES.values() if any(fnmatch.fnmatch(case.name, pattern) for pattern in patterns)]
