// What all views are made of.
import { useEffect, useRef } from "preact/hooks";
import { html } from "./html.mjs";
import { now } from "./clock.mjs";
import { link } from "./address.mjs";
import * as words from "./words.mjs";

const STALE_MS = 10_000;

// A part of the page that says how old it is, and greys when that is too old.
// `at`: when it was so, by this browser's clock; null: it was never known.
export function Panel({ title, at, staleMs = STALE_MS, error = null, asking = false, note, children, ...others }) {
  const old = at === null || at === undefined ? null : Math.max(0, now.value - at);
  const stale = old !== null && (old > staleMs || (error !== null && old > 2000));
  let told = "";
  if (old !== null) told = stale ? `as of ${words.age(old)}` : words.age(old);
  else if (error === null) told = asking ? "asking" : "unknown";
  return html`<section class=${`panel ${stale ? "stale" : ""}`} ...${others}>
    <header>
      <h2>${title}</h2>
      ${note ? html`<span class="muted small">${note}</span>` : null}
      ${at === undefined ? null : html`<span class="age">${told}</span>`}
    </header>
    ${error ? html`<p class="why" role="status">${sentence(error.message)}</p>` : null}
    ${children}
  </section>`;
}

export function Empty({ children }) {
  return html`<p class="empty">${children}</p>`;
}

export function Say({ sentence: said, more, level = "" }) {
  return html`<div class="say">
    <h1 class=${`sentence ${level}`} aria-live="polite">${words.plain(said)}</h1>
    ${more ? html`<p class="muted">${words.plain(more)}</p>` : null}
  </div>`;
}

export function Dot({ level = "", title }) {
  return html`<i class=${`dot ${level}`} role="img" aria-label=${title ?? (level || "well")} title=${title}></i>`;
}

export function BrokerLink({ name, params }) {
  return html`<a href=${link("broker", name, params)}>${name}</a>`;
}

export function TopicLink({ name, params }) {
  return html`<a href=${link("topic", name, params)}>${name}</a>`;
}

export function Time({ ms }) {
  if (ms === null || ms === undefined) return html`<span class="muted">unknown</span>`;
  return html`<time datetime=${words.iso(ms)} title=${words.iso(ms)}>${words.moment(ms, now.value)}</time>`;
}

// Columns: {name, cell(row), number, head}. On a phone each row is a list.
export function Table({ columns, rows, keyOf, caption }) {
  return html`<table>
    ${caption ? html`<caption class="hidden-text">${caption}</caption>` : null}
    <thead><tr>${columns.map((column) => html`<th scope="col" class=${column.number ? "number" : ""}>${column.name}</th>`)}</tr></thead>
    <tbody>
      ${rows.map((row, index) => html`<tr key=${keyOf ? keyOf(row) : index}>
        ${columns.map((column) =>
          column.head
            ? html`<th scope="row">${column.cell(row)}</th>`
            : html`<td data-name=${column.name} class=${column.number ? "number" : ""}>${column.cell(row)}</td>`,
        )}
      </tr>`)}
    </tbody>
  </table>`;
}

export function Facts({ facts }) {
  return html`<dl class="facts">
    ${facts.map(([name, value, level]) => html`<div><dt>${name}</dt><dd class=${level ?? ""}>${value}</dd></div>`)}
  </dl>`;
}

// A dialog over everything else while `open`; Escape closes it.
export function Dialog({ open, onClose, label, children }) {
  const dialog = useRef(null);
  useEffect(() => {
    if (open && !dialog.current.open) dialog.current.showModal();
    if (!open && dialog.current.open) dialog.current.close();
  }, [open]);
  return html`<dialog ref=${dialog} aria-label=${label} onClose=${onClose}>${open ? children : null}</dialog>`;
}

// First letter large, full stop at the end.
export function sentence(text) {
  const said = text.trim();
  if (!said) return "";
  const end = /[.!?]$/.test(said) ? "" : ".";
  return said[0].toUpperCase() + said.slice(1) + end;
}

// Text in which commands stand between backticks.
export function Prose({ text }) {
  return text.split("`").map((part, index) => (index % 2 ? html`<code>${part}</code>` : part));
}
