"""Etags: what a route says, in 64 bits.

The sum of the hashes of its parts: nodes hold the same groups in different orders, and an etag
has to be the same on all of them, and after every restart.
"""

from collections.abc import Iterable
from hashlib import blake2b

NO_ROUTE = ""
_BYTES = 8
_MASK = 2**64 - 1


def summed(parts: Iterable[bytes]) -> int:
    """Of some parts of a route; those of all of them are added up."""
    return sum(int.from_bytes(blake2b(part, digest_size=_BYTES).digest()) for part in parts)


def etag_of(total: int) -> str:
    """Of the sum of all parts."""
    return f"{total & _MASK:016x}"
