"""`python -m exportcompat` is the command `exportcompat`."""

import sys

from exportcompat._cli import main

if __name__ == "__main__":
    sys.exit(main())
