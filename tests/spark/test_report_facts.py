"""The report without Spark: time of brokers, outages, witnesses, words, and a page from facts."""

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from routebook_spark.report import brokers, nodes, words
from routebook_spark.report.facts import (
    Convergence,
    Cover,
    HeartbeatHealth,
    Heartbeats,
    Incidents,
    Lag,
    Outage,
    Period,
    Report,
    Spell,
)
from routebook_spark.report.figures import told
from routebook_spark.report.html import Column, element, printable, table
from routebook_spark.report.incidents import Departure, explained, together
from routebook_spark.report.page import page
from routebook_spark.report.parts import Section
from routebook_spark.report.spells import broker_times, outages, spent
from routebook_spark.report.witnesses import Witness, awake, witnesses
from support.report_facts import BROKERS, bad_day, seconds_in
from support.report_figures import by_fact, contradictions, loose_numbers
from support.spark_rows import T0, T0_MS

MINUTE = Period(T0, T0 + timedelta(minutes=1))
CLUSTER = "c1"


def spells(broker: str, *pieces: tuple[str, float, float]) -> list[Spell]:
    """State, from and to in seconds since the first midnight."""
    return [
        Spell(CLUSTER, broker, 0, state, T0_MS + round(since * 1000), T0_MS + round(until * 1000))
        for state, since, until in pieces
    ]


def away(broker: str, left_s: float, back_s: float | None, cluster: str = CLUSTER) -> Outage:
    until = 60 if back_s is None else back_s
    return Outage(
        cluster,
        broker,
        0,
        left_at=T0 + timedelta(seconds=left_s),
        back_at=None if back_s is None else T0 + timedelta(seconds=back_s),
        down_s=until - left_s,
        unknown_s=0.0,
    )


# -- time


FLAPPING = spells(
    "broker-a",
    ("up", -600, 4),
    ("down", 4, 6.5),
    ("up", 6.5, 30),
    ("down", 30, 33),
    ("up", 33, 53),
    ("down", 53, 56),
    ("up", 56, 60),
)


def test_three_short_outages_are_three_and_not_one_long_one() -> None:
    found = outages(FLAPPING, MINUTE)
    assert [each.down_s for each in found] == [2.5, 3.0, 3.0]
    assert [(each.left_at - T0).total_seconds() for each in found] == [4, 30, 53]
    assert [len(each.outages) for each in together(found)] == [1, 1, 1]
    (time,) = broker_times(FLAPPING, MINUTE, slo=0.999)
    assert (time.down_s, time.failures, time.repairs) == (8.5, 3, 3)
    assert time.down_s == sum(each.down_s for each in found)


def test_unknown_time_is_neither_up_nor_down_and_does_not_end_an_outage() -> None:
    story = spells(
        "broker-a",
        ("up", 0, 10),
        ("unknown", 10, 20),
        ("up", 20, 30),
        ("down", 30, 35),
        ("unknown", 35, 45),
        ("down", 45, 50),
        ("up", 50, 60),
    )
    (time,) = broker_times(story, MINUTE, slo=0.999)
    assert (time.up_s, time.down_s, time.unknown_s) == (30, 10, 20)
    assert (time.failures, time.repairs, time.availability) == (1, 1, 0.75)
    (outage,) = outages(story, MINUTE)
    assert (outage.down_s, outage.unknown_s) == (10, 10)
    assert outage.unknown == ((T0_MS + 35_000, T0_MS + 45_000),)


def test_an_outage_is_told_as_far_as_it_is_in_the_period() -> None:
    story = spells("broker-a", ("up", -100, -20), ("down", -20, 5), ("up", 5, 58), ("down", 58, 90))
    early, late = outages(story, MINUTE)
    assert (early.left_at, early.down_s) == (T0 - timedelta(seconds=20), 5)
    assert (late.back_at, late.down_s) == (None, 2)
    (time,) = broker_times(story, MINUTE, slo=0.999)
    assert (time.down_s, time.failures, time.repairs) == (7, 1, 1)


