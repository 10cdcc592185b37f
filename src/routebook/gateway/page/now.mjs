// View 1: how it is, in a sentence; then nodes, groups, and what somebody should know of.
import { html } from "./html.mjs";
import { link } from "./address.mjs";
import { now } from "./clock.mjs";
import { events, groups, heardAt, line, lost, nodes, overall } from "./live.mjs";
import { Dot, Empty, Panel, Say, Time, sentence } from "./parts.mjs";
import { EventRow, together } from "./event_rows.mjs";
import { Clusters } from "./tiles.mjs";
import * as words from "./words.mjs";

const LATEST = 8;
const NEWS_MS = 10 * 60_000; // a loss is in the sentence that long; its tile stays longer
const TOGETHER_MS = 10_000;
const LEVELS = { well: "", attention: "warn", trouble: "bad", unknown: "muted" };
export const NODE_LEVELS = { up: "", starting: "warn", draining: "warn", down: "bad", foreign: "unknown", unknown: "unknown" };

function Sentence() {
  const told = overall.value;
  if (told === null) return html`<${Say} sentence="Not known yet." more="No node has been heard of since this page was opened." level="muted" />`;
  if (line.value.state === "cut" && now.value - line.value.since > 2000) {
    return html`<${Say} sentence="Unknown." more=${`${sentence(line.value.why)} Before that: ${told.text}`} level="muted" />`;
  }
  const departed = groups.value.filter((group) => group.gone && group.level === "bad" && now.value - group.ms < NEWS_MS);
  const sinceMs = told.since ? Date.parse(told.since) : null;
  const since = sinceMs === null ? "" : ` since ${words.moment(sinceMs, now.value)}`;
  if (told.state === "well" && !departed.length) return html`<${Say} sentence=${`All well${since}.`} more=${told.text.replace(/^All is well: /, "")} />`;
  if (departed.length) {
    const latestMs = Math.max(...departed.map((group) => group.ms));
    const latest = departed.filter((group) => latestMs - group.ms <= TOGETHER_MS);
    const before = departed.length - latest.length;
    const said = latest.length === 1 ? latest[0].text : `${words.listed(latest.map((group) => group.broker))} left.`;
    const more = before ? ` ${words.counted(before, "other")} left in the last ${words.span(NEWS_MS)}.` : "";
    return html`<${Say} sentence=${said} more=${`${words.age(now.value - latestMs)}.${more} ${told.text}`} level="bad" />`;
  }
  return html`<${Say} sentence=${sentence(told.text)} more=${sinceMs === null ? null : `So${since}.`} level=${LEVELS[told.state]} />`;
}

export function NodeLine({ node }) {
  const known = node.state === "up" || node.state === "starting" || node.state === "draining";
  return html`<li class=${`node-line ${known ? "" : "stale"}`} data-node=${node.address} data-state=${node.state}>
    <${Dot} level=${NODE_LEVELS[node.state] ?? "unknown"} title=${node.state} />
    <a href=${link("nodes")}><b>${node.node ?? node.address}</b></a>
    ${node.node && node.node !== node.address ? html`<span class="muted">${node.address}</span>` : null}
    <span>${stateWords(node)}</span>
    ${known && node.ping_ms !== null ? html`<span class="muted">answers in ${node.ping_ms < 10 ? node.ping_ms.toFixed(1) : Math.round(node.ping_ms)} ms</span>` : null}
    <span class="muted">${node.at === null ? "never heard of" : `heard ${words.age(now.value - node.at)}`}</span>
  </li>`;
}

function stateWords(node) {
  if (node.state === "up") {
    const held = node.brokers?.held ? `, ${words.number(node.brokers.held)} held` : "";
    const unconfirmed = node.brokers?.unconfirmed ? `, ${words.number(node.brokers.unconfirmed)} unconfirmed` : "";
    return `${words.counted(node.groups, "group")}, ${words.counted(node.topics, "topic")}${unconfirmed}${held}`;
  }
  if (node.state === "down") return `does not answer${node.error ? `: ${node.error}` : ""}`;
  if (node.state === "starting") return "starting: waits for its brokers";
  if (node.state === "foreign") return "another NameServer; what it believes is not known";
  return node.state;
}

export function Now() {
  const alarming = together(events.value.filter((event) => event.alarming)).slice(0, LATEST);
  const cut = line.value.state === "cut" ? { message: line.value.why } : null;
  return html`<${Sentence} />
    <${Panel} title="Nodes" at=${heardAt.value} error=${cut}>
      ${nodes.value.length ? html`<ul>${nodes.value.map((node) => html`<${NodeLine} key=${node.address} node=${node} />`)}</ul>` : html`<${Empty}>No node is known yet.<//>`}
    <//>
    <${Panel} title="Groups" at=${heardAt.value} error=${cut}>
      ${groups.value.length ? html`<${Clusters} groups=${groups.value} />` : html`<${Empty}>No broker is registered, as far as is known.<//>`}
    <//>
    <${Panel} title="What somebody should know of" at=${heardAt.value} error=${cut} note=${html`<a href=${link("feed")}>all events</a>`}>
      ${lost.value ? html`<p class="why">${sentence(lost.value.text)} <${Time} ms=${lost.value.at} /></p>` : null}
      ${alarming.length ? alarming.map((event) => html`<div class="row" key=${event.key}><${EventRow} event=${event} showNode=${nodes.value.length > 1} /></div>`) : html`<${Empty}>Nothing since this gateway has been listening.<//>`}
    <//>`;
}
