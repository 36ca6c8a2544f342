"""Replaces a command of a launch line: records its arguments, and fails if it stands for the trainer."""

import json
import os
import sys
from pathlib import Path

called = [Path(sys.argv[0]).name, *sys.argv[1:]]
ours = {name: value for name, value in os.environ.items() if name.startswith("RLVITALS_")}
with Path(os.environ["CALLS"]).open("a") as calls:
    calls.write(json.dumps([called, ours]) + "\n")
sys.exit(3 if "--max-steps" in called else 0)
