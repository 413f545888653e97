"""What `exportcompat serve` does once the arguments are parsed."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from exportcompat._errors import MismatchError
from exportcompat._sample_inputs import check_given, check_task
from exportcompat._serving import check_weights, find_target, serve
from exportcompat.registry import ExportCompatError

from ._export import given_of, served_data
from ._options import to_json
from ._talk import Talk, calm
from ._verify import check_format, observed


def run_serve(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield what was tried on a file, and what came of it.

    Raises:
        ExportCompatError: the file, the target or the weights cannot be used.
        MismatchError: nothing that was tried is right and faster, so nothing was written.
    """
    find_target(arguments.target, unverified=arguments.unverified)
    check_weights(arguments.weights)
    check_task(arguments.task)
    check_given(given_of(arguments))
    path, talk = Path(arguments.file), Talk(is_quiet=arguments.quiet)
    check_format(path)
    if not path.is_file():
        raise ExportCompatError(f"{path} is no file; name an ONNX file of a decoder, as `exportcompat export` writes")
    with calm(is_verbose=arguments.verbose), talk.ticking():
        observer = None if arguments.unverified else observed(path, arguments, talk)
        made = serve(
            path,
            observer,
            arguments.target,
            output=arguments.output,
            weights=arguments.weights,
            unverified=arguments.unverified,
            say=talk,
        )
    yield from [to_json(served_data(made))] if arguments.json else str(made).splitlines()
    if made.path is None:
        raise MismatchError(f"nothing was written: no change of {path} is right and faster for {made.target}")
