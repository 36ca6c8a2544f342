"""``python -m benchmarks.overhead``: see `command`."""

import sys

from benchmarks.overhead.command import main

if __name__ == "__main__":
    sys.exit(main())
