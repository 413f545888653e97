"""A plug-in that runs each test inside `apply_patches()`: `pytest -p exportcompat.adapters.in_pytest tests`.

So the tests of an exporter say whether it can be built on this package: what passes without has to pass with it. The
last lines of the report name the specs that were used.
"""

from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest

from exportcompat import apply_patches

_used: Counter[str] = Counter()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Run a test in a scope of its own, which is closed however it ends."""
    with apply_patches() as report:
        try:
            return (yield)
        finally:
            _used.update(report.used)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Write how many tests have used each spec."""
    terminalreporter.section("exportcompat: tests that used a spec")
    for name, count in sorted(_used.items()):
        terminalreporter.write_line(f"{count:6} {name}")
    if not _used:
        terminalreporter.write_line("none")
