// View 8: an interval played back; who was in the storm, and when.
import { useEffect, useMemo, useState } from "preact/hooks";
import { html } from "./html.mjs";
import { change, place } from "./address.mjs";
import { PAINT_MS } from "./clock.mjs";
import { Empty, Say, sentence } from "./parts.mjs";
import { EventRow } from "./event_rows.mjs";
import { RangeForm } from "./range.mjs";
import { Doubts, NodeChoice, Scrubber, goTo, useChosenPast } from "./scrubber.mjs";
import { HeatMap } from "./strips.mjs";
import { Clusters } from "./tiles.mjs";
import * as words from "./words.mjs";

const SPEEDS = [1, 5, 20, 100];
const HOUR_MS = 3_600_000;
const MOST_ROWS = 40;
const LATEST = 8;

export function Replay() {
  const chosen = useChosenPast(HOUR_MS);
  const { past, atMs, fromMs, toMs } = chosen;
  const speed = Number(place.value.params.speed) || 20;
  const [playing, play] = useState(false);
  useEffect(() => {
    if (!playing || !past) return undefined;
    if (atMs >= toMs) {
      play(false);
      return undefined;
    }
    const timer = setTimeout(() => goTo(Math.min(toMs, atMs + speed * PAINT_MS)), PAINT_MS);
    return () => clearTimeout(timer);
  }, [playing, past, atMs, speed]);
  const tiles = useMemo(() => (past ? past.at(atMs, Math.max(2000, speed * 1000)) : []), [past, atMs, speed]);
  const rows = useMemo(() => (past ? storm(past) : []), [past]);
  if (!past) {
    const said = chosen.error ? sentence(chosen.error.message) : "Reading the journal.";
    return html`<${Say} sentence=${said} level=${chosen.error ? "warn" : "muted"} /><${RangeForm} live="Last hour" />`;
  }
  const start = () => {
    if (atMs >= toMs) goTo(fromMs);
    play(!playing);
  };
  const happened = past.told();
  const alarming = happened.filter((event) => event.alarming).length;
  const latest = past.told(past.count(atMs)).slice(-LATEST).reverse();
  return html`<${Say} sentence=${happened.length ? `${words.counted(happened.length, "event")} in ${words.span(toMs - fromMs)}, ${alarming ? `${words.number(alarming)} of them alarming` : "none of them alarming"}.` : `Nothing happened in ${words.span(toMs - fromMs)}.`} more=${rows.length ? `Most of it to ${words.listed(rows.slice(0, 3).map((row) => row.name))}.` : null} />
    <${RangeForm} live="Last hour" />
    <${Scrubber} chosen=${chosen}>
      <button type="button" id="play" aria-pressed=${playing} onClick=${start}>${playing ? "Stop" : "Play"}</button>
      ${SPEEDS.map((each) => html`<button type="button" key=${each} class=${each === speed ? "chosen" : ""} aria-pressed=${each === speed} onClick=${() => change({ speed: each })}>${each}×</button>`)}
      <button type="button" onClick=${() => download(past)}>Export</button>
      ${navigator.clipboard ? html`<button type="button" onClick=${() => navigator.clipboard.writeText(link(past, atMs))}>Copy link</button>` : null}
      <${NodeChoice} chosen=${chosen} />
    <//>
    <${Doubts} past=${past} />
    <section class="panel"><header><h2>The storm</h2><span class="muted small">groups with most events, the most first; red where something was alarming</span></header>
      ${rows.length ? html`<${HeatMap} rows=${rows} fromMs=${fromMs} toMs=${toMs} atMs=${atMs} label=${`Events of ${words.counted(rows.length, "group")} over time`} />` : html`<${Empty}>Nothing happened to a group.<//>`}
    </section>
    <section class="panel"><header><h2>As it goes</h2></header>
      ${latest.length ? latest.map((event) => html`<div class="row" key=${event.key}><${EventRow} event=${event} /></div>`) : html`<${Empty}>Nothing yet.<//>`}
    </section>
    <section class="panel" id="topology"><header><h2>Groups then</h2></header><${Clusters} groups=${tiles} params=${{ at: words.iso(atMs) }} /></section>`;
}

function storm(past) {
  const rows = new Map();
  for (const event of past.events) {
    if (!event.broker || event.kind === "window") continue;
    const key = `${event.cluster}\n${event.broker}`;
    if (!rows.has(key)) rows.set(key, { name: event.broker, events: [] });
    rows.get(key).events.push(event);
  }
  return [...rows.values()].sort((a, b) => b.events.length - a.events.length).slice(0, MOST_ROWS);
}

// The same interval for whoever gets it, whenever that is: no "an hour ago" in it.
function link(past, atMs) {
  const query = new URLSearchParams({ from: words.iso(past.fromMs), to: words.iso(past.toMs), node: past.node, at: words.iso(Math.round(atMs)) });
  return `${location.href.split("#")[0]}#/replay?${query}`;
}

function download(past) {
  const { node, fromMs, toMs, events, silences } = past;
  const text = JSON.stringify({ node, from: words.iso(fromMs), to: words.iso(toMs), groups: [...past.keyframes[0].groups.values()], events, silences }, null, 1);
  const file = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  const anchor = document.createElement("a");
  anchor.href = file;
  anchor.download = `routebook-${words.iso(fromMs).replaceAll(":", "")}.json`;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(file), 10_000);
}
