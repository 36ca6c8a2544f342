"""``python -m trainer_hooks.callbacks.prime_rl RUN_FOLDER``."""

from trainer_hooks.callbacks.prime_rl.command import main

raise SystemExit(main())
