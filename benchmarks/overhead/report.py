"""The tables of the measurements: single times, and their ratios to wandb's."""

from collections.abc import Mapping

from benchmarks.overhead.between import Between
from benchmarks.overhead.loggers import OURS, RESPONSES, WITHOUT_COPY
from benchmarks.overhead.race import Result
from benchmarks.overhead.trainers import Share
from benchmarks.overhead.worker import SCALARS

__all__ = ["logger_table", "share_table"]

BETWEEN_TITLES: dict[Between, str] = {
    "python": "",
    "waiting": ", waiting in between",
    "torch": ", torch training in between",
}
TRACKIO, WANDB = "trackio", "wandb, offline"
TRACKIO_BUDGET, WANDB_BUDGET, TAIL_BUDGET, SHARE_BUDGET = 0.1, 0.02, 0.1, 0.01


def logger_table(results: Mapping[str, Result], *, has_arrays: bool, between: Between = "python") -> str:
    """Return the table of all tools for one payload, and whether the budgets of rlvitals are kept."""
    title = f"{SCALARS} scalars" + (f" and {RESPONSES:,} responses, 3 numbers each" if has_arrays else "")
    title += BETWEEN_TITLES[between]
    wandb = results[WANDB]
    rows = [
        f"### A step of {title}",
        "",
        "| tool | held, p50 | × wandb | held, p99 | × wandb | CPU a step, all threads | × wandb | bytes a step |",
        "|---|---|---|---|---|---|---|---|",
    ]
    rows += [
        f"| {name} | {found.p50 * 1e6:,.0f} µs | {found.p50 / wandb.p50:.3f} | {found.p99 * 1e6:,.0f} µs "
        f"| {found.p99 / wandb.p99:.3f} | {found.cpu_seconds * 1e3:.2f} ms "
        f"| {found.cpu_seconds / wandb.cpu_seconds:.2f} | {found.step_bytes:,.0f} |"
        for name, found in results.items()
    ]
    for name in (OURS, WITHOUT_COPY):
        if name in results:
            rows += ["", f"Budgets, {name}: {_budgets(results, results[name])}."]
    return "\n".join(rows)


def _budgets(results: Mapping[str, Result], ours: Result) -> str:
    budgets = [
        ("p50 × trackio", ours.p50 / results[TRACKIO].p50, TRACKIO_BUDGET),
        ("p50 × wandb", ours.p50 / results[WANDB].p50, WANDB_BUDGET),
        ("p99 × wandb", ours.p99 / results[WANDB].p99, TAIL_BUDGET),
    ]
    return "; ".join(f"{name} {ratio:.3f} of {budget:g} {_mark(ratio <= budget)}" for name, ratio, budget in budgets)


def share_table(shares: Mapping[str, Share]) -> str:
    """Return the table of the share of a step that rlvitals takes in each training."""
    rows = [
        "| training | rounds | CPU a step | in its thread | in ours | together | thread hindered | with us / without |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, share in shares.items():
        together = share.held_share + share.thread_share
        rows.append(
            f"| {name} | {len(share.with_us)} | {share.step_seconds * 1e3:,.0f} ms "
            f"| {share.held_share:.2%} | {share.thread_share:.2%} "
            f"| {together:.2%} {_mark(together <= SHARE_BUDGET)} | {share.hindrance:+.1%} "
            f"| {share.difference:+.1%} ± {share.standard_error:.1%} |"
        )
    return "\n".join([*rows, "", f"Budget: {SHARE_BUDGET:.0%} together, of what is counted as the SDK's."])


def _mark(is_kept: bool) -> str:  # noqa: FBT001 - its only argument
    return "✓" if is_kept else "✗"
