// View 3: one topic: its route at every node, why there is none, its versions, who asked for it.
import { useEffect, useMemo, useState } from "preact/hooks";
import { html } from "./html.mjs";
import { change, link, place } from "./address.mjs";
import { nodesOf, segment, url, useAnswer } from "./api.mjs";
import { now } from "./clock.mjs";
import { events } from "./live.mjs";
import { BrokerLink, Empty, Panel, Say, Table, Time, sentence } from "./parts.mjs";
import { Chart } from "./charts.mjs";
import { RangeForm } from "./range.mjs";
import { Rows } from "./rows.mjs";
import { Stretches } from "./strips.mjs";
import { usePages } from "./pages_of.mjs";
import * as words from "./words.mjs";

const PAST_MS = 60_000; // an answer about the past is old only when the present has moved on

export function Topic({ name }) {
  return name ? html`<${OneTopic} name=${name} />` : html`<${AllTopics} />`;
}

function AllTopics() {
  const { q = "", system } = place.value.params;
  const list = usePages("v1/topics", { q, system: system === "true" ? null : "false", node: place.value.params.node }, "topics");
  const said = list.total === null ? "Topics." : q ? `${words.counted(list.total, "topic")} with “${q}” in the name.` : `${words.counted(list.total, "topic")}.`;
  return html`<${Say} sentence=${said} />
    <div class="facets">
      <button type="button" class=${`facet ${system === "true" ? "chosen" : ""}`} aria-pressed=${system === "true"} onClick=${() => change({ system: system === "true" ? null : "true" })}>RocketMQ's own too</button>
      ${q ? html`<button type="button" class="facet chosen" onClick=${() => change({ q: null })}>${q} ×</button>` : null}
    </div>
    <${Panel} title="Topics" at=${list.at} staleMs=${PAST_MS} error=${list.error} asking=${list.asking}>
      ${list.items.length
        ? html`<${Rows} label="Topics" items=${list.items} keyOf=${(item) => item.topic} estimate=${38} onEnd=${list.more} row=${(item) => html`<div class="two"><a href=${link("topic", item.topic)}>${item.topic}</a><span>${item.system ? "RocketMQ's own" : ""}</span></div>`} />`
        : list.asking || list.error ? null : html`<${Empty}>${q ? "No topic has that in its name." : "No topic is registered."}<//>`}
    <//>`;
}

// Events that may have changed this route: a reason to ask again at once.
function useChanges(name, brokers) {
  const [latest, setLatest] = useState(0);
  useEffect(() => {
    const found = events.value.find((event) => event.topics?.includes(name) || (event.kind === "change" && brokers.has(event.broker)));
    if (found) setLatest(found.ms);
  }, [events.value, brokers]);
  return latest;
}

function OneTopic({ name }) {
  const [brokers, setBrokers] = useState(new Set());
  const again = useChanges(name, brokers);
  const current = useAnswer(url(`v1/routes/${segment(name)}`, { all: "true" }), { everyMs: 5000, again });
  const { from, to } = place.value.params;
  const past = useAnswer(url("v1/history/topic", { topic: name, from, to, node: place.value.params.node }), { everyMs: 30_000, again });
  const demand = useAnswer(url("v1/history/demand", { topic: name, from: from ?? "6h", to, node: place.value.params.node }), { everyMs: 60_000 });
  useEffect(() => {
    const names = (current.body?.nodes ?? []).flatMap(({ route }) => route?.brokers.map(({ broker }) => broker) ?? []);
    if (names.length !== brokers.size || names.some((each) => !brokers.has(each))) setBrokers(new Set(names));
  }, [current.body]);
  return html`<${RouteSentence} name=${name} answer=${current} />
    <${Routes} answer=${current} />
    <${RangeForm} live="All" />
    <${Versions} name=${name} answer=${past} />
    <${Demand} answer=${demand} />`;
}

