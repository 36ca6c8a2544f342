"""``pytest --durations N | python -m tools.durations``: repeat the output, then add the durations up file by file."""

import re
import sys
from collections import Counter
from collections.abc import Iterable
from typing import Final

DURATION: Final = re.compile(r"([\d.]+)s (?:call|setup|teardown)\s+(\S+?)::")
SHOWN: Final = 25


def seconds_by_file(lines: Iterable[str]) -> Counter[str]:
    """Add up the seconds of each file in pytest's list of the slowest durations."""
    seconds: Counter[str] = Counter()
    for line in lines:
        if found := DURATION.match(line):
            seconds[found[2]] += float(found[1])  # type: ignore[assignment]  # a Counter may hold floats
    return seconds


def main() -> int:
    """Print the input, then the table; fail unless pytest's last line says that tests passed and none failed."""
    lines = []
    for line in sys.stdin:
        sys.stdout.write(line)
        lines.append(line)
    print("\nseconds by file, of the durations listed above")
    for name, seconds in seconds_by_file(lines).most_common(SHOWN):
        print(f"{seconds:8.1f}  {name}")
    summary = next((line for line in reversed(lines) if line.strip()), "")
    return int(" passed" not in summary or " failed" in summary or " error" in summary)


if __name__ == "__main__":
    raise SystemExit(main())