@pytest.mark.parametrize(
    ("lasts", "step"),
    [
        (timedelta(seconds=9), "second"),
        (timedelta(minutes=1), "second"),
        (timedelta(minutes=10), "5 seconds"),
        (timedelta(hours=1), "30 seconds"),
        (timedelta(days=1), "15 minutes"),
        (timedelta(days=3), "hour"),
        (timedelta(days=7), "3 hours"),
        (timedelta(days=30), "6 hours"),
        (timedelta(days=90), "day"),
        (timedelta(days=4000), "364 days"),
    ],
)
def test_the_resolution_of_plots_follows_the_period(lasts: timedelta, step: str) -> None:
    period = Period(T0, T0 + lasts)
    assert words.step(period.step_s) == step
    if lasts < timedelta(days=3000):
        assert period.seconds / period.step_s <= 120


def test_a_minute_is_shown_in_seconds() -> None:
    steps = spent(FLAPPING, MINUTE)
    down = {(each.at - T0).total_seconds(): each.down_s for each in steps if each.down_s}
    assert down == {4: 1, 5: 1, 6: 0.5, 30: 1, 31: 1, 32: 1, 53: 1, 54: 1, 55: 1}


# -- incidents


def brokers_of(found: Sequence[Outage]) -> list[list[str]]:
    return [sorted(each.broker for each in incident.outages) for incident in together(found)]


def test_brokers_that_went_together_are_one_incident_with_their_own_times() -> None:
    found = [away("a", 0, 40), away("b", 0.2, 30), away("c", 25, 41)]
    (incident,) = together(found)
    assert [each.broker for each in incident.outages] == ["a", "b", "c"]
    assert incident.outages[2].left_at == T0 + timedelta(seconds=25)
    assert incident.down_s == pytest.approx(40 + 29.8 + 16)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([away("a", 0, 2), away("b", 10, 12)], [["a"], ["b"]]),
        ([away("a", 0, 0.1), away("b", 0.5, 0.6)], [["a", "b"]]),
        ([away("a", 0, None), away("b", 59, None)], [["a", "b"]]),
        ([away("a", 0, None), away("b", 61, None)], [["a"], ["b"]]),
        ([away("a", 0, 2), away("a", 3, 5), away("b", 1, 9)], [["a", "b"], ["a"]]),
        ([away("a", 0, 9), away("b", 1, 9, cluster="c2")], [["a"], ["b"]]),
    ],
    ids=[
        "over-before-the-next",
        "both-within-a-second",
        "within-a-minute",
        "more-than-a-minute-apart",
        "a-broker-twice",
        "two-clusters",
    ],
)
def test_only_what_went_together_is_put_together(
    found: list[Outage], expected: list[list[str]]
) -> None:
    assert brokers_of(found) == expected


def test_a_node_that_slept_is_not_among_those_that_could_let_a_broker_go() -> None:
    covers = [
        Cover("ns-1", T0_MS - 1000, T0_MS + 60_000, None),
        Cover("ns-2", T0_MS - 1000, T0_MS + 60_000, None),
        Cover("ns-3", T0_MS - 1000, T0_MS + 1000, "stalled"),
        Cover("ns-3", T0_MS + 50_000, T0_MS + 60_000, None),
    ]
    outage = away("a", 20, 40)
    departures = [
        Departure(CLUSTER, "a", 0, node, T0 + timedelta(seconds=left), back, cause, 3)
        for node, left, back, cause in (
            ("ns-1", 19, T0 + timedelta(seconds=40), "expired"),
            ("ns-2", 20, T0 + timedelta(seconds=41), "expired"),
            ("ns-3", -60, T0 - timedelta(seconds=50), "idle"),  # long before, and back since
        )
    ]
    (found,) = explained([outage], departures, [], covers).values()
    assert (found.nodes, found.awake, found.cause, found.topics) == (2, 2, "expired", 3)


# -- witnesses


def cover(from_s: float, to_s: float, ends: str | None = None, life: str = "") -> Cover:
    return Cover("ns-1", T0_MS + round(from_s * 1000), T0_MS + round(to_s * 1000), ends, life)


def witnessed(*covers: Cover) -> Witness:
    (witness,) = witnesses(covers, MINUTE)
    assert witness.known_s + witness.unknown_s == 60
    assert witness.unknown_s == pytest.approx(sum(each.lasted_s for each in witness.unwitnessed))
    return witness


def test_a_stall_is_unknown_time_with_its_reason() -> None:
    witness = witnessed(cover(-100, 20, "stalled"), cover(40, 59.999))
    assert [(each.lasted_s, each.why) for each in witness.unwitnessed] == [(19.999, "stalled")]
    assert (witness.stalls, witness.stops, witness.kills) == (1, 0, 0)


