// The stream of this browser, and what of it is painted.
import { batch, signal } from "@preact/signals";
import { Book } from "./book.mjs";
import { paced } from "./clock.mjs";
import { electLeader, leading } from "./leader.mjs";
import { listen } from "./sse.mjs";
import { url } from "./api.mjs";

const FIRST_EVENTS = 500;
const RETRY_MS = [500, 1000, 2000, 4000, 8000];

// {state: "connecting" | "live" | "cut", since, why}: how this browser hears the gateway.
export const line = signal({ state: "connecting", since: Date.now(), why: "" });
export const overall = signal(null);
export const nodes = signal([]);
export const groups = signal([]);
export const events = signal([]);
export const lost = signal(null);
export const heardAt = signal(null);
export const paused = signal(false);
// Events that came while the page was paused.
export const waiting = signal(0);

let book = new Book();
let said = line.value; // what the leader knows of the line

const paint = paced(() => {
  const unseen = events.value.length ? book.events.findIndex((event) => event.key === events.value[0].key) : book.events.length;
  if (paused.value) {
    waiting.value = unseen < 0 ? book.events.length : unseen;
    return;
  }
  batch(() => {
    overall.value = book.overall;
    nodes.value = book.nodes;
    groups.value = book.groups(Date.now());
    if (unseen !== 0) events.value = book.events.slice();
    lost.value = book.lost;
    heardAt.value = book.at;
    waiting.value = 0;
  });
});
setInterval(paint, 1000); // a difference that lasts becomes one by the time alone

export function pause(yes) {
  paused.value = yes;
  paint();
}

function hear(frame, atMs) {
  book.hear(frame, atMs);
  paint();
}

function lineIs(state, why = "") {
  if (said.state !== state || said.why !== why) said = { state, why, since: Date.now() };
  line.value = said;
  tell({ kind: "line", line: said });
}

// Ends the wait for the next attempt, and a stream that may be dead.
let hurry = () => {};

async function lead(stop) {
  let failures = 0;
  synced = true;
  while (!stop.aborted) {
    let retryMs = null;
    let why = "the gateway ended the stream";
    const attempt = new AbortController();
    hurry = () => attempt.abort();
    try {
      await listen(url("v1/events", { state: "true", since: book.lastId, last: book.lastId ? null : FIRST_EVENTS }), {
        signal: AbortSignal.any([stop, attempt.signal]),
        opened: () => {
          failures = 0;
          lineIs("live");
        },
        heard: (frame) => {
          const atMs = Date.now();
          if (said.state !== "live") lineIs("live");
          if (frame.event === "bye") retryMs = JSON.parse(frame.data).retry_ms;
          hear(frame, atMs);
          tell({ kind: "frame", frame, atMs });
        },
      });
    } catch (error) {
      why = error.name === "AbortError" ? "the gateway fell silent" : error.message;
      if (error.name === "TypeError") why = "the connection to the gateway broke";
      retryMs = error.retryMs ?? null;
    }
    if (stop.aborted) return;
    if (said.state !== "cut") lineIs("cut", why);
    const wait = attempt.signal.aborted ? 0 : retryMs ?? RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)];
    await new Promise((resolve) => {
      hurry = resolve;
      setTimeout(resolve, wait * (0.8 + 0.4 * Math.random()));
    });
  }
}

// A new tab knows nothing until the leader has told it everything once.
let synced = false;

const tell = electLeader({
  lead,
  state: () => ({ book: { ...book }, line: said }),
  told: (message) => {
    if (message.kind === "all" && !synced) {
      synced = true;
      book = Book.from(message.state.book);
      said = message.state.line;
      line.value = said;
      paint();
    } else if (message.kind === "frame" && synced) {
      hear(message.frame, message.atMs);
    } else if (message.kind === "line") {
      said = message.line;
      line.value = said;
    }
  },
});

const greeting = setInterval(() => {
  if (synced) clearInterval(greeting);
  else tell({ kind: "hello" });
}, 500);

// A dead connection is noticed after a while only; the browser knows sooner.
window.addEventListener("offline", () => lineIs("cut", "this browser is offline"));
window.addEventListener("online", () => {
  if (leading.value) hurry();
});
