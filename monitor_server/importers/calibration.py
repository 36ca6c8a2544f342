"""Reads a calibration that `rlvitals calibrate` wrote."""

import json
from pathlib import Path

from monitor_server.detection.base_classes.detector import CALIBRATION
from monitor_server.detection.calibration import BUILTIN, Calibration, Profile
from monitor_server.errors import StartupError

__all__ = ["load_calibration"]


def load_calibration(path: Path | None) -> Calibration:
    """Read a file that `rlvitals calibrate` wrote; None is the built-in calibration.

    Raises:
        StartupError: If it cannot be read, or was made for other detectors than these.
    """
    if path is None:
        return BUILTIN
    try:
        content = json.loads(path.read_text())
        profiles = {str(name): Profile(**factors) for name, factors in content["profiles"].items()}
        made_for, named = str(content["detectors"]), str(content["id"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StartupError(
            f"the calibration must be a file that `rlvitals calibrate` wrote, got {path}: {error}"
        ) from error
    if made_for != CALIBRATION:
        raise StartupError(
            f"the calibration {path} must be made for the detectors {CALIBRATION}, got {made_for}: calibrate again"
        )
    return Calibration(id=named, profiles=profiles)
