"""`python -m trainer_hooks.reference.experiments NAME`: run what is missing, print the tables, draw the figure.

Every run is recorded and every seed is shown. An interrupted run continues; a recorded run is not repeated.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

try:
    import torch
except ModuleNotFoundError as missing:
    sys.exit(
        f"rlvitals: the reference trainer needs {missing.name}, which is not installed: pip install 'rlvitals[trainer]'"
    )

from trainer_hooks.reference.config import Config
from trainer_hooks.reference.custom_task.tool import ToolError
from trainer_hooks.reference.experiments.arms import ARMS, PROBE_ARMS, SEEDS
from trainer_hooks.reference.experiments.catalogue import EXPERIMENTS, REGIMES
from trainer_hooks.reference.experiments.healthy_runs import HEALTHY, healthy_table
from trainer_hooks.reference.experiments.hypotheses import HYPOTHESES
from trainer_hooks.reference.experiments.namesake_questions import write_corpus_and_questions
from trainer_hooks.reference.experiments.planned_runs import (
    RECORDED_STEPS,
    Job,
    arm_jobs,
    healthy_cost_jobs,
    healthy_jobs,
    rescue_jobs,
    search_jobs,
)
from trainer_hooks.reference.experiments.rollback_runs import RESCUED_STEPS, RESCUES, rescue
from trainer_hooks.reference.experiments.run_recording import record
from trainer_hooks.reference.experiments.tables.accelerating_displacement import acceleration_table
from trainer_hooks.reference.experiments.tables.cure_comparison import CURES, FAIR_ARMS, fair_table
from trainer_hooks.reference.experiments.tables.decomposition import (
    decomposition_table,
    held_out_table,
    momentum_table,
    origin_table,
)
from trainer_hooks.reference.experiments.tables.drift import drift_table
from trainer_hooks.reference.experiments.tables.evidence import evidence
from trainer_hooks.reference.experiments.tables.forks import cost_table, forks_table
from trainer_hooks.reference.experiments.tables.healthy_cost import healthy_cost_table
from trainer_hooks.reference.experiments.tables.outcomes import read_runs, table
from trainer_hooks.reference.experiments.tables.question_displacement import question_table
from trainer_hooks.reference.experiments.tables.question_overlap import overlap_table
from trainer_hooks.reference.experiments.tables.regimes import regimes_table
from trainer_hooks.reference.experiments.tables.rollbacks import rescue_table
from trainer_hooks.reference.experiments.tables.short_runs import common_steps_table, pilot_table
from trainer_hooks.reference.experiments.tables.sibling_updates import siblings_table
from trainer_hooks.reference.experiments.tables.signal_course import course_table
from trainer_hooks.reference.experiments.tables.step_size_sweep import sweep_table
from trainer_hooks.reference.presets import PRESETS, require_own_model
from trainer_hooks.reference.run.trainer import TrainingError

__all__ = ["main"]

DEMO = "demo"
_NOT_TRAINED = ("evidence", "overlap", "pilot", REGIMES)
"""Names that print tables and train nothing."""
_OF_ONE_REGIME = (*EXPERIMENTS, "fair", "pilot", "rescue")
"""Names whose tables are empty where nothing is recorded for the preset; `evidence` has no table then."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 1 if a run that is not recorded yet cannot go on."""
    parser = _parser()
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    for name in given.names:
        if not given.draw_only and name not in _NOT_TRAINED:
            try:
                _run(_jobs(name, given))
            except ValueError as error:  # settings or files that cannot work
                parser.error(str(error))
            except (TrainingError, ToolError, OSError) as error:
                print(f"\nerror: {error}", file=sys.stderr)  # noqa: T201 - one line below the line of progress
                return 1
        print(_tables(name, given))  # noqa: T201 - the table is what was asked for
        if name in _OF_ONE_REGIME and not any(_runs(given, _kind(name)).glob("*.jsonl.gz")):
            print(_nothing_recorded(_runs(given, _kind(name))), file=sys.stderr)  # noqa: T201
        if name in (*EXPERIMENTS, REGIMES):
            _draw(name, given)
    if not given.names:
        print(table(_runs(given)))  # noqa: T201 - likewise
    return 0


