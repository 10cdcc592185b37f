import pytest

from routebook.wire.errors import FrameTooLarge, WireError
from routebook.wire.frame import Frame, FrameDecoder, frame

WHOLE = frame(0, b'{"code":1}', b"body")
NEXT = frame(1, b"h" * 21)


def frames_of(data: bytes, size: int, max_frame: int = 1000) -> list[Frame]:
    decoder, got = FrameDecoder(max_frame), []
    for start in range(0, len(data), size):
        decoder.feed(data[start : start + size])
        while (found := decoder.next_frame()) is not None:
            got.append(found)
    assert decoder.buffered == 0
    return got


@pytest.mark.parametrize("size", [1, 3, 7, 8, 9, 1000])
def test_however_the_bytes_are_cut_the_same_frames_come_out(size: int) -> None:
    expected = [(0, b'{"code":1}', b"body"), (1, b"h" * 21, b""), (0, b'{"code":1}', b"body")]
    assert frames_of(WHOLE + NEXT + WHOLE, size) == expected


def test_the_limit_counts_the_length_word() -> None:
    at_limit = frame(0, b"x" * 92)
    assert len(at_limit) == 100
    assert len(frames_of(at_limit, 1000, max_frame=100)) == 1
    with pytest.raises(FrameTooLarge, match="frame of 101 bytes exceeds the limit of 100"):
        frames_of(frame(0, b"x" * 93), 1000, max_frame=100)


@pytest.mark.parametrize(
    "prefix",
    [
        pytest.param("00100000", id="too-long"),
        pytest.param("ffffffff", id="negative"),
        pytest.param("00000000", id="zero"),
        pytest.param("00000003", id="shorter-than-the-word"),
        pytest.param("0000000802000001", id="unknown-encoding"),
        pytest.param("0000000800000005", id="header-beyond-the-frame"),
    ],
)
def test_a_bad_prefix_is_refused_on_sight(prefix: str) -> None:
    decoder = FrameDecoder(1000)
    decoder.feed(bytes.fromhex(prefix))
    with pytest.raises(WireError):
        decoder.next_frame()


def test_memory_of_a_taken_frame_is_given_back() -> None:
    decoder = FrameDecoder()
    decoder.feed(WHOLE[:5])
    assert decoder.next_frame() is None
    decoder.feed(WHOLE[5:] + NEXT[:4])
    assert decoder.next_frame() is not None
    assert decoder.buffered == 4


@pytest.mark.parametrize("step", [65_536, 1_000_003, 3_000_000])
def test_large_frames_are_cut_out_of_any_pieces(step: int) -> None:
    small = frame(0, b"{}", b"small")
    header, body = b"h" * 300_000, bytes(range(256)) * 20_000
    stream = small + frame(0, b"{}", body) + small + frame(1, header, body[:-1]) + small
    decoder = FrameDecoder()
    found: list[Frame] = []
    for start in range(0, len(stream), step):
        decoder.feed(stream[start : start + step])
        while (taken := decoder.next_frame()) is not None:
            found.append(taken)
    one = (0, b"{}", b"small")
    assert found == [one, (0, b"{}", body), one, (1, header, body[:-1]), one]
    assert decoder.buffered == 0


def test_a_large_frame_counts_as_buffered_while_it_arrives() -> None:
    stream = frame(0, b"{}", bytes(5_000_000))
    decoder = FrameDecoder()
    for start in range(0, len(stream) - 100_000, 100_000):
        decoder.feed(stream[start : start + 100_000])
        assert decoder.next_frame() is None
        assert decoder.buffered == start + 100_000
