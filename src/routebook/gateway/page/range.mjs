// From when to when: in the address bar, and kept from view to view.
import { html } from "./html.mjs";
import { change, place } from "./address.mjs";
import * as words from "./words.mjs";

const QUICK = ["15m", "1h", "6h", "1d"];

export function RangeForm({ live = "Live" }) {
  const { from = "", to = "" } = place.value.params;
  const set = (event) => {
    event.preventDefault();
    const { begin, end } = event.target.elements;
    for (const input of [begin, end]) {
      const wrong = input.value.trim() !== "" && words.parsed(input.value) === null;
      input.setCustomValidity(wrong ? "A time such as 2026-11-18T03:12:04Z, 03:12, 15m or now" : "");
      if (!input.reportValidity()) return;
    }
    change({ from: begin.value.trim(), to: end.value.trim() });
  };
  return html`<form class="range" onSubmit=${set}>
    <button type="button" class=${from ? "" : "chosen"} aria-pressed=${!from} onClick=${() => change({ from: null, to: null })}>${live}</button>
    ${QUICK.map((text) => html`<button type="button" key=${text} class=${from === text && !to ? "chosen" : ""} aria-pressed=${from === text && !to} onClick=${() => change({ from: text, to: null })}>${text}</button>`)}
    <label>from <input name="begin" key=${from} defaultValue=${from} placeholder="2026-11-18T03:12Z, 1h" spellcheck="false" autocomplete="off" onInput=${(event) => event.target.setCustomValidity("")} /></label>
    <label>to <input name="end" key=${to} defaultValue=${to} placeholder="now" spellcheck="false" autocomplete="off" onInput=${(event) => event.target.setCustomValidity("")} /></label>
    <button>Show</button>
  </form>`;
}