function RouteSentence({ name, answer }) {
  const asked = answer.body?.nodes;
  if (!asked) return html`<${Say} sentence=${answer.error ? sentence(answer.error.message) : name} />`;
  const heard = asked.filter((node) => !node.error);
  const routes = heard.filter((node) => node.route);
  if (!heard.length) return html`<${Say} sentence=${`${name}: unknown.`} more="No node answers." level="muted" />`;
  if (!routes.length) return html`<${Say} sentence=${`${name} has no route.`} more=${heard[0].why} level="bad" />`;
  const served = new Set(routes.flatMap(({ route }) => route.brokers.map(({ broker }) => broker)));
  const writable = new Set(routes.flatMap(({ route }) => route.queues.filter((queue) => queue.perm & 2 && queue.write).map(({ broker }) => broker)));
  const agree = answer.body.agree === false ? "The nodes differ." : heard.length > 1 ? sentence(`${words.allOf(heard.length, "node")} say so`) : null;
  const silent = asked.length - heard.length;
  const more = [agree, silent ? `${words.counted(silent, "node")} could not be asked.` : null].filter(Boolean).join(" ");
  const said = writable.size ? `${name} is on ${words.counted(served.size, "broker")}.` : `${name} takes no messages: no broker may write it.`;
  return html`<${Say} sentence=${said} more=${more || null} level=${answer.body.agree === false ? "warn" : writable.size ? "" : "bad"} />`;
}

const ROUTE_COLUMNS = [
  { name: "broker", head: true, cell: (row) => html`<${BrokerLink} name=${row.broker} />` },
  { name: "cluster", cell: (row) => row.cluster ?? "unknown" },
  { name: "addresses", cell: (row) => row.addresses },
  { name: "read", number: true, cell: (row) => words.number(row.read) },
  { name: "write", number: true, cell: (row) => words.number(row.write) },
  { name: "permission", cell: (row) => html`<span class=${`mono ${row.perm & 2 ? "" : "warn"}`}>${row.permission}</span>` },
];

function rowsOf(route) {
  const held = new Map(route.queues.map((queue) => [queue.broker, queue]));
  return route.brokers.map((broker) => ({
    read: null, write: null, perm: null, permission: "no queues",
    ...held.get(broker.broker),
    broker: broker.broker,
    cluster: broker.cluster,
    addresses: Object.entries(broker.addresses).map(([id, address]) => `${id === "0" ? "master" : `slave ${id}`} ${address}`).join(", "),
  }));
}

