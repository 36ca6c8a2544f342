"""Starts Schemathesis beside a collector, in its own process."""

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["run_schemathesis"]

CONFIGURATION = Path(__file__).parent / "schemathesis.toml"
# Hypothesis computes its tables of characters for seconds, and keeps them there.
STORAGE = Path(__file__).parents[2] / ".hypothesis"
MOST_CHARACTERS = 400  # of a line of its report, which may hold a body of megabytes


def run_schemathesis(document: str, *options: str, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Ask every route of an OpenAPI description but the stream, which does not end.

    Args:
        document: The address of the description, or its file.
        options: More arguments of Schemathesis.
        folder: Where it writes its reports.
        environ: Variables of its environment beside those of the tests.

    Returns:
        The process that has ended, with the lines of its report shortened.
    """
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIGURATION), "run", document]
    command += ["--exclude-path", "/api/v1/stream", "--no-color", *options]
    # Without NO_PROXY, requests looks through the environment for a proxy twice a request.
    environ = os.environ | {"HYPOTHESIS_STORAGE_DIRECTORY": str(STORAGE), "NO_PROXY": "127.0.0.1"} | environ
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    done.stdout = "\n".join(line[:MOST_CHARACTERS] for line in done.stdout.splitlines())
    return done
