"""What raises an alert, what does not, and what resolves it.

All stories become facts in one job of Spark; each is then gone through in plain Python, bucket by
bucket, as a trigger does it.
"""

from collections.abc import Callable, Mapping, Sequence

import pytest
from pyspark.sql import SparkSession

from routebook.journal.record import Record
from routebook_spark.alerts.alert_rules import FORGET_MS, forget, look_at
from routebook_spark.alerts.bucket_state import BucketState
from routebook_spark.alerts.facts import BUCKETS, FACTS, Fact
from routebook_spark.alerts.limits import Limits
from routebook_spark.gold.forecast import FIXED_BYTES, TOPIC_BYTES
from support import watch_sleepers as sleepers
from support import watch_stories as stories
from support.spark_histories import histories
from support.watch_events import T0_MS, witnessed
from support.watch_runs import Ending, Witness, endings, facts_of, gone_through, triggered
from support.watch_sleepers import Story
from support.watch_stories import STORIES, journals_of

# Room for 41 topics with names of 8 letters before it is too close to the limit.
LIMITS = Limits(frame_bytes=round((FIXED_BYTES + 41 * (TOPIC_BYTES + 2 * 8)) / 0.75))
SEEDS = range(4)


@pytest.fixture(scope="module")
def random_records() -> dict[str, list[Record]]:
    """Histories of two nodes each, by case."""
    return {
        f"random-{seed}": [
            record
            for records in histories(seed, nodes=2, brokers=3, hours=6).values()
            for record in records
        ]
        for seed in SEEDS
    }


@pytest.fixture(scope="module")
def told(
    spark: SparkSession, random_records: Mapping[str, Sequence[Record]]
) -> dict[str, list[Fact]]:
    """The facts of each case, which is a fleet of its own."""
    records: list[tuple[Witness, Record]] = []
    for case, some in random_records.items():
        records += [((case, ""), one) for one in some]
    for story in STORIES:
        for journal in journals_of(story).values():
            records += [((story.__name__, life), one) for life, one in witnessed(journal)]
    by_case: dict[str, list[Fact]] = {}
    for fact in facts_of(spark, records, LIMITS):
        by_case.setdefault(fact.fleet, []).append(fact)
    return by_case


@pytest.fixture
def found(told: Mapping[str, list[Fact]]) -> Callable[[Story], list[Ending]]:
    return lambda story: endings(gone_through(told[story.__name__], LIMITS))


@pytest.fixture
def found_in_parts(told: Mapping[str, list[Fact]]) -> Callable[..., list[Ending]]:
    """The alerts of a story whose records come in one trigger for each value of ``part``."""

    def look(story: Story, part: Callable[[Fact], str]) -> list[Ending]:
        facts = told[story.__name__]
        parts = sorted(set(map(part, facts)))
        triggers = [[fact for fact in facts if part(fact) == each] for each in parts]
        return endings(triggered(triggers, LIMITS))

    return look


@pytest.fixture
def sentence(told: Mapping[str, list[Fact]]) -> Callable[[Story, str], str]:
    """Of the first alert of a story in that state."""

    def look(story: Story, state: str = "raised") -> str:
        alerts = [a for a in gone_through(told[story.__name__], LIMITS) if a.state == state]
        return alerts[0].sentence

    return look


Found = Callable[[Story], list[Ending]]
FoundInParts = Callable[[Story, Callable[[Fact], str]], list[Ending]]
Sentence = Callable[..., str]


# -- flapping


def test_a_broker_that_comes_and_goes_is_one_alert_for_all_nodes(found: Found) -> None:
    [ending] = found(stories.a_broker_flaps)
    assert (ending.kind, ending.subject) == ("flapping", "broker-a:0")
    assert ending.nodes == ("ns-1", "ns-2")
    assert (ending.began_s, ending.raised_s) == (130, 130)
    assert ending.resolved_s is not None
    assert 131 + 2 * 900 < ending.resolved_s < 131 + 3 * 900


def test_a_flapping_broker_is_told_with_what_to_do(sentence: Sentence) -> None:
    assert sentence(stories.a_broker_flaps) == (
        "broker-a (id 0, cluster c) keeps coming and going: 3 times within 1 min 10 s on ns-1 and"
        " ns-2. One node alone points at the way to it, all of them at the broker: `routebook"
        " history explain broker-a` has each time with its cause."
    )