def _parser() -> argparse.ArgumentParser:
    names = [*EXPERIMENTS, *_OTHER_TABLES]
    parser = argparse.ArgumentParser(prog="python -m trainer_hooks.reference.experiments", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        type=_one_of(names),
        help=f"{', '.join(names)}; without a name: the table of all arms",
    )
    parser.add_argument(
        "--arms",
        nargs="+",
        type=_one_of([*ARMS, *PROBE_ARMS, *RESCUES]),
        metavar="ARM",
        help="only these arms of the experiments",
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS), help="seeds of each arm [0 1 2 3 4]")
    parser.add_argument("--out", type=Path, default=Path("docs/experiments"), help="folder of recordings and pictures")
    parser.add_argument("--cache", type=Path, default=Config().cache, help="folder that keeps warm starts")
    parser.add_argument("--preset", choices=sorted(PRESETS), default=DEMO, help="the regime of the arms [demo]")
    parser.add_argument(
        "--model", type=Path, help="model for a preset that needs one, as --model of the reference trainer"
    )
    parser.add_argument("--draw-only", action="store_true", help="train nothing: print and draw the recorded runs")
    parser.add_argument("--offline", action="store_true", help="self-contained pages, 5 MB each")
    return parser


def _one_of(allowed: list[str]):  # type: ignore[no-untyped-def]  # noqa: ANN202 - argparse's kind of type
    def name(text: str) -> str:
        if text not in allowed:
            raise argparse.ArgumentTypeError(f"must be one of {', '.join(allowed)}, got {text}")
        return text

    return name


def _jobs(name: str, given: argparse.Namespace) -> list[Job]:
    if name == "healthy":
        return healthy_jobs(given.cache, given.out / "healthy")
    if name == "healthy-cost":
        return healthy_cost_jobs(given.cache, given.arms or CURES, given.seeds, given.out / "healthy-cost")
    if name == "search":
        return search_jobs(given.cache, given.out / "search")
    base = _base(given)
    if name == "rescue":
        base = replace(base, steps=RESCUED_STEPS.get(given.preset, base.steps))
        return rescue_jobs(base, given.arms or RESCUES, given.seeds, _runs(given, "rescue"))
    arms = FAIR_ARMS if name == "fair" else EXPERIMENTS[name].arms
    base = replace(base, steps=RECORDED_STEPS.get(given.preset, base.steps))
    return arm_jobs(base, given.arms or arms, given.seeds, _runs(given))


def _base(given: argparse.Namespace) -> Config:
    """Return the settings that every arm begins with; a model of the user's own trains on the namesakes.

    Raises:
        ValueError: If a preset for a model of the user's own is given without one, or the settings cannot work.
    """
    require_own_model(given.preset, given.model)
    settings: dict[str, Any] = PRESETS[given.preset] | {"cache": given.cache}
    if given.model is not None:
        corpus, questions = write_corpus_and_questions(given.cache)
        settings |= {"model": given.model, "corpus": corpus, "questions": questions}
    return Config(**settings)


def _runs(given: argparse.Namespace, kind: str = "runs") -> Path:
    """Return the folder of a regime's recordings of one kind, ``runs`` or ``rescue``."""
    folder: Path = given.out / (kind if given.preset == DEMO else f"{kind}-{given.preset}")
    return folder


def _run(jobs: Sequence[Job]) -> None:
    missing = [job for job in jobs if not job.path.exists()]
    for number, job in enumerate(missing, start=1):
        ahead = f"\r\033[K{number}/{len(missing)} "

        def show(text: str, ahead: str = ahead) -> None:
            print(ahead + text, end="", flush=True, file=sys.stderr)  # noqa: T201 - progress

        torch.set_float32_matmul_precision(job.config.matmul_precision)
        if job.is_watched:
            rescue(job.config, job.path, report=show)
        else:
            record(job.config, job.path, after_collapse=job.after_collapse, fixed=job.fixed, report=show)
    if missing:
        print(file=sys.stderr)  # noqa: T201 - ends the line of progress


