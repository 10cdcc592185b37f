// View 2: what happens, as it happens, in sentences; a minute a bar; facets.
import { useMemo, useState } from "preact/hooks";
import { html } from "./html.mjs";
import { change, place } from "./address.mjs";
import { useAnswer, url } from "./api.mjs";
import { now } from "./clock.mjs";
import { events as liveEvents, heardAt, line, lost, paused } from "./live.mjs";
import { Empty, Panel, Say, Time, sentence } from "./parts.mjs";
import { BurstRow, EventRow, folded, together } from "./event_rows.mjs";
import { Rows } from "./rows.mjs";
import { Bars } from "./strips.mjs";
import { RangeForm } from "./range.mjs";
import * as words from "./words.mjs";

const FACETS = [
  ["kind", "kind"],
  ["cause", "cause"],
  ["cluster", "cluster"],
  ["node", "node"],
];
const MOST_VALUES = 8;
const BARS = 60;

// Counts of a minute are told only when they are asked for: they come whether something happens or not.
const matches = (event, params, without) =>
  FACETS.every(([name]) => name === without || !params[name] || String(event[name]) === params[name]) &&
  (params.kind || without === "kind" || event.kind !== "window") &&
  (!params.q || event.text.toLowerCase().includes(params.q.toLowerCase()));

function Facet({ name, events, params }) {
  const counts = new Map();
  for (const event of events) {
    if (event[name] === null || event[name] === undefined || !matches(event, params, name)) continue;
    counts.set(String(event[name]), (counts.get(String(event[name])) ?? 0) + 1);
  }
  if (params[name] && !counts.has(params[name])) counts.set(params[name], 0);
  if (counts.size < 2 && !params[name]) return null;
  const values = [...counts].sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1)).slice(0, MOST_VALUES);
  return html`<div class="facets" role="group" aria-label=${name}>
    <span class="muted small">${name}</span>
    ${values.map(([value, count]) => html`<button type="button" key=${value} class=${`facet ${params[name] === value ? "chosen" : ""}`} aria-pressed=${params[name] === value} onClick=${() => change({ [name]: params[name] === value ? null : value })}>${value} <b>${words.number(count)}</b></button>`)}
  </div>`;
}

export function Feed() {
  const { params } = place.value;
  const past = params.from ? url("v1/history/window", { from: params.from, to: params.to || "now", topology: "false", node: params.node }) : null;
  const answer = useAnswer(past);
  const [opened, setOpened] = useState(new Set());
  const all = useMemo(() => {
    if (!past) return liveEvents.value;
    if (!answer.body) return [];
    const { node, events } = answer.body;
    return events.map((event) => ({ ...event, node, key: `${node}:${event.seq}` })).reverse();
  }, [past, answer.body, liveEvents.value]);
  const shown = useMemo(() => all.filter((event) => matches(event, params)), [all, params]);
  const rows = useMemo(() => folded(together(shown), opened), [shown, opened]);
  const toggle = (id) => {
    const next = new Set(opened);
    if (!next.delete(id)) next.add(id);
    setOpened(next);
  };
  const toMs = past ? answer.body?.to_ms ?? now.value : now.value;
  const fromMs = past ? answer.body?.from_ms ?? toMs - 3_600_000 : toMs - 3_600_000;
  const alarms = shown.filter((event) => event.alarming && event.ms >= fromMs).length;
  const recent = shown.filter((event) => event.ms >= fromMs).length;
  const when = past ? `from ${words.moment(fromMs)} to ${words.moment(toMs)}` : "in the last hour";
  const said = recent ? `${words.counted(recent, "event")} ${when}, ${alarms ? `${words.number(alarms)} of them alarming` : "none of them alarming"}.` : `Nothing happened ${when}.`;
  const cut = !past && line.value.state === "cut" ? { message: line.value.why } : answer.error;
  return html`<${Say} sentence=${said} more=${paused.value ? "Paused: what comes now is shown when you go on." : null} />
    <${RangeForm} />
    <div class="strip"><${Bars} times=${shown} fromMs=${fromMs} toMs=${toMs} bars=${BARS} label="Events by minute" /></div>
    ${FACETS.map(([name]) => html`<${Facet} key=${name} name=${name} events=${all} params=${params} />`)}
    <${Panel} title="Events" at=${past ? answer.at : heardAt.value} staleMs=${past ? Infinity : undefined} error=${cut} asking=${answer.asking}>
      ${!past && lost.value ? html`<p class="why">${sentence(lost.value.text)} <${Time} ms=${lost.value.at} /></p>` : null}
      ${rows.length
        ? html`<${Rows} label="Events" items=${rows} keyOf=${(item) => item.key} estimate=${42} row=${(item) =>
            item.burst
              ? html`<${BurstRow} burst=${item.burst} open=${opened.has(item.burst.id)} toggle=${() => toggle(item.burst.id)} />`
              : html`<${EventRow} event=${item.event} showNode />`} />`
        : html`<${Empty}>${all.length ? "Nothing with these facets." : "Nothing has been told yet."}<//>`}
    <//>`;
}