function Routes({ answer }) {
  const asked = answer.body?.nodes ?? [];
  // Where all say the same it is told once.
  const parts = answer.body?.agree === true ? [{ title: "Route", nodes: asked, told: asked.find((node) => node.route || node.why) }] : asked.map((node) => ({ title: `Route at ${node.node ?? node.address}`, nodes: [node], told: node }));
  if (!parts.length) return html`<${Panel} title="Route" at=${answer.at} error=${answer.error} asking=${answer.asking} />`;
  return parts.map(({ title, nodes, told }) => html`<${Panel} key=${title} title=${title} at=${answer.at} error=${answer.error ?? (told?.error ? { message: told.error } : null)}
      note=${nodes.length > 1 ? `the same at ${words.listed(nodes.filter((node) => !node.error).map((node) => node.node ?? node.address))}` : null}>
    ${told?.route ? html`<${Table} columns=${ROUTE_COLUMNS} rows=${rowsOf(told.route)} keyOf=${(row) => row.broker} caption=${title} />` : html`<${Empty}>${told?.why ?? "Not known."}<//>`}
  <//>`);
}

const TOLD = { route: "well", none: "bad", down: "unknown", stalled: "unknown", unknown: "unknown" };

function Versions({ name, answer }) {
  const nodes = nodesOf(answer);
  return html`<${Panel} title="Versions" at=${answer.at} staleMs=${PAST_MS} error=${answer.error} asking=${answer.asking}>
    ${nodes.length ? nodes.map((node) => html`<${NodeVersions} key=${node.node} node=${node} alone=${nodes.length === 1} name=${name} />`) : answer.asking || answer.error ? null : html`<${Empty}>No journal tells of it.<//>`}
  <//>`;
}

function NodeVersions({ node, alone, name }) {
  const versions = useMemo(
    () => node.versions.map((version) => ({ ...version, fromMs: Date.parse(version.valid_from), toMs: version.valid_to ? Date.parse(version.valid_to) : null, level: TOLD[version.told] ?? "unknown" })),
    [node],
  );
  const [chosen, choose] = useState(null);
  if (!versions.length) return html`<${Empty}>${name} was never seen in this time.<//>`;
  const at = Math.min(chosen ?? versions.length - 1, versions.length - 1);
  const version = versions[at];
  const toMs = Math.max(now.value, versions.at(-1).fromMs);
  return html`<div class="scrubber">
    ${alone ? null : html`<h3>${node.node}</h3>`}
    <p class="moment">${version.told === "route" ? `${words.counted(version.brokers.length, "broker")}` : { none: "no route", down: "node down", stalled: "nobody was answered", unknown: "not known" }[version.told]}</p>
    <p class="muted">from <${Time} ms=${version.fromMs} /> ${version.toMs === null ? "on" : html`to <${Time} ms=${version.toMs} />, ${words.span(version.toMs - version.fromMs)}`} · ${version.changes.join("; ") || version.because || "as before"}${version.cause ? ` · ${version.cause}` : ""}${version.peer ? ` by ${version.peer}` : ""}</p>
    <div class="strip"><${Stretches} stretches=${versions} fromMs=${versions[0].fromMs} toMs=${toMs} atMs=${version.fromMs} label="Versions of the route" /></div>
    <input type="range" min="0" max=${versions.length - 1} value=${at} aria-label="Version" aria-valuetext=${`version ${at + 1} of ${versions.length}, from ${words.moment(version.fromMs)}`} onInput=${(event) => choose(Number(event.target.value))} />
    <div class="ends"><span><${Time} ms=${versions[0].fromMs} /></span><span>version ${at + 1} of ${versions.length}</span><span>now</span></div>
    ${version.brokers.length ? html`<${Table} columns=${VERSION_COLUMNS} rows=${version.brokers} keyOf=${(row) => row.broker} caption="Brokers of this version" />` : null}
    <p class="controls"><a href=${link("travel", "", { at: version.valid_from })}>everything at that moment</a></p>
  </div>`;
}

const VERSION_COLUMNS = [
  { name: "broker", head: true, cell: (row) => html`<${BrokerLink} name=${row.broker} />` },
  { name: "addresses", cell: (row) => Object.entries(row.addresses).map(([id, address]) => `${id === "0" ? "master" : `slave ${id}`} ${address}`).join(", ") },
  { name: "queues", cell: (row) => `${row.read} read, ${row.write} write` },
  { name: "permission", cell: (row) => html`<span class="mono">${row.permission}</span>` },
];

function Demand({ answer }) {
  const nodes = answer.body?.nodes ?? [];
  const points = useMemo(() => {
    const sums = new Map();
    for (const node of answer.body?.nodes ?? []) {
      for (const point of node.points) {
        const ms = Date.parse(point.at);
        const sum = sums.get(ms) ?? { ms, known: 0, missed: 0 };
        sum.known += point.known;
        sum.missed += point.unknown + point.not_ready;
        sums.set(ms, sum);
      }
    }
    return [...sums.values()].sort((a, b) => a.ms - b.ms);
  }, [answer.body]);
  const series = useMemo(() => ({ times: points.map((p) => p.ms), known: points.map((p) => p.known), missed: points.map((p) => p.missed) }), [points]);
  const known = nodes.reduce((sum, node) => sum + node.known, 0);
  const missed = nodes.reduce((sum, node) => sum + node.unknown + node.not_ready, 0);
  const note = nodes.length ? `asked for ${words.number(known + missed)} times${missed ? `, ${words.number(missed)} in vain` : ""}` : null;
  return html`<${Panel} title="Demand" at=${answer.at} staleMs=${2 * PAST_MS} error=${answer.error} asking=${answer.asking} note=${note}>
    ${points.length ? html`<${Chart} label="Route queries by minute" times=${series.times} series=${[{ label: "answered", colour: "accent", values: series.known, bars: true }, { label: "in vain", colour: "bad", values: series.missed, bars: true }]} />` : nodes.length ? html`<${Empty}>Nobody asked for it in this time, as far as was counted.<//>` : null}
  <//>`;
}
