"""Parameters: what a request may say, declared once for reading it and for the document.

A parameter that is not declared is refused: one that was mistyped would be answered as if it had
not been given.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from time import time_ns
from typing import Any, TypeVar, cast

from starlette.requests import Request

from routebook.gateway.api.failures import bad_parameter
from routebook.history.times import AtSeq, BadTime, Moment, parse

MAX_NAME = 255  # characters; RocketMQ's names are shorter
MAX_LIMIT = 1000
DEFAULT_LIMIT = 200

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Parameter:
    """``read`` makes a value of the text, or raises ValueError with a sentence.

    ``shape`` is its JSON schema. Several: it may be given up to ``most`` times.
    """

    name: str
    summary: str
    shape: Mapping[str, Any]
    read: Callable[[str], Any]
    default: Any = None
    required: bool = False
    in_path: bool = False
    most: int = 1


def name_parameter(
    name: str,
    summary: str,
    *,
    default: str | None = None,
    required: bool = False,
    in_path: bool = False,
    most: int = 1,
) -> Parameter:
    """A name of something."""
    shape: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": MAX_NAME}
    if default is not None:
        shape["default"] = default
    return Parameter(
        name,
        summary,
        shape,
        _name,
        default,
        required=required or in_path,
        in_path=in_path,
        most=most,
    )


def _name(text: str) -> str:
    if not 1 <= len(text) <= MAX_NAME:
        raise ValueError(f"takes 1 to {MAX_NAME} characters")
    if "\x00" in text:
        raise ValueError("cannot have a NUL in it")
    return text


def flag(name: str, summary: str, *, default: bool | None = False) -> Parameter:
    return Parameter(name, summary, {"type": "boolean"}, _flag, default)


def _flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("is true or false")
    return text == "true"


def number(name: str, summary: str, *, least: int, most: int, default: int) -> Parameter:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and least <= int(text[:9]) <= most):
            raise ValueError(f"is a number from {least} to {most}")
        return int(text)

    shape = {"type": "integer", "minimum": least, "maximum": most, "default": default}
    return Parameter(name, summary, shape, read, default)


def moment(name: str, summary: str, *, required: bool = False, default: str | None = None) -> Any:
    shape: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": 64}
    if default is not None:
        shape["default"] = default
    return Parameter(name, summary, shape, moment_of, default, required)


def moment_of(text: str) -> Moment:
    try:
        return parse(text, now_ms=time_ns() // 1_000_000)
    except BadTime as error:
        raise ValueError(f"is no moment: {error.reason}") from error


def moment_text(found: Moment) -> str:
    """So that ``moment_of`` understands it, wherever and whenever it is called."""
    return f"seq:{found.seq}" if isinstance(found, AtSeq) else str(found)


NODE = name_parameter("node", "Whose answer, by id or address; else the first that answers.")
LIMIT = number("limit", "How many at most.", least=1, most=MAX_LIMIT, default=DEFAULT_LIMIT)
CURSOR = Parameter(
    "cursor",
    "`next` of the page before.",
    {"type": "string", "maxLength": 2000, "pattern": "^[A-Za-z0-9_-]*$"},
    str,
)
CONTAINS = name_parameter("q", "Only names that contain this, without regard to case.")


class Given:
    """The values of all parameters of a request, by name."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def of(self, name: str, kind: type[Value]) -> Value | None:
        return cast(Value | None, self._values[name])

    def name(self, name: str) -> str:
        """Of a parameter that must be given."""
        return cast(str, self._values[name])


def read_parameters(request: Request, declared: Iterable[Parameter]) -> Given:
    """What ``request`` says; raises Failure."""
    declared = tuple(declared)
    known = {parameter.name for parameter in declared if not parameter.in_path}
    unknown = sorted(set(request.query_params) - known)
    if unknown:
        may = f"; there are {', '.join(sorted(known))}" if known else "; there is none here"
        raise bad_parameter(f"there is no parameter {unknown[0][:MAX_NAME]!r}{may}")
    return Given({parameter.name: _read(request, parameter) for parameter in declared})


def _read(request: Request, parameter: Parameter) -> Any:
    if parameter.in_path:
        texts = [request.path_params[parameter.name]]
    else:
        texts = request.query_params.getlist(parameter.name)
    if not texts:
        if parameter.required:
            raise bad_parameter(f"the parameter {parameter.name} is missing: {parameter.summary}")
        if parameter.most > 1:
            return ()
        default = parameter.default
        return parameter.read(default) if isinstance(default, str) else default
    if len(texts) > parameter.most:
        raise bad_parameter(f"{parameter.name} may be given {_times(parameter.most)}")
    try:
        values = tuple(map(parameter.read, texts))
    except ValueError as error:
        raise bad_parameter(f"{parameter.name} {error}") from error
    return values if parameter.most > 1 else values[0]


def _times(most: int) -> str:
    return "once" if most == 1 else f"{most} times at most"
