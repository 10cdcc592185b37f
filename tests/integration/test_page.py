"""The live page in a real browser, with real nodes and a real gateway; brokers are connections."""

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.browser import Browser
from support.browser_tab import Tab
from support.page_world import ADMIN_TOKEN, PageWorld
from support.waiting import wait_for

ROOT = Path(__file__).parents[2]
VIEWS = {
    "now": "/now",
    "feed": "/feed",
    "topic": "/topic/order-placed",
    "broker": "/broker/broker-b",
    "travel": "/travel",
    "nodes": "/nodes",
    "doctor": "/doctor",
    "replay": "/replay",
}
HOSTILE = "<img src=x onerror=document.title='taken'>"
ANSWERED = (
    "document.querySelector('main').innerText.length > 200"
    " && [...document.querySelectorAll('.age')].every(e => !/asking|unknown/.test(e.innerText))"
)
SOME = ("order-placed", "order-paid")
TOPICS = {
    "orders": ("order-placed", "order-paid", "order-shipped", "refund"),
    "payments": ("payment-made", "payment-failed", "chargeback"),
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as running:
        yield running


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageWorld]:
    with PageWorld(tmp_path_factory.mktemp("page")) as running:
        for cluster, topics in TOPICS.items():
            for letter in "abc" if cluster == "orders" else "xy":
                for broker_id in (0, 1):
                    running.join(f"broker-{letter}", topics, broker_id=broker_id, cluster=cluster)
        yield running


@pytest.fixture(scope="module")
def shared(browser: Browser, world: PageWorld) -> Iterator[Tab]:
    with Tab(browser) as tab:
        tab.go(world.at("/now"))
        tab.shows("broker-a", "#view-now")
        yield tab


@pytest.fixture
def tab(shared: Tab, world: PageWorld) -> Iterator[Tab]:
    """On the first view, in a light window of usual size."""
    shared.shape()
    if shared.text("#pause") != "Pause":
        shared.press("p")
    show(shared, "/now")
    shared.shows("ns-1", "#view-now")
    shared.complaints()
    yield shared
    assert shared.complaints() == []


def show(tab: Tab, place: str) -> None:
    tab.look(f"location.hash = {json.dumps('#' + place)}")
    view = place.split("/")[1].split("?")[0]
    tab.becomes(f"view {view}", f"document.querySelector('#view-{view} h1') !== null")


def test_all_is_said_in_a_sentence_and_every_panel_has_its_age(tab: Tab) -> None:
    tab.shows("All well", "h1")
    ages = "[...document.querySelectorAll('.panel > header .age')].map(e => e.innerText)"
    assert len(tab.look(ages)) >= 3
    assert all(each == "now" or each.endswith("ago") for each in tab.look(ages))


def test_pictures_of_each_view_are_small(tab: Tab, world: PageWorld, tmp_path: Path) -> None:
    """With PAGE_PICTURES=docs/images they become those of the documents."""
    folder = Path(os.environ.get("PAGE_PICTURES", tmp_path))
    between = ""
    for view, place in VIEWS.items():
        if view == "feed":
            between = travelled(tab, world)
        if view == "nodes":  # one of them lacks a group, and that has no master
            world.join("broker-z", SOME, broker_id=1, nodes=world.nodes[:1])
        if view == "replay":
            world.vanish("broker-z")
        show(tab, between if view == "travel" else place)
        if view == "nodes":
            tab.shows("missing", "#view-nodes")
        if view == "doctor":
            tab.shows("no master", "#view-doctor")
        tab.becomes("its answers", ANSWERED)
        tab.look("new Promise(resolve => setTimeout(resolve, 500))")
        picture = folder / f"page-{view}.webp"
        tab.picture(picture)
        assert 5_000 < picture.stat().st_size < 150_000


def travelled(tab: Tab, world: PageWorld) -> str:
    """Between two marks a broker goes and another one comes; some ask for routes meanwhile."""
    world.join("broker-leaving", ("order-placed", "order-history"))
    for _ in range(4):
        world.beat()
        world.query("order-placed")
        world.query("order-unknown")
        time.sleep(0.6)
    a = tab.look("new Date().toISOString()")
    time.sleep(0.05)  # not within the same millisecond
    world.vanish("broker-leaving")
    world.join("broker-coming", ("order-placed", "order-returned"))
    show(tab, "/feed")
    tab.shows("broker-coming", "#view-feed")
    for _ in range(3):
        world.beat()
        time.sleep(0.8)
    b = tab.look("new Date(Date.now() - 300).toISOString()")
    world.vanish("broker-coming")
    return f"/travel?at={b}&a={a}&b={b}"


