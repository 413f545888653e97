"""What somebody may have meant who wrote a name that does not exist."""

from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question that names what is most like `name`, to stand behind a message; empty if nothing is.

    >>> did_you_mean("rotary-complx", ["rotary-complex", "sew-feature-length"])
    "; did you mean 'rotary-complex'?"
    >>> did_you_mean("LLaMA", ["llama"])
    "; did you mean 'llama'?"
    """
    # Only a mistake pays for this import.
    import difflib

    # Upper and lower case are the same: of names that differ by them alone, one is named.
    names, name = {item.lower(): item for item in known}, name.lower()
    near = difflib.get_close_matches(name, names, 3) or [item for item in names if name and name in item][:3]
    near = [names[item] for item in near]
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
