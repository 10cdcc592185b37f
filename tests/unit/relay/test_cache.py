"""What a relay remembers, for how long, and what it gives up first."""

import random
import sys

import pytest

from routebook.relay.cache import (
    DENIAL_S,
    ENTRY_BYTES,
    MAX_DENIALS,
    MAX_FORGOTTEN,
    MAX_GROUPS,
    REST_AFTER_S,
    Entry,
    Loss,
    Question,
    RelayCache,
)
from routebook.wire.codes import RequestCode, ResponseCode
from routebook.wire.command import Reply

POLL_S = 30.0
FORGET_AFTER_S = 120.0
NO = Reply(ResponseCode.TOPIC_NOT_EXIST, "no such topic")


def route(topic: str) -> Question:
    return Question(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic)


def group(broker: str) -> Question:
    return Question(RequestCode.GET_BROKER_MEMBER_GROUP, cluster="c1", broker=broker)


ORDERS = route("orders")


def cost(*questions: Question) -> int:
    """Bytes held for questions that name a topic."""
    return sum(ENTRY_BYTES + sys.getsizeof(question.topic) for question in questions)


def relay_cache(*, max_topics: int = 100, max_bytes: int = 100_000_000) -> RelayCache:
    return RelayCache(
        poll_s=POLL_S,
        forget_after_s=FORGET_AFTER_S,
        max_topics=max_topics,
        max_bytes=max_bytes,
        rng=random.Random(7),
    )


def found(cache: RelayCache, question: Question, now_s: float) -> Entry:
    entry = cache.find(question, now_s)
    assert entry is not None
    return entry


# -- good answers


def test_an_answer_stays_and_knows_when_it_was_confirmed() -> None:
    cache = relay_cache()
    cache.confirm(ORDERS, b"a", now_s=0.0)
    entry = found(cache, ORDERS, 1_000_000.0)
    assert (entry.body, entry.confirmed_at, entry.doubt) == (b"a", 0.0, None)


def test_an_answer_that_came_from_another_relay_is_as_old_as_that_relay_says() -> None:
    cache = relay_cache()
    cache.confirm(ORDERS, b"a", now_s=100.0, age_s=40.0, doubt="no NameServer answers there")
    entry = found(cache, ORDERS, 100.0)
    assert (entry.confirmed_at, entry.doubt) == (60.0, "no NameServer answers there")


def test_a_confirmation_ends_a_doubt() -> None:
    cache = relay_cache()
    cache.confirm(ORDERS, b"a", now_s=0.0)
    cache.fail(ORDERS, "no answer")
    assert found(cache, ORDERS, 1.0).doubt == "no answer"
    cache.confirm(ORDERS, b"a", now_s=2.0)
    assert found(cache, ORDERS, 2.0).doubt is None


def test_the_oldest_age_is_that_of_the_answer_confirmed_longest_ago() -> None:
    cache = relay_cache()
    assert cache.oldest_age_s(5.0) is None
    cache.confirm(ORDERS, b"a", now_s=0.0)
    cache.confirm(group("b"), b"b", now_s=3.0)
    assert cache.oldest_age_s(5.0) == 5.0
    cache.confirm(ORDERS, b"a", now_s=4.0)
    assert cache.oldest_age_s(5.0) == 2.0


# -- being asked again


def test_answers_fall_due_before_the_period_is_over_and_not_all_at_once() -> None:
    cache = relay_cache()
    topics = [route(f"t{i}") for i in range(50)]
    for topic in topics:
        cache.confirm(topic, b"a", now_s=0.0)
    assert cache.take_due(0.69 * POLL_S, limit=100) == []
    early = cache.take_due(0.85 * POLL_S, limit=100)
    late = cache.take_due(POLL_S, limit=100)
    assert early
    assert late
    assert set(early) | set(late) == set(topics)


