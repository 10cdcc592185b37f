"""Keys: what there is to know of a setting, said once, beside the field it is read into.

Files, the environment, flags, ``-p``, requests 318 and 319 and the page of the documentation all
follow from that.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from routebook.settings.kinds import Kind

T = TypeVar("T")

_KEY = "key"


@dataclass(frozen=True, slots=True)
class Key:
    """One setting. ``alias`` is another name it is known by; ``ignored``: it does nothing here."""

    name: str
    default: str
    kind: Kind
    meaning: str
    alias: str = ""
    ignored: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, self.alias) if self.alias else (self.name,)

    @property
    def flags(self) -> tuple[str, ...]:
        return tuple("--" + _words(name, "-").lower() for name in self.names)

    @property
    def variables(self) -> tuple[str, ...]:
        """Of the environment."""
        return tuple("ROUTEBOOK_" + _words(name, "_").upper() for name in self.names)

    @property
    def keywords(self) -> tuple[str, ...]:
        """Of ``make_settings``."""
        return tuple(_words(name, "_").lower() for name in self.names)

    def read(self, text: str) -> Any:
        """The value; raises ValueError with a sentence that names key, value and bounds."""
        try:
            return self.kind.read(text.lstrip("-") if self.ignored else text)
        except ValueError as error:
            raise ValueError(f"{self.name} {error}") from error


def _words(name: str, joint: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|\.", joint, name)


def setting(name: str, default: object, kind: Kind, meaning: str, alias: str = "") -> Any:
    """A field of a dataclass that is read from the key ``name``."""
    key = Key(name, as_text(default), kind, meaning, alias)
    return field(default=default, metadata={_KEY: key})


def as_text(value: object) -> str:
    """A value as a properties file has it."""
    if value is None or value == ():
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def keys_of(group: type[Any]) -> Iterator[Key]:
    """The keys that fields of ``group`` are read from."""
    return (f.metadata[_KEY] for f in fields(group) if _KEY in f.metadata)


def fields_of(group: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of ``group``, of values by the names of their keys."""
    keyed = [f for f in fields(group) if _KEY in f.metadata]
    return {f.name: values[f.metadata[_KEY].name] for f in keyed}