def _kind(name: str) -> str:
    """Return the kind of the recordings that a name shows."""
    return "rescue" if name == "rescue" else "runs"


def _nothing_recorded(folder: Path) -> str:
    return f"nothing is recorded in {folder}; --out is the folder above the recordings"


def _tables(name: str, given: argparse.Namespace) -> str:
    if name in _OTHER_TABLES:
        return _OTHER_TABLES[name](given)
    arms = given.arms or EXPERIMENTS[name].arms
    tables = [table(_runs(given), arms)]
    if name in ("dynamics", "sizes"):
        tables.append(drift_table(_runs(given), arms))
    if name == "dynamics":
        tables += [course_table(_runs(given), arm) for arm in arms]
    if name == "displacement":
        tables.append(question_table(_runs(given), arms))
    if name == "siblings":
        tables.append(siblings_table(_runs(given), arms))
    decompositions = (decomposition_table, momentum_table, origin_table)
    if name == "multipliers":
        tables += [write(_runs(given), arms) for write in (sweep_table, *decompositions)]
    if name == "decomposition":
        tables += [write(_runs(given), arms) for write in (held_out_table, *decompositions)]
    return "\n\n".join(tables)


def _rescue(given: argparse.Namespace) -> str:
    folder = _runs(given, "rescue")
    forks = [cost_table(folder), forks_table(folder)] if read_runs(folder, "fork") else []
    return "\n\n".join([rescue_table(folder, _runs(given)), *forks])


_OTHER_TABLES: dict[str, Callable[[argparse.Namespace], str]] = {
    "evidence": lambda given: evidence(_runs(given), given.arms),
    "fair": lambda given: fair_table(_runs(given), given.arms or FAIR_ARMS),
    "healthy": lambda given: "\n\n".join(
        [healthy_table(given.out / "healthy"), acceleration_table(given.out / "healthy", HEALTHY)]
    ),
    "healthy-cost": lambda given: healthy_cost_table(given.out / "healthy-cost", given.arms or CURES),
    "overlap": lambda _: overlap_table(),
    "pilot": lambda given: "\n\n".join(
        write(_runs(given), given.arms or ARMS | PROBE_ARMS) for write in (pilot_table, common_steps_table)
    ),
    REGIMES: lambda given: regimes_table(given.out.parent),
    "rescue": _rescue,
    "search": lambda given: drift_table(given.out / "search", HYPOTHESES),
}
"""The tables that belong to no experiment of the catalogue."""


def _draw(name: str, given: argparse.Namespace) -> None:
    """Draw the recorded runs of an experiment."""
    try:
        from trainer_hooks.reference.experiments.figures.recorded import recorded_figure  # noqa: PLC0415 - plotly is optional
        from trainer_hooks.reference.experiments.figures.saving import (  # noqa: PLC0415
            PictureError,
            write_page,
            write_picture,
        )
    except ImportError:
        print("no figure: plotly is missing, pip install 'rlvitals[dashboard]'", file=sys.stderr)  # noqa: T201
        return
    figure = recorded_figure(name, preset=given.preset, folder=_runs(given), docs=given.out.parent)
    if figure is None:
        print(f"nothing is recorded that {name} could draw", file=sys.stderr)  # noqa: T201
        return
    stem = name if given.preset == DEMO or name == REGIMES else f"{given.preset}-{name}"
    write_page(figure, given.out / f"{stem}.html", offline=given.offline)
    try:
        if not write_picture(figure, given.out / f"{stem}.png"):
            print("no picture: chromium is not installed", file=sys.stderr)  # noqa: T201
    except PictureError as error:
        print(f"no picture: {error}", file=sys.stderr)  # noqa: T201
    print(f"drawn: {given.out / stem}.html", file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