@pytest.mark.parametrize(
    ("covers", "expected"),
    [
        ([cover(10, 59.999)], ["not_yet"]),
        ([cover(-9, 30)], ["no_later"]),
        ([cover(-9, 30, "killed")], ["killed"]),
        ([cover(-9, -5, "stopped"), cover(20, 59.999)], ["stopped"]),
        ([cover(-9, 10, "stopped", "one"), cover(20, 59.999, None, "two")], ["replaced"]),
        ([cover(-9, 30, "clock"), cover(10, 59.999)], []),
        ([cover(0, 10, "silent"), cover(20, 30, "lost"), cover(40, 59.999)], ["silent", "lost"]),
    ],
    ids=[
        "before-its-first-record",
        "nothing-later-taken-in",
        "killed",
        "over-before-the-period",
        "another-data-folder",
        "clock-set-back",
        "several",
    ],
)
def test_every_unknown_time_of_a_node_has_a_reason(
    covers: list[Cover], expected: list[str]
) -> None:
    found = witnessed(*covers).unwitnessed
    assert [each.why for each in found] == expected
    assert all(words.why_unknown(each.why) != each.why for each in found)


def test_a_node_that_knows_nothing_of_the_period_is_none() -> None:
    assert witnesses([cover(-90, -10, "killed"), cover(70, 80)], MINUTE) == []
    assert awake([cover(-90, -10), cover(5, 9)], T0_MS + 6000) == {"ns-1"}


@pytest.mark.parametrize(
    ("covers", "why"),
    [([], "unsure"), ([cover(70, 80)], "unsure"), ([cover(-9, -5, "killed")], "killed")],
    ids=["at-no-time", "later", "before"],
)
def test_a_node_that_recorded_and_cannot_be_believed_is_unknown_all_the_time(
    covers: list[Cover], why: str
) -> None:
    (witness,) = witnesses(covers, MINUTE, recorded={"ns-1"})
    assert (witness.known_s, witness.unknown_s) == (0, 60)
    assert [(each.lasted_s, each.why) for each in witness.unwitnessed] == [(60, why)]
    assert words.why_unknown(why) != why


# -- words


@pytest.mark.parametrize(
    ("said", "of_topic", "text"),
    [
        ("[4,4,6,0]", True, "4 read and 4 write queues, permission RW-"),
        ("[8,0,4,1]", True, "8 read and 0 write queues, permission R--, flags 1"),
        ("null", True, "no such topic on it"),
        ("null", False, "not listed"),
        (None, False, "not listed"),
        ('{"0":"127.0.0.1:10911"}', False, "listed with id 0 (127.0.0.1:10911)"),
        (
            '{"0":"127.0.0.1:1","1":"127.0.0.2:1"}',
            False,
            "listed with id 0 (127.0.0.1:1) and id 1 (127.0.0.2:1)",
        ),
        ("<b>", True, "<b>"),
    ],
)
def test_what_nodes_said_is_told_in_words(said: str | None, of_topic: bool, text: str) -> None:
    assert words.view(said, of_topic=of_topic) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.85, "850 ms"),
        (4.2, "4.2 s"),
        (30, "30 s"),
        (250, "4 min 10 s"),
        (7500, "2 h 5 min"),
        (273_600, "3 d 4 h"),
        (-90, "−1 min 30 s"),
    ],
)
def test_spans_are_written_in_two_units(seconds: float, text: str) -> None:
    assert words.span(seconds) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(1, "100%"), (0.9, "90.0%"), (0.9999, "99.99%"), (0.99999, "99.999%"), (0, "0%")],
)
def test_nearly_all_is_not_all(share: float, text: str) -> None:
    assert words.percent(share) == text


def test_text_becomes_html_by_being_escaped() -> None:
    assert element("a", "<b>", title='"&') == '<a title="&quot;&amp;">&lt;b&gt;</a>'
    assert printable("a\nb\x1b") == "a\\nb\\x1b"


def test_a_number_in_a_table_has_to_say_what_it_is_of() -> None:
    with pytest.raises(TypeError, match="does not say what it is a figure of"):
        table("t", ["broker", Column("down")], [("a", "8.5 s")])


# -- the page against itself