@pytest.mark.parametrize("view", VIEWS)
def test_each_view_opens_from_its_address(browser: Browser, world: PageWorld, view: str) -> None:
    with Tab(browser) as fresh:
        fresh.go(world.at(VIEWS[view]))
        fresh.becomes(f"the view {view}", f"document.querySelector('#view-{view} h1') !== null")
        shown = {"feed": "registered", "doctor": "Findings", "nodes": "ns-2"}
        fresh.shows(shown.get(view, "broker-b"), f"#view-{view}")
        assert fresh.complaints(network=True) == []


def test_a_broker_that_dies_is_shown_at_once(
    tab: Tab, world: PageWorld, record_property: Callable[[str, object], None]
) -> None:
    world.join("broker-doomed", SOME)
    tab.shows("broker-doomed", "#view-now .tiles")
    tab.look("""window.seen = new Promise(resolve => {
      const look = () => [...document.querySelectorAll('.tile.bad')]
        .some(e => e.innerText.includes('broker-doomed')) && resolve(Date.now());
      new MutationObserver(look).observe(document.body,
        {subtree: true, childList: true, characterData: true, attributes: true});
    }); undefined""")
    died_ms = time.time() * 1000
    world.vanish("broker-doomed")
    took_ms = tab.look("window.seen") - died_ms
    record_property("shown_after_ms", round(took_ms))
    print(f"\na dead broker was shown after {took_ms:.0f} ms")
    assert "left" in tab.shows("broker-doomed", "h1")
    tab.shows("its connection was closed by the peer", "#view-now")
    # And once it is back, nothing is said of it any more.
    world.join("broker-doomed", SOME)
    bad = "[...document.querySelectorAll('.tile.bad')].map(e => e.innerText).join()"
    tab.becomes("a good tile", f"!{bad}.includes('broker-doomed')")
    world.vanish("broker-doomed")


def test_a_node_that_dies_is_greyed_and_resumed_without_a_reload(
    tab: Tab, world: PageWorld
) -> None:
    second = world.nodes[1]
    line = f".node-line[data-node='127.0.0.1:{second.port}']"
    tab.look("window.loaded = 'once'")
    second.kill()
    tab.becomes(
        "a node that is down",
        f"""document.querySelector({line!r})?.dataset.state === 'down'
        && document.querySelector({line!r}).classList.contains('stale')""",
    )
    second.start()
    tab.becomes("the node again", f"document.querySelector({line!r}).dataset.state === 'up'")
    assert tab.look("window.loaded") == "once"


def test_a_gateway_that_dies_greys_everything_until_it_is_back(tab: Tab, world: PageWorld) -> None:
    tab.look("window.loaded = 'once'")
    world.gateway.kill()
    tab.shows("What you see is as of", ".link-state")
    tab.shows("Unknown", "h1")
    tab.becomes("grey", "document.querySelectorAll('.panel.stale').length >= 3")
    world.gateway.start()
    tab.shows("live", ".link-state")
    tab.becomes("no grey", "document.querySelectorAll('.panel.stale').length === 0")
    tab.shows("broker-a", "#view-now")
    assert tab.look("window.loaded") == "once"


def test_offline_is_said_and_passes(tab: Tab) -> None:
    tab.offline(True)
    try:
        tab.look("window.dispatchEvent(new Event('offline'))")
        tab.shows("offline", ".link-state")
    finally:
        tab.offline(False)
    tab.look("window.dispatchEvent(new Event('online'))")
    tab.shows("live", ".link-state")


def test_eight_tabs_share_one_stream(browser: Browser, world: PageWorld, tab: Tab) -> None:
    others = [Tab(browser) for _ in range(7)]
    try:
        for other in others:
            other.go(world.at("/now"))
        for other in others:
            other.shows("broker-a", "#view-now")
        locks = "navigator.locks.query().then(l => [l.held.length, l.pending.length])"
        assert others[-1].look(locks) == [1, 7]
        world.join("broker-late", SOME)
        for other in (tab, *others):
            other.shows("broker-late", "#view-now .tiles")
        # Whoever leads now goes; another tab takes over, and nobody misses anything.
        tab.go("about:blank")
        world.vanish("broker-late")
        for other in others:
            assert "left" in other.shows("broker-late", "h1")
    finally:
        for other in others:
            other.close()
        tab.go(world.at("/now"))
        tab.shows("broker-a", "#view-now")


