"""``python -m benchmarks.detection``."""

from benchmarks.detection.command import main

raise SystemExit(main())
