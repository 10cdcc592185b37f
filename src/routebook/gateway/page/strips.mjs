// What happened along a line of time.
import { html } from "./html.mjs";
import { Canvas } from "./canvas.mjs";

const HEIGHT = 44;

// How many events in each of `bars` equal parts, alarming ones from below.
export function counts(events, fromMs, toMs, bars) {
  const all = new Uint32Array(bars);
  const alarming = new Uint32Array(bars);
  const width = (toMs - fromMs) / bars;
  for (const event of events) {
    const index = Math.min(bars - 1, Math.floor((event.ms - fromMs) / width));
    if (index < 0 || event.ms > toMs) continue;
    all[index]++;
    if (event.alarming) alarming[index]++;
  }
  return { all, alarming };
}

// A square root: one event is seen beside a storm of thousands.
const tall = (count, most, height) => (count ? Math.max(2, (Math.sqrt(count) / Math.sqrt(most)) * height) : 0);

export function Bars({ times, fromMs, toMs, bars, label }) {
  const draw = (context, width, height, colour) => {
    const { all, alarming } = counts(times, fromMs, toMs, bars);
    const most = Math.max(1, ...all);
    const step = width / bars;
    context.fillStyle = colour.line;
    context.fillRect(0, height - 1, width, 1);
    for (let i = 0; i < bars; i++) {
      context.fillStyle = colour.quiet;
      const total = tall(all[i], most, height - 2);
      context.fillRect(i * step + 0.5, height - 1 - total, Math.max(1, step - 1), total);
      context.fillStyle = colour.bad;
      const bad = Math.min(total, tall(alarming[i], most, height - 2));
      context.fillRect(i * step + 0.5, height - 1 - bad, Math.max(1, step - 1), bad);
    }
  };
  return html`<${Canvas} height=${HEIGHT} draw=${draw} inputs=${[times, Math.floor(fromMs / 1000), Math.floor(toMs / 1000), bars]} label=${label} />`;
}

export function hatched(context, x, width, height, colour) {
  context.save();
  context.beginPath();
  context.rect(x, 0, width, height);
  context.clip();
  context.strokeStyle = colour;
  context.lineWidth = 1;
  for (let at = x - height; at < x + width; at += 6) {
    context.beginPath();
    context.moveTo(at, height);
    context.lineTo(at + height, 0);
    context.stroke();
  }
  context.restore();
}

// Events as bars, times without a witness hatched, marks as lines with their letter.
export function TimeStrip({ events, silences, fromMs, toMs, atMs, marks, onPick, label }) {
  const draw = (context, width, height, colour) => {
    const x = (ms) => ((ms - fromMs) / Math.max(1, toMs - fromMs)) * width;
    for (const silence of silences) {
      const begin = Math.max(0, x(silence.from_ms));
      hatched(context, begin, Math.max(2, Math.min(width, x(silence.to_ms ?? toMs)) - begin), height, colour.quiet);
    }
    const bars = Math.max(20, Math.floor(width / 5));
    const { all, alarming } = counts(events, fromMs, toMs, bars);
    const most = Math.max(1, ...all);
    const step = width / bars;
    for (let i = 0; i < bars; i++) {
      const total = tall(all[i], most, height - 4);
      context.fillStyle = colour.accent;
      context.globalAlpha = 0.55;
      context.fillRect(i * step + 0.5, height - 1 - total, step - 1, total);
      context.globalAlpha = 1;
      context.fillStyle = colour.bad;
      const bad = Math.min(total, tall(alarming[i], most, height - 4));
      context.fillRect(i * step + 0.5, height - 1 - bad, step - 1, bad);
    }
    context.fillStyle = colour.line;
    context.fillRect(0, height - 1, width, 1);
    const between = [marks.a, marks.b].filter((ms) => ms !== null).map(x).sort((a, b) => a - b);
    if (between.length === 2) {
      context.fillStyle = colour.second;
      context.globalAlpha = 0.12;
      context.fillRect(between[0], 0, between[1] - between[0], height);
      context.globalAlpha = 1;
    }
    context.font = "600 11px system-ui, sans-serif";
    for (const [letter, ms] of [["A", marks.a], ["B", marks.b]]) {
      if (ms === null) continue;
      context.fillStyle = colour.second;
      context.fillRect(x(ms) - 1, 0, 2, height);
      context.fillText(letter, x(ms) + (x(ms) > width - 14 ? -11 : 4), 11);
    }
    context.fillStyle = colour.ink;
    context.fillRect(x(atMs) - 1, 0, 2, height);
  };
  const pick = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    onPick(fromMs + ((event.clientX - box.left) / box.width) * (toMs - fromMs));
  };
  const drag = (event) => {
    if (event.buttons & 1) pick(event);
  };
  return html`<${Canvas} height=${64} draw=${draw} inputs=${[events, silences, fromMs, toMs, Math.round(atMs), marks.a, marks.b]} label=${label} onPointerDown=${pick} onPointerMove=${drag} />`;
}