def test_a_tab_listens_itself_where_there_are_no_locks(browser: Browser, world: PageWorld) -> None:
    """As over plain HTTP from another machine."""
    with Tab(browser) as fresh:
        fresh.before("delete Navigator.prototype.locks")
        fresh.go(world.at("/now"))
        fresh.shows("broker-a", "#view-now")
        fresh.shows("live", ".link-state")
        assert fresh.look("navigator.locks === undefined")
        assert fresh.complaints() == []


def test_names_that_are_markup_stay_text(tab: Tab, world: PageWorld) -> None:
    world.join(HOSTILE, (HOSTILE, "order-placed"), cluster=HOSTILE)
    try:
        tab.shows(HOSTILE, "#view-now .tiles")
        quoted = HOSTILE.replace("<", "%3C").replace(">", "%3E").replace("'", "%27")
        for place in ("/feed", f"/broker/{quoted}", f"/topic/{quoted}", "/travel", "/replay"):
            show(tab, place)
            tab.shows(HOSTILE, "main")
            assert tab.look("document.images.length") == 0
            assert "taken" not in tab.look("document.title.replace(/<.*>/, '')")
    finally:
        world.vanish(HOSTILE)


def test_the_policy_stops_what_is_not_the_pages_own(browser: Browser, world: PageWorld) -> None:
    """Were there ever markup in a name after all, nothing of it would run."""
    with Tab(browser) as fresh:
        fresh.go(world.at("/now"))
        fresh.shows("broker-a", "#view-now")
        fresh.look("""window.ran = 0;
          const tries = [
            e => { e.innerHTML = '<img src=x onerror="window.ran++">'; },
            e => { e.setAttribute('onclick', 'window.ran++'); e.click(); },
            e => e.append(Object.assign(document.createElement('script'), {text: 'ran++'})),
            e => { const i = new Image(); i.src = 'http://127.0.0.1:1/x.png'; e.append(i); },
          ];
          window.refused = 0;
          for (const attempt of tries) {
            const element = document.createElement('div');
            document.body.append(element);
            try { attempt(element); } catch { window.refused++; }
            element.remove();
          } undefined""")
        assert fresh.look("window.ran") == 0
        assert fresh.look("window.refused") >= 3
        said = wait_for("a complaint", lambda: fresh.look("1") and fresh.complaints(network=True))
        assert any("blocked" in each for each in said)


def test_it_is_used_without_a_mouse(tab: Tab) -> None:
    for key, view in enumerate(VIEWS, 1):
        tab.press(str(key))
        tab.becomes(f"view {view}", f"document.querySelector('#view-{view}') !== null")
    tab.press("1")
    tab.shows("broker-a", "#view-now")
    tab.press("j")
    tab.press("Enter")
    tab.becomes("what was chosen", "/^#.(broker|nodes)/.test(location.hash)")
    tab.press("3")
    tab.becomes("topics", "document.querySelector('#view-topic') !== null")
    tab.press("/")
    tab.write("order-pl")
    tab.press("Enter")
    tab.shows("order-placed", "#view-topic")
    tab.press("p")
    tab.shows("Go on", "#pause")
    tab.press("p")
    tab.shows("Pause", "#pause")
    tab.press("?")
    tab.shows("previous line", "dialog[open]")
    tab.press("Escape")
    tab.becomes("no dialog", "document.querySelector('dialog[open]') === null")


def test_a_pause_holds_the_picture_and_counts(tab: Tab, world: PageWorld) -> None:
    show(tab, "/feed")
    tab.press("p")
    world.join("broker-unseen", SOME)
    tab.shows("event", "#pause")
    assert "broker-unseen" not in tab.text("#view-feed")
    tab.press("p")
    tab.shows("broker-unseen", "#view-feed")
    world.vanish("broker-unseen")


