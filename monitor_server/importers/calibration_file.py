"""The file of a calibration, which `rlvitals calibrate` writes; the collector and other commands read it."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from monitor_server.configuration_files.reading import UnusableFileError, read_bounded
from monitor_server.detection.base_classes.detector import DETECTOR_VERSION
from monitor_server.detection.calibration import BUILTIN, Calibration, Profile
from monitor_server.detection.expected_ranges import MAX_SIGNALS, ExpectedRange
from monitor_server.detection.false_alarm_budget import Warranty
from monitor_server.errors import StartupError

__all__ = ["encode_calibration", "encode_computed", "load_calibration"]

LONGEST_FILE = 64 << 20  # bytes; the ranges of the largest possible number of signals take a tenth of it


def load_calibration(path: Path | None) -> Calibration:
    """Read a file that `rlvitals calibrate` wrote; None selects the built-in calibration.

    Raises:
        StartupError: If it cannot be read, or was made for other detectors.
    """
    if path is None:
        return BUILTIN
    try:
        content = json.loads(read_bounded(path, longest=LONGEST_FILE))
        profiles = {str(name): _read_profile(**factors) for name, factors in content["profiles"].items()}
        made_for, named = str(content["detectors"]), str(content["id"])
        warranty = _read_warranty(content["warranty"]) if "warranty" in content else None
        expected = _read_expected(content.get("expected", {}))
    except UnusableFileError as error:
        raise StartupError(f"the calibration must be a file that `rlvitals calibrate` wrote: {error}") from error
    except KeyError as error:
        raise StartupError(
            f"the calibration must be a file that `rlvitals calibrate` wrote, got {path}, which has no {error}"
        ) from error
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise StartupError(
            f"the calibration must be a file that `rlvitals calibrate` wrote, got {path}: {error}"
        ) from error
    if made_for != DETECTOR_VERSION:
        raise StartupError(
            f"the calibration {path} must be made for the detectors {DETECTOR_VERSION}, got {made_for}: calibrate again"
        )
    return Calibration(id=named, profiles=profiles, warranty=warranty, expected=expected)


def encode_calibration(calibration: Calibration) -> dict[str, Any]:
    """Return the content of the file, as JSON values."""
    content = {"id": calibration.id, "detectors": DETECTOR_VERSION, "profiles": {}}
    content |= encode_computed(calibration)
    if calibration.expected:
        content["expected"] = {signal: asdict(held) for signal, held in calibration.expected.items()}
    return content


def encode_computed(calibration: Calibration) -> dict[str, Any]:
    """Return the computed values as JSON values; without a warranty, only the profiles, as in earlier versions."""
    learnt: dict[str, Any] = {"profiles": {name: asdict(profile) for name, profile in calibration.profiles.items()}}
    return learnt if calibration.warranty is None else learnt | {"warranty": asdict(calibration.warranty)}


def _read_profile(*, warn: float, page: float) -> Profile:
    """Build the profile of a class of runs from the content of a file.

    Raises:
        ValueError: If a factor is not a finite number of at least 0.
    """
    profile = Profile(warn=float(warn), page=float(page))
    if not (0.0 <= profile.warn < math.inf and 0.0 <= profile.page < math.inf):
        raise ValueError(f"the factors of a profile must be finite and at least 0, got {profile}")
    return profile


def _read_warranty(content: Mapping[str, float]) -> Warranty:
    """Build the warranty from the content of a file.

    Raises:
        ValueError: If a number is missing or impossible.
    """
    gpu_hours = content.get("gpu_hours_per_page")
    warranty = Warranty(
        steps_per_page=float(content["steps_per_page"]),
        gpu_hours_per_page=None if gpu_hours is None else float(gpu_hours),
        weight=float(content["weight"]),
        **{name: int(content[name]) for name in ("runs", "steps", "longest")},
    )
    if not (0.0 < warranty.steps_per_page < math.inf and 0.0 <= warranty.weight < math.inf):
        raise ValueError(f"the warranty must state finite steps above 0 and a finite weight, got {warranty}")
    if gpu_hours is not None and not 0.0 < float(gpu_hours) < math.inf:
        raise ValueError(f"the GPU-hours of the warranty must be above 0 and finite, got {gpu_hours}")
    if min(warranty.runs, warranty.steps, warranty.longest) < 0:
        raise ValueError(f"the warranty must count runs and steps from 0 on, got {warranty}")
    return warranty


def _read_expected(content: Mapping[str, Mapping[str, Any]]) -> dict[str, ExpectedRange]:
    """Build the ranges from the content of a file.

    Raises:
        ValueError: If one of them is not a valid range, or there are more than a calibration writes.
    """
    if len(content) > MAX_SIGNALS:
        raise ValueError(f"the expected ranges must be those of {MAX_SIGNALS} signals at most, got {len(content)}")
    return {
        str(signal): ExpectedRange(
            steps=tuple(int(step) for step in held["steps"]),
            low=tuple(float(value) for value in held["low"]),
            high=tuple(float(value) for value in held["high"]),
            runs=int(held["runs"]),
        )
        for signal, held in content.items()
    }
