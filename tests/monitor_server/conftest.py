"""Fixtures that tests of the collector share: scripted detectors, a clock, and a store."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

import pytest

from monitor_server.access.rate_limits import AddressLimits, RateLimits
from monitor_server.detection.protocol import Acknowledgement, Assessment, Finding, Observation, Phase, Severity
from monitor_server.ingest.record_log.log_append import LogAppender
from monitor_server.ingest.validation.validate import read_batch
from monitor_server.settings import Settings
from monitor_server.store.database import Store
from trainer_hooks import wire


class ScriptedEngine:
    """Finds what the signals state: `phase` is an index into Phase; `tell`, `warn` and `page` are findings above 0."""

    def __init__(self) -> None:
        self.seen: list[list[int]] = []

    def update(self, observation: Observation) -> Assessment:
        """Return the findings and the phase that the signals ask for."""
        signals = observation.signals
        if signals.get("fail", 0) > 0:
            raise ArithmeticError("scripted to fail")
        self.seen.append([observation.attempt, observation.step])
        findings = [
            Finding(
                kind="scripted",
                severity=severity,
                step=observation.step,
                score=signals[name],
                threshold=0.0,
                summary=f"{name} is {signals[name]}",
                evidence={"seen": self.seen, "score": signals[name]},
            )
            for name, severity in (("tell", Severity.INFO), ("warn", Severity.WARNING), ("page", Severity.CRITICAL))
            if signals.get(name, 0) > 0
        ]
        phase = list(Phase)[int(signals.get("phase", 1))]
        return Assessment(step=observation.step, phase=phase, findings=findings)

    def acknowledge(self, acknowledgement: Acknowledgement) -> None:
        """Record the acknowledgement among the steps."""
        self.seen.append([acknowledgement.attempt, acknowledgement.step, acknowledgement.kind])

    def state(self) -> dict[str, Any]:
        """Return the steps and acknowledgements so far."""
        return {"seen": self.seen}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Continue from a state."""
        engine = cls()
        engine.seen = list(state["seen"])
        return engine


class StepClock:
    """A clock that only a test moves."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        """Return the time."""
        return self.now


@pytest.fixture
def scripted() -> type[ScriptedEngine]:
    """Detectors whose findings are stated by the signals."""
    return ScriptedEngine


@pytest.fixture
def clock() -> StepClock:
    """A clock that moves by `clock.now += seconds`."""
    return StepClock()


@pytest.fixture
def still_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no time pass for the rate limits of the collectors that start from here on."""
    for kind in (AddressLimits, RateLimits):
        monkeypatch.setitem(kind.__init__.__kwdefaults__, "time", lambda: 0.0)


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    """An empty store."""
    opened = Store.open(database_url)
    yield opened
    opened.close()


@pytest.fixture
def append(store: Store, clock: StepClock) -> Callable[..., str]:
    """Return a function that appends a batch to its run's log without HTTP and returns the run's id."""
    settings = Settings()
    log = LogAppender(settings=settings, clock=clock)

    def append_batch(**batch: Any) -> str:
        body = json.dumps({"schema_version": wire.SCHEMA_VERSION, "run": "r"} | batch).encode()
        valid = read_batch(body, media_type=wire.JSON, encoding="", settings=settings, now=clock.now)
        with store.write() as repositories:
            appended = log.append_deferred(repositories, valid)
            log.flush(repositories)
        return appended.run_id

    return append_batch
