// A stretch of the past in the browser: the groups at its beginning and what happened since, so that
// the topology at any moment of it is there without asking again.
import { useEffect, useState } from "preact/hooks";
import { ask, url } from "./api.mjs";
import { compare } from "./book.mjs";

const KEYFRAME = 256; // changes between two copies of everything
const MOST_PAGES = 5; // of 20,000 events each

const keyOf = (each) => `${each.cluster}\n${each.broker}`;

export class Past {
  constructor(first) {
    this.node = first.node;
    this.fromMs = first.from_ms;
    this.known = first.known;
    const partial = first.sources.filter((source) => source.partial).map((source) => `What was before the records of ${source.node} is not known: ${source.partial}`);
    this.doubts = [...new Set([...first.doubts, ...first.troubles, ...partial])];
    this.events = [];
    this.silences = [];
    this.keyframes = [{ index: 0, groups: new Map((first.groups ?? []).map((group) => [keyOf(group), group])) }];
    this._last = this.keyframes[0].groups;
    this._changes = 0;
    this.add(first);
  }

  add(page) {
    this.toMs = page.to_ms;
    this.complete = page.complete;
    this.silences.push(...page.silences);
    for (const event of page.events) {
      this.events.push({ ...event, key: `${page.node}:${event.seq}`, node: page.node });
      if (!("after" in event)) continue;
      if (++this._changes % KEYFRAME === 0) this.keyframes.push({ index: this.events.length - 1, groups: this._replayed(this.events.length - 1) });
    }
    return this;
  }

  // Those worth a line, of the first `count`: not counts of a minute, nor the end of what was told before.
  told(count = this.events.length) {
    return this.events.slice(0, count).filter(telling);
  }

  // How many events there were up to and with `ms`.
  count(ms) {
    let low = 0;
    let high = this.events.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.events[middle].ms <= ms) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // The groups after the first `count` events.
  _replayed(count) {
    const frame = this.keyframes.findLast((each) => each.index <= count);
    const groups = new Map(frame.groups);
    for (let i = frame.index; i < count; i++) put(groups, this.events[i]);
    return groups;
  }

  silenceAt(ms) {
    return this.silences.find((each) => each.from_ms <= ms && ms < (each.to_ms ?? Infinity)) ?? null;
  }

  // As tiles: those there are, and those that went since the beginning. `freshMs`: marked if changed since.
  at(ms, freshMs) {
    const count = this.count(ms);
    const groups = this._replayed(count);
    const blind = !this.known || this.silenceAt(ms) !== null;
    const latest = new Map();
    for (let i = count - 1; i >= 0; i--) {
      const event = this.events[i];
      if (!("after" in event)) continue;
      const key = keyOf(event);
      if (!latest.has(key)) latest.set(key, event);
    }
    const tiles = [];
    for (const [key, group] of groups) {
      const event = latest.get(key);
      tiles.push({ key, ...judged(group, blind), fresh: event !== undefined && ms - event.ms <= freshMs });
    }
    for (const [key, event] of latest) {
      if (event.after !== null || groups.has(key)) continue;
      tiles.push({ key, cluster: event.cluster, broker: event.broker, members: [], topics: null, zone: null, gone: true, ms: event.ms, level: event.alarming ? "bad" : "gone", state: event.text, fresh: ms - event.ms <= freshMs });
    }
    return tiles.sort((a, b) => compare(a.cluster, b.cluster) || compare(a.broker, b.broker));
  }

  // What was told of a group between two moments, the latest first.
  about(cluster, broker, fromMs, toMs) {
    return this.events
      .slice(this.count(fromMs), this.count(toMs))
      .filter((event) => event.broker === broker && event.cluster === cluster && telling(event))
      .reverse();
  }
}

const telling = (event) => event.kind !== "window" && event.type !== "RegistrationCompleted";

function put(groups, event) {
  if (!("after" in event)) return;
  if (event.after === null) groups.delete(keyOf(event));
  else groups.set(keyOf(event), event.after);
}

function judged(group, blind) {
  const members = Object.entries(group.members).map(([id, address]) => ({ id: Number(id), address }));
  const told = { cluster: group.cluster, broker: group.broker, zone: group.zone, topics: group.topics, members, gone: false };
  if (blind) return { ...told, level: "unknown", state: "believed; the node was no witness" };
  if (!members.some((member) => member.id === 0) && !group.acting_master) return { ...told, level: "bad", state: "no master" };
  if (group.unconfirmed.length) return { ...told, level: "warn", state: "not heard of since a restart" };
  return { ...told, level: "well", state: "confirmed" };
}

// {past, error, asking}. `from` and `to` as texts; null: not yet known.
export function usePast(from, to, node) {
  const [state, setState] = useState({ question: null, past: null, error: null, asking: true });
  const question = from === null ? null : JSON.stringify([from, to, node]);
  useEffect(() => {
    if (question === null) return undefined;
    const stop = new AbortController();
    const load = async () => {
      setState({ question, past: null, error: null, asking: true });
      try {
        let page = await ask(url("v1/history/window", { from, to, node }), { signal: stop.signal });
        const past = new Past(page);
        for (let pages = 1; !page.complete && pages < MOST_PAGES && page.events.length; pages++) {
          const after = `seq:${page.events.at(-1).seq}`;
          page = await ask(url("v1/history/window", { from: after, to, node: past.node, topology: "false" }), { signal: stop.signal });
          past.add(page);
        }
        setState({ question, past, error: null, asking: false });
      } catch (error) {
        if (error.name !== "AbortError") setState({ question, past: null, error, asking: false });
      }
    };
    load();
    return () => stop.abort();
  }, [question]);
  return state.question === question ? state : { past: null, error: null, asking: true };
}
