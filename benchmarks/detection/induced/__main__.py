"""``python -m benchmarks.detection.induced``."""

from benchmarks.detection.induced.record import main

raise SystemExit(main())