def test_restarts_somebody_asked_for_are_no_flapping(found: Found) -> None:
    assert found(stories.a_broker_is_restarted_by_hand) == []


# -- heartbeats


def test_a_gap_above_the_limit_is_late_until_a_window_without_one(found: Found) -> None:
    [ending] = found(stories.a_gap_is_nearly_too_long)
    assert ending == Ending("late_heartbeats", "broker-a:0", 120, 120, 240, ("ns-1",))


def test_what_is_late_depends_on_the_timeout_of_the_broker(found: Found) -> None:
    [ending] = found(stories.a_timeout_is_longer)
    assert ending == Ending("late_heartbeats", "broker-b:0", 60, 60, 120, ("ns-1",))


def test_a_listed_broker_in_none_of_two_windows_is_silent_until_it_leaves(found: Found) -> None:
    [ending] = found(stories.a_broker_falls_silent)
    assert ending == Ending("late_heartbeats", "broker-a:0", 60, 180, 190, ("ns-1",))


def test_time_in_which_the_node_was_down_is_no_silence_of_brokers(found: Found) -> None:
    assert found(stories.a_node_restarts_and_hears_of_nobody_at_first) == []


# -- divergence


def test_a_broker_one_node_does_not_have_is_a_divergence_after_the_limit(found: Found) -> None:
    [ending] = found(stories.one_node_loses_a_broker)
    assert ending == Ending("divergence", "broker-a", 100, 190, 300, ("ns-1", "ns-2", "ns-3"))


def test_a_divergence_is_told_with_both_views(sentence: Sentence) -> None:
    assert sentence(stories.one_node_loses_a_broker) == (
        "ns-1, ns-2 and ns-3 have disagreed about broker-a (cluster c) since 2026-01-01T12:01:40Z:"
        " 0=broker-a:10911 with 2 topics on ns-1 and ns-3, not listed on ns-2. `routebook compare`"
        " shows what they say now; see whether the broker reaches them all."
    )


def test_nodes_that_agree_before_the_limit_are_no_divergence(found: Found) -> None:
    assert found(stories.nodes_disagree_for_a_moment) == []


def test_other_queues_of_the_same_topics_are_a_divergence(found: Found, sentence: Sentence) -> None:
    [ending] = found(stories.one_node_is_told_other_queues)
    assert (ending.kind, ending.began_s, ending.raised_s) == ("divergence", 50, 140)
    assert "their topics have different queues" in sentence(stories.one_node_is_told_other_queues)


def test_the_order_of_changes_is_no_divergence(found: Found) -> None:
    assert found(stories.changes_come_in_another_order) == []


def test_other_addresses_are_a_divergence(found: Found) -> None:
    [ending] = found(stories.a_slave_is_missing_on_one_node)
    assert (ending.kind, ending.subject) == ("divergence", "broker-a")


def test_a_node_that_is_cut_off_disagrees_with_nobody(found: Found) -> None:
    assert found(stories.a_node_is_cut_off) == []


def test_a_node_that_is_down_disagrees_with_nobody(found: Found) -> None:
    assert found(stories.a_node_is_stopped) == []


def test_a_node_without_any_brokers_is_taken_at_its_word(found: Found) -> None:
    [ending] = found(stories.a_node_is_alone_from_the_beginning)
    assert (ending.kind, ending.raised_s, ending.nodes) == ("divergence", 90, ("ns-1", "ns-2"))


def test_what_a_journal_without_its_beginning_does_not_say_is_not_held_against_it(
    found: Found,
) -> None:
    assert found(stories.a_journal_begins_in_the_middle) == []


@pytest.mark.parametrize(
    "story",
    [stories.nodes_disagree_for_a_moment, stories.changes_come_in_another_order],
)
@pytest.mark.parametrize("first", ["ns-1", "ns-2"])
def test_a_node_whose_records_come_later_does_not_disagree_with_what_came_before(
    found_in_parts: FoundInParts, story: Story, first: str
) -> None:
    assert found_in_parts(story, lambda fact: "" if fact.node == first else fact.node) == []


