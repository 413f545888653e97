"""The back-test of `drift` over all supported releases of transformers, as text."""

from exportcompat.matrix.versions import releases
from exportcompat.patches import default_registry
from exportcompat.registry import ExportCompatError

from ._backtest import backtest, begun, to_markdown
from ._fingerprints import Options, surveys
from ._name_backtest import adaptations, name_events

_PACKAGE = "transformers"


def backtest_report(options: Options) -> str:
    """Return the tables for the docs, with what broke, what was announced, and what was announced and did not break.

    Args:
        options: where wheels come from.

    Raises:
        ExportCompatError: there is no lock file, or a release cannot be read.
    """
    registry, known = default_registry(), releases(_PACKAGE)
    if registry.fingerprints is None:
        raise ExportCompatError("the patches have no lock file; get patches/fingerprints.json from the repository")
    of_names = list(name_events(registry.fingerprints, known, adaptations()))
    found, specs = list(surveys(_PACKAGE, known, options)), list(registry)
    return to_markdown(list(backtest(found, specs)), list(begun(found, specs)), of_names)
