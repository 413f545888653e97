"""Do the packages that are installed go together? Asked before work is done that would be lost."""

from exportcompat.patches import chosen_registry
from exportcompat.registry import Environment, Registry, require_companions


def check_companions(registry: Registry | None = None) -> None:
    """Check what is installed against what is known to go together.

    Args:
        registry: what has the rules; None for that of this package.

    Raises:
        CompanionError: packages do not go together; the message says which, and what to install.
    """
    chosen = chosen_registry(registry)
    require_companions(chosen.companions, Environment())
