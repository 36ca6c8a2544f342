"""Reads the collector's HTTP API: one method per route, which returns the types of `dashboard.api.types`.

It neither caches nor draws.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final, cast
from urllib.parse import quote, urlencode

import httpx2

from dashboard.api.answers import to_floats
from dashboard.api.errors import refused
from dashboard.api.requests import Query, Requests, item_path
from dashboard.api.types.administration import (
    AuditItem,
    ChannelItem,
    CheckedFile,
    KeyItem,
    LimitItem,
    NotificationSettings,
    RemovalItem,
    VersionItem,
    ViewItem,
)
from dashboard.api.types.alerts import ActionItem, AlertItem, ForkItem, HistoryItem, JudgementItem, WarrantyItem
from dashboard.api.types.responses import Attribution, ResponseItem, ResponsePairs
from dashboard.api.types.rules import DryRunItem, RuleItem, RunRuleItem
from dashboard.api.types.runs import (
    MAX_RUNS,
    ExpectedRangeItem,
    ForecastItem,
    MarkItem,
    PhaseItem,
    RunDetail,
    RunItem,
    SeriesItem,
)

__all__ = ["ApiClient"]

PAGE_ITEMS: Final = 200
RUN_PAGE_ITEMS: Final = 1000  # the most that the collector returns at once
ALL_POINTS: Final = 1_000_000  # the most that the collector returns of one signal
MAX_RESPONSES: Final = 24  # token strips are slow to draw, and nobody reads more at once


class ApiClient(Requests):
    """The routes of one collector; see `Requests` for its arguments."""

    async def runs(self) -> list[RunItem]:
        """Read all runs, `MAX_RUNS` at most."""
        runs = cast("list[RunItem]", await self._items("/runs", {"limit": RUN_PAGE_ITEMS}, most=MAX_RUNS))
        for run in runs:
            _restore_sparkline(run)
        return runs

    async def run(self, run_id: str) -> RunDetail:
        """Read one run, with its config and the names of its signals."""
        run = cast("RunDetail", await self._get(item_path("runs", run_id), {}))
        _restore_sparkline(run)
        return run

    async def series(
        self,
        run_id: str,
        signals: Sequence[str],
        *,
        max_points: int = ALL_POINTS,
        steps: tuple[int, int] | None = None,
        times: bool = False,
    ) -> dict[str, SeriesItem]:
        """Read the signals that were observed, by name.

        Args:
            run_id: The run.
            signals: Names of signals.
            max_points: At most this many points of each; the extremes are kept.
            steps: The first and the last step, or None for all.
            times: Whether to read the time of each step as well.
        """
        if not signals:
            return {}
        query: Query = {"signals": list(signals), "max_points": max_points}
        if steps is not None:
            query |= {"from_step": steps[0], "to_step": steps[1]}
        if times:
            query["times"] = "true"
        items = cast("list[SeriesItem]", await self._items(item_path("runs", run_id, "series"), query))
        series: dict[str, SeriesItem] = {}
        for item in items:
            if not item["steps"]:
                continue
            item["values"] = cast("list[float]", to_floats(item["values"]))
            if (begun := series.setdefault(item["signal"], item)) is not item:  # the rest of a long signal
                begun["steps"] += item["steps"]
                begun["values"] += item["values"]
                if times:
                    begun["times"] = [*(begun["times"] or ()), *(item["times"] or ())]
        return series

    async def phases(self, run_id: str) -> list[PhaseItem]:
        """Read a run's phases, oldest first."""
        return cast("list[PhaseItem]", await self._items(item_path("runs", run_id, "phases"), {}))

    async def marks(self, run_id: str) -> list[MarkItem]:
        """Read what happened to a run at a step, in the order of steps."""
        return cast("list[MarkItem]", await self._items(item_path("runs", run_id, "marks"), {}))

    async def expected_ranges(self, run_id: str, signals: Sequence[str]) -> dict[str, ExpectedRangeItem]:
        """Read where the values of healthy runs were, by signal; signals of which that is not known are left out."""
        query: Query = {"signals": list(signals)}
        answer = await self._get(item_path("runs", run_id, "expected-ranges"), query)
        return {item["signal"]: item for item in cast("list[ExpectedRangeItem]", answer["items"])}

    async def forecast(self, run_id: str) -> ForecastItem | None:
        """Read how probable a collapse of a run is; None before the first step and after a collapse."""
        answer = await self._ask("GET", item_path("runs", run_id, "forecast"), is_nullable=True)
        return cast("ForecastItem", answer) if answer else None

    async def alerts(self, run_id: str | None = None, *, state: str | None = None) -> list[AlertItem]:
        """Read the alerts of one run or of all runs, in one state or in any."""
        query: Query = {"limit": PAGE_ITEMS}
        if state is not None:
            query["state"] = state
        path = "/alerts" if run_id is None else item_path("runs", run_id, "alerts")
        items = cast("list[AlertItem]", await self._items(path, query))
        return [
            {**item, "evidence": cast("dict[str, object]", to_floats(item.get("evidence") or {}))} for item in items
        ]

    async def alert(self, alert_id: str) -> AlertItem:
        """Read one alert."""
        return cast("AlertItem", to_floats(await self._get(item_path("alerts", alert_id), {})))

    async def history(self, alert_id: str) -> list[HistoryItem]:
        """Read what has happened to the alerts of this alert's run and kind, the newest first, 100 at most."""
        answer = await self._get(item_path("alerts", alert_id, "history"), {"limit": 100})
        return cast("list[HistoryItem]", answer["items"])

    async def comment(self, alert_id: str, text: str) -> None:
        """Add a comment to the history of an alert."""
        await self._ask("POST", item_path("alerts", alert_id, "comments"), json={"by": "the dashboard", "text": text})

    async def silence(self, alert_id: str, *, minutes: int | None, reason: str) -> None:
        """Silence an alert for some minutes, or until it is resolved."""
        end: dict[str, object] = {"until_resolved": True} if minutes is None else {"minutes": minutes}
        asked = {"alert_id": alert_id, "by": "the dashboard", "reason": reason, **end}
        await self._ask("POST", "/silences", json=asked)

    async def acknowledge(self, alert_id: str) -> None:
        """Acknowledge an alert in the name of the dashboard."""
        await self._ask("POST", item_path("alerts", alert_id, "ack"), json={"by": "the dashboard"})

    async def judgements(self, run_id: str) -> dict[str, JudgementItem]:
        """Read whether the alarms of a run were right, by alert; those that nobody has judged are left out."""
        items = await self._items(item_path("runs", run_id, "judgements"), {})
        return {item["alert_id"]: item for item in cast("list[JudgementItem]", items)}

    async def judge(self, alert_id: str, *, is_right: bool, failed_at: int | None, note: str) -> JudgementItem:
        """Say whether an alarm was right, and at which step the run failed if that is known."""
        asked = {"is_right": is_right, "failed_at": failed_at, "note": note, "by": "the dashboard"}
        return cast("JudgementItem", await self._ask("POST", item_path("alerts", alert_id, "judgement"), json=asked))

    async def warranty(self, run_id: str) -> WarrantyItem | None:
        """Read what a budget of false pages allows a run; None where no budget is stated."""
        answer = await self._ask("GET", item_path("runs", run_id, "warranty"), is_nullable=True)
        return cast("WarrantyItem", to_floats(answer)) if answer else None

    async def label(self, run_id: str, **labels: object) -> None:
        """Change title, tags, notes or whether a run is archived."""
        await self._ask("PATCH", item_path("runs", run_id), json=labels)

    async def delete_run(self, run_id: str, *, is_forced: bool = False) -> None:
        """Delete a run; one whose trainer sends only if forced."""
        await self._ask("DELETE", item_path("runs", run_id), params={"force": str(is_forced).lower()})

    async def delete_project(self, name: str) -> None:
        """Delete all runs of a project, unless a trainer of one sends."""
        await self._ask("DELETE", f"/projects/{quote(name, safe='')}")

    async def scope(self) -> str:
        """Read what the caller may do."""
        return str((await self._get("/session", {}))["scope"])

    async def keys(self) -> list[KeyItem]:
        """Read the keys that there are and were."""
        return cast("list[KeyItem]", await self._items("/keys", {}))

    async def make_key(self, asked: Mapping[str, object]) -> dict[str, object]:
        """Make a key, and return it with ``key``, which is not stored anywhere."""
        return await self._ask("POST", "/keys", json=dict(asked))

    async def revoke_key(self, key: str) -> None:
        """Revoke a key."""
        await self._ask("DELETE", item_path("keys", key))

    async def rules(self) -> list[RuleItem]:
        """Read the rules that the caller reaches, the newest first."""
        return cast("list[RuleItem]", await self._items("/rules", {"limit": PAGE_ITEMS}))

    async def rules_of_run(self, run_id: str) -> list[RunRuleItem]:
        """Read the rules that concern a run, with their states."""
        return cast("list[RunRuleItem]", to_floats(await self._items(f"{item_path('runs', run_id)}/rules", {})))

    async def rule(self, rule_id: str) -> RuleItem:
        """Read one rule."""
        return cast("RuleItem", await self._get(item_path("rules", rule_id), {}))

    async def save_rule(self, rule_id: str | None, rule: Mapping[str, object]) -> RuleItem:
        """Make a rule, or change the one of an id."""
        asked = {"rule": dict(rule), "by": "the dashboard"}
        method, path = ("POST", "/rules") if rule_id is None else ("PUT", item_path("rules", rule_id))
        return cast("RuleItem", await self._ask(method, path, json=asked))

    async def delete_rule(self, rule_id: str) -> None:
        """Delete a rule."""
        await self._ask("DELETE", item_path("rules", rule_id))

    async def try_rule(self, run_id: str, rule: Mapping[str, object]) -> DryRunItem:
        """Read when a rule would have fired on a recorded run."""
        asked = {"run_id": run_id, "rule": dict(rule)}
        return cast("DryRunItem", to_floats(await self._ask("POST", "/rules/dry-run", json=asked)))

    async def channels(self) -> list[ChannelItem]:
        """Read the channels of notifications."""
        return cast("list[ChannelItem]", await self._items("/notifications/channels", {}))

    async def notification_settings(self) -> NotificationSettings:
        """Read the channels and routes in force, without secrets."""
        return cast("NotificationSettings", await self._get("/notifications/settings", {}))

    async def save_notifications(self, version: int, settings: Mapping[str, object]) -> NotificationSettings:
        """Put channels and routes into force in the place of a version."""
        asked = {"version": version, "settings": dict(settings), "by": "the dashboard"}
        return cast("NotificationSettings", await self._ask("PUT", "/notifications/settings", json=asked))

    async def notification_versions(self, *, limit: int) -> list[VersionItem]:
        """Read what was saved of channels and routes, the newest first."""
        answer = await self._get("/notifications/settings/versions", {"limit": limit})
        return cast("list[VersionItem]", answer["items"])

    async def restore_notifications(self, version: int, restored: int) -> NotificationSettings:
        """Put an earlier version of channels and routes into force in the place of a version."""
        path, asked = (
            f"/notifications/settings/versions/{restored}/restore",
            {"version": version, "by": "the dashboard"},
        )
        return cast("NotificationSettings", await self._ask("POST", path, json=asked))

    async def check_notifications(self, text: str) -> CheckedFile:
        """Check the text of a file of channels and routes; nothing is stored or sent."""
        return cast("CheckedFile", await self._ask("POST", "/notifications/check", json={"text": text}))

    async def test_channel(self, name: str) -> None:
        """Send a test message to a channel."""
        await self._ask("POST", f"/notifications/channels/{quote(name, safe='')}/test", json={})

    async def audit(self, *, limit: int) -> list[AuditItem]:
        """Read the newest changes that people made."""
        answer = await self._get("/audit", {"limit": limit})
        return cast("list[AuditItem]", answer["items"])

    async def retention(self) -> list[LimitItem]:
        """Read how long the collector keeps data."""
        return cast("list[LimitItem]", await self._items("/retention", {}))

    async def preview_retention(self, limits: Mapping[str, float | None]) -> list[RemovalItem]:
        """Read what limits would remove; nothing is changed."""
        answer = await self._ask("POST", "/retention/preview", json={"limits": dict(limits)})
        return cast("list[RemovalItem]", answer["items"])

    async def save_retention(
        self, limits: Mapping[str, float | None], seen: Mapping[str, float | None]
    ) -> list[LimitItem]:
        """Save limits in the place of those that were seen."""
        asked = {"limits": dict(limits), "seen": dict(seen), "by": "the dashboard"}
        return cast("list[LimitItem]", (await self._ask("PUT", "/retention", json=asked))["items"])

    async def play_sample(self) -> None:
        """Have the collector play the recorded collapse that it comes with."""
        await self._ask("POST", "/sample", json={})

    async def add_ablation(self) -> dict[str, int]:
        """Have the collector store the recorded ablation that it comes with; return its runs' last steps by id."""
        return cast("dict[str, int]", (await self._ask("POST", "/sample/ablation", json={}))["last_steps"])

    async def actions(self, run_id: str) -> list[ActionItem]:
        """Read the actions that a run's trainer reported, newest first, `MAX_ITEMS` at most."""
        items = await self._items(item_path("runs", run_id, "actions"), {"limit": PAGE_ITEMS})
        actions = cast("list[ActionItem]", items)
        for action in actions:
            # An older collector knows no forks.
            action["forks"] = cast("list[ForkItem]", to_floats(action.get("forks", [])))
        return actions

    async def responses(
        self,
        run_id: str,
        *,
        from_step: int | None = None,
        to_step: int | None = None,
        correct: bool | None = None,
        kind: str | None = None,
        limit: int = MAX_RESPONSES,
    ) -> list[ResponseItem]:
        """Read the newest sampled responses of a run.

        Args:
            run_id: The run.
            from_step: The first step, or None.
            to_step: The last step, or None.
            correct: Only correct or only incorrect ones, or None for both.
            kind: Why they were sampled, such as ``random``, or None for all.
            limit: The most that are read, 200 at most.
        """
        query = {"limit": limit} | _steps(from_step, to_step)
        if kind is not None:
            query["kind"] = kind
        if correct is not None:
            query["correct"] = str(correct).lower()
        answer = await self._get(item_path("runs", run_id, "responses"), query)
        return cast("list[ResponseItem]", to_floats(answer["items"]))

    async def response_pairs(self, run_id: str, *, from_step: int | None, to_step: int | None) -> ResponsePairs:
        """Read displaced correct responses of some steps, each with the incorrect one that is most alike."""
        answer = await self._get(item_path("runs", run_id, "response-pairs"), _steps(from_step, to_step))
        return cast("ResponsePairs", to_floats(answer))

    async def views(self) -> list[ViewItem]:
        """Read the saved views of the fleet, the newest first."""
        return cast("list[ViewItem]", await self._items("/views", {"limit": PAGE_ITEMS}))

    async def save_view(self, name: str, query: str) -> ViewItem:
        """Save a view of the fleet, in the place of the one of its name."""
        asked = {"name": name, "query": query, "by": "the dashboard"}
        return cast("ViewItem", await self._ask("POST", "/views", json=asked))

    async def delete_view(self, view_id: str) -> None:
        """Delete a saved view."""
        await self._ask("DELETE", item_path("views", view_id))

    async def attribution(self, alert_id: str) -> Attribution:
        """Read the attribution of an alert."""
        return cast("Attribution", to_floats(await self._get(item_path("alerts", alert_id, "attribution"), {})))

    async def incident(self, alert_id: str) -> bytes:
        """Read the incident report of an alert, an HTML file."""
        response = await self._request("GET", item_path("alerts", alert_id, "incident"))
        if response.is_error:
            raise refused(response.status_code, response.text[:200])
        return response.content

    async def stream(self, run_id: str | None = None) -> AsyncIterator[bytes]:
        """Yield the bytes of the collector's server-sent events as they come, until either side ends."""
        query = "" if run_id is None else f"?{urlencode({'run_id': run_id})}"
        timeout = httpx2.Timeout(10.0, read=None)
        try:
            async with self._http.stream("GET", f"/api/v1/stream{query}", timeout=timeout) as response:
                async for chunk in response.aiter_raw():
                    yield chunk
        except httpx2.HTTPError:
            return  # the browser reconnects by itself


def _steps(first: int | None, last: int | None) -> Query:
    return {name: step for name, step in (("from_step", first), ("to_step", last)) if step is not None}


def _restore_sparkline(run: RunItem) -> None:
    sparkline = run.get("sparkline")
    if sparkline:
        sparkline["values"] = cast("list[float]", to_floats(sparkline["values"]))
