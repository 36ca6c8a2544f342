"""The sentences of a report, the same in the terminal and on the page."""

from monitor_server.detection.protocol import DriftInput
from monitor_server.detection.suspects import suspect_of
from monitor_server.log_check.advice import Saving
from monitor_server.log_check.examination import Examination, FindingPeriod, Outcome

__all__ = ["DRIFT_INPUTS", "PLOTTED", "heading", "savings", "size", "suspicion", "verdict"]

# The signals that are plotted, the earliest to move first; at most PLOTS of them.
PLOTTED = (
    "reward/mean",
    "entropy/mean",
    "likelihood/correct",
    "grad/norm",
    "kl/ref",
    "ratio/clip_frac",
    "length/mean",
    "mismatch/kl",
    "loss/policy",
)
DRIFT_INPUTS = {
    DriftInput.PAIRED: "paired entropy changes, where drift shows first",
    DriftInput.LIKELIHOOD: "entropy and the likelihood of correct responses",
    DriftInput.ENTROPY: "entropy, without the likelihood of correct responses",
    DriftInput.METRICS: "neither entropy nor likelihood",
}


def heading(found: Examination) -> str:
    """Return a description of the log: format, steps and attempts."""
    attempts = f", {found.attempts} attempts" if found.attempts > 1 else ""
    return f"{found.log.format}: {size(found.rows, 'step')} ({found.first_step} to {found.last_step}{attempts})"


def verdict(found: Examination) -> str:
    """Return the verdict in one or two sentences."""
    if found.outcome is Outcome.NOT_OBSERVED and found.observed:
        return (
            f"No alarm up to step {found.last_step}. The collector could not process the run after that step, so "
            "nothing can be said about the rest of it."
        )
    if found.outcome is Outcome.NOT_OBSERVED:
        return "Nothing that a detector reads was logged, so nothing can be said about this run."
    if found.outcome is Outcome.QUIET:
        return (
            "No alarm in what was logged."
            if found.drift_input is not DriftInput.METRICS
            else "No alarm in what was logged. Entropy and likelihood were not logged: this is no sign of health."
        )
    if found.page_step is None:
        sentence = f"It would have warned at step {found.warn_step} and not paged."
    elif found.warn_step == found.page_step:
        sentence = f"It would have paged at step {found.page_step}."
    else:
        sentence = f"It would have warned at step {found.warn_step} and paged at step {found.page_step}."
    if found.lead is None:
        return f"{sentence} No collapse was seen by the end of the log."
    if found.lead <= 0:
        return f"{sentence} The run had collapsed by then: there was no lead."
    return f"{sentence} The run collapsed at step {found.collapse_step}: {size(found.lead, 'step')} of lead."


def savings(found: Examination, saved: Saving | None) -> str:
    """Return a description of the run after the page; empty if nothing followed."""
    if saved is None:
        return ""
    hours = "" if saved.gpu_hours is None else f", {saved.gpu_hours:,.1f} GPU-hours"
    if found.collapse_step is not None:
        return f"Stopping at the page would have saved {size(saved.steps, 'step')}{hours}."
    return f"{size(saved.steps, 'step').capitalize()}{hours} ran after the page."


def suspicion(found: Examination, period: FindingPeriod) -> str:
    """Return the part of the training that a finding points at, or the instrument where that is to be checked first."""
    doubted_by = found.doubts(period)
    return f"instrument first: {', '.join(doubted_by)}" if doubted_by else str(suspect_of(period.finding.kind))


def size(count: int, noun: str) -> str:
    """Return a count with its noun."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
