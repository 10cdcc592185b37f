// Times, spans and counts as words. Times are UTC, as everywhere in Routebook.

const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1000],
];

// 3.2 s, 48 s, 4 min 10 s, 2 h 3 min, 5 d 1 h: the two largest units.
export function span(ms) {
  if (ms === null || ms === undefined) return "unknown";
  const length = Math.abs(ms);
  if (length < 1000) return `${Math.round(length)} ms`;
  if (length < 10_000) return `${(Math.floor(length / 100) / 10).toString()} s`;
  const first = UNITS.findIndex(([, size]) => length >= size);
  const [unit, size] = UNITS[first];
  const whole = Math.floor(length / size);
  const next = UNITS[first + 1];
  const rest = next ? Math.floor((length - whole * size) / next[1]) : 0;
  return rest ? `${whole} ${unit} ${rest} ${next[0]}` : `${whole} ${unit}`;
}

// As span, in whole seconds: an age that is read at a glance.
export function age(ms) {
  if (ms === null || ms === undefined) return "unknown";
  return ms < 1000 ? "now" : `${span(Math.floor(Math.max(0, ms) / 1000) * 1000)} ago`;
}

export function clock(ms, { millis = false } = {}) {
  return new Date(ms).toISOString().slice(11, millis ? 23 : 19);
}

export function day(ms) {
  return new Date(ms).toISOString().slice(0, 10);
}

// 03:12:04 today, 2026-11-17 03:12:04 on another day.
export function moment(ms, nowMs = Date.now()) {
  if (ms === null || ms === undefined) return "unknown";
  return day(ms) === day(nowMs) ? clock(ms) : `${day(ms)} ${clock(ms)}`;
}

export function iso(ms) {
  return new Date(ms).toISOString();
}

// A text of the gateway, with its moments as they are written on this page.
export function plain(text) {
  return text.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, (found) => moment(Date.parse(found)));
}

export function counted(count, noun, plural = noun + "s") {
  if (count === null || count === undefined) return `${plural} unknown`;
  return `${count.toLocaleString("en")} ${count === 1 ? noun : plural}`;
}

// "all 3 nodes", "both nodes", "1 node"
export function allOf(count, noun) {
  if (count === 2) return `both ${noun}s`;
  return count === 1 ? `1 ${noun}` : `all ${counted(count, noun)}`;
}

export function number(count) {
  return count === null || count === undefined ? "unknown" : count.toLocaleString("en");
}

// a, b and c; after `most` of them: a, b, c and 4 more.
export function listed(names, most = 3) {
  if (names.length === 0) return "";
  if (names.length === 1) return names[0];
  const shown = names.slice(0, most);
  if (names.length > most) return `${shown.join(", ")} and ${names.length - most} more`;
  return `${shown.slice(0, -1).join(", ")} and ${shown.at(-1)}`;
}

// RW-, R--: 4 read, 2 write, 1 inherit.
export function permission(perm) {
  if (perm === null || perm === undefined) return "unknown";
  return `${perm & 4 ? "R" : "-"}${perm & 2 ? "W" : "-"}${perm & 1 ? "X" : "-"}`;
}

const DURATION = /^-?((\d+)w)?((\d+)d)?((\d+)h)?((\d+)m)?((\d+)s)?$/;

// What a reader may write for a time: ISO 8601, 08:30, 15m (ago), now. null: none of these.
export function parsed(text, nowMs = Date.now()) {
  const said = (text ?? "").trim();
  if (said === "") return null;
  if (said === "now") return nowMs;
  const found = DURATION.exec(said);
  if (found && /\d/.test(said)) {
    const [, , w = 0, , d = 0, , h = 0, , m = 0, , s = 0] = found;
    return nowMs - (((+w * 7 + +d) * 24 + +h) * 3600 + +m * 60 + +s) * 1000;
  }
  const time = /^(\d\d):(\d\d)(?::(\d\d))?Z?$/.exec(said);
  if (time) {
    const [, hours, minutes, seconds = "00"] = time;
    const today = Date.parse(`${day(nowMs)}T${hours}:${minutes}:${seconds}Z`);
    return Number.isNaN(today) ? null : today > nowMs ? today - 86_400_000 : today;
  }
  const zoned = /(Z|[+-]\d\d:?\d\d)$/.test(said) || /^\d{4}-\d\d-\d\d$/.test(said);
  const read = Date.parse(zoned ? said : said.replace(" ", "T") + "Z");
  return Number.isNaN(read) ? null : read;
}
