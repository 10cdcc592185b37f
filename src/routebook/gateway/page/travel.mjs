// View 5: the whole registry at any moment, and what changed between two of them.
import { useMemo } from "preact/hooks";
import { html } from "./html.mjs";
import { change, link } from "./address.mjs";
import { url, useAnswer } from "./api.mjs";
import { BrokerLink, Empty, Panel, Say, Time, TopicLink, sentence } from "./parts.mjs";
import { EventRow } from "./event_rows.mjs";
import { RangeForm } from "./range.mjs";
import { Doubts, NodeChoice, Scrubber, goTo, useChosenPast } from "./scrubber.mjs";
import { Clusters } from "./tiles.mjs";
import * as words from "./words.mjs";

const LATEST = 5;
const CAUSES = 3;

export function Travel() {
  const chosen = useChosenPast();
  const { past, atMs, fromMs, toMs, marks } = chosen;
  const tiles = useMemo(() => (past ? past.at(atMs, freshness(fromMs, toMs)) : []), [past, atMs]);
  if (!past) {
    const said = chosen.error ? sentence(chosen.error.message) : "Reading the journal.";
    return html`<${Say} sentence=${said} level=${chosen.error ? "warn" : "muted"} /><${RangeForm} live="Everything" />`;
  }
  return html`<${Moment} past=${past} tiles=${tiles} atMs=${atMs} />
    <${RangeForm} live="Everything" />
    <${Scrubber} chosen=${chosen}><${Controls} chosen=${chosen} /><//>
    <${Doubts} past=${past} />
    <${Between} chosen=${chosen} />
    <section class="panel" id="topology">
      <header><h2>Groups then</h2><span class="muted small">as ${past.node} saw it</span></header>
      ${tiles.length ? html`<${Clusters} groups=${tiles} params=${{ at: words.iso(atMs) }} />` : html`<${Empty}>No group was registered.<//>`}
    </section>
    <${Before} past=${past} atMs=${atMs} />`;
}

// What changed lately stands out: a hundredth of the slider, and two seconds at least.
const freshness = (fromMs, toMs) => Math.max(2000, (toMs - fromMs) / 100);

function Moment({ past, tiles, atMs }) {
  const there = tiles.filter((tile) => !tile.gone);
  const topics = there.reduce((sum, tile) => sum + (tile.topics ?? 0), 0);
  const when = `At ${words.moment(atMs)}`;
  if (past.silenceAt(atMs)) return html`<${Say} sentence=${`${when} nobody knows.`} more=${`${past.silenceAt(atMs).text} Shown is what the node last believed.`} level="muted" />`;
  const gone = tiles.filter((tile) => tile.gone && tile.level === "bad").map((tile) => tile.broker);
  const said = `${when} there were ${words.counted(there.length, "group")}.`;
  const more = `They held ${words.counted(topics, "topic")}, counted on each.${gone.length ? ` ${words.listed(gone)} had left.` : ""}`;
  return html`<${Say} sentence=${said} more=${more} />`;
}

function Controls({ chosen }) {
  const { past, atMs, fromMs, toMs, marks } = chosen;
  const telling = useMemo(() => past.told(), [past]);
  const before = telling.findLast((event) => event.ms < atMs);
  const after = telling.find((event) => event.ms > atMs);
  const [first, second] = [marks.a, marks.b].toSorted((a, b) => a - b);
  return html`
    <button type="button" disabled=${!before} onClick=${() => goTo(before.ms)}>← earlier change</button>
    <button type="button" disabled=${!after} onClick=${() => goTo(after.ms)}>later change →</button>
    <button type="button" id="mark-a" aria-pressed=${marks.a !== null} onClick=${() => change({ a: words.iso(Math.round(atMs)) })}>Mark A here</button>
    <button type="button" id="mark-b" aria-pressed=${marks.b !== null} onClick=${() => change({ b: words.iso(Math.round(atMs)) })}>Mark B here</button>
    ${marks.a !== null && marks.b !== null && first !== second ? html`<button type="button" onClick=${() => change({ from: words.iso(first), to: words.iso(second) })}>Only A to B</button>` : null}
    ${marks.a !== null || marks.b !== null ? html`<button type="button" onClick=${() => change({ a: null, b: null })}>No marks</button>` : null}
    <a class="small" href=${link("replay", "", { at: words.iso(Math.round(fromMs)), from: words.iso(fromMs), to: words.iso(toMs) })}>replay it</a>
    <${NodeChoice} chosen=${chosen} />`;
}

function Before({ past, atMs }) {
  const latest = useMemo(() => past.told(past.count(atMs)).slice(-LATEST).reverse(), [past, atMs]);
  return html`<section class="panel">
    <header><h2>Just before</h2></header>
    ${latest.length ? latest.map((event) => html`<div class="row" key=${event.key}><${EventRow} event=${event} /></div>`) : html`<${Empty}>Nothing happened before that.<//>`}
  </section>`;
}

const WORD = { came: "came", went: "went", changed: "changed" };

// Between the marks; what a broker was told to do, or did, is why.
function Between({ chosen }) {
  const { past, marks } = chosen;
  const both = marks.a !== null && marks.b !== null && marks.a !== marks.b;
  const [first, second] = [marks.a, marks.b].toSorted((a, b) => a - b);
  const answer = useAnswer(both ? url("v1/history/diff", { from: words.iso(first), to: words.iso(second), node: past.node }) : null);
  if (!both) return null;
  const [node] = answer.body?.nodes ?? [];
  const none = node && node.known && !node.brokers.length && !node.topics_came.length && !node.topics_went.length;
  return html`<${Panel} id="between" title=${`From ${words.moment(first)} to ${words.moment(second)}`} at=${undefined} error=${answer.error} note=${words.span(second - first)}>
    ${answer.asking && !node ? html`<${Empty}>Comparing.<//>` : null}
    ${node && !node.known ? html`<${Empty}>Not known: records are missing.<//>` : null}
    ${node ? node.doubts.map((text) => html`<p class="warn small">${text}</p>`) : null}
    ${none ? html`<${Empty}>No difference. What left came back.<//>` : null}
    ${(node?.brokers ?? []).map((each) => html`<${Difference} key=${`${each.cluster} ${each.broker} ${each.change}`} each=${each} why=${past.about(each.cluster, each.broker, first, second)} />`)}
    <${TopicNames} names=${node?.topics_came ?? []} word="came" />
    <${TopicNames} names=${node?.topics_went ?? []} word="went" />
  <//>`;
}

function Difference({ each, why }) {
  const what = [...each.details, ...each.queues.map((queues) => `${queues.what}: ${words.counted(queues.topics, "topic")} (${words.listed(queues.examples)})`)];
  return html`<div class="change">
    <p><b><${BrokerLink} name=${each.broker} /></b> <span class=${each.change}>${WORD[each.change] ?? each.change}</span> <span class="muted">${each.cluster} · ${words.counted(each.topics, "topic")}</span></p>
    ${what.map((text) => html`<p class="small">${text}</p>`)}
    ${why.slice(0, CAUSES).map((event) => html`<p class="small muted" key=${event.key}><${Time} ms=${event.ms} /> ${event.text}${event.peer && !event.text.includes(event.peer) ? ` By ${event.peer}.` : ""}</p>`)}
  </div>`;
}

function TopicNames({ names, word }) {
  if (!names.length) return null;
  return html`<p class="change"><b class=${word}>${words.counted(names.length, "topic")} ${word}</b>: ${names.slice(0, 12).map((name, i) => html`${i ? ", " : ""}<${TopicLink} name=${name} />`)}${names.length > 12 ? ` and ${words.number(names.length - 12)} more` : ""}</p>`;
}
