"""``python -m benchmarks.dashboard``: see `command`."""

import sys

from benchmarks.dashboard.command import main

if __name__ == "__main__":
    sys.exit(main())
