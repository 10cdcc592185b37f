"""What is asked of a watch and told by it, byte by byte."""

import json

import pytest

from routebook.slices import finished
from routebook.wire import watching
from routebook.wire.errors import BadBody, BadRequest
from routebook.wire.watching import Token
from support import raw


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(b"", "says not what to watch", id="empty"),
        pytest.param(b"[]", "says not what to watch", id="list"),
        pytest.param(b'{"topics":["a"]}', "says not what to watch", id="topics-as-list"),
        pytest.param(b'{"topics":{"a":1}}', "says not what to watch", id="number-as-etag"),
        pytest.param(b'{"topics":{"\xff":""}}', "says not what to watch", id="not-utf-8"),
        pytest.param(b'{"topics":{"":""}}', "a topic has a name", id="no-name"),
        pytest.param(b'{"topics":{"*":""}}', "in the feed", id="everything"),
        pytest.param(b'{"topics":{"a":"01234567890123456"}}', "16 digits", id="long-etag"),
        pytest.param(b'{"topics":{"%b":""}}' % (b"x" * 391), "longer than 390", id="long-name"),
        pytest.param(b"x" * (watching.MAX_BODY + 1), "at most 10000 topics", id="too-large"),
    ],
)
def test_what_cannot_be_watched_is_refused_in_a_sentence(body: bytes, said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        finished(watching.decode_watch(body))


def test_the_longest_names_of_as_many_topics_as_there_may_be_can_be_asked_for() -> None:
    topics = {f"{n:0390}": "0123456789abcdef" for n in range(watching.MAX_TOPICS)}
    since = f"{'n' * 100}.0123456789abcdef.{2**62}"
    body = json.dumps(
        {"topics": topics, "since": since, "feed": True, "feedSince": since}, separators=(",", ":")
    ).encode()
    decoding = watching.decode_watch(body)
    assert sum(1 for _ in decoding) >= 10, "others have turns while names are looked at"
    assert len(finished(watching.decode_watch(body)).topics) == watching.MAX_TOPICS


def test_a_token_is_a_place_in_one_boot_of_one_node() -> None:
    token = Token("ns-1.example.com", "5d0c", 117)
    assert Token.parse(str(token)) == token


@pytest.mark.parametrize(
    "text", ["", "a", "a.b", "a.b.", ".b.1", "a..1", "a.b.-1", "a.b.x", "a.b.²"]
)
def test_what_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="a token is"):
        Token.parse(text)


def test_a_frame_is_a_oneway_request_that_names_its_place() -> None:
    entry = watching.route_entry('a"b', "0123456789abcdef", b'{"brokerDatas":[]}')
    data = watching.push_frame("routes", "5d0c", 3, 117, 118, watching.listed([entry]), {"x": 'y"'})
    frame = raw.answer_of(data[4:])
    assert (frame.code, frame.flag) == (19_006, raw.ONEWAY)
    assert frame.ext_fields == {
        "after": "117",
        "boot": "5d0c",
        "kind": "routes",
        "n": "3",
        "rev": "118",
        "x": 'y"',
    }
    assert json.loads(frame.body) == [
        {"topic": 'a"b', "etag": "0123456789abcdef", "route": {"brokerDatas": []}}
    ]


@pytest.mark.parametrize("body", [b"", b"{}", b'[{"topic":1}]', b'[{"topic":"a"}]', b"[" * 2000])
def test_a_body_that_is_no_list_of_routes_is_named_so(body: bytes) -> None:
    with pytest.raises(BadBody):
        watching.decode_routes(body)
