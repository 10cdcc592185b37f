// Where the reader is: view, selection and times, all of it in the address bar.
//
//   #/topic/orders?from=2026-11-18T03:00:00Z&to=2026-11-18T04:00:00Z
//
// Whoever gets the link sees the same. The part after # never reaches a server.
import { signal } from "@preact/signals";
import { paced } from "./clock.mjs";

export const VIEWS = [
  { id: "now", title: "Now" },
  { id: "feed", title: "Feed" },
  { id: "topic", title: "Topic" },
  { id: "broker", title: "Broker" },
  { id: "travel", title: "Time travel" },
  { id: "nodes", title: "Nodes" },
  { id: "doctor", title: "Doctor and guard" },
  { id: "replay", title: "Replay" },
];

// Kept when another view is opened, so that a time once chosen stays chosen.
const SHARED = ["from", "to", "node"];

const known = new Set(VIEWS.map((view) => view.id));

function read() {
  const [path, query = ""] = location.hash.slice(1).split("?");
  const [, view, ...rest] = path.split("/");
  return {
    view: known.has(view) ? view : "now",
    name: decoded(rest.join("/")),
    params: Object.fromEntries(new URLSearchParams(query)),
  };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a link that was cut is a name nobody has, not an error
  }
}

function written({ view, name, params }) {
  const query = new URLSearchParams(
    Object.entries(params).filter(([, value]) => value !== undefined && value !== null && value !== ""),
  ).toString();
  return `#/${view}${name ? "/" + encodeURIComponent(name) : ""}${query ? "?" + query : ""}`;
}

export const place = signal(read());

export function link(view, name = "", params = {}) {
  const kept = {};
  for (const key of SHARED) kept[key] = place.value.params[key];
  return written({ view, name, params: { ...kept, ...params } });
}

export function go(view, name = "", params = {}) {
  location.hash = link(view, name, params);
}

// Browsers refuse hundreds of changes of the address in a row, which dragging would make.
const write = paced(() => history.replaceState(null, "", written(place.value)));

// Change parameters of this view; no new entry in the browser's history.
export function change(params) {
  place.value = { ...place.value, params: { ...place.value.params, ...params } };
  write();
}

window.addEventListener("hashchange", () => {
  place.value = read();
});
