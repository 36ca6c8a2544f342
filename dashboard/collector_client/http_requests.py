"""Sends HTTP requests to one collector and checks that its answers are JSON."""

import re
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Final, Self, cast
from urllib.parse import urlsplit

import httpx2

from dashboard.collector_client.answers import printable_tree
from dashboard.collector_client.errors import (
    NotFoundError,
    UnconfirmedError,
    UnreachableError,
    error_of_answer,
)
from dashboard.collector_client.request_outcomes import note_failure, note_saved
from dashboard.sign_in.credentials import current_credentials
from dashboard.transport import ResetReportingTransport

__all__ = ["MAX_ITEMS", "PAGE_ITEMS", "Query", "Requests", "item_path", "without_credentials"]

PAGE_ITEMS: Final = 200
MAX_ITEMS: Final = 1000  # nobody reads more than a thousand rows; filters find the rest
CHANGE_SECONDS: Final = 35.0  # the collector says after 28 s at the latest whether it has stored a change
CERTAIN: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)  # errors before a request was sent
ID: Final = re.compile(r"[0-9A-Za-z_-]{1,64}")  # ids are hexadecimal; none needs to be quoted in a path

Query = dict[str, str | int | list[str]]


class _Answer(dict[str, object]):
    """An object that a collector answered: to read a field that it lacks raises `UnreachableError` of a kind."""

    def __init__(self, answer: dict[str, object], kind: type[UnreachableError], shown_url: str) -> None:
        super().__init__(answer)
        self._kind, self._shown_url = kind, shown_url

    def __missing__(self, name: str) -> object:
        if self._kind is not UnconfirmedError:
            note_failure()
        raise self.lacking()

    def lacking(self) -> UnreachableError:
        """Return the error of an object that lacks a field."""
        return self._kind(f"{self._shown_url} answered with an object that lacks a field; is it a collector?")


