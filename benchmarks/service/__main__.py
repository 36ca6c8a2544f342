"""``python -m benchmarks.service``."""

from benchmarks.service.command import main

raise SystemExit(main())
