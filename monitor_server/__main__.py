"""``python -m monitor_server``: the `rlvitals` command."""

import sys

from monitor_server.commands.main import main

sys.exit(main())