def test_an_answer_falls_due_again_and_again() -> None:
    cache = relay_cache()
    cache.confirm(ORDERS, b"a", now_s=0.0)
    for period in range(1, 5):
        assert cache.take_due(period * POLL_S, limit=10) == [ORDERS]
        assert cache.take_due(period * POLL_S, limit=10) == []


def test_no_more_are_taken_than_wanted() -> None:
    cache = relay_cache()
    for i in range(5):
        cache.confirm(route(f"t{i}"), b"a", now_s=0.0)
    assert [len(cache.take_due(POLL_S, limit=2)) for _ in range(4)] == [2, 2, 1, 0]


def test_a_hastened_answer_is_due_at_once_and_only_once() -> None:
    cache = relay_cache()
    cache.confirm(ORDERS, b"a", now_s=0.0)
    cache.hasten(ORDERS)
    cache.hasten(route("unknown"))
    assert cache.take_due(1.0, limit=10) == [ORDERS]
    assert cache.take_due(1.0, limit=10) == []


@pytest.mark.parametrize(
    ("silence_s", "rests"),
    [
        pytest.param(REST_AFTER_S, False, id="asked-for-just-in-time"),
        pytest.param(REST_AFTER_S + 1, True, id="asked-for-too-long-ago"),
    ],
)
def test_what_nobody_asks_for_rests_and_is_kept(silence_s: float, rests: bool) -> None:
    cache = relay_cache()
    cache.confirm(ORDERS, b"a", now_s=0.0)
    assert (cache.take_due(silence_s, limit=10) == []) is rests
    assert cache.resting == int(rests)
    assert found(cache, ORDERS, 1_000_000.0).body == b"a"
    assert cache.find_forgotten(ORDERS) is None


def test_what_rested_is_asked_again_once_somebody_wants_it() -> None:
    cache = relay_cache()
    cache.confirm(ORDERS, b"a", now_s=0.0)
    cache.take_due(REST_AFTER_S + 1, limit=10)
    assert cache.take_due(2 * REST_AFTER_S, limit=10) == []
    found(cache, ORDERS, 2 * REST_AFTER_S)
    assert cache.wake(ORDERS, 2 * REST_AFTER_S)
    assert not cache.wake(ORDERS, 2 * REST_AFTER_S)
    assert not cache.wake(route("unknown"), 2 * REST_AFTER_S)
    assert cache.take_due(2 * REST_AFTER_S + POLL_S, limit=10) == [ORDERS]


def test_nothing_goes_to_rest_that_could_not_be_had_again() -> None:
    cache = relay_cache()
    cache.confirm(ORDERS, b"a", now_s=0.0)
    assert cache.take_due(2 * REST_AFTER_S, limit=10, rest_unused=False) == [ORDERS]


def test_questions_keep_an_answer_in_use() -> None:
    cache = relay_cache()
    cache.confirm(ORDERS, b"a", now_s=0.0)
    found(cache, ORDERS, REST_AFTER_S)
    assert cache.take_due(2 * REST_AFTER_S, limit=10) == [ORDERS]


# -- denials


@pytest.mark.parametrize(
    ("denied_for_s", "kept"),
    [
        pytest.param(0.0, True, id="the-first-denial"),
        pytest.param(FORGET_AFTER_S - 1, True, id="not-yet-long-enough"),
        pytest.param(FORGET_AFTER_S, False, id="long-enough"),
    ],
)
def test_a_good_answer_outlives_denials_for_a_while(denied_for_s: float, kept: bool) -> None:
    cache = relay_cache()
    cache.confirm(ORDERS, b"a", now_s=0.0)
    for at in (50.0, 50.0 + denied_for_s):
        cache.deny(ORDERS, NO, now_s=at, doubt="n answers with code 17")
    entry = cache.find(ORDERS, 50.0 + denied_for_s)
    if kept:
        assert entry is not None
        assert (entry.confirmed_at, entry.doubt) == (0.0, "n answers with code 17")
        assert cache.find_denial(ORDERS, 50.0) is None
    else:
        assert entry is None
        denial = cache.find_denial(ORDERS, 50.0 + denied_for_s)
        assert denial is not None
        assert denial.reply == NO