@pytest.mark.parametrize("seed", range(3))
def test_every_number_that_is_told_twice_is_the_same(seed: int) -> None:
    day = bad_day(seed)
    text = page(Report("Bad day", day.period, [day.facts]))
    assert contradictions(text) == []
    assert loose_numbers(text) == []
    facts = by_fact(text, "default")
    # The whole is the sum of its parts, as far as all of them are on the page.
    assert facts["down_s"] == pytest.approx(seconds_in(day, "down"))
    assert facts["unknown_s"] == pytest.approx(seconds_in(day, "unknown"))
    assert sum_of(facts, "down_s/") == pytest.approx(facts["down_s"])
    assert sum_of(facts, "outage_s/") == pytest.approx(facts["down_s"])
    assert sum_of(facts, "failures/") == facts["outages"] - facts.get("ongoing", 0)
    for broker in {fact.removeprefix("down_s/") for fact in facts if fact.startswith("down_s/")}:
        assert sum_of(facts, f"outage_s/{broker}/") == pytest.approx(facts[f"down_s/{broker}"])
    unwitnessed = sum_of(facts, "unwitnessed_s/")
    assert unwitnessed == pytest.approx(sum_of(facts, "node_unknown_s/"), abs=0.01)
    everything = facts["unknown_s"] + facts["known_s"] + facts["planned_s"]
    assert everything == pytest.approx(BROKERS * day.period.seconds)
    assert facts["availability"] == pytest.approx(1 - facts["down_s"] / facts["known_s"])


def sum_of(facts: dict[str, Any], prefix: str) -> float:
    return sum(float(value) for fact, value in facts.items() if fact.startswith(prefix))


def test_a_page_that_contradicts_itself_is_told_from_a_good_one() -> None:
    good = str(told("down_s", 8.5, "span")) * 2
    assert contradictions(good) == []
    assert contradictions(good.replace('"8.5"', '"52"', 1)) != []
    assert contradictions(good.replace("8.5 s", "52 s")) != []
    assert loose_numbers(good) == []
    assert loose_numbers(f"<p>down for {good} of 60 s</p>") != []


def test_fleets_have_a_part_each_and_ids_of_their_own() -> None:
    one, other = bad_day(0, fleet="eu"), bad_day(3, fleet="us")
    text = page(Report("Two fleets", one.period, [one.facts, other.facts]))
    assert contradictions(text) == []
    assert loose_numbers(text) == []
    for day, fleet in ((one, "eu"), (other, "us")):
        assert by_fact(text, fleet)["down_s"] == pytest.approx(seconds_in(day, "down"))
    ids = re.findall(r' id="([^"]*)"', text)
    assert sorted(ids) == sorted(set(ids))
    assert all(f'href="#fleet-{n}-witnesses"' in text for n in (1, 2))


def facts_in(*sections: Section) -> dict[str, Any]:
    return by_fact("".join(section.body for section in sections), "")


def test_a_change_that_a_node_never_showed_is_not_in_time() -> None:
    lag = Lag("topic_changed", 4, 1, 0, 10, 20, 20, 20, 3, 3)
    told_so = facts_in(nodes.convergence(Convergence([lag], [])))
    assert told_so["within_1s/topic_changed"] == 0.75
    assert told_so["incomplete/topic_changed"] == 1
    unmeasured = facts_in(nodes.convergence(Convergence([lag._replace(unmeasured=1)], [])))
    assert unmeasured["within_1s/topic_changed"] == 1
    assert unmeasured["changes_unmeasured"] == 1


def test_brokers_given_up_for_want_of_heartbeats_are_not_beside_good_time() -> None:
    expired = Heartbeats(CLUSTER, "broker-0", 0, 12, 0, 0, 3, 30_100, 120_000)
    late = brokers.flaps([], HeartbeatHealth(12, [expired]), MINUTE)
    assert "in good time" not in late.body
    assert facts_in(late)["given_up/c1/broker-0/0"] == 3
    assert "in good time" in brokers.flaps([], HeartbeatHealth(12, []), MINUTE).body
    assert "Nothing is known of" in brokers.flaps([], HeartbeatHealth(0, []), MINUTE).body


def test_the_story_of_an_incident_gives_the_times_of_those_who_went() -> None:
    found = [away("a", 18, 40), away("b", 30, 41), away("c", 35, 55)]
    section = brokers.incidents(Incidents(1, 3, 0, together(found)), MINUTE)
    text = re.sub("<[^>]*>", "", section.body)
    assert "3 brokers went from 00:00:18 to 00:00:35" in text
    assert "All are back." in text
