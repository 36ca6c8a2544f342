"""Random requests to every route, formed by the API's own description and by hostile values: none is a failure."""

import json
import math
import os
import random
from urllib.parse import quote_from_bytes

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

# `make fuzz-api` sends more.
EXAMPLES = 15 * int(os.environ.get("FUZZ_EXAMPLES", "6"))
EDGES = [2**31 - 1, 2**31, 2**53, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**30, 10**400]
INTEGERS = [0, 1, -1, 2, 7, 400, *EDGES]
FLOATS = [0.0, -0.0, 0.5, 1.5, -1.5, 1e-320, 1e18, 1e300, 1e308, math.nan, math.inf, -math.inf]
TEXTS = [
    "", " ", "a", "r", "warn", "x/y", "critical", "\0", "a\0b", "\ud800", "a\udfff", "\U0001f4a5", "\u202e", "\n",
    "\u0661\u0662", "%", "_", "\\", "'", '"', "null", "NaN", "-Infinity", "1e400", "+1", " 1 ", "1_0", "0x10", "true",
    "01", "-0", "9" * 18, "9" * 19, "9" * 4_400, "a" * 201, "a" * 3_000, "a:b", "reward:above:1e99",
    "reward:desc,name", "2026-11-29T00:00:00Z",
]  # fmt: skip
SCALARS = {
    "string": TEXTS,
    "integer": INTEGERS,
    "number": INTEGERS + FLOATS,
    "boolean": [True, False],
    "null": [None],
}
# Answers of these have no end, or begin long work, whatever is sent.
LEFT_OUT = {"/api/v1/stream", "/api/v1/sample", "/api/v1/sample/ablation"}


class RequestForms:
    """Forms requests to the routes that a description lists."""

    def __init__(self, description, ids):
        self._schemas = description["components"]["schemas"]
        self._ids = ids
        self.operations = [
            (method.upper(), path, operation)
            for path, methods in sorted(description["paths"].items())
            for method, operation in sorted(methods.items())
            if path not in LEFT_OUT
        ]

    def form(self, draw, method, path, operation):
        """Return method, path with query, and body of a random request."""
        query = []
        for parameter in operation.get("parameters", ()):
            name, where = parameter["name"], parameter["in"]
            if where == "path":
                known = self._ids.get(name, [])
                is_known = known and method != "DELETE" and draw.random() < 0.7  # later requests need what there is
                value = draw.choice(known) if is_known else self._text(draw, parameter["schema"])
                path = path.replace(f"{{{name}}}", _quoted(value) or "%20")
            elif where == "query" and (parameter.get("required") or draw.random() < 0.4):
                known = self._ids.get(name, [])
                for _ in range(draw.choice((1, 1, 1, 2, 3))):
                    is_known = known and draw.random() < 0.5
                    value = draw.choice(known) if is_known else self._text(draw, parameter["schema"])
                    query.append(f"{_quoted(name)}={_quoted(value)}")
        if draw.random() < 0.05:
            query.append(f"{_quoted(draw.choice(TEXTS))}={_quoted(draw.choice(TEXTS))}")
        body = None
        content = operation.get("requestBody", {}).get("content", {})
        if "application/json" in content or (method != "GET" and draw.random() < 0.1):
            schema = content.get("application/json", {}).get("schema", {})
            body = json.dumps(self.value(draw, schema, depth=0)).encode()
        return method, f"{path}?{'&'.join(query)}" if query else path, body

    def value(self, draw, schema, *, depth):
        """Return a value that mostly has a schema's type, and sometimes any other."""
        if draw.random() < 0.06 or depth > 6:
            return self._any(draw, depth)
        if "$ref" in schema:
            return self.value(draw, self._schemas[schema["$ref"].rsplit("/", 1)[1]], depth=depth)
        choices = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
        if choices:
            return self.value(draw, draw.choice(choices), depth=depth)
        known = [schema["const"]] if "const" in schema else schema.get("enum", SCALARS.get(schema.get("type")))
        if known:
            return draw.choice(known)
        form = {"object": self._object, "array": self._array}.get(schema.get("type"))
        return self._any(draw, depth) if form is None else form(draw, schema, depth)

    def _object(self, draw, schema, depth):
        properties, required = schema.get("properties", {}), schema.get("required", ())
        given = {name: each for name, each in properties.items() if name in required or draw.random() < 0.5}
        found = {name: self._field(draw, name, each, depth) for name, each in given.items()}
        others = schema.get("additionalProperties")
        if draw.random() < 0.05 or isinstance(others, dict):
            others = others if isinstance(others, dict) else {}
            names = draw.sample(TEXTS, draw.randrange(3))
            found |= {name: self.value(draw, others, depth=depth + 1) for name in names}
        return found

    def _array(self, draw, schema, depth):
        length, items = draw.choice((0, 1, 1, 2, 5)), schema.get("items", {})
        return [self.value(draw, items, depth=depth + 1) for _ in range(length)]

    def _field(self, draw, name, schema, depth):
        known = self._ids.get(name, [])
        return draw.choice(known) if known and draw.random() < 0.6 else self.value(draw, schema, depth=depth + 1)

    def _text(self, draw, schema):
        value = self.value(draw, schema, depth=1)
        while isinstance(value, list):
            value = value[0] if value else ""
        return value if isinstance(value, str) else json.dumps(value)

    def _any(self, draw, depth):
        kinds = [TEXTS, INTEGERS, FLOATS, (None, True, [], {})]
        if depth < 3 and draw.random() < 0.2:
            return draw.choice(([self._any(draw, depth + 1)], {draw.choice(TEXTS): self._any(draw, depth + 1)}))
        return draw.choice(draw.choice(kinds))


def _quoted(text):
    return quote_from_bytes(str(text).encode("utf-8", "surrogatepass"), safe="")


@pytest.fixture
def live(start_collector, scripted):
    """A collector of its own: some of the requests delete runs, and change how long data is kept."""
    return start_collector(engine=scripted)


@pytest.fixture
def forms(live):
    """The routes of the collector, and the names of what it has: runs, alerts and signals."""
    records = [{"step": step, "scalars": {"x/y": float(step), "warn": float(step % 5 == 0)}} for step in range(20)]
    runs = [live.run(run=name, records=records) for name in ("r", "s")]
    alerts = [alert["id"] for alert in live.get("/alerts")["items"]]
    description = live.pool.request("GET", f"{live.url}/openapi.json").json()
    ids = {
        "run_id": runs,
        "alert_id": alerts,
        "name": ["default"],
        "project": ["default"],
        "run": ["r"],
        "signals": ["x/y"],
        "signal": ["x/y", "warn"],
        "by": ["a"],
        "schema_version": [1, 5],
        "condition": ["threshold", "absence"],
        "operator": [">", "<"],
    }
    return RequestForms(description, ids)


@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32 - 1))
def test_no_request_makes_a_route_fail(live, forms, seed):
    """Each is answered, or refused with an error of the one shape whose message can be shown."""
    draw = random.Random(seed)  # noqa: S311 - synthetic requests
    method, path, body = forms.form(draw, *draw.choice(forms.operations))
    headers = {"Content-Type": "application/json"} if body is not None else {}
    answer = live.pool.request(method, live.url + path, body=body, headers=headers, redirect=False, timeout=30)
    asked = method, path[:500], body and body[:1_000]
    assert answer.status < 500, (asked, answer.data)
    if answer.status >= 400:
        problem = answer.json()
        assert set(problem) == {"error", "detail"}, asked
        assert problem["detail"], asked
        assert problem["detail"].isprintable(), asked
