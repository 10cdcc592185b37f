// The time of this page, and how often it is painted.
import { signal } from "@preact/signals";

// Faster than that nobody reads, and a noisy cluster would keep every open tab busy.
export const PAINT_MS = 250;

// Moves once a second; ages and clocks on the page follow it.
export const now = signal(Date.now());

setInterval(() => {
  if (!document.hidden) now.value = Date.now();
}, 1000);
document.addEventListener("visibilitychange", () => {
  now.value = Date.now();
});

// Calls `paint` at once after a quiet time, then at most every PAINT_MS, and never loses the last.
export function paced(paint, everyMs = PAINT_MS) {
  let painted = -Infinity;
  let waiting = null;
  const run = () => {
    waiting = null;
    painted = performance.now();
    paint();
  };
  return () => {
    if (waiting !== null) return;
    const due = painted + everyMs - performance.now();
    if (due <= 0) run();
    else waiting = setTimeout(run, due);
  };
}