def test_nodes_that_disagree_are_told_whichever_is_read_first(
    found: Found, found_in_parts: FoundInParts
) -> None:
    [alone] = found_in_parts(stories.a_slave_is_missing_on_one_node, lambda fact: fact.node)
    assert [alone] == found(stories.a_slave_is_missing_on_one_node)


# -- mass loss


def test_many_brokers_gone_within_a_minute_are_a_mass_loss(
    found: Found, sentence: Sentence
) -> None:
    [ending] = found(stories.brokers_vanish_together)
    assert ending == Ending("mass_loss", "ns-1", 10, 40, 110, ("ns-1",))
    assert "lost 4 of 10 brokers within 30 s" in sentence(stories.brokers_vanish_together)


def test_a_broker_that_comes_and_goes_is_not_many_brokers(found: Found) -> None:
    kinds = [ending.kind for ending in found(stories.two_brokers_of_which_one_flaps)]
    assert kinds == ["flapping"]


def test_brokers_that_say_goodbye_are_no_mass_loss(found: Found) -> None:
    assert found(stories.brokers_are_shut_down_together) == []


def test_brokers_that_die_one_by_one_are_no_mass_loss(found: Found) -> None:
    # Two within a minute are too few to be many, even of the last three.
    assert found(stories.brokers_die_one_by_one) == []


def test_a_guard_that_engages_is_a_mass_loss_until_it_is_released(found: Found) -> None:
    [ending] = found(stories.the_guard_holds_brokers)
    assert ending == Ending("mass_loss", "ns-1", 50, 50, 300, ("ns-1",))


# -- registration size


def test_a_registration_near_the_limit_of_a_frame_is_told_once_until_it_shrinks(
    found: Found,
) -> None:
    [ending] = found(stories.a_registration_grows)
    assert ending == Ending("registration_size", "broker-a", 60, 60, 180, ("ns-1", "ns-2"))


# -- unknown topics


def test_a_topic_nobody_holds_asked_for_too_often_is_a_storm(
    found: Found, sentence: Sentence
) -> None:
    [ending] = found(stories.clients_ask_for_a_typo)
    assert ending == Ending("unknown_topics", "oders", 0, 60, 180, ("ns-1",))
    assert "`routebook route oders`" in sentence(stories.clients_ask_for_a_typo)


def test_rates_are_by_the_minute_whatever_the_window(found: Found) -> None:
    [ending] = found(stories.clients_ask_often_in_a_short_window)
    assert ending == Ending("unknown_topics", "oders", 0, 10, 20, ("ns-1",))


def test_a_window_cut_short_says_nothing_of_a_minute(found: Found) -> None:
    assert found(stories.clients_ask_at_the_end_of_a_node) == []


def test_many_topics_nobody_holds_are_a_storm_together(found: Found) -> None:
    [ending] = found(stories.clients_ask_for_everything)
    assert ending == Ending("unknown_topics", "ns-1", 0, 60, 120, ("ns-1",))


# -- nodes


def test_a_killed_node_is_told_when_it_is_back(found: Found) -> None:
    [ending] = found(stories.a_node_is_killed)
    assert ending == Ending("node_killed", "ns-1", 60, 360, 361, ("ns-1",))


def test_a_killed_node_ended_after_it_was_last_known_to_answer(
    found: Found, sentence: Sentence
) -> None:
    [ending] = found(stories.a_killed_node_had_answered_since_its_last_record)
    assert ending == Ending("node_killed", "ns-1", 112, 360, 361, ("ns-1",))
    told = sentence(stories.a_killed_node_had_answered_since_its_last_record)
    assert "at some moment after 2026-01-01T12:01:52Z" in told


def test_no_alert_begins_after_it_was_raised_when_a_clock_was_set_back(
    found: Found, sentence: Sentence
) -> None:
    [ending] = found(stories.a_node_is_killed_and_its_clock_set_back)
    assert ending == Ending("node_killed", "ns-1", 260, 260, 261, ("ns-1",))
    told = sentence(stories.a_node_is_killed_and_its_clock_set_back)
    assert "after 2026-01-01T12:10:00Z by the clock it had then, which was set back since" in told
    assert "wrote again at 2026-01-01T12:04:20Z" in told


# -- nodes that were not awake


