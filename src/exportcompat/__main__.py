"""`python -m exportcompat` is the command `exportcompat`."""

import sys


def run(argv: list[str] | None = None) -> int:
    """Run the command and return its exit status, 130 if it was interrupted, which is one line at any time.

    Args:
        argv: the arguments after the command's name; None means those of this process.

    Raises:
        SystemExit: see `exportcompat._cli.main`.
    """
    try:
        # Imported here, so that an interruption meanwhile is caught too.
        from exportcompat._cli import main

        return main(argv)
    except KeyboardInterrupt:
        # An interrupted `exec`, as of dataclasses, makes Python kill itself at its end, unless another one has begun.
        exec("")  # noqa: S102  # An empty text.
        sys.stderr.write("exportcompat: interrupted\n")
        return 130


if __name__ == "__main__":
    sys.exit(run())
