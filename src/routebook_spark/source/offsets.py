"""Offsets of the journal stream: how far each folder was read, and what was said about it.

    {"ns-1": 5213, "ns-2/journal": {"seq": 4711, "life": "9f86d081884c7d65", "fleet": "shop"}}

All that a trigger gives is in the two offsets it lies between, the faults of folders included: a
trigger that is done again gives the same.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the stream is in one folder.

    ``life`` tells the journal from another one in the same folder: its incarnation, or the hash of
    its first line; ``number`` counts them. ``fault`` is why the folder cannot be read further, ""
    when it can. It concerns ``node`` and was noticed at ``noted_ms``, which is also when it was
    over. ``quiet_ms`` is how long nothing had come when that was last told.
    """

    seq: int = 0
    life: str = ""
    number: int = 0
    incarnation: str = ""
    fleet: str = ""
    fault: str = ""
    node: str = ""
    noted_ms: int = 0
    quiet_ms: int = 0


START = Place()


def place_in(offset: Mapping[str, Any], folder: str) -> Place:
    """Where ``offset`` is in a folder; at its beginning if it does not say."""
    said = offset.get(folder, 0)
    return Place(seq=said) if isinstance(said, int) else Place(**said)


def stored(place: Place) -> int | dict[str, Any]:
    """As JSON has it: the number alone if there is nothing else to say."""
    said = {name: value for name, value in asdict(place).items() if value}
    return place.seq if set(said) <= {"seq"} else said
