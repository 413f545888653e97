"""Do the packages that are installed go together? Asked before work is done that would be lost."""

from exportcompat.patches import default_registry
from exportcompat.registry import Environment, Registry, SpecError, require_companions


def check_companions(registry: Registry | None = None) -> None:
    """Check what is installed against what is known to go together.

    Args:
        registry: what has the rules; None for that of this package.

    Raises:
        CompanionError: packages do not go together; the message says which, and what to install.
    """
    chosen = chosen_registry(registry)
    require_companions(chosen.companions, Environment())


def chosen_registry(registry: Registry | None) -> Registry:
    """Return the registry of an argument: None means that of this package.

    Raises:
        SpecError: it is no registry.
    """
    if registry is None:
        return default_registry()
    if not isinstance(registry, Registry):
        raise SpecError(
            f"registry={registry!r} is no registry; write default_registry() | [spec], or leave it out for the specs "
            "of this package"
        )
    return registry