def test_what_a_node_does_on_waking_is_blamed_on_the_node_alone(
    found: Found, sentence: Sentence
) -> None:
    [ending] = found(sleepers.a_node_sleeps_and_says_so)
    assert ending == Ending("node_stalled", "ns-2", 70, 205, 265, ("ns-2",))
    assert "ns-2 was not awake from 2026-01-01T12:01:10Z to 2026-01-01T12:03:25Z" in sentence(
        sleepers.a_node_sleeps_and_says_so
    )


def test_a_node_that_does_not_know_that_it_slept_blames_its_brokers_in_vain(
    found: Found,
) -> None:
    [ending] = found(sleepers.a_node_is_frozen_and_does_not_know)
    assert ending == Ending("node_silent", "ns-2", 60, 195, 195, ("ns-2",))


def test_brokers_are_not_late_in_time_of_which_records_are_missing(found: Found) -> None:
    [ending] = found(sleepers.a_node_sleeps_and_what_it_says_of_it_gets_lost)
    assert ending == Ending("records_lost", "ns-1", 60, 240, None, ("ns-1",))


def test_a_stall_is_told_though_the_records_before_it_are_missing(found: Found) -> None:
    lost, stalled = found(sleepers.a_node_sleeps_and_what_was_before_gets_lost)
    assert lost == Ending("records_lost", "ns-1", 60, 150, None, ("ns-1",))
    assert stalled == Ending("node_stalled", "ns-1", 120, 150, None, ("ns-1",))


def test_a_node_has_a_lease_to_find_out_what_it_slept_through(found: Found) -> None:
    kinds = [ending.kind for ending in found(sleepers.a_broker_dies_while_one_node_sleeps)]
    assert kinds == ["node_stalled"]


def test_a_node_that_never_finds_out_disagrees_from_when_it_woke_up(found: Found) -> None:
    [stalled, divergence] = found(sleepers.a_node_sleeps_and_then_disagrees)
    assert stalled.kind == "node_stalled"
    assert (divergence.kind, divergence.began_s) == ("divergence", 130)
    assert divergence.raised_s == 130 + 60 + 90


def test_brokers_that_die_after_a_pause_have_died(found: Found) -> None:
    kinds = [ending.kind for ending in found(sleepers.a_broker_dies_in_earnest_after_a_node_slept)]
    assert kinds == ["mass_loss"]


def test_a_short_pause_ends_no_divergence_and_is_not_told(found: Found) -> None:
    [ending] = found(sleepers.a_node_naps)
    assert ending == Ending("divergence", "broker-b", 20, 110, None, ("ns-1", "ns-2"))


def test_a_machine_that_was_suspended_is_found_by_its_two_clocks(found: Found) -> None:
    [ending] = found(sleepers.a_machine_is_suspended)
    assert (ending.kind, ending.began_s, ending.raised_s) == ("node_stalled", 60, 3660.5)


def test_changes_that_follow_each_other_are_no_disagreement_of_clocks_that_differ(
    found: Found,
) -> None:
    assert found(stories.a_broker_is_away_in_front_of_clocks_that_differ) == []


def test_a_clock_that_is_set_back_makes_no_disagreement(found: Found) -> None:
    assert found(sleepers.a_clock_is_set_back) == []


def test_a_node_whose_disk_was_replaced_is_another_witness(found: Found) -> None:
    assert found(sleepers.a_disk_is_replaced) == []


def test_two_nodes_that_write_under_one_id_at_once_are_told(
    found: Found, sentence: Sentence
) -> None:
    [ending] = found(sleepers.two_nodes_of_one_id_have_a_folder_each)
    assert (ending.kind, ending.subject) == ("node_id_twice", "ns-1")
    assert "at the same time" in sentence(sleepers.two_nodes_of_one_id_have_a_folder_each)


def test_a_broker_is_not_late_because_a_clock_was_set_back(found: Found) -> None:
    assert found(sleepers.a_clock_is_set_back_and_a_broker_beats_on) == []


@pytest.mark.parametrize(
    "story",
    [
        sleepers.a_disk_is_replaced_and_the_clock_set_back,
        sleepers.a_disk_is_replaced_and_the_clock_set_back_by_far,
    ],
)
def test_a_new_life_under_a_clock_that_was_set_back_is_watched(
    found_in_parts: FoundInParts, story: Story
) -> None:
    """Shown by what only the new life tells."""
    [ending] = found_in_parts(story, lambda fact: fact.incarnation)
    assert (ending.kind, ending.subject) == ("records_lost", "ns-1")