def test_time_travel_shows_who_was_there_and_why_not_any_more(tab: Tab, world: PageWorld) -> None:
    world.join("broker-past", ("order-placed", "only-there"))
    show(tab, "/feed")
    tab.shows("broker-past", "#view-feed")
    before = tab.look("new Date().toISOString()")
    tab.look("new Promise(resolve => setTimeout(resolve, 30))")
    world.vanish("broker-past")
    tab.shows("broker-past left", "#view-feed")
    after = tab.look("new Date(Date.now() + 50).toISOString()")
    show(tab, f"/travel?at={before}")
    tab.shows("broker-past", "#topology")
    present = (
        "[...document.querySelectorAll('#topology .tile:not(.gone):not(.bad)')]"
        ".some(e => e.innerText.includes('broker-past'))"
    )
    tab.becomes("the broker as it was", present)
    tab.look("document.getElementById('slider').focus()")
    tab.look("document.getElementById('mark-a').click()")
    tab.becomes("mark A", "location.hash.includes('a=')")
    tab.look(
        "const s = document.getElementById('slider'); s.value = s.max;"
        " s.dispatchEvent(new Event('input', {bubbles: true}))"
    )
    tab.becomes("the broker gone", f"!({present})")
    tab.look("document.getElementById('mark-b').click()")
    told = tab.shows("connection was closed", "#between")
    assert "broker-past went" in told
    assert "only-there" in told
    assert before < after


def test_a_broker_is_drained_by_who_knows_the_token(tab: Tab) -> None:
    def fill(name: str, text: str) -> None:
        tab.look(f"document.querySelector('input[name={name}]').select()")
        tab.write(text)

    show(tab, "/doctor")
    for what in ("drain", "undrain"):
        fill("broker", "broker-c")
        tab.click(f"button[value={what}]")
        tab.becomes("a dialog", "document.querySelector('dialog[open]') !== null")
        fill("typed", "broker-x")
        fill("token", "guessed")
        tab.click("dialog button.grave")
        tab.shows("That is not broker-c", "dialog[open]")
        fill("typed", "broker-c")
        tab.click("dialog button.grave")
        tab.shows("httpAdminToken is needed", "dialog[open]")
        fill("token", ADMIN_TOKEN)
        tab.click("dialog button.grave")
        tab.becomes("no dialog", "document.querySelector('dialog[open]') === null")
        told = tab.shows("ns-2:", "#view-doctor [role=status]")
        assert "4 topics" in told
    assert tab.look("sessionStorage.length + localStorage.length") == 0


def test_lists_hold_what_is_looked_at(tab: Tab, world: PageWorld) -> None:
    show(tab, "/feed")
    tab.shape(height=300)
    looked_at = "document.elementFromPoint(400, 150).closest('.row')?.innerText.slice(0, 60)"
    tab.look("window.scrollTo(0, 900)")
    tab.becomes("a row", looked_at)
    seen = tab.look(looked_at)
    high = tab.look("document.querySelector('.rows').offsetHeight")
    world.join("broker-above", SOME)
    tab.becomes("more rows", f"document.querySelector('.rows').offsetHeight > {high + 60}")
    assert tab.look(looked_at) == seen
    world.vanish("broker-above")


@pytest.mark.parametrize("width", [360, 800, 1280])
def test_nothing_is_cut_off(tab: Tab, width: int) -> None:
    tab.shape(width=width, height=800)
    for view, place in VIEWS.items():
        show(tab, place)
        tab.becomes("an answer", "document.querySelector('main').innerText.length > 120")
        cut = wait_for(f"{view} to fit", tab.cut, until=lambda found: found == [], timeout_s=5)
        assert cut == []


def test_it_is_dark_where_the_machine_is(tab: Tab) -> None:
    papers = (
        "[...new Set([...document.querySelectorAll('body, body *')]"
        ".map(e => getComputedStyle(e).backgroundColor))]"
    )
    for place in ("/now", "/travel", "/doctor"):
        tab.shape(dark=False)
        show(tab, place)
        tab.becomes("a white page", f"{papers}.includes('rgb(255, 255, 255)')")
        tab.shape(dark=True)
        tab.becomes("a dark page", f"{papers}.includes('rgb(18, 23, 29)')")
        # White would be a part that did not follow.
        assert "rgb(255, 255, 255)" not in tab.look(papers)


def test_the_documents_show_a_picture_of_each_view() -> None:
    text = (ROOT / "docs" / "page.md").read_text()
    for view in VIEWS:
        assert f"(images/page-{view}.webp)" in text
        assert (ROOT / "docs" / "images" / f"page-{view}.webp").stat().st_size < 150_000
