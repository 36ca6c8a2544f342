"""Run the `rlvitals` command as ``python -m monitor_server``."""

import sys

from monitor_server.commands.main import main

sys.exit(main())
