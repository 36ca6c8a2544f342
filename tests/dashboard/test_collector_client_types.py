"""The dashboard's types beside the OpenAPI document of a real collector: same names, fields and kinds of value."""

import importlib
import pkgutil
import types
import typing

import pytest

from dashboard.collector_client import types as api_types
from dashboard.components.page_frame import LONGEST_NOTE
from dashboard.components.run.labels import LONGEST_NOTES, LONGEST_TAG, LONGEST_TITLE, MOST_TAGS

MODULES = [
    importlib.import_module(f"{api_types.__name__}.{found.name}") for found in pkgutil.iter_modules(api_types.__path__)
]
TYPES = [
    held
    for module in MODULES
    for held in vars(module).values()
    if typing.is_typeddict(held) and held.__module__ == module.__name__
]


KINDS = {str: "string", bool: "boolean", int: "integer", types.NoneType: "null", object: "anything"}


@pytest.fixture(scope="module")
def schemas(collector):
    """The schemas of the API, by name."""
    return collector.pool.request("GET", f"{collector.url}/openapi.json").json()["components"]["schemas"]


def kinds(schema, schemas):
    """The kinds of JSON value that a schema allows, those of a list's items behind `of`."""
    if "$ref" in schema:
        return kinds(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    if parts := schema.get("anyOf") or schema.get("oneOf"):
        return set().union(*(kinds(part, schemas) for part in parts))
    kind = schema.get("type", "anything")
    if kind == "array" and "items" in schema:
        return {"array"} | {f"of {item}" for item in kinds(schema["items"], schemas)}
    return {kind}


def allowed(hint):
    """The kinds of JSON value that a type of Python allows, in the same words."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in {types.UnionType, typing.Union}:
        return set().union(*map(allowed, arguments))
    if origin is list:
        return {"array"} | {f"of {item}" for item in allowed(arguments[0])}
    if origin is dict or typing.is_typeddict(hint):
        return {"object"}
    if hint is float:  # a value that is not finite is a string in JSON, which the client turns into a float
        return {"number", "integer", "string"}
    return {KINDS[hint]}


@pytest.mark.parametrize("own", TYPES, ids=lambda own: own.__name__)
def test_a_type_of_the_dashboard_is_the_apis_of_the_same_name(own, schemas):
    """Each field exists in the API, and holds no kind of value that the dashboard's type does not allow."""
    theirs = schemas[own.__name__]["properties"]
    for name, hint in typing.get_type_hints(own).items():
        assert name in theirs, f"the API's {own.__name__} has no {name}"
        assert kinds(theirs[name], schemas) <= allowed(hint), name


def test_the_forms_of_labels_and_of_a_shown_view_have_the_limits_of_the_api(schemas):
    """The dashboard names a tag that is too long before the API refuses it by its number."""
    labels = schemas["RunLabels"]["properties"]
    title, notes = (
        next(part for part in labels[name]["anyOf"] if part["type"] == "string") for name in ("title", "notes")
    )
    assert (title["maxLength"], notes["maxLength"]) == (LONGEST_TITLE, LONGEST_NOTES)
    assert (labels["tags"]["items"]["maxLength"], labels["tags"]["maxItems"]) == (LONGEST_TAG, MOST_TAGS)
    assert schemas["ViewToShow"]["properties"]["note"]["maxLength"] == LONGEST_NOTE
