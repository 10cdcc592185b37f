import zlib

import pytest

from routebook.slices import finished
from routebook.wire.errors import BadRequest, BodyTooLarge
from routebook.wire.registration import (
    DataVersion,
    RegistrationBody,
    TopicConfig,
    crc32,
    decode_registration,
)
from support.builders import compressed_body, registration_body

JAVA_SAMPLE = bytes.fromhex(
    "78da636060b0a8564ace2fcd2b492d52b232d4512a2e492c490d4b2d2acecccf53b232d0512ac9cc4d050ae616"
    "00a5cd0d10a0968181811188c5420c152c80d04c21d8d3cfddc7353ec4d15da11a24cb141d0b24190067a11848"
)


def decoded(
    body: bytes, version: int = 513, *, compressed: bool = False, max_frame: int = 1 << 24
) -> RegistrationBody:
    return finished(
        decode_registration(
            body, version, compressed=compressed, max_frame=max_frame, max_topics=1000
        )
    )


def test_the_checksums_of_the_reference() -> None:
    assert (crc32(b"{}"), crc32(b"hello")) == (598130499, 907060870)


def test_a_compressed_body_written_by_java_is_read() -> None:
    body = decoded(JAVA_SAMPLE, 479, compressed=True)
    assert body.data_version == DataVersion(1, 0, 1700000000000)
    assert body.topics == {"T1": TopicConfig("T1", 8, 8, 6)}


def test_missing_members_have_the_defaults_of_the_reference() -> None:
    body = decoded(b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"topicName":"T"}}}}')
    assert body.topics == {"T": TopicConfig("T", 16, 16, 6, 0)}
    assert body.data_version is None, "a missing data version never equals anything"
    assert body.filter_servers == []


def test_numbers_may_be_strings_or_whole_floats() -> None:
    body = decoded(
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"topicName":"T",'
        b'"readQueueNums":"4","writeQueueNums":2.0,"perm":null}}}}'
    )
    assert body.topics == {"T": TopicConfig("T", 4, 2, 6)}


def test_a_null_filter_list_is_not_an_empty_one() -> None:
    assert decoded(b'{"filterServerList":null}').filter_servers is None


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"topicConfigSerializeWrapper":null}', id="null-wrapper"),
        pytest.param(b'{"topicConfigSerializeWrapper":{"topicConfigTable":null}}', id="null-table"),
        pytest.param(b"[]", id="not-an-object"),
        pytest.param(registration_body({"t": {"perm": 2**31}, "u": {}}), id="no-java-int"),
        pytest.param(compressed_body({"t": {"perm": 2**31}, "u": {}}), id="no-java-int-zlib"),
        pytest.param(registration_body(counter=2**63), id="no-java-long"),
        pytest.param(b"{", id="cut"),
        pytest.param(b"\xff\xfe", id="not-text"),
        pytest.param(JAVA_SAMPLE[:-20], id="cut-zlib"),
        pytest.param(b"x" + JAVA_SAMPLE[1:40], id="not-zlib"),
        pytest.param(zlib.compress(b"\0\0\0\x09{}"), id="cut-piece"),
        pytest.param(zlib.compress(b"\xff\xff\xff\xff"), id="negative-length"),
    ],
)
def test_an_unreadable_body_is_a_bad_request(body: bytes) -> None:
    with pytest.raises(BadRequest):
        decoded(body)


def test_a_bomb_is_refused_before_it_is_whole() -> None:
    bomb = zlib.compress(bytes(50_000_000), 9)
    assert len(bomb) < 60_000
    with pytest.raises(BodyTooLarge, match="exceeds the limit of 4000000 bytes"):
        decoded(bomb, compressed=True, max_frame=1_000_000)


@pytest.mark.parametrize("compress", [False, True])
def test_too_many_topics_are_refused(compress: bool) -> None:
    topics = [f"t{n}" for n in range(1001)]
    body = compressed_body(topics) if compress else registration_body(topics)
    with pytest.raises(BadRequest, match="1001 topics exceeds the limit of 1000"):
        decoded(body, compressed=compress)
