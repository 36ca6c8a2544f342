"""The spans that OpenTelemetry exports: of requests, and of the collector's other work."""

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Final, Self

from opentelemetry import trace
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from monitor_server.instrumentation.request_ids import HEADER
from monitor_server.instrumentation.spans import AttributeValue, Span

__all__ = ["RecordedSpan", "TracedRequests"]

SERVER_ERROR: Final = 500


class RecordedSpan(Span):
    """A span that is exported."""

    __slots__ = ("_attributes", "_context", "_name", "_span", "_tracer")

    _span: trace.Span
    _context: AbstractContextManager[trace.Span]

    def __init__(self, tracer: trace.Tracer, name: str, attributes: Mapping[str, AttributeValue] | None) -> None:
        self._tracer, self._name, self._attributes = tracer, name, attributes

    def __enter__(self) -> Self:
        self._context = self._tracer.start_as_current_span(
            self._name, attributes=self._attributes, record_exception=False, set_status_on_exception=False
        )
        self._span = self._context.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            self.set("error.type", kind.__name__)
            self._span.set_status(Status(StatusCode.ERROR))
        self._context.__exit__(kind, error, traceback)

    def set(self, name: str, value: AttributeValue) -> None:
        """Set an attribute."""
        self._span.set_attribute(name, value)

    def fail(self, reason: str) -> None:
        """Mark the span as failed, with the reason."""
        self._span.set_status(Status(StatusCode.ERROR, reason))


class TracedRequests:
    """Puts a span around each request, as the child of the client's span (``traceparent``).

    Its attributes are the method, the route, the status and the request id. Path, query and headers may contain
    secrets, such as the tokens of signed links, and are left out.
    """

    def __init__(self, app: ASGIApp, tracer: trace.Tracer, *, prefix: str, direct: Collection[tuple[str, str]]) -> None:
        self._app = app
        self._tracer = tracer
        self._prefix = prefix
        self._direct = direct
        self._propagator = TraceContextTextMapPropagator()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request within its span; anything else is passed on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        parent = self._propagator.extract(_trace_headers(scope))
        method = scope["method"] if scope["method"] in _METHODS else "_OTHER"
        with self._tracer.start_as_current_span(
            method, parent, kind=SpanKind.SERVER, attributes={"http.request.method": method},
            record_exception=False, set_status_on_exception=False,
        ) as span:  # fmt: skip

            async def sending(message: Message) -> None:
                if message["type"] == "http.response.start":
                    _describe(span, message)
                await send(message)

            try:
                await self._app(scope, receive, sending)
            except Exception as error:
                span.set_attribute("error.type", type(error).__name__)
                span.set_status(Status(StatusCode.ERROR))
                raise
            finally:
                route = self._route(scope)
                if route:
                    span.set_attribute("http.route", route)
                    span.update_name(f"{method} {route}")

    def _route(self, scope: Scope) -> str | None:
        """Return the path of the route that has served a request, with names in place of ids, or None."""
        path = scope["path"]
        if (scope["method"], path) in self._direct:
            return str(path)
        route = getattr(scope.get("route"), "path", None)
        is_included = route is not None and path.startswith(f"{self._prefix}/") and not route.startswith("/api/")
        return f"{self._prefix}{route}" if is_included else route


_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def _trace_headers(scope: Scope) -> dict[str, str]:
    headers = [(name, value) for name, value in scope["headers"] if name in (b"traceparent", b"tracestate")]
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}


def _describe(span: trace.Span, message: Message) -> None:
    span.set_attribute("http.response.status_code", message["status"])
    if message["status"] >= SERVER_ERROR:
        span.set_status(Status(StatusCode.ERROR))
    for name, value in message.get("headers", ()):
        if name == HEADER:
            span.set_attribute("rlvitals.request_id", value.decode("latin-1"))
