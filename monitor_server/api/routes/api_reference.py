"""`/docs`: the reference of the API as one page without scripts, drawn from its own OpenAPI description."""

import json
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any, Final

__all__ = ["POLICY", "draw_reference"]

POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)

STYLE: Final = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 2.5rem; font-size: 1.1rem; } h2 code { font-size: 1.1em; }
h3 { margin: 1rem 0 .3rem; font-size: 1rem; }
table { border-collapse: collapse; } td, th { text-align: left; vertical-align: top; padding: .2rem 1rem .2rem 0; }
tr + tr { border-top: 1px solid color-mix(in srgb, currentColor 15%, transparent); }
pre { overflow-x: auto; padding: .7rem; background: color-mix(in srgb, currentColor 7%, transparent); }
nav li { list-style: none; } nav ul { padding: 0; columns: 2; }
"""


def draw_reference(document: Mapping[str, Any]) -> str:
    """Draw an OpenAPI document as an HTML page: every operation, its parameters and answers, and every shape."""
    operations = [
        (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    shapes = document.get("components", {}).get("schemas", {})
    contents = "".join(
        f'<li><a href="#{_anchor(method, path)}"><code>{method} {escape(path)}</code></a></li>'
        for method, path, _ in operations
    )
    info = document["info"]
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escape(info["title"])}: API</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<style>{STYLE}</style></head><body>"
        f"<h1>{escape(info['title'])}</h1><p>Version {escape(info['version'])} of the HTTP API. The same for "
        f'programs: <a href="/openapi.json">/openapi.json</a>.</p><nav><ul>{contents}</ul></nav>'
        + "".join(_operation(method, path, operation) for method, path, operation in operations)
        + "<h1>Shapes</h1>"
        + "".join(_shape(name, shape) for name, shape in sorted(shapes.items()))
        + "</body></html>"
    )


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    parameters = (
        (
            f"<code>{escape(given['name'])}</code>",
            escape(given["in"]) + (", required" if given.get("required") else ""),
            _type(given.get("schema", {})),
            escape(given.get("description", given.get("schema", {}).get("description", ""))),
        )
        for given in operation.get("parameters", ())
    )
    body = (
        (f"<code>{escape(kind)}</code>", _type(content.get("schema", {})))
        for kind, content in operation.get("requestBody", {}).get("content", {}).items()
    )
    answers = (
        (
            f"<code>{escape(status)}</code>",
            escape(answer.get("description", "")),
            "<br>".join(
                f"{_type(content.get('schema', {}))} as <code>{escape(kind)}</code>"
                for kind, content in answer.get("content", {}).items()
            ),
        )
        for status, answer in operation.get("responses", {}).items()
    )
    text = escape(operation.get("description", operation.get("summary", "")))
    return (
        f'<h2 id="{_anchor(method, path)}"><code>{method} {escape(path)}</code></h2><p>{text}</p>'
        + _table("Parameters", parameters)
        + _table("Body", body)
        + _table("Answers", answers)
    )


def _shape(name: str, shape: Mapping[str, Any]) -> str:
    head = f'<h2 id="{escape(name)}"><code>{escape(name)}</code></h2><p>{escape(shape.get("description", ""))}</p>'
    if "properties" not in shape:
        return f"{head}<pre>{escape(json.dumps(shape, indent=2))}</pre>"
    return head + _table(
        "Fields",
        (
            (f"<code>{escape(field)}</code>", _type(schema), escape(schema.get("description", "")))
            for field, schema in shape["properties"].items()
        ),
    )


def _table(title: str, rows: Iterable[tuple[str, ...]]) -> str:
    lines = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<h3>{title}</h3><table>{lines}</table>" if lines else ""


def _type(schema: Mapping[str, Any]) -> str:
    """Spell the type of a schema, with links to shapes."""
    if "$ref" in schema:
        name = escape(str(schema["$ref"]).rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return " or ".join(_type(each) for each in schema[key])
    if "enum" in schema:
        return " | ".join(f"<code>{escape(json.dumps(value))}</code>" for value in schema["enum"])
    if schema.get("type") == "array":
        inner = schema.get("prefixItems")
        return "list of " + (f"[{', '.join(map(_type, inner))}]" if inner else _type(schema.get("items", {})))
    limits = [
        f"{sign} {schema[key]}"
        for key, sign in (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"), ("maxLength", "length ≤"))
        if key in schema
    ]
    default = f", default {escape(json.dumps(schema['default']))}" if schema.get("default") is not None else ""
    return escape(str(schema.get("type", "any"))) + (f" {' '.join(limits)}" if limits else "") + default


def _anchor(method: str, path: str) -> str:
    return escape(f"{method}-{path.strip('/').replace('/', '-').replace('{', '').replace('}', '')}")
