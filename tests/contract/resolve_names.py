"""``python resolve_names.py NAMES.json``: import every name in a process of its own, and print the errors as JSON.

A user's script imports a name alone, so a module that another test has loaded must not make the import work.
"""

import json
import os
import pkgutil
import sys
import traceback
from pathlib import Path


def error_of(name: str) -> str:
    """Import a name in a fork of this process, and return its error, or nothing."""
    readable, writable = os.pipe()
    if os.fork() == 0:
        try:
            pkgutil.resolve_name(name)
        except BaseException:  # noqa: BLE001 - the user would see any error
            os.write(writable, traceback.format_exc(limit=-2)[:4000].encode())
        os._exit(0)
    os.close(writable)
    with os.fdopen(readable) as pipe:
        error = pipe.read()
    os.wait()
    return error


if __name__ == "__main__":
    names = json.loads(Path(sys.argv[1]).read_text())
    errors = {name: error_of(name) for name in names}
    sys.stdout.write(json.dumps({name: error for name, error in errors.items() if error}))
