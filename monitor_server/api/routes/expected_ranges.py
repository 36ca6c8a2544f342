"""The expected ranges of signals: the values of healthy runs, which charts draw behind a run."""

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query

from monitor_server.api.dependencies import Reading, Serving, require_run
from monitor_server.api.error_handlers import NOT_FOUND
from monitor_server.api.schemas.expected_ranges import ExpectedRangeItem, ExpectedRanges
from monitor_server.detection.expected_ranges import MAX_SIGNALS

__all__ = ["router"]

router = APIRouter(prefix="/runs")

Signals = Annotated[
    list[str],
    Query(
        default_factory=list, max_length=MAX_SIGNALS, description="The signals to return; by default, all with a range"
    ),
]


@router.get("/{run_id}/expected-ranges", responses=NOT_FOUND)
def expected_ranges(run_id: str, reading: Reading, collector: Serving, signals: Signals) -> ExpectedRanges:
    """Return the range of the values of healthy runs, by step, as learnt by `rlvitals calibrate`.

    Without a calibration, and for a signal that fewer than five healthy runs logged, there is no item.
    """
    require_run(reading, run_id)
    known = collector.calibration.expected
    return ExpectedRanges(
        calibration=collector.calibration.id,
        items=[
            ExpectedRangeItem.model_validate({"signal": signal, **asdict(known[signal])})
            for signal in (dict.fromkeys(signals) or known)
            if signal in known
        ],
    )
