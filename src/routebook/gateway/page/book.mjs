// What the stream has told so far: nodes, their groups, the latest events. No signals, no network,
// so that it can be copied to another tab and tried without a browser.

export const MOST_EVENTS = 2000;
const MOST_DEPARTED = 500;
const DEPARTED_MS = 30 * 60_000;
// Nodes learn of a change one after the other. Less than that is no difference.
const SETTLE_MS = 3000;

export const keyOf = (group) => `${group.cluster}\n${group.broker}`;

export class Book {
  constructor() {
    this.overall = null; // {state, text, since}
    this.nodes = []; // as told; `at` is when each was so
    this.views = new Map(); // address of a node -> Map of groups
    this.events = []; // the latest first
    this.departed = new Map(); // key of a group -> the event with which it went
    this.differs = new Map(); // key of a group -> since when its nodes differ
    this.known = new Set();
    this.lastId = null;
    this.lost = null; // {text, at}: events that nobody will tell any more
    this.at = null; // when the stream last said something
  }

  // Structured clones lose the class, not the fields.
  static from(state) {
    return Object.assign(new Book(), state);
  }

  hear({ event, id, data }, atMs) {
    this.at = atMs;
    const told = data ? JSON.parse(data) : {};
    switch (event) {
      case "hello":
        this.lastId = told.id ?? this.lastId;
        return this;
      case "nodes":
        this.overall = { state: told.state, text: told.text, since: told.since };
        this.nodes = told.nodes.map((node) => ({ ...node, at: node.age_ms === null ? null : atMs - node.age_ms }));
        return this;
      case "groups":
        return this._groups(told, atMs);
      case "event":
        this.lastId = id ?? this.lastId;
        return this._event(told);
      case "bookmark":
        this.lastId = told.id ?? this.lastId;
        return this;
      case "lost":
        this.lost = { text: told.text, at: atMs };
        return this;
      default:
        return this;
    }
  }

  _groups({ address, groups, gone = [], first }, atMs) {
    if (first || !this.views.has(address)) this.views.set(address, new Map());
    const view = this.views.get(address);
    for (const group of groups) {
      view.set(keyOf(group), { ...group, at: atMs });
      this.departed.delete(keyOf(group));
    }
    for (const [cluster, broker] of gone) view.delete(keyOf({ cluster, broker }));
    return this;
  }

  // A summary of groups follows within a second; what an event says of members is so at once.
  _event(told) {
    const key = `${told.node}:${told.seq}`;
    if (this.known.has(key)) return this;
    this.known.add(key);
    this.events.unshift({ ...told, key, ms: Date.parse(told.at) });
    while (this.events.length > MOST_EVENTS) this.known.delete(this.events.pop().key);
    if (told.type === "BrokerRegistered") this.departed.delete(keyOf(told));
    if (told.type !== "BrokerLeft" || told.addresses === null) return this;
    const view = this.views.get(this.nodes.find((node) => node.node === told.node)?.address);
    const group = view?.get(keyOf(told));
    const left = group?.members.filter((member) => told.addresses[member.id] === member.address) ?? [];
    if (left.length) view.set(keyOf(told), { ...group, members: left });
    else view?.delete(keyOf(told));
    if (!Object.keys(told.addresses).length) this._depart(keyOf(told), told);
    return this;
  }

  _depart(key, told) {
    for (const view of this.views.values()) if (view.has(key)) return;
    this.departed.delete(key);
    this.departed.set(key, { cluster: told.cluster, broker: told.broker, text: told.text, cause: told.cause, alarming: told.alarming, ms: Date.parse(told.at) });
    if (this.departed.size > MOST_DEPARTED) this.departed.delete(this.departed.keys().next().value);
  }

  // The groups as all nodes see them together, those first that need somebody.
  groups(nowMs) {
    const up = this.nodes.filter((node) => node.state === "up" || node.state === "draining" || node.state === "starting");
    const upAt = new Set(up.map((node) => node.address));
    const named = new Map(this.nodes.map((node) => [node.address, node.node ?? node.address]));
    const merged = new Map();
    for (const [address, view] of this.views) {
      if (!named.has(address)) continue;
      for (const [key, group] of view) {
        const found = merged.get(key);
        if (found) found.by.push([address, group]);
        else merged.set(key, { key, cluster: group.cluster, broker: group.broker, by: [[address, group]] });
      }
    }
    const settled = up.filter((node) => node.state === "up" && this.views.has(node.address));
    const list = [];
    for (const each of merged.values()) list.push(this._judged(each, upAt, settled, named, nowMs));
    for (const [key, left] of this.departed) {
      if (nowMs - left.ms > DEPARTED_MS) this.departed.delete(key);
      else if (!merged.has(key)) list.push({ key, ...left, level: left.alarming ? "bad" : "gone", gone: true, members: [], topics: null, zone: null, state: left.text });
    }
    return list.sort((a, b) => RANK[a.level] - RANK[b.level] || compare(a.cluster, b.cluster) || compare(a.broker, b.broker));
  }

  _judged({ key, cluster, broker, by }, upAt, settled, named, nowMs) {
    const seen = by.filter(([address]) => upAt.has(address));
    const [, group] = seen[0] ?? by[0];
    const told = { key, cluster, broker, zone: group.zone, members: group.members, topics: group.topics, at: group.at, gone: false };
    if (!seen.length) return { ...told, level: "unknown", state: "unknown: the nodes that know it do not answer" };
    const worst = seen.map(([, each]) => each.state).sort((a, b) => STATES.indexOf(b) - STATES.indexOf(a))[0];
    if (!group.members.some((member) => member.id === 0) && !group.acting_master) return { ...told, level: "bad", state: "no master" };
    if (worst === "held") return { ...told, level: "bad", state: "silent, held by the guard" };
    const lacking = settled.filter((node) => !seen.some(([address]) => address === node.address));
    const digests = new Set(seen.filter(([address]) => settled.some((node) => node.address === address)).map(([, each]) => each.digest));
    if (lacking.length || digests.size > 1) {
      if (!this.differs.has(key)) this.differs.set(key, nowMs);
      if (nowMs - this.differs.get(key) >= SETTLE_MS) {
        const state = lacking.length ? `missing on ${lacking.map((node) => named.get(node.address)).join(", ")}` : "nodes differ";
        return { ...told, level: "warn", state };
      }
    } else {
      this.differs.delete(key);
    }
    if (worst === "unconfirmed") return { ...told, level: "warn", state: "not heard of since a restart" };
    return { ...told, level: "well", state: "confirmed" };
  }
}

const RANK = { bad: 0, warn: 1, unknown: 2, gone: 3, well: 4 };
const STATES = ["confirmed", "unconfirmed", "held"];

export function compare(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}
