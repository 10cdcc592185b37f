// View 4: one broker: its silence, its stays and why they ended, its heartbeats, its topics.
import { useMemo } from "preact/hooks";
import { html } from "./html.mjs";
import { change, link, place } from "./address.mjs";
import { nodesOf, segment, url, useAnswer } from "./api.mjs";
import { now } from "./clock.mjs";
import { groups, heardAt, line } from "./live.mjs";
import { Dot, Empty, Panel, Say, Table, Time, TopicLink, sentence } from "./parts.mjs";
import { Chart } from "./charts.mjs";
import { members } from "./tiles.mjs";
import { RangeForm } from "./range.mjs";
import { Rows } from "./rows.mjs";
import { Stretches } from "./strips.mjs";
import { usePages } from "./pages_of.mjs";
import * as words from "./words.mjs";

const PAST_MS = 60_000;

export function Broker({ name }) {
  return name ? html`<${OneBroker} name=${name} />` : html`<${AllBrokers} />`;
}

function AllBrokers() {
  const { q = "" } = place.value.params;
  const wanted = q.toLowerCase();
  const list = useMemo(() => groups.value.filter((group) => group.broker.toLowerCase().includes(wanted) || group.cluster.toLowerCase().includes(wanted)), [groups.value, wanted]);
  const cut = line.value.state === "cut" ? { message: line.value.why } : null;
  return html`<${Say} sentence=${`${words.counted(list.length, "group")}${q ? ` with “${q}” in the name` : ""}.`} />
    ${q ? html`<div class="facets"><button type="button" class="facet chosen" onClick=${() => change({ q: null })}>${q} ×</button></div>` : null}
    <${Panel} title="Groups" at=${heardAt.value} error=${cut}>
      ${list.length
        ? html`<${Rows} label="Groups" items=${list} keyOf=${(group) => group.key} estimate=${40} row=${(group) => html`<div class="two">
            <span><${Dot} level=${group.level} title=${group.state} /> <a href=${link("broker", group.broker)}>${group.broker}</a> <span class="muted">${group.cluster}</span></span>
            <span>${group.gone ? `left ${words.age(now.value - group.ms)}` : `${members(group)} · ${words.counted(group.topics, "topic")}`}${group.level === "well" || group.gone ? "" : ` · ${group.state}`}</span>
          </div>`} />`
        : html`<${Empty}>${q ? "No broker has that in its name." : "No broker is registered, as far as is known."}<//>`}
    <//>`;
}

function OneBroker({ name }) {
  const { from, to, node } = place.value.params;
  const live = useAnswer(`v1/brokers/${segment(name)}`, { everyMs: 2000, again: groups.value.filter((group) => group.broker === name).map((group) => group.level).join() });
  const stays = useAnswer(url("v1/history/broker", { broker: name, from, to, node }), { everyMs: 15_000 });
  const beats = useAnswer(url("v1/history/heartbeats", { broker: name, from: from ?? "6h", to, node }), { everyMs: 60_000 });
  const told = useAnswer(url("v1/history/explain", { name, from, to, node, limit: 30 }), { everyMs: 15_000 });
  return html`<${BrokerSentence} name=${name} live=${live} told=${told} />
    <${Members} live=${live} />
    <${RangeForm} live="All" />
    <${Stays} answer=${stays} />
    <div class="columns"><${Story} answer=${told} /><${Heartbeats} answer=${beats} /></div>
    <${Topics} name=${name} />`;
}

function silence(member, at) {
  return member.heard_ms === null || at === null ? null : member.heard_ms + Math.max(0, now.value - at);
}

function BrokerSentence({ name, live, told }) {
  const asked = live.body?.nodes;
  const lines = told.body?.lines ?? [];
  if (live.error?.status === 404) {
    const left = lines.findLast((each) => / left/.test(each.text)) ?? lines.at(-1);
    return html`<${Say} sentence=${`${name} is not registered.`} more=${left ? `${words.moment(Date.parse(left.at), now.value)}: ${left.text}` : sentence(live.error.message)} level="bad" />`;
  }
  if (!asked) return html`<${Say} sentence=${live.error ? sentence(live.error.message) : name} />`;
  const heard = asked.filter((node) => !node.error);
  if (!heard.length) return html`<${Say} sentence=${`${name}: unknown.`} more="No node answers." level="muted" />`;
  const knowing = heard.filter((node) => node.groups.length);
  const lacking = heard.filter((node) => !node.groups.length);
  const silences = knowing.flatMap((node) => node.groups.flatMap((group) => group.members.map((member) => silence(member, live.at - (node.age_ms ?? 0)))));
  const quietest = silences.includes(null) ? null : Math.min(...silences);
  const more = [
    `Last sign of life ${words.age(quietest)}.`,
    lacking.length ? `${words.listed(lacking.map((node) => node.node ?? node.address))} ${lacking.length === 1 ? "does" : "do"} not know it.` : null,
    live.body.agree === false && !lacking.length ? "The nodes differ." : null,
  ].filter(Boolean).join(" ");
  return html`<${Say} sentence=${`${name} is registered with ${heard.length === knowing.length ? words.allOf(heard.length, "node") : words.counted(knowing.length, "node")}.`} more=${more} level=${lacking.length ? "warn" : ""} />`;
}

