"""A retrieval server of Search-R1's form: POST queries, get passages."""

from collections.abc import Sequence
from typing import Any

import msgspec
import urllib3

from trainer_hooks.reference.custom_task.tool import ToolError

__all__ = ["RetrievalServer"]


class _Document(msgspec.Struct):
    contents: str


class _Found(msgspec.Struct):
    document: _Document
    score: float | None = None


class _SearchAnswer(msgspec.Struct):
    result: list[list[_Found]]


_ANSWERS = msgspec.json.Decoder(_SearchAnswer)


class RetrievalServer:
    """A client of ``POST /retrieve`` with ``{"queries", "topk", "return_scores"}``.

    It answers ``{"result": [[{"document": {"contents": text}, "score": number}, ...], ...]}``, a list a query.

    Args:
        url: The server's address, with or without ``/retrieve``.
        topk: The largest number of passages that a query returns.
        timeout_seconds: Longest wait for a connection, and then for an answer, at each of four tries.
        pause_seconds: Wait before the third try; twice that before the fourth.
    """

    def __init__(self, url: str, *, topk: int, timeout_seconds: float, pause_seconds: float = 1.0) -> None:
        base = url.rstrip("/")
        self._url = base if base.endswith("/retrieve") else f"{base}/retrieve"
        self._topk = topk
        tries = urllib3.Retry(
            total=3,
            backoff_factor=pause_seconds / 2,
            status_forcelist=(429, 500, 502, 503, 504),
            allowed_methods=None,  # a search changes nothing, so POST may be tried again
            raise_on_status=False,
        )
        self._pool = urllib3.PoolManager(timeout=urllib3.Timeout(timeout_seconds), retries=tries)

    def search(self, queries: Sequence[str]) -> list[list[str]]:
        """Ask for all queries in one request.

        Raises:
            ToolError: If the server is down, refuses, or does not answer with passages for each query.
        """
        body: dict[str, Any] = {"queries": list(queries), "topk": self._topk, "return_scores": True}
        try:
            answer = self._pool.request("POST", self._url, json=body)
        except urllib3.exceptions.HTTPError as error:
            raise ToolError(
                f"the retrieval server must answer at {self._url}: {error}; start it, then --resume"
            ) from error
        if answer.status != 200:  # noqa: PLR2004 - OK
            body_text = answer.data[:200].decode(errors="replace")
            raise ToolError(f"{self._url} must answer 200, got {answer.status}: {body_text}")
        try:
            found = _ANSWERS.decode(answer.data).result
        except msgspec.DecodeError as error:
            raise ToolError(
                f'{self._url} must answer {{"result": [[{{"document": {{"contents": ...}}, "score": ...}}]]}}: {error}'
            ) from error
        return [[item.document.contents for item in row[: self._topk]] for row in found]
