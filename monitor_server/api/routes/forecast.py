"""The forecast of a run: the probability of a collapse, and the evidence that raises it."""

from fastapi import APIRouter

from monitor_server.api.dependencies import Reading, require_run
from monitor_server.api.error_handlers import NOT_FOUND
from monitor_server.api.schemas import ForecastItem, forecast_item

__all__ = ["router"]

router = APIRouter(prefix="/runs")


@router.get("/{run_id}/forecast", responses=NOT_FOUND)
def forecast(run_id: str, reading: Reading) -> ForecastItem | None:
    """Return the probability of a collapse within the next 10, 25 and 50 recorded steps, and the evidence for it.

    The answer is null before the first step, once the run has collapsed, and if the saved state of detection is
    damaged.
    """
    require_run(reading, run_id)
    saved = reading.detector_states.load(run_id)
    return None if saved is None else forecast_item(saved.step, saved.state)
