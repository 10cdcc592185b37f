import json
import re
from pathlib import Path
from typing import Any

import pytest

from routebook.events import Cause
from routebook.journal.record import encode
from routebook.journal.schema import journal_schema, journal_schema_text
from support.journals import every_event, record

PUBLISHED = Path(__file__).parents[3] / "docs" / "journal.schema.json"
TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "boolean": bool,
    "null": type(None),
}


def faults(value: Any, schema: dict[str, Any], whole: dict[str, Any]) -> list[str]:
    """Where ``value`` is not as ``schema`` says; as much of JSON Schema as ours uses."""
    if "$ref" in schema:
        return faults(value, whole["$defs"][schema["$ref"].removeprefix("#/$defs/")], whole)
    found: list[str] = []
    if "anyOf" in schema and all(faults(value, option, whole) for option in schema["anyOf"]):
        found.append(f"{value!r} is none of {schema['anyOf']}")
    if "oneOf" in schema:
        fitting = [option for option in schema["oneOf"] if not faults(value, option, whole)]
        if len(fitting) != 1:
            found.append(f"{len(fitting)} alternatives fit {value!r}")
    if "const" in schema and value != schema["const"]:
        found.append(f"{value!r} is not {schema['const']!r}")
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{value!r} is not one of {schema['enum']}")
    if "type" in schema:
        kind = TYPES[schema["type"]]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            return [*found, f"{value!r} is no {schema['type']}"]
    if "pattern" in schema and not re.search(schema["pattern"], value):
        found.append(f"{value!r} does not match")
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        found += [f"{name} is missing" for name in schema.get("required", ()) if name not in value]
        for name, member in value.items():
            inner = properties.get(name, schema.get("additionalProperties"))
            found += faults(member, inner, whole) if inner else []
    if isinstance(value, list):
        prefix = schema.get("prefixItems", [])
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            found.append(f"{value!r} has {len(value)} items")
        for number, item in enumerate(value):
            inner = prefix[number] if number < len(prefix) else schema.get("items")
            found += faults(item, inner, whole) if isinstance(inner, dict) else []
    return found


def test_the_published_schema_is_that_of_the_types() -> None:
    """If not: python -m routebook.journal.schema > docs/journal.schema.json."""
    assert PUBLISHED.read_text() == journal_schema_text()


@pytest.mark.parametrize("event", every_event(), ids=lambda event: type(event).__name__)
def test_lines_are_as_the_schema_says(event: Any) -> None:
    schema = journal_schema()
    assert faults(json.loads(encode(record(1, event))), schema, schema) == []


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        pytest.param(b'"v":2', b'"v":1', id="version"),
        pytest.param(b'"type":"Other"', b'"type":"KvChanged"', id="type"),
        pytest.param(b'"type":"NodeStopped"', b'"type":"KvChanged"', id="another-type"),
        pytest.param(b'"key":7', b'"key":"key-1"', id="member"),
        pytest.param(b'"cause":"whim"', b'"cause":"admin"', id="cause"),
        pytest.param(b'"seq":"1"', b'"seq":1', id="sequence-number"),
        pytest.param(b'"hash":"x', b'"hash":"', id="hash"),
    ],
)
def test_the_schema_refuses_a_line_that_is_wrong(wrong: bytes, right: bytes) -> None:
    schema = journal_schema()
    line = encode(record(1))
    assert right in line
    assert faults(json.loads(line.replace(right, wrong)), schema, schema)


def test_every_cause_and_every_type_is_in_the_schema() -> None:
    schema = journal_schema()
    assert set(schema["$defs"]["Cause"]["enum"]) == {cause.value for cause in Cause}
    assert {type(event).__name__ for event in every_event()} <= set(schema["$defs"])
