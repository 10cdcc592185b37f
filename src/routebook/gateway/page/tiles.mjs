// Groups by cluster: who needs somebody as a tile, who is well as a small cell once there are many.
import { html } from "./html.mjs";
import { link } from "./address.mjs";
import { now } from "./clock.mjs";
import * as words from "./words.mjs";

const MOST_TILES = 60; // in full, of one cluster
const MOST_CELLS = 400; // of one cluster; the page holds a bounded number of elements

// `groups`: {key, cluster, broker, level, state, members, topics, zone, gone, ms, fresh}.
export function Clusters({ groups, params = {} }) {
  const clusters = new Map();
  for (const group of groups) {
    if (!clusters.has(group.cluster)) clusters.set(group.cluster, []);
    clusters.get(group.cluster).push(group);
  }
  return [...clusters].sort(([a], [b]) => (a < b ? -1 : 1)).map(([cluster, its]) => html`<${Cluster} key=${cluster} name=${cluster} groups=${its} params=${params} />`);
}

function Cluster({ name, groups, params }) {
  const needy = groups.filter((group) => group.level !== "well");
  const well = groups.filter((group) => group.level === "well");
  const inFull = well.length + needy.length <= MOST_TILES;
  const tiles = inFull ? groups : needy.slice(0, MOST_TILES);
  const cells = inFull ? [] : well.slice(0, MOST_CELLS);
  const unshown = groups.length - tiles.length - cells.length;
  const live = groups.filter((group) => !group.gone).length;
  return html`<div class="cluster">
    <h3>${name} <span class="muted">· ${words.counted(live, "group")}${well.length === groups.length ? ", all well" : `, ${words.number(well.length)} well`}</span></h3>
    ${tiles.length ? html`<div class="tiles">${tiles.map((group) => html`<${Tile} key=${group.key} group=${group} params=${params} />`)}</div>` : null}
    ${cells.length ? html`<div class="cells">${cells.map((group) => html`<a class="cell" key=${group.key} href=${link("broker", group.broker, params)} title=${group.broker} aria-label=${group.broker}></a>`)}</div>` : null}
    ${unshown > 0 ? html`<p class="muted small">and <a href=${link("broker", "", params)}>${words.number(unshown)} more</a></p>` : null}
  </div>`;
}

export function members(group) {
  const master = group.members.filter((member) => member.id === 0).length;
  const slaves = group.members.length - master;
  const parts = [];
  if (master) parts.push("master");
  if (slaves) parts.push(words.counted(slaves, "slave"));
  return parts.join(" + ") || "no members";
}

function Tile({ group, params }) {
  const facts = [members(group)];
  if (group.topics !== null) facts.push(words.counted(group.topics, "topic"));
  if (group.zone) facts.push(`zone ${group.zone}`);
  return html`<a class=${`tile ${group.level} ${group.fresh ? "chosen" : ""}`} href=${link("broker", group.broker, params)}>
    <b>${group.broker}</b>
    ${group.gone ? html`<span class="state">left ${words.age(now.value - group.ms)}</span>` : html`<span>${facts.join(" · ")}</span>`}
    ${group.level === "well" ? null : html`<span class="state">${group.state}</span>`}
  </a>`;
}
