"""Checks requests before Dash: refuses those that Dash would answer with an internal error, and sets the pages' policy.

Dash does not check the data that a browser sends. This module refuses scripts that are not registered, updates of
unknown outputs, and values of another type than the callbacks expect, so that these never reach a callback.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from dash import Dash
from dash.fingerprint import check_fingerprint
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dashboard.collector_client.request_outcomes import watch_requests
from dashboard.ids import alert as alert_ids
from dashboard.ids import frame as frame_ids
from dashboard.ids import run as run_ids
from dashboard.ids import workspace as workspace_ids
from dashboard.sign_in.credentials import remember_credentials

__all__ = ["DashRequests", "refuse_unknown_path"]

SCRIPTS: Final = "/_dash-component-suites/"
UPDATE: Final = "/_dash-update-component"
# The headers of the answer of a callback that could not read all of its data, and of one that has saved something;
# assets/requests.js reads them.
FAILING: Final = (b"rlvitals-collector", b"failing")
SAVED: Final = (b"rlvitals-saved", b"true")

# Plotly writes style elements, draws markers from data: addresses and saves pictures from blob: addresses.
POLICY: Final = (
    "default-src 'self'; script-src 'self' {hashes}; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_text_or_none(value: object) -> bool:
    return value is None or isinstance(value, str)


def _is_address(value: object) -> bool:
    """Whether a value is text that can be read as an address."""
    try:
        return isinstance(value, str) and urlsplit(value) is not None
    except ValueError:
        return False


def _is_address_or_none(value: object) -> bool:
    return value is None or _is_address(value)


def _is_retry(value: object) -> bool:
    """Whether a value has the form of `frame_ids.RETRY_NOW`: nothing, or a mapping with the address of the page."""
    return value is None or (isinstance(value, dict) and _is_address(value.get("href")))


def _is_page(value: object) -> bool:
    """Whether a value has the form of `frame_ids.LIVE`: a mapping in which ids are text."""
    return isinstance(value, dict) and all(isinstance(value.get(name, ""), str) for name in ("run", "alert"))


def _is_export(value: object) -> bool:
    """Whether a value has the form of `workspace_ids.EXPORTED`: nothing, or a mapping that names a signal."""
    return value is None or (isinstance(value, dict) and isinstance(value.get("signal"), str))


def _has_labels(value: object) -> bool:
    """Whether a value has the form of `run_ids.LABEL_HELD`: each label of a run by its name."""
    return isinstance(value, dict) and value.keys() >= {"title", "tags", "notes", "archived"}


def _is_count(value: object) -> bool:
    return value is None or isinstance(value, int)


EXPECTED: Final[Mapping[tuple[str, str], Callable[[object], bool]]] = {
    (frame_ids.ADDRESS, "pathname"): _is_text,
    (frame_ids.ADDRESS, "href"): _is_address,
    (frame_ids.ASKED_ADDRESS, "data"): _is_address_or_none,
    (frame_ids.LIVE, "data"): _is_page,
    (frame_ids.RETRY_NOW, "data"): _is_retry,
    (frame_ids.SHOW_ADDRESS, "data"): _is_text,
    (frame_ids.SHOW_NOTE, "value"): _is_text_or_none,
    (workspace_ids.EXPORTED, "data"): _is_export,
    (alert_ids.ACKNOWLEDGE, "n_clicks"): _is_count,
    (run_ids.LABEL_HELD, "data"): _has_labels,
    (run_ids.LABEL_TITLE, "value"): _is_text_or_none,
    (run_ids.LABEL_TAGS, "value"): _is_text_or_none,
    (run_ids.LABEL_NOTES, "value"): _is_text_or_none,
}


class DashRequests:
    """Wraps Dash's own application.

    Args:
        app: The application that answers.
        dash: The Dash application behind it, with all callbacks registered.
    """

    def __init__(self, app: ASGIApp, dash: Dash) -> None:
        self._app = app
        self._dash = dash
        self._policy = POLICY.format(hashes=" ".join(dash.csp_hashes())).encode()
        dash._setup_server()  # noqa: SLF001 - else no script is registered before the first page is asked for

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of a page."""
        remember_credentials(scope["headers"])
        path = scope["path"]
        if path.startswith(SCRIPTS) and not self._is_script(path.removeprefix(SCRIPTS)):
            await _refuse(404, "UnknownPath", f"no script is served at {path}")(scope, receive, send)
        elif path == UPDATE:
            await self._update(scope, receive, send)
        else:
            await self._app(scope, receive, self._with_policy(send))

    def _is_script(self, path: str) -> bool:
        package, _, fingerprinted = path.partition("/")
        return check_fingerprint(fingerprinted)[0] in self._dash.registered_paths.get(package, ())

    async def _update(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await Request(scope, receive).body()
        try:
            update = self._rebuild_update(json.loads(body))
        except (ValueError, RecursionError) as error:  # JSON's own errors are ValueErrors
            problem = f"the body must be an update of one of this dashboard's outputs: {error}"
            await _refuse(422, "InvalidField", problem)(scope, receive, send)
            return
        message: Message = {"type": "http.request", "body": json.dumps(update).encode(), "more_body": False}
        given = iter([message])
        outcomes = watch_requests()

        async def replay() -> Message:
            return next(given, None) or await receive()

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                more = [*([FAILING] if outcomes.has_failed else []), *([SAVED] if outcomes.has_saved else [])]
                message = {**message, "headers": [*message.get("headers", ()), *more]}
            await send(message)

        await self._app(scope, replay, self._with_policy(sending))

    def _rebuild_update(self, update: object) -> dict[str, object]:
        """Rebuild an update from its checked parts.

        Raises:
            ValueError: If no page of the dashboard sends such an update.
        """
        if not isinstance(update, dict):
            raise ValueError(f"it must be an object, got {type(update).__name__}")  # noqa: TRY004 - of the client, not of us
        output = update.get("output")
        callback = self._dash.callback_map.get(output) if isinstance(output, str) else None
        if callback is None or "callback" not in callback:
            raise ValueError(f"output must be that of a callback, got {str(output)[:100]!r}")
        changed = update.get("changedPropIds", [])
        if not (isinstance(changed, list) and all(isinstance(name, str) for name in changed)):
            raise ValueError("changedPropIds must be a list of texts")
        return {
            "output": output,
            "outputs": _outputs(update.get("outputs"), callback["output"]),
            "inputs": _values(update.get("inputs", []), callback["inputs"]),
            "state": _values(update.get("state", []), callback["state"]),
            "changedPropIds": changed,
        }

    def _with_policy(self, send: Send) -> Send:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message.get("headers", ()), (b"content-security-policy", self._policy)]
                message = {**message, "headers": headers}
            await send(message)

        return sending


