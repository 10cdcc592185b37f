"""The OpenAPI document, made of the operations there are."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from routebook.gateway.access import Access
from routebook.gateway.api import shapes
from routebook.gateway.api.operations import Operation
from routebook.gateway.api.parameters import Parameter
from routebook.version import __version__

Schemas = dict[Any, Any]

_REF = "#/components/schemas/{name}"
_ERRORS = {
    "400": "A parameter is missing or means nothing.",
    "401": "A token is needed.",
    "403": "It is not allowed, or the Host is another one's.",
    "404": "There is none; the sentence says why.",
    "405": "It is asked for in another way.",
    "413": "A body has at most 4 KiB.",
    "414": "A target has at most 8 KiB.",
    "502": "A node answered something that is no answer.",
    "503": "No node answers, or too many ask; Retry-After says when to try again.",
}
_STREAM_ERRORS = {"429": "Too many streams of one address."}
_HISTORY_ERRORS = {"500": "The log says more.", "504": "It took too long."}


def openapi_document(operations: Iterable[Operation]) -> dict[str, Any]:
    operations = tuple(operations)
    types = [shapes.Error, *dict.fromkeys(each for o in operations for each in _types(o))]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    by_type = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(
            operation, by_type
        )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Routebook",
            "version": __version__,
            "description": "What nodes know now, what happens, and what was.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "read": {"type": "http", "scheme": "bearer", "description": "httpReadToken"},
                "admin": {"type": "http", "scheme": "bearer", "description": "httpAdminToken"},
            },
        },
    }


def _types(operation: Operation) -> Iterator[Any]:
    for shape in (operation.shape, *(operation.others or {}).values()):
        yield from shape if isinstance(shape, tuple) else () if shape is None else (shape,)


def _described(operation: Operation, schemas: Schemas) -> dict[str, Any]:
    security: list[dict[str, list[str]]] = [{operation.access.value: []}]
    if operation.access is Access.READ:
        security.append({})  # none is needed on loopback
    answers = {"200": _answer(operation.shape, schemas)}
    if operation.shape is not None and operation.method == "GET":
        answers["304"] = {"description": "Nothing is different."}
    for other, shape in (operation.others or {}).items():
        answers[str(other)] = _answer(shape, schemas)
    for status, why in _errors(operation).items():
        answers.setdefault(status, {"description": why, "content": _json(schemas[shapes.Error])})
    return {
        "summary": operation.summary,
        "operationId": _name(operation),
        "security": security,
        "parameters": [_parameter(parameter) for parameter in operation.parameters],
        "responses": dict(sorted(answers.items())),
    }


def _errors(operation: Operation) -> dict[str, str]:
    errors = dict(_ERRORS)
    if operation.shape is None:
        errors |= _STREAM_ERRORS
    if "history" in operation.path or "at" in {each.name for each in operation.parameters}:
        errors |= _HISTORY_ERRORS
    return errors


def _answer(shape: Any, schemas: Schemas) -> dict[str, Any]:
    if shape is None:
        schema = {"type": "string", "description": "Server-sent events."}
        return {"description": "A stream.", "content": {"text/event-stream": {"schema": schema}}}
    if isinstance(shape, tuple):
        return _answer_of({"anyOf": [schemas[each] for each in shape]})
    return _answer_of(schemas[shape])


def _answer_of(schema: Any) -> dict[str, Any]:
    return {"description": "The answer.", "content": _json(schema)}


def _json(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _parameter(parameter: Parameter) -> dict[str, Any]:
    schema = dict(parameter.shape)
    if parameter.most > 1:
        schema = {"type": "array", "items": schema, "maxItems": parameter.most}
        if parameter.required:
            schema["minItems"] = 1
    return {
        "name": parameter.name,
        "in": "path" if parameter.in_path else "query",
        "required": parameter.required,
        "description": parameter.summary,
        "schema": schema,
    }


def _name(operation: Operation) -> str:
    words = operation.path.replace("{", "").replace("}", "").replace(".", "_").split("/")[2:]
    return "_".join((operation.method.lower(), *words))
