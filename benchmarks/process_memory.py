"""How much memory a process has taken, for the benchmarks beside it."""

import resource
import sys


def peak() -> float:
    """Return the largest resident memory of this process so far, in MB: the system counts bytes on macOS, else kB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
