"""A relay's memory under anything: within its bounds, and honest about what it no longer has."""

import random
import sys

from hypothesis import given
from hypothesis import strategies as st

from routebook.relay.cache import ENTRY_BYTES, REST_AFTER_S, Question, RelayCache
from routebook.wire.codes import RequestCode, ResponseCode
from routebook.wire.command import Reply

QUESTIONS = [
    *(Question(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=f"topic-{n}") for n in range(6)),
    *(Question(RequestCode.GET_BROKER_MEMBER_GROUP, cluster="ö", broker=f"b{n}") for n in range(2)),
    Question(RequestCode.GET_BROKER_CLUSTER_INFO),
]
BODIES = [b"a" * 100, b"b" * 700, b"c" * 1500]
NO = Reply(ResponseCode.TOPIC_NOT_EXIST)

question = st.sampled_from(QUESTIONS)
steps = st.one_of(
    st.tuples(st.just("confirm"), question, st.sampled_from(BODIES)),
    st.tuples(st.just("deny"), question, st.none()),
    st.tuples(st.just("ask"), question, st.none()),
    st.tuples(st.just("poll"), question, st.none()),
    st.tuples(st.just("wait"), question, st.none()),
)


def cost(asked: Question) -> int:
    names = (asked.topic, asked.cluster, asked.broker)
    return ENTRY_BYTES + sum(sys.getsizeof(name) for name in names if name is not None)


@given(st.lists(steps, max_size=60), st.integers(1, 4), st.sampled_from([500, 3000, 5000, 100_000]))
def test_it_keeps_what_fits_and_never_denies_to_have_known_the_rest(
    taken: list[tuple[str, Question, bytes | None]], max_topics: int, max_bytes: int
) -> None:
    cache = RelayCache(
        poll_s=30.0,
        forget_after_s=60.0,
        max_topics=max_topics,
        max_bytes=max_bytes,
        rng=random.Random(1),
    )
    now_s, known = 0.0, dict[Question, bytes]()
    for step, asked, body in taken:
        now_s += 1.0
        if step == "confirm":
            assert body is not None
            cache.confirm(asked, body, now_s=now_s)
            known[asked] = body
            assert cache.find(asked, now_s) is not None  # the newest always has room
        elif step == "deny":
            cache.deny(asked, NO, now_s=now_s, doubt="no")
        elif step == "ask":
            if cache.find(asked, now_s) is not None:
                cache.wake(asked, now_s)
        elif step == "poll":
            assert cache.take_due(now_s, limit=100) is not None
        else:
            now_s += REST_AFTER_S
            cache.take_due(now_s, limit=100)

    held = {q: entry.body for q in QUESTIONS if (entry := cache.find(q, now_s)) is not None}
    assert all(known[asked] == body for asked, body in held.items())
    assert len(cache) == len(held)
    assert cache.resting == sum(cache.wake(asked, now_s) for asked in held)
    assert cache.held_bytes == sum(map(cost, held)) + sum(map(len, set(held.values())))
    assert cache.held_bytes <= max_bytes or len(held) == 1
    assert cache.count(RequestCode.GET_ROUTEINFO_BY_TOPIC) <= max_topics
    for asked in QUESTIONS:
        gone = asked in known and asked not in held
        assert (cache.find_forgotten(asked) is not None) == gone