function Members({ live }) {
  const rows = (live.body?.nodes ?? []).flatMap((node) => node.groups.flatMap((group) => group.members.map((member) => ({ ...member, node: node.node ?? node.address, group, silent: silence(member, live.at === null ? null : live.at - (node.age_ms ?? 0)) }))));
  const columns = [
    { name: "node", head: true, cell: (row) => row.node },
    { name: "cluster", cell: (row) => row.group.cluster },
    { name: "role", cell: (row) => (row.role === "master" ? "master" : `${row.role} ${row.id}`) },
    { name: "address", cell: (row) => row.address },
    { name: "state", cell: (row) => html`<span class=${{ held: "bad", unconfirmed: "warn" }[row.state] ?? ""}>${row.state}</span>` },
    { name: "connected from", cell: (row) => row.peer ?? "unknown" },
    { name: "silent for", cell: (row) => html`<span class=${row.silent !== null && row.silent > row.timeout_ms * 0.75 ? "bad" : ""}>${row.silent === null ? "unknown" : words.span(Math.floor(row.silent / 1000) * 1000)}</span> <span class="muted">of ${words.span(row.timeout_ms)}</span>` },
  ];
  const error = live.error?.status === 404 ? null : live.error;
  return html`<${Panel} title="Members" at=${live.at} error=${error} asking=${live.asking}>
    ${rows.length && live.error?.status !== 404 ? html`<${Table} columns=${columns} rows=${rows} keyOf=${(row) => `${row.node} ${row.id} ${row.address}`} caption="Members" />` : live.asking && !live.body ? null : html`<${Empty}>No node lists a member.<//>`}
  <//>`;
}

function Stays({ answer }) {
  const nodes = nodesOf(answer);
  return html`<${Panel} title="Stays" at=${answer.at} staleMs=${PAST_MS} error=${answer.error} asking=${answer.asking}>
    ${nodes.map((node) => html`<${NodeStays} key=${node.node} node=${node} alone=${nodes.length === 1} />`)}
    ${!nodes.length && !answer.asking && !answer.error ? html`<${Empty}>No journal tells of it.<//>` : null}
  <//>`;
}

const STAY_COLUMNS = [
  { name: "from", head: true, cell: (row) => html`<${Time} ms=${row.fromMs} />` },
  { name: "to", cell: (row) => (row.toMs === null ? "still here" : html`<${Time} ms=${row.toMs} />`) },
  { name: "lasted", cell: (row) => html`<span class="whole">${words.span(row.lasted_ms)}</span>` },
  { name: "address", cell: (row) => `${row.broker_id === 0 ? "master" : `slave ${row.broker_id}`} ${row.address}` },
  { name: "ended because", cell: (row) => row.ended ?? "–" },
  { name: "heartbeats", number: true, cell: (row) => words.number(row.heartbeats.count) },
  { name: "longest gap", cell: (row) => html`<span class="whole">${row.heartbeats.longest_gap_ms === null ? "–" : words.span(row.heartbeats.longest_gap_ms)}</span>` },
  { name: "near misses", number: true, cell: (row) => words.number(row.heartbeats.near_misses) },
];

const MOST_STAYS = 12;