def test_a_confirmation_between_denials_starts_the_count_anew() -> None:
    cache = relay_cache()
    cache.confirm(ORDERS, b"a", now_s=0.0)
    cache.deny(ORDERS, NO, now_s=10.0, doubt="no")
    cache.confirm(ORDERS, b"a", now_s=100.0)
    cache.deny(ORDERS, NO, now_s=10.0 + FORGET_AFTER_S, doubt="no")
    assert cache.find(ORDERS, 200.0) is not None


def test_an_outage_between_denials_starts_the_count_anew() -> None:
    cache = relay_cache()
    cache.confirm(ORDERS, b"a", now_s=0.0)
    cache.deny(ORDERS, NO, now_s=10.0, doubt="no")
    cache.pardon()
    cache.deny(ORDERS, NO, now_s=10.0 + FORGET_AFTER_S, doubt="no")
    assert cache.find(ORDERS, 200.0) is not None


@pytest.mark.parametrize(
    ("later_s", "remembered"),
    [
        pytest.param(DENIAL_S, True, id="at-the-end"),
        pytest.param(DENIAL_S + 0.1, False, id="after-it"),
    ],
)
def test_a_denial_is_remembered_for_moments_only(later_s: float, remembered: bool) -> None:
    cache = relay_cache()
    cache.deny(ORDERS, NO, now_s=10.0, doubt="no")
    assert (cache.find_denial(ORDERS, 10.0 + later_s) is not None) is remembered


def test_a_good_answer_replaces_a_remembered_denial() -> None:
    cache = relay_cache()
    cache.deny(ORDERS, NO, now_s=10.0, doubt="no")
    cache.confirm(ORDERS, b"a", now_s=10.0)
    assert cache.find_denial(ORDERS, 10.0) is None


def test_a_flood_of_denials_costs_no_good_answer_and_little_memory() -> None:
    cache = relay_cache(max_topics=2)
    cache.confirm(ORDERS, b"a", now_s=0.0)
    flood = [route(f"nothing-{i}") for i in range(MAX_DENIALS + 10)]
    for question in flood:
        cache.deny(question, NO, now_s=1.0, doubt="no")
    assert found(cache, ORDERS, 1.0).body == b"a"
    remembered = [q for q in flood if cache.find_denial(q, 1.0) is not None]
    assert remembered == flood[10:]


# -- bounds


def test_the_topic_asked_for_longest_ago_makes_room() -> None:
    cache = relay_cache(max_topics=2)
    cache.confirm(route("old"), b"a", now_s=0.0)
    cache.confirm(ORDERS, b"b", now_s=1.0)
    found(cache, route("old"), 2.0)
    cache.confirm(route("new"), b"c", now_s=3.0)
    assert cache.find(ORDERS, 4.0) is None
    assert found(cache, route("old"), 4.0).body == b"a"
    assert found(cache, route("new"), 4.0).body == b"c"


def test_broker_groups_have_room_of_their_own() -> None:
    cache = relay_cache(max_topics=1)
    cache.confirm(ORDERS, b"a", now_s=0.0)
    for i in range(MAX_GROUPS + 1):
        cache.confirm(group(f"b{i}"), b"b", now_s=1.0)
    assert cache.find(ORDERS, 1.0) is not None
    assert cache.find(group("b0"), 1.0) is None
    assert cache.count(RequestCode.GET_BROKER_MEMBER_GROUP) == MAX_GROUPS


