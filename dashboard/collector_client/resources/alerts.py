"""Alerts, their history and their explanation, and what people do about them."""

from typing import cast

from dashboard.collector_client.answers import read_as
from dashboard.collector_client.errors import error_of_answer
from dashboard.collector_client.http_requests import MAX_ITEMS, PAGE_ITEMS, Query, Requests, item_path
from dashboard.collector_client.types.alerts import AlertItem, HistoryItem, JudgementItem
from dashboard.collector_client.types.responses import Attribution

__all__ = ["Alerts"]


class Alerts:
    """Alerts, their history and their explanation, and what people do about them.

    Args:
        requests: What sends the requests to the collector.
    """

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def all(self, run_id: str, *, state: str | None = None) -> list[AlertItem]:
        """Read the newest `MAX_ITEMS` alerts of a run, in one state or in any.

        Of alerts in any state, those that fire are read also where they are older.
        """
        query: Query = {"limit": PAGE_ITEMS}
        if state is not None:
            query["state"] = state
        newest = read_as(list[AlertItem], await self._requests.items(item_path("runs", run_id, "alerts"), query))
        if state is not None or len(newest) < MAX_ITEMS:
            return newest
        known = {alert["id"] for alert in newest}
        return newest + [alert for alert in await self.all(run_id, state="firing") if alert["id"] not in known]

    async def get(self, alert_id: str) -> AlertItem:
        """Read one alert."""
        return read_as(AlertItem, await self._requests.get(item_path("alerts", alert_id), {}))

    async def history(self, alert_id: str) -> list[HistoryItem]:
        """Read what has happened to the alerts of this alert's run and kind, the newest first, 100 at most."""
        answer = await self._requests.get(item_path("alerts", alert_id, "history"), {"limit": 100})
        return read_as(list[HistoryItem], answer["items"])

    async def attribution(self, alert_id: str) -> Attribution:
        """Read the attribution of an alert."""
        return read_as(Attribution, await self._requests.get(item_path("alerts", alert_id, "attribution"), {}))

    async def incident(self, alert_id: str) -> bytes:
        """Read the incident report of an alert, an HTML file."""
        response = await self._requests.send("GET", item_path("alerts", alert_id, "incident"))
        if response.is_error:
            raise error_of_answer(response.status_code, response.text[:200])
        return response.content

    async def comment(self, alert_id: str, text: str) -> None:
        """Add a comment to the history of an alert."""
        await self._requests.ask(
            "POST", item_path("alerts", alert_id, "comments"), json={"by": "the dashboard", "text": text}
        )

    async def silence(self, alert_id: str, *, minutes: int | None, reason: str) -> None:
        """Silence an alert for some minutes, or until it is resolved."""
        end: dict[str, object] = {"until_resolved": True} if minutes is None else {"minutes": minutes}
        asked = {"alert_id": alert_id, "by": "the dashboard", "reason": reason, **end}
        await self._requests.ask("POST", "/silences", json=asked)

    async def acknowledge(self, alert_id: str) -> None:
        """Acknowledge an alert in the name of the dashboard."""
        await self._requests.ask("POST", item_path("alerts", alert_id, "ack"), json={"by": "the dashboard"})

    async def judge(self, alert_id: str, *, is_right: bool, failed_at: int | None, note: str) -> JudgementItem:
        """Say whether an alarm was right, and at which step the run failed if that is known."""
        asked = {"is_right": is_right, "failed_at": failed_at, "note": note, "by": "the dashboard"}
        return cast(
            "JudgementItem", await self._requests.ask("POST", item_path("alerts", alert_id, "judgement"), json=asked)
        )
