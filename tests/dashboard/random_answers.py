"""An HTTP server that answers each route of the collector's API with random JSON that fits the route's description."""

import contextlib
import json
import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any, Final
from urllib.parse import urlsplit

from tests.http_serving import serving_requests

MAX_DEPTH: Final = 12
NUMBERS: Final = (0.0, -0.0, 1.0, -1.5, 1e-300, 5e-324, 1e9, 1.7e9, -1e300, 1e300)
WHOLE_NUMBERS: Final = (0, 1, 2, 7, 1000, 2**31, 2**53)
TEXTS: Final = (
    *("", "a", "reward/mean", "NaN", "-Infinity", "<b>&amp;'\"", "line\nline\ttab", "\u202egnp.exe", "\0", "ß" * 300),
    *(
        "a" * 3000,
        "https://example.org/",
        "javascript:alert(1)",
        "0",
        "2026-11-30T08:00:00Z",
        "דיווח",
        "🧪",
        "{}",
        "[1]",
    ),
)


def _spans(length: int) -> list[list[int]]:
    return [[0, length]]


# What the description cannot say, by type and field; the argument is the length of the other lists of the object.
PROMISED: Final[Mapping[tuple[str, str], Callable[[int], Any]]] = {
    ("Attribution", "displaced"): lambda _: [],  # only ids of its responses
    ("Attribution", "resembling"): lambda _: [],
    ("ResponseItem", "actions"): _spans,  # the numbers of the other lists are those of the tokens inside
    ("ResponsePairs", "pairs"): lambda _: [],
    ("RunList", "total"): lambda length: length,  # a number where a page asks for it
}


class RandomAnswers:
    """Draws an answer for an address from the description of the API: the nth answer of each address by seed alone.

    Attributes:
        asked: The paths that were asked for, and whether the description has them.
    """

    def __init__(self, document: Mapping[str, Any], *, seed: int) -> None:
        self._schemas = document["components"]["schemas"]
        self._seed = seed
        self._random = random.Random()  # noqa: S311 - no secret
        self._times: Counter[str] = Counter()
        self._lock = threading.Lock()
        self.asked: dict[str, bool] = {}
        self._routes = [
            (re.compile(re.sub(r"\{[^}]+\}", "[^/]+", path)), answer["content"]["application/json"]["schema"])
            for path, methods in document["paths"].items()
            for answer in [methods.get("get", {}).get("responses", {}).get("200", {})]
            if "application/json" in answer.get("content", {})
        ]

    def answer(self, address: str) -> bytes | None:
        """Return a JSON answer to a GET of a path with its query, or None if the API describes none."""
        path = urlsplit(address).path
        with self._lock:
            self._times[address] += 1
            self._random.seed(f"{self._seed} {self._times[address]} {address}")  # requests arrive in any order
            schema = next((schema for route, schema in self._routes if route.fullmatch(path)), None)
            self.asked[path] = schema is not None
            return None if schema is None else json.dumps(self._draw(schema, 0)).encode()

    def _draw(self, schema: Mapping[str, Any], depth: int, length: int | None = None) -> Any:
        if "$ref" in schema:
            return self._draw(self._schemas[schema["$ref"].rpartition("/")[2]], depth)
        if parts := schema.get("anyOf") or schema.get("oneOf"):
            nulls = [part for part in parts if part.get("type") == "null"]
            return self._draw(nulls[0] if nulls and depth > MAX_DEPTH else self._random.choice(parts), depth, length)
        if values := [schema["const"]] if "const" in schema else schema.get("enum"):
            return self._random.choice(values)
        if schema.get("type") == "array":
            return self._draw_list(schema, depth, length)
        if schema.get("type") == "object":
            return self._draw_object(schema, depth)
        return self._draw_value(schema)

    def _draw_value(self, schema: Mapping[str, Any]) -> Any:
        choose = self._random.choice
        match schema.get("type"):
            case "null":
                return None
            case "boolean":
                return choose((True, False))
            case "integer" | "number" as kind:
                drawn = choose(WHOLE_NUMBERS if kind == "integer" else NUMBERS)
                return min(max(drawn, schema.get("minimum", drawn)), schema.get("maximum", drawn))
            case "string":
                return choose(TEXTS)[: schema.get("maxLength")].ljust(schema.get("minLength", 0), "a")
        return choose((*TEXTS, *NUMBERS, None, True))  # anything

    def _draw_list(self, schema: Mapping[str, Any], depth: int, length: int | None) -> list[Any]:
        wanted = 0 if depth > MAX_DEPTH else self._random.randrange(4) if length is None else length
        count = min(max(wanted, schema.get("minItems", 0)), schema.get("maxItems", wanted))
        parts = schema.get("prefixItems") or [schema.get("items", {})] * count
        return [self._draw(part, depth + 1) for part in parts]

    def _draw_object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        length = self._random.choice((0, 1, 2, 3, 8))  # lists of one object belong together
        drawn = {}
        for name, part in schema.get("properties", {}).items():
            promised = PROMISED.get((schema.get("title", ""), name))
            drawn[name] = self._draw(part, depth + 1, length) if promised is None else promised(length)
        if isinstance(others := schema.get("additionalProperties"), dict) and depth <= MAX_DEPTH:
            names = self._random.sample(TEXTS, k=min(length, 3))
            drawn |= {name: self._draw(others, depth + 1, length) for name in names}
        return drawn


@contextlib.contextmanager
def answering_at_random(answers: RandomAnswers) -> Iterator[str]:
    """Serve the answers until the block ends, and yield the address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = answers.answer(self.path)
            self.send_response(404 if body is None else 200)
            body = body or b'{"error": "not_found", "detail": "no such path"}'
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    with serving_requests(Handler) as url:
        yield url
