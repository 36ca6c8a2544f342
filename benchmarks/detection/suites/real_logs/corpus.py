"""Folders of real logs with labels (suite C) as runs with truth. The importer reads the rows."""

from collections.abc import Mapping
from pathlib import Path

from benchmarks.detection.runs import Group, LabelledRun, Truth
from benchmarks.detection.suites.real_logs.run_folders import read_rows, run_paths
from monitor_server.importers.corpus import read_meta
from monitor_server.importers.steps import observations

__all__ = ["HARD", "NEGATIVE", "POSITIVE", "labelled_corpus"]

NEGATIVE = ("healthy", "plateau_noisy", "never_learns", "healthy_with_spikes")
HARD = ("transient_dip_recovered", "length_explosion")  # a warning is acceptable, a page is a false alarm
POSITIVE = (
    "reward_collapse",
    "nan",
    "gradient_explosion",
    "entropy_collapse",
    "kl_loss_explosion",
    "partial_degradation",
)


def labelled_corpus(*folders: Path) -> list[LabelledRun]:
    """Return the runs of folders of labelled logs; runs labelled unclear, or not at all, are left out.

    The part of a run's name before two underscores is its repository.

    Raises:
        FileNotFoundError: If a folder has no run.
        ValueError: If no run has a label that is scored.
    """
    runs = []
    for run in (path for folder in folders for path in run_paths(folder)):
        meta = read_meta(run)
        truth = _corpus_truth(meta)
        if truth is not None:
            runs.append(
                LabelledRun(name=run.name, truth=truth, observations=observations(read_rows(run), _names(meta)))
            )
    if not runs:
        raise ValueError(
            f"{', '.join(map(str, folders))} must hold runs whose meta.json has a label to score, found none"
        )
    return runs


def _corpus_truth(meta: Mapping[str, object]) -> Truth | None:
    label = meta.get("label")
    if not isinstance(label, Mapping):
        return None
    kind, step = str(label.get("kind")), label.get("step")
    is_language_model = meta.get("is_llm", True) is not False
    if kind in NEGATIVE:
        return Truth(group=Group.BENIGN, kind=kind, is_language_model=is_language_model)
    if kind in HARD:
        return Truth(group=Group.UNSCORED, kind=kind, is_language_model=is_language_model)
    if kind in POSITIVE and isinstance(step, int | float):
        return Truth(
            group=Group.FAILURE,
            kind=kind,
            onset=0,
            acceleration=0,
            collapse=int(step),
            is_language_model=is_language_model,
        )
    return None


def _names(meta: Mapping[str, object]) -> dict[str, str] | None:
    signals = meta.get("signals")
    return {str(k): str(v) for k, v in signals.items()} if isinstance(signals, Mapping) else None
