"""Where the memory of the tables comes from, and how it goes back to the system.

The interpreter takes memory by the megabyte and gives a megabyte back when nothing in it is used.
In what it takes while tables grow there is always some small thing that stays: a log line, a
connection, a record. When the brokers had left it kept a half and more of their memory. So the
tables are made of memory of the C library, which gives back every page that nobody uses.

    with table_memory:
        ...         # what is allocated here comes from the C library
    trim()          # of all that was let go since, whole pages go back

The interpreter lets go of both kinds alike: what is larger than 512 bytes it takes from the C
library anyway. This is for a process that is all the node's own and says so with ``use``, as
``routebook serve`` does. Where allocations are watched (``-X dev``, tracemalloc) and where the C
library cannot be asked to give back, everything stays as it is.
"""

import ctypes
import sys
from ctypes import byref
from types import TracebackType

_RAW, _MEM, _OBJECT = range(3)  # PyMemAllocatorDomain
_TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it
_WITHOUT_GIL = "t" in getattr(sys, "abiflags", "")  # objects have to come from its own allocator


class _Allocator(ctypes.Structure):
    """PyMemAllocatorEx."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("ctx", "malloc", "calloc", "realloc", "free")]


def _allocator(domain: int, into: _Allocator) -> _Allocator:
    ctypes.pythonapi.PyMem_GetAllocator(domain, byref(into))
    return into


def trim() -> None:
    """Return free memory of the C library to the system, where that can be asked for."""
    if _TRIM is not None:
        _TRIM(0)


class TableMemory:
    """For the whole process: what other threads allocate meanwhile comes from there as well."""

    def __init__(self) -> None:
        self._usual: dict[int, _Allocator] = {}  # by domain

    def use(self) -> None:
        if _TRIM is not None and not _WITHOUT_GIL:
            self._usual = {domain: _Allocator() for domain in (_MEM, _OBJECT)}

    def __enter__(self) -> None:
        for domain, usual in self._usual.items():
            raw = _allocator(_RAW, _Allocator())
            if _allocator(domain, usual).ctx is raw.ctx is None:  # else somebody watches
                mixed = _Allocator(None, raw.malloc, raw.calloc, usual.realloc, usual.free)
                ctypes.pythonapi.PyMem_SetAllocator(domain, byref(mixed))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for domain, usual in self._usual.items():
            ctypes.pythonapi.PyMem_SetAllocator(domain, byref(usual))


table_memory = TableMemory()