def test_equal_bodies_are_held_once() -> None:
    cache = relay_cache()
    for i in range(10):
        cache.confirm(route(f"t{i}"), bytes(b"x" * 1000), now_s=0.0)
    held = cost(*(route(f"t{i}") for i in range(10)))
    assert cache.held_bytes == held + 1000
    assert cache.holds(b"x" * 1000)
    for i in range(9):
        cache.confirm(route(f"t{i}"), b"y", now_s=1.0)
    assert cache.held_bytes == held + 1001
    cache.confirm(route("t9"), b"y", now_s=1.0)
    assert cache.held_bytes == held + 1
    assert not cache.holds(b"x" * 1000)


def test_bodies_together_keep_to_their_limit() -> None:
    cache = relay_cache(max_bytes=2500 + 2 * cost(route("a")))
    for name in "abcd":
        cache.confirm(route(name), name.encode() * 1000, now_s=0.0)
    assert cache.held_bytes == 2000 + 2 * cost(route("a"))
    assert [n for n in "abcd" if cache.find(route(n), 1.0) is not None] == ["c", "d"]


def test_a_body_beyond_the_limit_of_all_is_held_alone() -> None:
    cache = relay_cache(max_bytes=10)
    cache.confirm(ORDERS, b"a", now_s=0.0)
    cache.confirm(route("huge"), b"h" * 100, now_s=1.0)
    assert cache.find(ORDERS, 1.0) is None
    assert found(cache, route("huge"), 1.0).body == b"h" * 100


def test_answers_that_made_room_are_not_asked_again() -> None:
    cache = relay_cache(max_topics=3)
    for i in range(5000):
        cache.confirm(route(f"t{i}"), b"a", now_s=0.0)
    due = cache.take_due(POLL_S, limit=5000)
    assert sorted(due, key=str) == [route("t4997"), route("t4998"), route("t4999")]


def test_what_was_asked_for_longest_ago_of_all_kinds_makes_room() -> None:
    cache = relay_cache(max_bytes=3000 + 3 * cost(route("a")))
    cache.confirm(group("b"), b"b" * 1000, now_s=0.0)
    cache.confirm(route("a"), b"a" * 1000, now_s=1.0)
    cache.confirm(route("c"), b"c" * 1000, now_s=2.0)
    assert cache.find(group("b"), 3.0) is None  # its names take room, too
    assert len(cache) == 2


def test_questions_without_much_of_an_answer_take_room_too() -> None:
    cache = relay_cache(max_bytes=10 * ENTRY_BYTES)
    for i in range(100):
        cache.confirm(route(f"t{i}"), b"same", now_s=0.0)
    assert cache.held_bytes <= 10 * ENTRY_BYTES
    assert len(cache) < 10


# -- what was forgotten


def test_what_was_forgotten_and_why_is_known() -> None:
    cache = relay_cache(max_topics=1)
    cache.confirm(ORDERS, b"a", now_s=0.0)
    cache.confirm(route("new"), b"b", now_s=5.0)
    forgotten = cache.find_forgotten(ORDERS)
    assert forgotten is not None
    assert (forgotten.why, forgotten.at) == (Loss.ROOM, 5.0)
    for at in (10.0, 10.0 + FORGET_AFTER_S):
        cache.deny(route("new"), NO, now_s=at, doubt="no")
    forgotten = cache.find_forgotten(route("new"))
    assert forgotten is not None
    assert forgotten.why is Loss.DENIED
    assert cache.find_forgotten(route("never-known")) is None
    assert (cache.lost(Loss.ROOM), cache.lost(Loss.DENIED)) == (1, 1)
    cache.confirm(ORDERS, b"a", now_s=200.0)
    assert cache.find_forgotten(ORDERS) is None


def test_the_list_of_what_was_forgotten_has_an_end_and_says_so() -> None:
    cache = relay_cache(max_topics=1)
    for i in range(MAX_FORGOTTEN + 11):
        cache.confirm(route(f"t{i}"), b"a", now_s=float(i))
    assert cache.unlisted == 10
    assert cache.find_forgotten(route("t9")) is None
    assert cache.find_forgotten(route("t10")) is not None
