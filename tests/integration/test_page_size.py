"""The live page of a large cluster: 300 brokers with 10,000 topics each."""

import json
from collections.abc import Callable, Iterator

import pytest

from support.browser import Browser
from support.browser_tab import Tab
from support.builders import registration_body
from support.page_world import PageWorld

BROKERS = 300
TOPICS = 10_000
MOST_ELEMENTS = 1_500
ELEMENTS = "document.querySelectorAll('*').length"
# How long the browser took from frame to frame, and what kept it from painting longer than 50 ms.
_MEASURE = """(() => {
  const m = window.measured = {frames: [], long: []};
  let last = performance.now();
  const frame = now => { m.frames.push(now - last); last = now; requestAnimationFrame(frame); };
  requestAnimationFrame(frame);
  new PerformanceObserver(list => list.getEntries().forEach(e => m.long.push(e.duration)))
    .observe({entryTypes: ['longtask']});
})()"""
_FRAMES = """(() => {
  const { frames, long } = window.measured;
  const sorted = frames.slice().sort((a, b) => a - b);
  const told = {frames: frames.length, median: sorted[sorted.length >> 1],
    p95: sorted[Math.floor(sorted.length * 0.95)], most: sorted.at(-1),
    long: long.map(Math.round)};
  frames.length = long.length = 0;
  return told;
})()"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageWorld]:
    topics = registration_body([f"topic-{i:05d}" for i in range(TOPICS)])
    with PageWorld(tmp_path_factory.mktemp("size"), nodes=1) as running:
        for number in range(BROKERS):
            running.join(f"broker-{number:03d}", topics, cluster=f"cluster-{number % 3}")
        yield running


def test_a_large_cluster_keeps_few_elements_and_frames_going(
    world: PageWorld, record_property: Callable[[str, object], None]
) -> None:
    told: dict[str, object] = {}
    with Browser() as browser, Tab(browser) as tab:
        tab.go(world.at("/now"))
        tab.shows("100 groups, all well", "#view-now")
        tab.becomes("all of them", f"document.querySelectorAll('.cell').length === {BROKERS}")
        assert tab.look(ELEMENTS) < MOST_ELEMENTS
        tab.look(_MEASURE)
        tab.look("new Promise(resolve => setTimeout(resolve, 2000))")
        told["quiet"] = tab.look(_FRAMES)

        tab.look("location.hash = '#/topic'")
        tab.shows("10,000 topics", "h1")
        tab.shows("topic-00000", "#view-topic")
        for _ in range(12):
            tab.look("window.scrollBy(0, 4000)")
            tab.look("new Promise(resolve => setTimeout(resolve, 100))")
        below = "document.querySelector('.row').innerText > 'topic-00300'"
        tab.becomes("rows far below", below)
        assert tab.look(ELEMENTS) < MOST_ELEMENTS
        told["scrolling"] = tab.look(_FRAMES)

        tab.look("location.hash = '#/now'")
        tab.becomes("all of them", f"document.querySelectorAll('.cell').length === {BROKERS}")
        tab.look(_FRAMES)
        for number in range(0, BROKERS, 3):
            world.vanish(f"broker-{number:03d}")
        tab.becomes("a third gone", "document.querySelectorAll('.cell').length === 200")
        tab.shows("and 97 more left", "h1")
        assert tab.look(ELEMENTS) < MOST_ELEMENTS
        told["storm"] = tab.look(_FRAMES)

        tab.look("location.hash = '#/travel'")
        tab.shows("there were 200 groups", "h1")
        assert tab.look(ELEMENTS) < MOST_ELEMENTS
        assert tab.complaints() == []
    record_property("frames_ms", json.dumps(told))
    for what, frames in told.items():
        print(f"\n{what}: {frames}")
