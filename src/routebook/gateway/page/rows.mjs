// A list of any length with a bounded number of elements: only what is in the window is there.
//
// It scrolls with the page (no scroll bar within a scroll bar), rows are as high as their text, and
// what the reader looks at stays where it is when rows are added above it.
import { html } from "./html.mjs";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

const BEYOND_PX = 300; // rendered above and below the window

function useWindow(list) {
  const [seen, setSeen] = useState({ top: 0, height: window.innerHeight });
  const look = () => {
    if (!list.current) return;
    const top = -list.current.getBoundingClientRect().top;
    const height = window.innerHeight;
    setSeen((before) => (Math.abs(before.top - top) < 1 && before.height === height ? before : { top, height }));
  };
  useEffect(() => {
    let asked = false;
    const ask = () => {
      if (asked) return;
      asked = true;
      requestAnimationFrame(() => {
        asked = false;
        look();
      });
    };
    window.addEventListener("scroll", ask, { passive: true });
    window.addEventListener("resize", ask);
    return () => {
      window.removeEventListener("scroll", ask);
      window.removeEventListener("resize", ask);
    };
  }, []);
  useLayoutEffect(look); // what is above the list may have grown
  return seen;
}

// `row(item, index)` renders one; `keyOf(item)` names it for as long as it is in the list.
export function Rows({ items, keyOf, row, estimate = 40, label, onEnd }) {
  const list = useRef(null);
  const heights = useRef(new Map());
  const anchor = useRef(null);
  const [, measuredAgain] = useState(0);
  const seen = useWindow(list);

  const offsets = new Float64Array(items.length + 1);
  for (let i = 0; i < items.length; i++) {
    offsets[i + 1] = offsets[i] + (heights.current.get(keyOf(items[i])) ?? estimate);
  }
  const first = before(offsets, seen.top - BEYOND_PX);
  const last = Math.min(items.length, before(offsets, seen.top + seen.height + BEYOND_PX) + 1);

  // The row at the upper edge of the window stays there, whatever was added or measured above it.
  useLayoutEffect(() => {
    const y = list.current.getBoundingClientRect().top;
    const held = anchor.current;
    let moved = 0;
    if (held !== null && y < 0) {
      const index = items.findIndex((item) => keyOf(item) === held.key);
      if (index >= 0) moved = y + offsets[index] - (held.y - (window.scrollY - held.scrollY));
      if (Math.abs(moved) > 0.5) window.scrollBy(0, moved);
      else moved = 0;
    }
    const at = Math.min(before(offsets, Math.max(0, moved - y)), items.length - 1);
    anchor.current = at < 0 ? null : { key: keyOf(items[at]), y: y - moved + offsets[at], scrollY: window.scrollY };
  });

  useLayoutEffect(() => {
    let changed = false;
    const shown = list.current.firstElementChild.children;
    for (let i = 0; i < shown.length; i++) {
      const item = items[first + i];
      if (item === undefined) break;
      const height = shown[i].offsetHeight;
      if (height && Math.abs((heights.current.get(keyOf(item)) ?? estimate) - height) > 0.5) {
        heights.current.set(keyOf(item), height);
        changed = true;
      }
    }
    if (changed) measuredAgain((times) => times + 1);
    // What left the list is forgotten, or a feed would remember for ever.
    if (heights.current.size > items.length * 2 + 200) {
      const present = new Set(items.map(keyOf));
      for (const key of heights.current.keys()) if (!present.has(key)) heights.current.delete(key);
    }
  });

  useEffect(() => {
    if (onEnd && last >= items.length) onEnd();
  }, [last, items.length]);

  return html`<div class="rows" ref=${list} style=${{ height: `${offsets[items.length]}px` }}>
    <div role="list" aria-label=${label} style=${{ transform: `translateY(${offsets[first]}px)` }}>
      ${items.slice(first, last).map(
        (item, i) => html`<div role="listitem" class="row" key=${keyOf(item)}>${row(item, first + i)}</div>`,
      )}
    </div>
  </div>`;
}

// The index of the row that lies at `y`.
function before(offsets, y) {
  let low = 0;
  let high = offsets.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (offsets[middle] <= y) low = middle;
    else high = middle - 1;
  }
  return Math.max(0, low);
}
