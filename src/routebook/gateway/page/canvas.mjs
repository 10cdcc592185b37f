// A drawing as wide as its place, sharp on every screen, in the colours of the page.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { html } from "./html.mjs";

const NAMES = ["paper", "panel", "ink", "muted", "line", "accent", "second", "good", "warn", "bad", "quiet"];

export function colours() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

const dark = window.matchMedia("(prefers-color-scheme: dark)");

// Says when the page becomes dark or light.
export function useScheme() {
  const [scheme, setScheme] = useState(dark.matches);
  useEffect(() => {
    const changed = () => setScheme(dark.matches);
    dark.addEventListener("change", changed);
    return () => dark.removeEventListener("change", changed);
  }, []);
  return scheme;
}

export function useWidth(element) {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const watch = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    watch.observe(element.current);
    return () => watch.disconnect();
  }, []);
  return width;
}

// `draw(context, width, height, colours)` in CSS pixels; again whenever one of `inputs` changes.
export function Canvas({ height, draw, inputs, label, ...others }) {
  const canvas = useRef(null);
  const width = useWidth(canvas);
  const scheme = useScheme();
  useLayoutEffect(() => {
    if (!width) return;
    const scale = window.devicePixelRatio || 1;
    canvas.current.width = width * scale;
    canvas.current.height = height * scale;
    const context = canvas.current.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    draw(context, width, height, colours());
  }, [width, height, scheme, ...inputs]);
  return html`<canvas ref=${canvas} style=${{ height: `${height}px` }} role="img" aria-label=${label} ...${others}></canvas>`;
}
