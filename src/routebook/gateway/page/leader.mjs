// One tab of a browser asks the gateway, and tells the others.
//
// A browser opens six connections to a host and no more: with a stream for each tab the seventh would
// hang in silence. So the tabs elect a leader by a lock (Web Locks), and it tells the others what it
// hears (BroadcastChannel). A tab that is seen takes the lead from one that is not, since browsers
// slow down what nobody looks at.
import { signal } from "@preact/signals";

const NAME = `routebook ${new URL(".", location).pathname}`;
const ALIVE_MS = 1000;
const SILENT_MS = 4 * ALIVE_MS;

export const leading = signal(false);

// `lead(stop)` asks until `stop` (an AbortSignal) says so; `state()` is what a new tab is told;
// `told(message)` hears the leader. Returns `tell(message)`, for the leader.
export function electLeader({ lead, state, told }) {
  if (!navigator.locks) return leadWhileSeen(lead);
  const channel = new BroadcastChannel(NAME);
  let lastSeenLeader = 0; // when one that is looked at last said that it is there
  let attempt = null; // what ends this tab's wait for the lead, or its lead

  channel.onmessage = ({ data }) => {
    if (data.kind === "hello") {
      if (leading.value) channel.postMessage({ kind: "all", state: state() });
    } else if (data.kind === "alive") {
      if (!data.hidden) lastSeenLeader = performance.now();
    } else {
      told(data);
    }
  };

  const hold = async (stop) => {
    leading.value = true;
    const beat = () => channel.postMessage({ kind: "alive", hidden: document.hidden });
    beat();
    const timer = setInterval(beat, ALIVE_MS);
    lead(stop);
    await new Promise((resolve) => stop.addEventListener("abort", resolve, { once: true }));
    clearInterval(timer);
    leading.value = false;
  };

  // Waits for the lead, or takes it from whoever has it. A tab has one attempt at a time.
  const compete = async (steal) => {
    const mine = new AbortController();
    attempt = mine;
    try {
      await navigator.locks.request(NAME, steal ? { steal: true } : { signal: mine.signal }, () => hold(mine.signal));
    } catch {
      // Another tab took the lead, or this one does not wait any longer.
    }
    mine.abort();
    if (attempt === mine) setTimeout(() => compete(false), 0);
  };

  const takeOver = () => {
    if (document.hidden || leading.value || performance.now() - lastSeenLeader < SILENT_MS) return;
    const waiting = attempt;
    compete(true);
    waiting?.abort();
  };
  document.addEventListener("visibilitychange", takeOver);
  setInterval(takeOver, SILENT_MS);

  compete(false);
  return (message) => channel.postMessage(message);
}

// Over plain HTTP from another machine there are no locks. Then each tab asks while it is looked at.
function leadWhileSeen(lead) {
  let stop = null;
  const look = () => {
    if (!document.hidden && stop === null) {
      stop = new AbortController();
      leading.value = true;
      lead(stop.signal);
    } else if (document.hidden && stop !== null) {
      stop.abort();
      stop = null;
      leading.value = false;
    }
  };
  document.addEventListener("visibilitychange", look);
  look();
  return () => {};
}
