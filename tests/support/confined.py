"""Become a command that may do no more than a unit of systemd allows.

    python confined.py CALL,CALL,... FAMILY,FAMILY,... command...

The calls are those of SystemCallFilter=, the families those of RestrictAddressFamilies=; there are
no capabilities, and no memory that is written and run (MemoryDenyWriteExecute=). What is not
allowed fails with EPERM, as SystemCallErrorNumber= says.
"""

import ctypes
import errno
import mmap
import os
import socket
import sys

NO_NEW_PRIVILEGES, DROP_FROM_BOUNDING_SET = 38, 24  # of prctl
CAPABILITIES = 41
CAPABILITY_VERSION = 0x20080522

ALLOW = 0x7FFF0000
FAIL = 0x00050000 | errno.EPERM
EQUAL, MASKED_EQUAL = 4, 7
UNKNOWN = -1


class Comparison(ctypes.Structure):
    """Of an argument: equal to ``one``, or under the mask ``one`` equal to ``two``."""

    _fields_ = (
        ("argument", ctypes.c_uint),
        ("how", ctypes.c_int),
        ("one", ctypes.c_uint64),
        ("two", ctypes.c_uint64),
    )


class Filter:
    def __init__(self) -> None:
        self._library = ctypes.CDLL("libseccomp.so.2")
        self._library.seccomp_init.restype = ctypes.c_void_p
        self._context = ctypes.c_void_p(self._library.seccomp_init(FAIL))

    def allow(self, call: str, *comparisons: Comparison) -> None:
        number = self._library.seccomp_syscall_resolve_name(call.encode())
        if number != UNKNOWN:  # else it is one of other machines
            array = (Comparison * len(comparisons))(*comparisons)
            code = self._library.seccomp_rule_add_array(
                self._context, ALLOW, number, len(comparisons), array
            )
            assert code in (0, -errno.EDOM), (call, code)  # EDOM: no such call on this machine

    def load(self) -> None:
        assert self._library.seccomp_load(self._context) == 0


def confine(calls: list[str], families: list[str]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0
    for capability in range(CAPABILITIES):
        libc.prctl(DROP_FROM_BOUNDING_SET, capability, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    assert libc.capset(header, (ctypes.c_uint32 * 6)()) == 0
    rules = Filter()
    for call in calls:
        if call == "socket":
            for family in families:
                rules.allow(call, Comparison(0, EQUAL, getattr(socket, family), 0))
        elif call == "mmap":
            for bit in (mmap.PROT_WRITE, mmap.PROT_EXEC):
                rules.allow(call, Comparison(2, MASKED_EQUAL, bit, 0))
        elif call in ("mprotect", "pkey_mprotect"):
            rules.allow(call, Comparison(2, MASKED_EQUAL, mmap.PROT_EXEC, 0))
        else:
            rules.allow(call)
    rules.load()


if __name__ == "__main__":
    confine(sys.argv[1].split(","), sys.argv[2].split(","))
    os.execvp(sys.argv[3], sys.argv[3:])
