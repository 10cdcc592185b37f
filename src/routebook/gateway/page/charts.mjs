// Lines and bars over time, by uPlot, in the colours of the page.
import { useLayoutEffect, useRef } from "preact/hooks";
import { html } from "./html.mjs";
import { colours, useScheme, useWidth } from "./canvas.mjs";

const FONT = "11px system-ui, sans-serif";

// `series`: [{label, colour (a name), values, bars}]; `times` in ms; `unit(value)` writes a tick.
export function Chart({ times, series, height = 150, unit = String, label, ordinal = null }) {
  const place = useRef(null);
  const width = useWidth(place);
  const scheme = useScheme();
  useLayoutEffect(() => {
    if (!width) return undefined;
    const colour = colours();
    const axis = { stroke: colour.muted, font: FONT, grid: { stroke: colour.line, width: 1 }, ticks: { show: false } };
    const plot = new window.uPlot(
      {
        width,
        height,
        padding: [8, 8, 0, 0],
        legend: { show: false },
        cursor: { show: false },
        tzDate: (seconds) => new Date(seconds * 1000 + new Date().getTimezoneOffset() * 60_000),
        scales: { x: { time: ordinal === null }, y: { range: (_, low, high) => [0, Math.max(1, high * 1.08)] } },
        axes: [
          ordinal === null ? { ...axis, grid: { show: false } } : { ...axis, grid: { show: false }, splits: () => ordinal.map((_, i) => i), values: () => ordinal, rotate: 0 },
          { ...axis, size: 52, values: (_, ticks) => ticks.map(unit) },
        ],
        series: [
          {},
          ...series.map((each) => ({
            label: each.label,
            stroke: colour[each.colour],
            fill: each.bars ? colour[each.colour] + "99" : undefined,
            width: each.bars ? 0 : 1.5,
            paths: each.bars ? window.uPlot.paths.bars({ size: [0.8, 60] }) : each.dots ? () => null : undefined,
            points: { show: Boolean(each.dots), size: 5, fill: colour[each.colour], stroke: colour[each.colour] },
          })),
        ],
      },
      [ordinal === null ? times.map((ms) => ms / 1000) : times, ...series.map((each) => each.values)],
      place.current,
    );
    return () => plot.destroy();
  }, [width, height, scheme, times, ...series.map((each) => each.values)]);
  return html`<div>
    <div class="chart" ref=${place} role="img" aria-label=${label} style=${{ height: `${height}px` }}></div>
    <p class="legend">${series.map((each) => html`<span><i class=${`swatch ${each.colour}`}></i>${each.label}</span>`)}</p>
  </div>`;
}