class Requests:
    """Sends requests to one collector. An async context manager, which opens and closes the connection.

    Args:
        base_url: The collector's address, such as ``http://127.0.0.1:8600``.
        timeout_seconds: How long one call may take; the answer to a change may take `CHANGE_SECONDS`.
    """

    def __init__(self, base_url: str, *, timeout_seconds: float = 10.0) -> None:
        self.base_url = base_url.rstrip("/")
        self.shown_url = without_credentials(self.base_url)
        change_seconds = max(timeout_seconds, CHANGE_SECONDS)
        self._change_timeout = httpx2.Timeout(timeout_seconds, read=change_seconds)
        self._http = httpx2.AsyncClient(
            base_url=self.base_url,
            timeout=timeout_seconds,
            # verify=True loads every root certificate for each client; only https needs them.
            transport=ResetReportingTransport(verify=self.base_url.startswith("https"), trust_env=False),
            trust_env=False,
            headers=current_credentials(),
        )

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.__aexit__(kind, error, trace)

    async def items(self, path: str, query: Query, *, most: int = MAX_ITEMS) -> list[object]:
        """Return the items of a list, read page by page, ``most`` at most."""
        items: list[object] = []
        cursor: str | None = None
        while True:
            page = await self.get(path, query if cursor is None else {**query, "cursor": cursor})
            items += cast("list[object]", page["items"])
            cursor = cast("str | None", page.get("next"))
            if cursor is None or len(items) >= most:
                return items[:most]

    async def get(self, path: str, query: Query) -> dict[str, object]:
        """Return the object that a route answers."""
        return await self.ask("GET", path, params=query)

    async def ask(
        self,
        method: str,
        path: str,
        *,
        is_nullable: bool = False,
        is_saved: bool = True,
        **asked: Any,  # noqa: ANN401 - httpx2's own
    ) -> dict[str, object]:
        """Send a request, and return the object in the answer.

        Args:
            method: The HTTP method.
            path: The path below the API's base path.
            is_nullable: Whether the answer may be null, which is returned as an empty object.
            is_saved: Whether the page need not keep the text that a method other than GET sends.
            asked: Options of httpx2, such as ``params`` and ``json``.

        Raises:
            UnconfirmedError: If a method other than GET was sent, and it is not known whether it was done.
            ApiError: If the collector does not answer, refuses, or answers something else. To read a field that the
                returned object lacks raises it as well.
        """
        if method != "GET":
            asked = {"timeout": self._change_timeout, **asked}
        try:
            answer = self._read(await self.send(method, path, **asked), method, is_nullable=is_nullable)
        except UnreachableError:
            # A failed write is reported beside its button, and a request that the page has given up is no failure.
            if method == "GET" and not self._http.is_closed:
                note_failure()
            raise
        if is_saved and method != "GET":
            note_saved()
        return answer

    def _read(self, response: httpx2.Response, method: str, *, is_nullable: bool) -> dict[str, object]:
        kind = UnreachableError if method == "GET" else UnconfirmedError
        try:
            answer = response.json()
            # Most answers need no check, because only an escape or a byte beyond ASCII can be unprintable.
            if b"\\" in response.content or not response.content.isascii():
                answer = printable_tree(answer)
        except ValueError as error:
            if response.is_error:  # the error page of a proxy
                raise error_of_answer(response.status_code, response.reason_phrase) from error
            raise kind(f"{self.shown_url} answered with something other than JSON; is it a collector?") from error
        if answer is None and is_nullable and response.is_success:
            return {}
        if response.is_error:
            detail = answer.get("detail") if isinstance(answer, dict) else None
            if isinstance(answer, dict) and answer.get("error") == "OutcomeUnknown":
                raise UnconfirmedError(f"The collector answered {response.status_code}: {detail}")
            raise error_of_answer(response.status_code, str(detail or response.reason_phrase))
        if not isinstance(answer, dict):
            raise kind(f"{self.shown_url} answered with no JSON object; is it a collector?")
        read = _Answer(answer, kind, self.shown_url)
        if not isinstance(answer.get("items", []), list):
            raise read.lacking()
        return read

    async def send(self, method: str, path: str, **asked: Any) -> httpx2.Response:  # noqa: ANN401 - httpx2's own
        """Send a request, and return the answer whatever its status is.

        Raises:
            UnreachableError: If the collector does not answer.
        """
        try:
            return await self._http.request(method, f"/api/v1{path}", **asked)
        except httpx2.HTTPError as error:
            raise self._unreachable(error, is_change=method != "GET") from error

    def _unreachable(self, error: httpx2.HTTPError, *, is_change: bool = False) -> UnreachableError:
        kind = UnconfirmedError if is_change and not isinstance(error, CERTAIN) else UnreachableError
        return kind(f"The collector at {self.shown_url} does not answer ({type(error).__name__})")

    async def stream(self, path: str, query: Query) -> AsyncIterator[bytes]:
        """Yield the bytes of an answer that does not end, as they come, until either side ends it.

        Raises:
            ApiError: If the collector refuses, or does not answer.
        """
        timeout = httpx2.Timeout(10.0, read=None)
        has_begun = False
        try:
            async with self._http.stream("GET", f"/api/v1{path}", params=query, timeout=timeout) as response:
                if response.is_error:
                    raise error_of_answer(response.status_code, response.reason_phrase)
                async for chunk in response.aiter_raw():
                    has_begun = True
                    yield chunk
        except httpx2.HTTPError as error:
            if not has_begun:  # later, the browser reconnects by itself
                raise self._unreachable(error) from error


def without_credentials(url: str) -> str:
    """Return an address without the user name and password that it may hold, to be shown."""
    parsed = urlsplit(url)
    return parsed._replace(netloc=parsed.netloc.rpartition("@")[2]).geturl()


def item_path(collection: str, item: str, part: str = "") -> str:
    """Return the path of an item, or of a part of it, below the API's base path.

    Raises:
        NotFoundError: If nothing can have this id, so that no id leads to another route.
    """
    if not ID.fullmatch(item):
        raise NotFoundError(f"no {collection.removesuffix('s')} has the id {item[:100]!r}")
    return f"/{collection}/{item}{part and f'/{part}'}"
