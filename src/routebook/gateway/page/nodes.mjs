// View 6: do the nodes say the same? Who lacks what, since when, and how long it takes them to agree.
import { html } from "./html.mjs";
import { change, link, place } from "./address.mjs";
import { url, useAnswer } from "./api.mjs";
import { now } from "./clock.mjs";
import { heardAt, line, nodes } from "./live.mjs";
import { BrokerLink, Dot, Empty, Panel, Say, Table, Time, sentence } from "./parts.mjs";
import { NODE_LEVELS } from "./now.mjs";
import { Rows } from "./rows.mjs";
import * as words from "./words.mjs";

const LIMIT = 1000;

const COLUMNS = [
  { name: "node", head: true, cell: (node) => html`<${Dot} level=${NODE_LEVELS[node.state] ?? "unknown"} title=${node.state} /> ${node.node ?? node.address}` },
  { name: "address", cell: (node) => node.address },
  { name: "state", cell: (node) => html`${node.state}${node.error ? `: ${node.error}` : ""}${node.since ? html` <span class="muted">since <${Time} ms=${Date.parse(node.since)} /></span>` : null}` },
  { name: "version", cell: (node) => node.version ?? "unknown" },
  { name: "answers in", cell: (node) => (node.ping_ms === null ? "unknown" : `${node.ping_ms.toFixed(1)} ms`) },
  { name: "clock", cell: skew },
  { name: "groups", number: true, cell: (node) => words.number(node.groups) },
  { name: "topics", number: true, cell: (node) => words.number(node.topics) },
  { name: "heard", cell: (node) => (node.at === null ? "never" : words.age(now.value - node.at)) },
];

function skew(node) {
  const { clock_ahead_ms: ahead, clock_uncertainty_ms: give } = node;
  if (ahead === null || ahead === undefined) return "unknown";
  if (Math.abs(ahead) <= (give ?? 0)) return "agrees";
  return `${words.span(Math.abs(ahead))} ${ahead > 0 ? "ahead" : "behind"}`;
}

export function Nodes() {
  const { all } = place.value.params;
  const answer = useAnswer(url("v1/nodes", { limit: LIMIT, differing: all === "true" ? null : "true" }), { everyMs: 5000 });
  const differ = answer.body?.agree === false;
  const why = useAnswer(differ ? "v1/differences" : null, { everyMs: 30_000 });
  const body = answer.body;
  const said = body ? body.text : answer.error ? sentence(answer.error.message) : "Asking the nodes.";
  const cut = line.value.state === "cut" ? { message: line.value.why } : null;
  return html`<${Say} sentence=${said} level=${differ ? "warn" : body?.agree === null ? "muted" : ""} />
    <${Panel} title="Nodes" at=${heardAt.value} error=${cut}>
      ${nodes.value.length ? html`<${Table} columns=${COLUMNS} rows=${nodes.value} keyOf=${(node) => node.address} caption="Nodes" />` : html`<${Empty}>No node is known yet.<//>`}
    <//>
    <${Panel} title="Groups at each node" at=${answer.at} error=${answer.error} asking=${answer.asking} note=${body ? words.counted(body.total, "group") : null}>
      <div class="facets"><button type="button" class=${`facet ${all === "true" ? "chosen" : ""}`} aria-pressed=${all === "true"} onClick=${() => change({ all: all === "true" ? null : "true" })}>those too of which all say the same</button></div>
      ${body?.groups.length ? html`<${Matrix} body=${body} />` : body ? html`<${Empty}>${body.agree === null ? "Fewer than two nodes answer; there is nothing to compare." : all === "true" ? "No group is registered." : "All nodes that answer say the same of every group."}<//>` : null}
    <//>
    ${differ ? html`<${Differences} answer=${why} />` : null}
    <${Converged} answer=${answer} />`;
}

// The same content has the same sign; what differs from the first node's stands out.
function Matrix({ body }) {
  const columns = body.nodes.filter((node) => node.state === "up");
  const named = columns.map((node) => node.node ?? node.address);
  return html`<${Rows} label="Groups at each node" items=${body.groups} keyOf=${(group) => `${group.cluster} ${group.broker}`} estimate=${44} row=${(group) => {
    const first = Object.values(group.digests).find((digest) => digest !== null);
    return html`<div class="two">
      <span><${BrokerLink} name=${group.broker} /> <span class="muted">${group.cluster}${group.agree === false && group.since ? html` · differs since <${Time} ms=${Date.parse(group.since)} />` : null}</span></span>
      <span class="matrix">${columns.map((node, i) => {
        const digest = group.digests[node.address];
        const level = digest === undefined ? "unknown" : digest === null ? "bad" : digest === first ? "" : "warn";
        const what = digest === undefined ? "unknown" : digest === null ? "missing" : digest.slice(0, 4);
        return html`<span key=${node.address}><${Dot} level=${level} title=${`${named[i]}: ${what}`} /> ${named[i]} <span class="mono">${what}</span></span>`;
      })}</span>
    </div>`;
  }} />`;
}

function Differences({ answer }) {
  const found = answer.body?.differences ?? [];
  return html`<${Panel} title="What they differ in" at=${answer.at} staleMs=${60_000} error=${answer.error} asking=${answer.asking}>
    ${answer.body?.state === "looking" ? html`<${Empty}>Asking every node for every topic.<//>` : null}
    ${found.map((each) => html`<div class="change" key=${`${each.kind} ${each.broker} ${each.topics[0]}`}>
      <p><b><${BrokerLink} name=${each.broker} /></b> ${each.kind.replaceAll("-", " ")} <span class="muted">${each.topics_in_all ? `${words.counted(each.topics_in_all, "topic")}: ${words.listed(each.topics)}` : ""}</span></p>
      ${Object.entries(each.says).map(([node, says]) => html`<p class="small"><span class="muted">${node}</span> ${says}</p>`)}
    </div>`)}
    ${answer.body?.state === "done" && !found.length ? html`<${Empty}>Nothing that lasted: what differed has passed.<//>` : null}
  <//>`;
}

const PASSED = [
  { name: "group", head: true, cell: (row) => html`<${BrokerLink} name=${row.broker} />` },
  { name: "cluster", cell: (row) => row.cluster },
  { name: "from", cell: (row) => html`<${Time} ms=${Date.parse(row.from)} />` },
  { name: "to", cell: (row) => html`<${Time} ms=${Date.parse(row.to)} />` },
  { name: "nodes took", cell: (row) => words.span(row.lasted_ms) },
];

function Converged({ answer }) {
  const rows = answer.body?.converged ?? [];
  return html`<${Panel} title="Differences that passed" at=${answer.at} error=${answer.error} note=${html`as this gateway saw them, to a second; <a href=${link("feed")}>events</a> have it exactly`}>
    ${rows.length ? html`<${Table} columns=${PASSED} rows=${rows} keyOf=${(row) => `${row.from} ${row.cluster} ${row.broker}`} caption="Differences that passed" />` : answer.body ? html`<${Empty}>None since this gateway has been listening.<//>` : null}
  <//>`;
}
