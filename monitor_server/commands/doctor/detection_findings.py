"""Checks the detectors of this version: the calibration file of the settings, and what judged alerts were found by."""

from collections.abc import Iterator

from pydantic import ValidationError

from monitor_server.commands.doctor.findings import DoctorFinding, Level
from monitor_server.detection.base_classes.detector import DETECTOR_VERSION
from monitor_server.detection.calibration import Calibration
from monitor_server.errors import StartupError
from monitor_server.importers.calibration_file import load_calibration
from monitor_server.settings import Settings

__all__ = ["check_detection"]


def check_detection(judged_calibration: str | None) -> Iterator[DoctorFinding]:
    """Yield the findings about the detectors that a collector of this version would run.

    Args:
        judged_calibration: The calibration that found the alert that was judged last; None if it is not known.
    """
    try:
        calibration = load_calibration(Settings().calibration)
    except ValidationError:
        return  # the settings have a finding of their own
    except StartupError as error:
        yield DoctorFinding(
            level=Level.PROBLEM,
            about="detection",
            text=str(error),
            advice="run `rlvitals calibrate` of this version; a collector does not start with this file",
        )
        return
    yield _detectors(calibration, judged_calibration)


def _detectors(calibration: Calibration, judged_calibration: str | None) -> DoctorFinding:
    own = DETECTOR_VERSION if calibration.id == DETECTOR_VERSION else f"{DETECTOR_VERSION} with {calibration.id}"
    if judged_calibration in (None, calibration.id):
        return DoctorFinding(level=Level.OK, about="detection", text=f"the detectors are {own}")
    return DoctorFinding(
        level=Level.WARNING,
        about="detection",
        text=f"the detectors are {own}, and the alert that was judged last was found by {judged_calibration}",
        advice="`rlvitals reassess` says whether they are worse on the judged runs (docs/warranty.md)",
    )
