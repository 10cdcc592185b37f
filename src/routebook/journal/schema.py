"""The schema of a journal as JSON Schema, made from the types.

    python -m routebook.journal.schema > docs/journal.schema.json

It says what this version writes. A reader skips members it does not know, and lets types of events
it does not know pass.
"""

import inspect
import json
import sys
from typing import Any

import msgspec

from routebook.journal.manifest import Manifest, Removed
from routebook.journal.record import VERSION, event_types

_INTEGER = {"type": "integer"}
_TEXT = {"type": "string"}


def journal_schema() -> dict[str, Any]:
    """Of one line; ``$defs`` has what it holds, and the manifests beside it."""
    types = event_types()
    _, definitions = msgspec.json.schema_components(
        [*types.values(), Manifest, Removed], ref_template="#/$defs/{name}"
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A record of a Routebook journal",
        "type": "object",
        "properties": {
            "v": {"const": VERSION, "description": "version of the schema"},
            "seq": _INTEGER
            | {
                "minimum": 1,
                "description": "one more than that of the record before it, except where the node"
                " had been killed: a JournalRecovered leaps",
            },
            "node": _TEXT | {"description": "id of the node"},
            "wall_ms": _INTEGER | {"description": "when it happened, ms since 1970 UTC"},
            "mono_ms": _INTEGER | {"description": "the same on a clock that is never set"},
            "type": {"enum": list(types), "description": "of the event"},
            "data": {"type": "object", "description": "the members of the event"},
            "hash": _TEXT
            | {
                "pattern": "^[0-9a-f]{16}$",
                "description": "blake2b, 8 bytes, of the hash of the line before it and this line"
                ' up to the comma before "hash"',
            },
        },
        "required": ["v", "seq", "node", "wall_ms", "mono_ms", "type", "data", "hash"],
        "oneOf": [
            {"properties": {"type": {"const": name}, "data": {"$ref": f"#/$defs/{name}"}}}
            for name in types
        ],
        "$defs": {name: _tidy(schema) for name, schema in sorted(definitions.items())},
    }


def _tidy(schema: dict[str, Any]) -> dict[str, Any]:
    if "description" not in schema:
        return schema
    return schema | {"description": inspect.cleandoc(schema["description"])}


def journal_schema_text() -> str:
    return json.dumps(journal_schema(), indent=2) + "\n"


if __name__ == "__main__":
    sys.stdout.write(journal_schema_text())