function NodeStays({ node, alone }) {
  const sessions = useMemo(() => node.sessions.map((each) => ({ ...each, fromMs: Date.parse(each.from), toMs: each.to ? Date.parse(each.to) : null })), [node]);
  if (!sessions.length) return html`<${Empty}>${node.node}: never listed in this time.<//>`;
  const fromMs = Math.min(...sessions.map((each) => each.fromMs));
  const stretches = [
    ...sessions.map((each) => ({ ...each, level: "well" })),
    ...node.silences.map((each) => ({ fromMs: Date.parse(each.from), toMs: Date.parse(each.to), level: "unknown" })),
  ];
  const latest = sessions.slice(-MOST_STAYS).reverse();
  const refusals = [...node.conflicts, ...node.refusals].slice(-3);
  return html`<div class="part">
    ${alone ? null : html`<h3>${node.node}</h3>`}
    <div class="strip"><${Stretches} stretches=${stretches} fromMs=${fromMs} toMs=${now.value} label="When it was listed" /></div>
    <${Table} columns=${STAY_COLUMNS} rows=${latest} keyOf=${(row) => `${row.from} ${row.address}`} caption="Stays, the latest first" />
    ${sessions.length > latest.length ? html`<p class="muted small">and ${words.number(sessions.length - latest.length)} before</p>` : null}
    ${refusals.map((each) => html`<p class="small"><${Time} ms=${Date.parse(each.at)} /> ${each.text}</p>`)}
  </div>`;
}

function Story({ answer }) {
  const lines = answer.body?.lines ?? [];
  return html`<${Panel} title="What happened" at=${answer.at} staleMs=${PAST_MS} error=${answer.error} asking=${answer.asking}>
    ${lines.length
      ? html`<ol>${lines.slice().reverse().map((each) => html`<li class="change" key=${`${each.node} ${each.seq} ${each.text}`}><span class="muted small"><${Time} ms=${Date.parse(each.at)} /></span><p>${each.text}</p></li>`)}</ol>`
      : answer.asking || answer.error ? null : html`<${Empty}>Nothing is told of it.<//>`}
  <//>`;
}

function Heartbeats({ answer }) {
  const found = nodesOf(answer).flatMap((node) => node.members.map((member) => ({ ...member, node: node.node })));
  return html`<${Panel} title="Heartbeats" at=${answer.at} staleMs=${2 * PAST_MS} error=${answer.error} asking=${answer.asking}>
    ${found.map((member) => html`<${Gaps} key=${`${member.node} ${member.broker_id} ${member.address}`} member=${member} limits=${answer.body.histogram_ms} />`)}
    ${!found.length && !answer.asking && !answer.error ? html`<${Empty}>None were counted in this time.<//>` : null}
  <//>`;
}

function Gaps({ member, limits }) {
  const strip = useMemo(() => {
    const points = member.points.map((point) => ({ ms: Date.parse(point.at), gap: Math.max(0, ...point.gaps_ms) / 1000 }));
    return { times: points.map((p) => p.ms), gaps: points.map((p) => p.gap), limit: points.map(() => member.timeout_ms / 1000) };
  }, [member]);
  const bars = useMemo(() => ({ at: limits.map((_, i) => i).concat(limits.length), values: member.histogram, names: [...limits.map((ms) => `≤${words.span(ms)}`.replaceAll(" ", "")), "more"] }), [member, limits]);
  return html`<div>
    <p class="small muted">${member.broker_id === 0 ? "master" : `slave ${member.broker_id}`} ${member.address} · ${member.node}</p>
    ${strip.times.length ? html`<${Chart} label="Longest gap of each window, seconds" height=${120} times=${strip.times} unit=${(value) => `${value} s`} series=${[{ label: "longest gap of a window", colour: "accent", values: strip.gaps, dots: true }, { label: "gone at", colour: "bad", values: strip.limit }]} />` : null}
    <${Chart} label="Gaps by length" height=${110} times=${bars.at} ordinal=${bars.names} series=${[{ label: "gaps of that length", colour: "second", values: bars.values, bars: true }]} />
  </div>`;
}

function Topics({ name }) {
  const { at, node } = place.value.params;
  const list = usePages("v1/history/topics", { broker: name, at, node }, "topics");
  return html`<${Panel} title="Topics" at=${list.at} staleMs=${10 * PAST_MS} error=${list.error} asking=${list.asking} note=${list.total === null ? null : words.counted(list.total, "topic")}>
    ${list.items.length
      ? html`<${Rows} label="Topics" items=${list.items} keyOf=${(item) => `${item.cluster} ${item.topic}`} estimate=${38} onEnd=${list.more} row=${(item) => html`<div class="two"><${TopicLink} name=${item.topic} /><span>${item.queues ? `${item.queues[0]} read, ${item.queues[1]} write` : "unknown"} <span class=${`mono ${item.registered ? "warn" : ""}`}>${item.permission}</span></span></div>`} />`
      : list.asking || list.error ? null : html`<${Empty}>It has none.<//>`}
  <//>`;
}
