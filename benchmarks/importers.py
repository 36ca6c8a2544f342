"""How long the importers and a whole check take on large logs, beside tbparse on the same event file.

    python -m benchmarks.importers                      # 100 MB each
    python -m benchmarks.importers --peers PYTHON       # an interpreter that has tbparse, for the ratio

Writes a console log (progress bars, samples of text and a row of 80 numbers a step) and an event file of the same
steps, reads each in a process of its own on one core, and prints the table of docs/check.md: seconds of processor time,
the greatest memory, and the ratio to tbparse. Event files are written as torch's SummaryWriter writes them. It takes
about a minute, and two minutes more with tbparse; ``--megabytes 10`` shows in seconds that it runs.
"""

import argparse
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from monitor_server.importers.formats.tensorboard.crc32c import masked_crc32c

KEYS = ("reward", "grad_norm", "entropy", "kl", "loss", "completions/mean_length", "clip_ratio/region_mean")
OTHERS = tuple(f"timing_s/part_{number:02}" for number in range(73))
BATCH = 4096

READ = """
import json, resource, sys, time
from pathlib import Path
from monitor_server.log_check.examination import examine
from monitor_server.importers.search.logs import find_logs
from monitor_server.importers.steps import observe
from monitor_server.importers.mapping import NameMapping
from monitor_server.importers.protocol import ReadReport
(log,) = find_logs([Path(sys.argv[1])])
begun = time.process_time()
if sys.argv[2] == "check":
    steps = examine(log).rows
else:
    steps = sum(1 for _ in observe(log.read(ReadReport()), NameMapping().signals))
print(json.dumps([steps, time.process_time() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""
PEER = """
import json, resource, sys, time
begun = time.process_time()
from tbparse import SummaryReader
imported = time.process_time()
steps = SummaryReader(sys.argv[1]).scalars["step"].nunique()
print(json.dumps([steps, time.process_time() - imported, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


def steps(seed: int) -> Iterator[dict[str, float]]:
    """Yield rows of 80 numbers without end."""
    draw = random.Random(seed)  # noqa: S311 - numbers for a benchmark
    step = 0
    while True:
        step += 1
        yield {"step": step} | {key: draw.random() for key in (*KEYS, *OTHERS)}


def write_events(path: Path, size: int) -> int:
    """Write an event file of about ``size`` bytes and return its number of steps."""
    count = 0
    with path.open("wb") as file:
        _write_records(file, [b"\x09" + bytes(8) + b"\x1a\x0dbrain.Event:2"])
        events: list[bytes] = []
        for row in steps(0):
            if file.tell() >= size:
                break
            count += 1
            events += [_event(count, key, value) for key, value in row.items() if key != "step"]
            if len(events) >= BATCH:
                _write_records(file, events)
                events = []
        _write_records(file, events)
    return count


def _event(step: int, tag: str, value: float) -> bytes:
    scalar = b"\x0a" + _varint(len(tag)) + f"{tag}".encode() + b"\x15" + struct.pack("<f", value)
    summary = b"\x0a" + _varint(len(scalar)) + scalar
    return b"\x09" + struct.pack("<d", 1e9 + step) + b"\x10" + _varint(step) + b"\x2a" + _varint(len(summary)) + summary


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > 0x7F:  # noqa: PLR2004 - seven bits a byte
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def _write_records(file: BinaryIO, events: list[bytes]) -> None:
    lengths = [struct.pack("<Q", len(event)) for event in events]
    file.writelines(
        header + checksums[0] + event + checksums[1]
        for header, event, *checksums in zip(lengths, events, _checksums(lengths), _checksums(events), strict=True)
    )


def _checksums(contents: list[bytes]) -> list[bytes]:
    """Return the checksum of each content; contents of one length are computed together."""
    found: dict[int, bytes] = {}
    places: dict[int, list[int]] = {}
    for place, content in enumerate(contents):
        places.setdefault(len(content), []).append(place)
    for length, same in places.items():
        joined = np.frombuffer(b"".join(contents[place] for place in same), np.uint8).reshape(-1, length)
        found.update(zip(same, (struct.pack("<I", int(value)) for value in masked_crc32c(joined)), strict=True))
    return [found[place] for place in range(len(contents))]


def write_console(path: Path, size: int) -> int:
    """Write a console log of about ``size`` bytes and return its number of steps."""
    sample = "Question: what follows? Answer: " + "the step before it = the one after: 3 | 4, " * 60
    with path.open("w") as file:
        for count, row in enumerate(steps(1), 1):
            for tick in range(40):
                file.write(f"\rTrain: {tick:3}%|{'█' * 20}{' ' * 20}| {count}/100000 [01:02<03:04,  2.50s/it]")
            file.write(f"\n{sample}\n")
            file.write("(TaskRunner pid=123) " + " - ".join(f"{key}:{value}" for key, value in row.items()) + "\n")
            if file.tell() >= size:
                return count
    return 0


def measure(python: str, code: str, *arguments: str) -> tuple[int, float, float]:
    """Return the steps, processor seconds and MiB that a process reports, kept to one core."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [python, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)  # noqa: S603 - ours
    found, seconds, memory = json.loads(done.stdout)
    return found, seconds, memory


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.importers", description=__doc__)
    parser.add_argument("--megabytes", type=float, default=100.0)
    parser.add_argument("--peers", help="an interpreter that has tbparse")
    given = parser.parse_args()
    size = int(given.megabytes * 1e6)
    print("| log | what | MB | steps | seconds | MiB | beside tbparse |\n|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, write in (("console.log", write_console), ("events.out.tfevents.1.x", write_events)):
            path = Path(folder) / name
            write(path, size)
            lines = [(what, *measure(sys.executable, READ, str(path), what)) for what in ("read", "check")]
            if name != "console.log" and given.peers:
                lines.append(("tbparse", *measure(given.peers, PEER, str(path))))
            peer = next((line[2] for line in lines if line[0] == "tbparse"), None)
            for what, found, seconds, memory in lines:
                ratio = f"{seconds / peer:.2f}" if peer else ""
                megabytes = path.stat().st_size / 1e6
                log = "console log" if name == "console.log" else "event files"
                cells = (log, what, f"{megabytes:.0f}", f"{found:,}", f"{seconds:.1f}", f"{memory:.0f}", ratio)
                print("|", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
