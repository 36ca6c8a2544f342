"""The metrics of Prometheus' registry as OpenTelemetry's."""

import itertools
import time
from collections.abc import Iterable
from typing import Any, Final

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric as Family

__all__ = ["SCOPE", "RegistryMetrics"]

SCOPE: Final = "rlvitals"
UNITS: Final = {"_seconds": "s", "_bytes": "By"}  # by the end of the name


class RegistryMetrics:
    """Reads the registry of Prometheus as OpenTelemetry's metrics, under the same names."""

    def __init__(self, registry: CollectorRegistry, resource: Resource) -> None:
        self._registry = registry
        self._resource = resource
        self._since = time.time_ns()  # the counters of this process began at 0 at this time

    def read(self) -> MetricsData:
        """Return the current values of all metrics."""
        now = time.time_ns()
        metrics = [
            Metric(each.name, each.documentation, _unit(each.name), self._data(each, now)) for each in self._families()
        ]
        scope = ScopeMetrics(InstrumentationScope(SCOPE), metrics, "")
        return MetricsData([ResourceMetrics(self._resource, [scope], "")])

    def _families(self) -> Iterable[Family]:
        return (family for family in self._registry.collect() if family.samples)

    def _data(self, family: Family, now: int) -> Sum | Gauge | Histogram:
        cumulative = AggregationTemporality.CUMULATIVE
        if family.type == "histogram":
            return Histogram(self._histograms(family, now), cumulative)
        points = [
            NumberDataPoint(sample.labels, self._since, now, sample.value)
            for sample in family.samples
            if not sample.name.endswith("_created")
        ]
        return Sum(points, cumulative, is_monotonic=True) if family.type == "counter" else Gauge(points)

    def _histograms(self, family: Family, now: int) -> list[HistogramDataPoint]:
        """Return the points of a histogram: Prometheus counts below each bound, OpenTelemetry between two bounds."""
        found: dict[tuple[tuple[str, str], ...], dict[str, Any]] = {}
        for sample in family.samples:
            labels = {name: value for name, value in sample.labels.items() if name != "le"}
            point = found.setdefault(tuple(sorted(labels.items())), {"labels": labels, "buckets": []})
            if sample.name.endswith("_bucket"):
                point["buckets"].append((float(sample.labels["le"]), sample.value))
            elif sample.name.endswith("_sum"):
                point["sum"] = sample.value
        points = []
        unknown: Any = None  # Prometheus keeps neither the lowest nor the highest value
        for point in found.values():
            bounds = [bound for bound, _ in point["buckets"]]
            below = [0.0, *(count for _, count in point["buckets"])]
            counts = [int(high - low) for low, high in itertools.pairwise(below)]
            points.append(
                HistogramDataPoint(
                    point["labels"], self._since, now, int(below[-1]), point["sum"], counts, bounds[:-1],
                    unknown, unknown,
                )
            )  # fmt: skip
        return points


def _unit(name: str) -> str:
    return next((unit for end, unit in UNITS.items() if name.endswith(end)), "")
