"""A trainer for tests that kill it: it logs as many steps as stdin allows, and prints when it logged each.

``python -m tests.faults.trainer [first step]``; run, rank and addresses come from the environment. A line of stdin is a
number of steps; its end is the run's end. Collectors return within seconds here, so a minute of real use lasts four
seconds; at a ``PACE`` of 1 it lasts a minute.
"""

import os
import sys
import time

import trainer_hooks
from trainer_hooks.delivery import http, transport

if os.environ.get("PACE") != "1":
    transport.LONGEST_DELAY_SECONDS = 0.2
    http.HttpTransport.__init__.__kwdefaults__.update(connect_timeout_seconds=0.2, read_timeout_seconds=2.0)


def main() -> int:
    """Take the granted steps until standard input ends."""
    step = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    with trainer_hooks.connect(config={"seed": 1}) as monitor:
        print("ready", flush=True)  # noqa: T201 - read by the test
        for grant in sys.stdin:
            for _ in range(int(grant)):
                monitor.log_step(step, {"x": step / 3})
                print(step, time.time(), flush=True)  # noqa: T201 - read by the test
                step += 1
                time.sleep(0.002)
        monitor.flush(120)
    print("lost", monitor.drops.dropped_records, flush=True)  # noqa: T201 - read by the test
    return 0


if __name__ == "__main__":
    sys.exit(main())
