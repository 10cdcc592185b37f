// Events as sentences; bursts of the same kind folded into one.
import { html } from "./html.mjs";
import { Dot } from "./parts.mjs";
import { link } from "./address.mjs";
import * as words from "./words.mjs";

const BURST_MS = 2000;
const BURST_FROM = 4;

const LEVEL = (event) => (event.alarming ? "bad" : event.kind === "refusal" ? "warn" : event.kind === "change" ? "plain" : "gone");

// The sentence, with the broker in it as a link where it begins with its name.
function Text({ event }) {
  const { text, broker } = event;
  if (!broker || !text.startsWith(broker)) return html`<p>${text}</p>`;
  return html`<p><a href=${link("broker", broker)}>${broker}</a>${text.slice(broker.length)}</p>`;
}

export function EventRow({ event, showNode = false }) {
  return html`<div class="event" data-event=${event.key}>
    <time datetime=${words.iso(event.ms)} title=${words.iso(event.ms)}>${words.clock(event.ms)}</time>
    <${Dot} level=${LEVEL(event)} title=${event.alarming ? "alarming" : event.kind} />
    <${Text} event=${event} />
    <span class="by">${[showNode ? (event.nodes ?? [event.node]).join(", ") : null, event.cause, event.peer ? `by ${event.peer}` : null].filter(Boolean).map((text) => html`<span>${text}</span>`)}</span>
  </div>`;
}

export function BurstRow({ burst, open, toggle }) {
  const [latest] = burst.events;
  const oldest = burst.events.at(-1);
  const names = [...new Set(burst.events.map((event) => event.broker).filter(Boolean))];
  const about = names.length ? `: ${words.listed(names, 4)}` : "";
  return html`<div class="event">
    <time datetime=${words.iso(latest.ms)}>${words.clock(latest.ms)}</time>
    <${Dot} level=${LEVEL(latest)} title=${latest.alarming ? "alarming" : latest.kind} />
    <p>
      ${words.number(burst.events.length)} × ${said(latest.type)} within ${words.span(Math.max(1, latest.ms - oldest.ms))}${about}
      ${" "}<button type="button" class="facet" aria-expanded=${open} onClick=${toggle}>${open ? "fold" : "show"}</button>
    </p>
    <span class="by">${latest.cause ?? ""}</span>
  </div>`;
}

// BrokerLeft -> broker left
export function said(type) {
  return type.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();
}

// The latest first: [{key, event}] and, for each burst, {key, burst} and its events when it is open.
export function folded(events, opened) {
  const rows = [];
  for (let i = 0; i < events.length; ) {
    let end = i + 1;
    while (end < events.length && alike(events[end], events[end - 1])) end++;
    if (end - i >= BURST_FROM) {
      // Named by its oldest: a burst that goes on stays the same one.
      const burst = { id: `burst ${events[end - 1].key}`, events: events.slice(i, end) };
      rows.push({ key: burst.id, burst });
      if (opened.has(burst.id)) for (const event of burst.events) rows.push({ key: event.key, event });
    } else {
      for (const event of events.slice(i, end)) rows.push({ key: event.key, event });
    }
    i = end;
  }
  return rows;
}

// Each node tells of what happened to it. The same thing at several of them is one line.
export function together(events) {
  const rows = [];
  const open = new Map(); // what is told -> its line
  for (const event of events) {
    const said = `${event.type}\n${event.cause}\n${event.cluster}\n${event.peer ? event.text.replaceAll(event.peer, "") : event.text}`;
    const line = open.get(said);
    if (line && line.ms - event.ms <= BURST_MS && !line.nodes.includes(event.node)) {
      line.nodes.push(event.node);
      line.nodes.sort();
      line.key = event.key; // of the oldest: a line to which another node is added stays the same one
      continue;
    }
    const row = { ...event, nodes: [event.node] };
    open.set(said, row);
    rows.push(row);
  }
  return rows;
}

function alike(older, newer) {
  return older.type === newer.type && older.cause === newer.cause && newer.ms - older.ms <= BURST_MS;
}
