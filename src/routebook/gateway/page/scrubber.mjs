// The slider over the past that Time travel and Replay share.
import { useRef } from "preact/hooks";
import { html } from "./html.mjs";
import { change, place } from "./address.mjs";
import { useAnswer } from "./api.mjs";
import { now } from "./clock.mjs";
import { compare } from "./book.mjs";
import { usePast } from "./past.mjs";
import { TimeStrip } from "./strips.mjs";
import { Time } from "./parts.mjs";
import * as words from "./words.mjs";

const STEPS = 2000;

// Which past is looked at, and which moment of it: all from the address bar.
export function useChosenPast(span = null) {
  const { params } = place.value;
  const known = useAnswer("v1/history");
  const sources = (known.body?.sources ?? []).toSorted((one, other) => compare(one.node, other.node));
  const source = sources.find((each) => each.node === params.node) ?? sources[0] ?? null;
  let from = null;
  if (source) from = params.from || (span ? words.iso(Math.max(Date.parse(source.from), Date.now() - span)) : source.from);
  const stable = useStable(from, `${source?.node} ${params.from}`);
  const loaded = usePast(stable, params.to || "now", source?.node);
  const { past } = loaded;
  const fromMs = past?.fromMs ?? null;
  const toMs = past ? Math.max(past.toMs, past.fromMs + 1) : null;
  const asked = words.parsed(params.at);
  const atMs = past ? Math.min(toMs, Math.max(fromMs, asked ?? toMs)) : null;
  const marks = { a: inside(words.parsed(params.a), past), b: inside(words.parsed(params.b), past) };
  return { ...loaded, error: loaded.error ?? known.error, sources, source, fromMs, toMs, atMs, marks };
}

// "An hour ago" moves with the clock; what was loaded for it does not.
function useStable(value, key) {
  const kept = useRef({ key: null, value: null });
  if (kept.current.key !== key || kept.current.value === null) kept.current = { key, value };
  return kept.current.value;
}

function inside(ms, past) {
  return past === null || ms === null || ms < past.fromMs || ms > past.toMs ? null : ms;
}

export const goTo = (ms) => change({ at: words.iso(Math.round(ms)) });

export function Scrubber({ chosen, children }) {
  const { past, fromMs, toMs, atMs, marks } = chosen;
  // In steps, not in ms: the last step is the end itself.
  const step = (toMs - fromMs) / STEPS;
  const keys = (event) => {
    if (!event.shiftKey || (event.key !== "ArrowLeft" && event.key !== "ArrowRight")) return;
    event.preventDefault();
    goTo(Math.min(toMs, Math.max(fromMs, atMs + (event.key === "ArrowLeft" ? -10 : 10) * step)));
  };
  const silence = past.silenceAt(atMs);
  return html`<div class="scrubber">
    <p class="moment" id="moment">${words.day(atMs)} ${words.clock(atMs)} <span class="muted small">UTC${now.value - atMs > 1000 ? `, ${words.age(now.value - atMs)}` : ""}</span></p>
    ${silence ? html`<p class="warn small">${silence.text}</p>` : null}
    <div class="strip"><${TimeStrip} events=${past.events} silences=${past.silences} fromMs=${fromMs} toMs=${toMs} atMs=${atMs} marks=${marks} onPick=${goTo} label="Events over time" /></div>
    <input type="range" id="slider" min="0" max=${STEPS} value=${Math.round((atMs - fromMs) / step)} aria-label="Moment" aria-valuetext=${`${words.day(atMs)} ${words.clock(atMs)} UTC`} onInput=${(event) => goTo(fromMs + Number(event.target.value) * step)} onKeyDown=${keys} />
    <div class="ends"><${Time} ms=${fromMs} /><${Time} ms=${toMs} /></div>
    <div class="controls">${children}</div>
  </div>`;
}

export function NodeChoice({ chosen }) {
  if (chosen.sources.length < 2) return null;
  return html`<label class="small">as <select aria-label="Node" value=${chosen.source?.node} onChange=${(event) => change({ node: event.target.value })}>
    ${chosen.sources.map((each) => html`<option key=${each.node} value=${each.node}>${each.node}</option>`)}
  </select> saw it</label>`;
}

export function Doubts({ past }) {
  const doubts = [...past.doubts];
  if (!past.known && !doubts.length) doubts.push("What the node believed at the beginning is not known.");
  if (!past.complete) doubts.push(`More happened than fits: this goes to ${words.moment(past.toMs)}. Choose a shorter time.`);
  return doubts.map((text) => html`<p class="warn small" key=${text}>${text}</p>`);
}