def test_lost_records_are_told_until_the_tables_are_restated(found: Found) -> None:
    [ending] = found(stories.a_disk_is_full)
    assert ending == Ending("records_lost", "ns-1", 100, 200, 260, ("ns-1",))


def test_missing_records_are_told_and_nothing_is_concluded_from_before(found: Found) -> None:
    [ending] = found(stories.a_segment_is_missing)
    assert ending == Ending("records_lost", "ns-1", 60, 1000, None, ("ns-1",))


def test_a_clock_far_ahead_is_told_and_moves_no_time(found: Found) -> None:
    kinds = [ending.kind for ending in found(stories.a_clock_is_years_ahead)]
    assert kinds == ["clock_ahead"]


def test_two_nodes_of_one_id_are_told(found: Found, sentence: Sentence) -> None:
    [ending] = found(stories.two_nodes_have_one_id)
    assert (ending.kind, ending.subject) == ("node_id_twice", "ns-1")
    told = sentence(stories.two_nodes_have_one_id)
    assert "Record 1 of ns-1 came at 2026-01-01T12:16:40Z, after record 6" in told


def test_records_that_come_twice_count_once(found: Found) -> None:
    assert found(stories.a_folder_is_there_twice) == []


# -- all of them


def test_each_event_is_one_fact_for_each_bucket(told: Mapping[str, list[Fact]]) -> None:
    assert FACTS.names == list(Fact.__slots__)
    for case, some in told.items():
        if case not in ("a_folder_is_there_twice", "two_nodes_have_one_id"):
            places = [(f"{f.node}/{f.incarnation}", f.seq, f.bucket) for f in some]
            assert len(places) == len(set(places)) == BUCKETS * len({place[:2] for place in places})
            assert sum(fact.home for fact in some) * BUCKETS == len(places)


def test_alerts_are_the_same_however_records_are_cut_into_triggers(
    told: Mapping[str, list[Fact]],
) -> None:
    for case, some in told.items():
        if case.startswith("two_nodes_"):
            continue  # there is no order of such records
        at_once = {(a.id, a.state) for a in gone_through(some, LIMITS)}
        for triggers in (2, 7, 40):
            in_parts = gone_through(some, LIMITS, triggers=triggers)
            assert {(a.id, a.state) for a in in_parts} == at_once, case


def test_brokers_that_left_are_forgotten_after_a_day(told: Mapping[str, list[Fact]]) -> None:
    some = told["brokers_vanish_together"]
    mine = [fact for fact in some if fact.broker == "broker-0"]
    bucket = BucketState(LIMITS)
    look_at(bucket, [fact for fact in some if fact.bucket == mine[0].bucket])
    [node] = bucket.nodes.values()
    node.clock_ms += 10 * FORGET_MS  # it goes on writing
    left_ms = T0_MS + 10_000
    forget(bucket, now_ms=left_ms + FORGET_MS)
    assert [m.listed for m in bucket.each_member() if m.broker == "broker-0"] == [False]
    forget(bucket, now_ms=left_ms + FORGET_MS + 1)
    assert [m for m in bucket.each_member() if m.broker == "broker-0"] == []
    assert all(member.listed for member in bucket.each_member())


def test_a_node_is_forgotten_a_day_after_its_last_record_with_its_alerts(
    told: Mapping[str, list[Fact]],
) -> None:
    some = told["one_node_is_told_other_queues"]
    mine = [fact for fact in some if fact.broker == "broker-a"]
    bucket = BucketState(LIMITS)
    [raised] = look_at(bucket, [fact for fact in some if fact.bucket == mine[0].bucket])
    assert forget(bucket, now_ms=T0_MS + 200_000 + FORGET_MS) == []
    [resolved] = forget(bucket, now_ms=T0_MS + 200_001 + FORGET_MS)
    assert (resolved.id, resolved.state) == (raised.id, "resolved")
    assert not any([bucket.nodes, bucket.claims, bucket.members, bucket.disputes])
    assert list(bucket.ledger.holds()) == []
