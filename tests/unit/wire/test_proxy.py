import pytest

from routebook.wire.errors import WireError
from routebook.wire.proxy import SIGNATURE, Claim, parse

V4 = bytes([10, 1, 2, 3, 10, 9, 9, 9]) + (4000).to_bytes(2, "big") + (9876).to_bytes(2, "big")


def v2(command: int, family: int, payload: bytes) -> bytes:
    return SIGNATURE + bytes([command, family]) + len(payload).to_bytes(2, "big") + payload


@pytest.mark.parametrize(
    ("data", "claim"),
    [
        (b"PROXY TCP4 10.1.2.3 10.9.9.9 4000 9876\r\nrest", Claim(40, ("10.1.2.3", 4000))),
        (b"PROXY TCP6 ::1 ::2 1 2\r\n", Claim(24, ("::1", 1))),
        (b"PROXY UNKNOWN\r\n", Claim(15, None)),
        (v2(0x21, 0x11, V4) + b"rest", Claim(28, ("10.1.2.3", 4000))),
        (v2(0x21, 0x11, V4 + b"\x04\0\1x"), Claim(32, ("10.1.2.3", 4000))),
        (v2(0x21, 0x21, bytes(15) + b"\1" + bytes(15) + b"\2\0\1\0\2"), Claim(52, ("::1", 1))),
        (v2(0x20, 0x00, b""), Claim(16, None)),
        (b'\0\0\0\x80\0\0\0\x7c{"co', Claim(0, None)),
    ],
)
def test_a_header_says_who_connects(data: bytes, claim: Claim) -> None:
    assert parse(data) == claim
    for end in range(min(claim.length, len(data))):
        assert parse(data[:end]) is None, "a header cut short is waited for"


@pytest.mark.parametrize(
    "data",
    [
        b"PROXY TCP4 10.1.2.3\r\n",
        b"PROXY TCP4 ::1 ::2 1 2\r\n",
        b"PROXY TCP4 10.1.2.3 10.9.9.9 4000 99999\r\n",
        b"PROXY " + b"x" * 120,
        v2(0x31, 0x11, V4),
        v2(0x22, 0x11, V4),
        v2(0x21, 0x11, V4[:5]),
    ],
)
def test_a_malformed_header_closes_the_stream(data: bytes) -> None:
    with pytest.raises(WireError):
        parse(data)
