"""A parser that says what somebody may have meant who wrote a command or an option that does not exist."""

import argparse
from collections.abc import Sequence
from typing import Any

from exportcompat.registry import did_you_mean


class Parser(argparse.ArgumentParser):
    """The parser of the command, and of each subcommand."""

    def parse_known_args(  # type: ignore[override]  # typeshed has a form for each type of a namespace.
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse arguments; what is unknown is refused here, as only the parser of a subcommand has its options.

        Raises:
            SystemExit: argparse ends the program for wrong usage.
        """
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            option = unknown[0].partition("=")[0]
            near = did_you_mean(option, self._option_string_actions) if option.startswith("-") else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{near}")
        return found, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            near = did_you_mean(str(value), map(str, action.choices or ()))
            raise argparse.ArgumentError(action, f"{error.message}{near}") from None