async def refuse_unknown_path(request: Request, error: Exception) -> JSONResponse:
    """Answer an error of Dash's own routes, such as the error for a missing file, in the usual shape of errors."""
    status = getattr(error, "status_code", 404)
    name = {404: "UnknownPath", 405: "MethodNotAllowed"}.get(status, type(error).__name__)
    detail = f"{request.method} {request.url.path} is not served by the dashboard"
    answer = _refuse(status, name, "".join(part if part.isprintable() else "\ufffd" for part in detail))
    answer.headers.update(getattr(error, "headers", None) or {})
    return answer


def _outputs(given: object, declared: Any) -> object:  # noqa: ANN401 - Dash's own type has no name
    places, outputs = _to_list(given), _to_list(declared)
    is_of_shape = isinstance(given, list) == isinstance(declared, list) and len(places) == len(outputs)
    if not (is_of_shape and all(map(_is_of_output, places, outputs))):
        raise ValueError("outputs must be those of output")
    return given


def _is_of_output(given: object, output: Any) -> bool:  # noqa: ANN401 - likewise
    """Return whether an update names an output; no callback of the server has a pattern as its output."""
    return _place(given) == (output.component_id, output.component_property)


def _to_list(value: Any) -> list[Any]:  # noqa: ANN401 - likewise
    return value if isinstance(value, list) else [value]


def _place(output: object) -> tuple[object, str] | None:
    """Return id and property of an output; an output of several callbacks has a number behind its property."""
    if not isinstance(output, dict) or output.keys() != {"id", "property"}:
        return None
    return output["id"], str(output["property"]).partition("@")[0]


def _values(given: object, declared: list[dict[str, str]]) -> list[object]:
    if not isinstance(given, list) or len(given) != len(declared):
        raise ValueError(f"inputs and state must have {len(declared)} items here")
    checked: list[object] = []
    for item, place in zip(given, declared, strict=True):
        if place["id"].startswith("{"):  # every component that fits a pattern
            checked.append(_matches(item, place["property"]))
            continue
        if not isinstance(item, dict) or (item.get("id"), item.get("property")) != (place["id"], place["property"]):
            raise ValueError(f"{place['id']}.{place['property']} must be among the inputs and state, in order")
        value = item.get("value")
        expected = EXPECTED.get((place["id"], place["property"]))
        if expected is not None and not expected(value):
            raise ValueError(f"{place['id']}.{place['property']} must be of its type, got {str(value)[:100]!r}")
        checked.append({"id": place["id"], "property": place["property"], "value": value})
    return checked


def _matches(given: object, declared: str) -> list[dict[str, object]]:
    if not isinstance(given, list):
        raise ValueError(f"a pattern must be given as a list of components, got {type(given).__name__}")  # noqa: TRY004
    for item in given:
        if not isinstance(item, dict) or not isinstance(item.get("id"), dict) or item.get("property") != declared:
            raise ValueError(f"a pattern must be given as components with an id and {declared}")
    return [{"id": item["id"], "property": declared, "value": item.get("value")} for item in given]


def _refuse(status: int, error: str, detail: str) -> JSONResponse:
    return JSONResponse({"error": error, "detail": detail.encode("utf-8", "replace").decode()}, status_code=status)