// Stretches of time: {fromMs, toMs, level: "well" | "warn" | "bad" | "unknown" | "none"}.
export function Stretches({ stretches, fromMs, toMs, atMs = null, label, height = 22 }) {
  const draw = (context, width, tallness, colour) => {
    const x = (ms) => Math.max(0, Math.min(width, ((ms - fromMs) / Math.max(1, toMs - fromMs)) * width));
    context.fillStyle = colour.panel;
    context.fillRect(0, 0, width, tallness);
    for (const { fromMs: begin, toMs: end, level } of stretches) {
      const left = x(begin);
      const wide = Math.max(2, x(end ?? toMs) - left);
      if (level === "unknown") {
        hatched(context, left, wide, tallness, colour.quiet);
        continue;
      }
      context.fillStyle = { well: colour.good, warn: colour.warn, bad: colour.bad, none: colour.panel }[level];
      context.globalAlpha = 0.75;
      context.fillRect(left, 0, Math.max(1, wide - 1), tallness);
      context.globalAlpha = 1;
    }
    if (atMs !== null) {
      context.fillStyle = colour.ink;
      context.fillRect(x(atMs) - 1, 0, 2, tallness);
    }
  };
  return html`<${Canvas} height=${height} draw=${draw} inputs=${[stretches, fromMs, toMs, atMs]} label=${label} />`;
}

// Rows of groups, columns of time: how much happened to each, and when.
export function HeatMap({ rows, fromMs, toMs, atMs, label }) {
  const line = 18;
  const draw = (context, width, height, colour) => {
    const names = Math.min(170, width * 0.3);
    const columns = Math.max(20, Math.floor((width - names) / 8));
    const step = (width - names) / columns;
    context.font = "12px system-ui, sans-serif";
    rows.forEach((row, index) => {
      const top = index * line;
      const { all, alarming } = counts(row.events, fromMs, toMs, columns);
      context.fillStyle = colour.muted;
      context.fillText(shortened(context, row.name, names - 12), 0, top + 12);
      context.fillStyle = colour.panel;
      context.fillRect(names, top, width - names, line - 2);
      for (let i = 0; i < columns; i++) {
        if (!all[i]) continue;
        context.fillStyle = alarming[i] ? colour.bad : colour.accent;
        context.globalAlpha = Math.min(1, 0.3 + 0.2 * Math.log2(1 + all[i]));
        context.fillRect(names + i * step, top, Math.max(2, step - 1), line - 2);
        context.globalAlpha = 1;
      }
    });
    const x = names + ((atMs - fromMs) / Math.max(1, toMs - fromMs)) * (width - names);
    context.fillStyle = colour.ink;
    context.fillRect(x - 1, 0, 2, height);
  };
  return html`<${Canvas} height=${Math.max(line, rows.length * line)} draw=${draw} inputs=${[rows, fromMs, toMs, Math.round(atMs)]} label=${label} />`;
}

function shortened(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let length = text.length;
  while (length > 1 && context.measureText(`${text.slice(0, length)}…`).width > width) length--;
  return `${text.slice(0, length)}…`;
}
