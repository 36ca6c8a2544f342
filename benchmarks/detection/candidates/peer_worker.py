"""Runs one peer tool over runs read from standard input; started in the peers' own environment.

One JSON object a line in: ``{"rows": [{"step": int, "signals": {...}}, ...]}``; one out:
``{"marks": [[warn, page], ...]}``, a pair of 0 or 1 a row. Each tool runs at its defaults and sees each row as it
would in training. The module imports only the standard library and the tool, and none of our packages.
"""

import contextlib
import io
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

Row = dict[str, Any]  # "step" and "signals"
Marks = list[list[int]]

FIELDS: dict[str, dict[str, tuple[str, ...]]] = {
    "rlwatch": {
        "entropy": ("entropy/mean",),
        "kl_divergence": ("kl/ref", "kl/old"),
        "reward_mean": ("reward/mean",),
        "reward_std": ("reward/std",),
        "loss": ("loss/policy",),
        "learning_rate": ("lr",),
        "clip_fraction": ("ratio/clip_frac",),
        "grad_norm": ("grad/norm",),
    },
    "rldoctor": {
        "entropy": ("entropy/mean",),
        "kl": ("kl/ref", "kl/old"),
        "reward": ("reward/mean",),
        "reward_std": ("reward/std",),
        "frac_reward_zero_std": ("reward/zero_std_frac",),
        "loss": ("loss/policy",),
        "learning_rate": ("lr",),
        "clip_ratio/region_mean": ("ratio/clip_frac",),
        "grad_norm": ("grad/norm",),
        "completions/mean_length": ("length/mean",),
        "completions/clipped_ratio": ("length/truncated_frac",),
    },
    "rlprobe": {
        "entropy_mean": ("entropy/mean",),
        "kl_mean": ("kl/ref", "kl/old"),
        "reward_mean": ("reward/mean",),
        "reward_std": ("reward/std",),
        "zero_variance_group_frac": ("reward/zero_std_frac",),
        "loss": ("loss/policy",),
        "lr": ("lr",),
        "clip_fraction": ("ratio/clip_frac",),
        "grad_norm": ("grad/norm",),
        "completion_len_mean": ("length/mean",),
        "truncation_rate": ("length/truncated_frac",),
        "repetition_rate": ("text/repetition",),
        "logprob_mean": ("likelihood/correct",),
    },
}


def renamed(tool: str, row: Row) -> dict[str, float]:
    """Return a row's signals under the tool's own names."""
    values = {}
    for field, names in FIELDS[tool].items():
        for name in names:
            if name in row["signals"]:
                values[field] = row["signals"][name]
                break
    return values


def rlwatch_marks(rows: Sequence[Row]) -> Marks:
    """Run rlwatch on every row; alerts that its cooldown suppresses do not count, because users do not see them."""
    from rlwatch.alerts import AlertManager  # noqa: PLC0415 - only this tool's environment has it
    from rlwatch.config import RLWatchConfig  # noqa: PLC0415
    from rlwatch.detectors import DetectorSuite  # noqa: PLC0415

    config = RLWatchConfig()
    suite, manager = DetectorSuite(config), AlertManager(config.alerts)
    marks = []
    for row in rows:
        values = renamed("rlwatch", row)
        values.pop("learning_rate", None)
        values.pop("clip_fraction", None)
        sent = [alert for alert in suite.check_step(row["step"], **values) if manager.send(alert)]
        marks.append([int(bool(sent)), int(any(alert.severity == "critical" for alert in sent))])
    return marks


def rldoctor_marks(rows: Sequence[Row]) -> Marks:
    """Run rl-doctor's live monitor on every row; it checks every 25 rows and reports new and worse findings."""
    from rl_doctor.detectors.base import Severity  # noqa: PLC0415
    from rl_doctor.live import LiveMonitor  # noqa: PLC0415

    monitor = LiveMonitor(on_finding=lambda _: None)
    marks = []
    for row in rows:
        found = monitor.log(renamed("rldoctor", row), step=row["step"])
        marks.append([int(bool(found)), int(any(finding.severity >= Severity.CRITICAL for finding in found))])
    return marks


def rlprobe_marks(rows: Sequence[Row], *, first: int = 30, every: int = 5) -> Marks:
    """Run rlprobe on all rows so far, from row 30 on and every 5 rows, as its watcher does; count new findings."""
    from rlprobe.doctor.engine import diagnose_view  # noqa: PLC0415
    from rlprobe.doctor.runview import RunView  # noqa: PLC0415
    from rlprobe.schemas import RunManifest, StepRecord  # noqa: PLC0415

    manifest = RunManifest(run_id="run", created_at="1970-01-01T00:00:00", algorithm="grpo")
    records: list[StepRecord] = []
    seen: set[tuple[str, str]] = set()
    marks: Marks = []
    for number, row in enumerate(rows, start=1):
        records.append(StepRecord(step=row["step"], **renamed("rlprobe", row)))
        new: set[tuple[str, str]] = set()
        if number >= first and number % every == 0:
            found = diagnose_view(RunView(manifest, records))
            new = {(finding.signature_id, finding.severity) for finding in found} - seen
            seen |= new
        severities = {severity for _, severity in new}
        marks.append([int(bool(severities & {"warn", "critical"})), int("critical" in severities)])
    return marks


TOOLS: dict[str, Callable[[Sequence[Row]], Marks]] = {
    "rlwatch": rlwatch_marks,
    "rldoctor": rldoctor_marks,
    "rlprobe": rlprobe_marks,
}


def main() -> None:
    """Answer one line for each line."""
    tool = TOOLS[sys.argv[1]]
    for line in sys.stdin:
        # A tool that prints its alerts must neither garble the answers nor fill the terminal.
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            marks = tool(json.loads(line)["rows"])
        sys.stdout.write(json.dumps({"marks": marks}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
