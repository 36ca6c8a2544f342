"""Rules of the user's own."""

from collections.abc import Mapping
from typing import cast

from dashboard.collector_client.answers import read_as
from dashboard.collector_client.http_requests import PAGE_ITEMS, Requests, item_path
from dashboard.collector_client.types.rules import DryRunItem, RuleItem, RunRuleItem

__all__ = ["Rules"]


class Rules:
    """Rules of the user's own.

    Args:
        requests: What sends the requests to the collector.
    """

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def all(self) -> list[RuleItem]:
        """Read the rules that the caller reaches, the newest first."""
        return cast("list[RuleItem]", await self._requests.items("/rules", {"limit": PAGE_ITEMS}))

    async def of_run(self, run_id: str) -> list[RunRuleItem]:
        """Read the rules that concern a run, with their states."""
        return read_as(list[RunRuleItem], await self._requests.items(f"{item_path('runs', run_id)}/rules", {}))

    async def get(self, rule_id: str) -> RuleItem:
        """Read one rule."""
        return cast("RuleItem", await self._requests.get(item_path("rules", rule_id), {}))

    async def save(self, rule_id: str | None, rule: Mapping[str, object], *, version: int | None = None) -> RuleItem:
        """Make a rule, or change the one of an id.

        Args:
            rule_id: The rule, or None to make one.
            rule: The content of the rule.
            version: The version of the rule that was read; the change is refused if the rule has another version now.
        """
        asked = {"rule": dict(rule), "by": "the dashboard"} | ({} if version is None else {"version": version})
        method, path = ("POST", "/rules") if rule_id is None else ("PUT", item_path("rules", rule_id))
        return cast("RuleItem", await self._requests.ask(method, path, json=asked))

    async def delete(self, rule_id: str) -> None:
        """Delete a rule."""
        await self._requests.ask("DELETE", item_path("rules", rule_id))

    async def dry_run(self, run_id: str, rule: Mapping[str, object]) -> DryRunItem:
        """Read when a rule would have fired on a recorded run."""
        asked = {"run_id": run_id, "rule": dict(rule)}
        return read_as(DryRunItem, await self._requests.ask("POST", "/rules/dry-run", json=asked, is_saved=False))
