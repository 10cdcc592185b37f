// The frame around the views: navigation, the state of the line, keys.
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { html } from "./html.mjs";
import { VIEWS, go, link, place } from "./address.mjs";
import { now } from "./clock.mjs";
import { line, pause, paused, waiting } from "./live.mjs";
import { Dialog, sentence } from "./parts.mjs";
import * as words from "./words.mjs";
import { Now } from "./now.mjs";
import { Feed } from "./feed.mjs";
import { Topic } from "./topic.mjs";
import { Broker } from "./broker.mjs";
import { Travel } from "./travel.mjs";
import { Nodes } from "./nodes.mjs";
import { Doctor } from "./doctor.mjs";
import { Replay } from "./replay.mjs";

const SHOWN = { now: Now, feed: Feed, topic: Topic, broker: Broker, travel: Travel, nodes: Nodes, doctor: Doctor, replay: Replay };

const KEYS = [
  ["1 to 8", "a view"],
  ["/", "search"],
  ["p", "pause and go on"],
  ["j, k", "next and previous line"],
  ["Enter", "open it"],
  ["← →", "move the slider; with Shift ten times as far"],
  ["Esc", "close"],
  ["?", "these keys"],
];

function Line() {
  const { state, since, why } = line.value;
  const old = now.value - since;
  if (state === "live") return html`<span><i class="dot"></i> live</span>`;
  if (state === "connecting") return html`<span><i class="dot unknown"></i> connecting</span>`;
  return html`<span class="warn" role="status"><i class="dot warn"></i> ${sentence(why)} What you see is as of ${words.age(old)}.</span>`;
}

function Side({ help }) {
  const { view } = place.value;
  return html`<div class="side">
    <a class="brand" href=${link("now")}>
      <svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2" aria-hidden="true"><path d="M4 5h6a3 3 0 0 1 3 3v11a3 3 0 0 0-3-2H4zM20 5h-4a3 3 0 0 0-3 3M20 5v12h-4a3 3 0 0 0-3 2" /></svg>
      Routebook
    </a>
    <nav aria-label="Views">
      ${VIEWS.map(({ id, title }, index) => html`<a key=${id} href=${link(id)} aria-current=${id === view ? "page" : null}>${title}<kbd aria-hidden="true">${index + 1}</kbd></a>`)}
    </nav>
    <div class="link-state">
      <${Line} />
      <button type="button" id="pause" aria-pressed=${paused.value} onClick=${() => pause(!paused.value)}>
        ${paused.value ? `Go on${waiting.value ? ` (${words.counted(waiting.value, "event")})` : ""}` : "Pause"}
      </button>
      <button type="button" onClick=${help}>Keys</button>
    </div>
  </div>`;
}

// A name goes to its broker where one is known by it, else to the topic.
function Search() {
  const search = (event) => {
    event.preventDefault();
    const name = event.target.elements.name.value.trim();
    if (!name) return;
    const target = place.value.view === "broker" ? "broker" : "topic";
    go(target, "", { q: name });
    event.target.elements.name.blur();
  };
  return html`<form role="search" onSubmit=${search}>
    <input id="search" name="name" type="search" autocomplete="off" spellcheck="false" aria-label="Find a topic or broker" placeholder=${place.value.view === "broker" ? "Find a broker" : "Find a topic"} />
  </form>`;
}

function Page() {
  const [help, setHelp] = useState(false);
  useEffect(() => {
    const key = (event) => pressed(event, () => setHelp(true));
    window.addEventListener("keydown", key);
    return () => window.removeEventListener("keydown", key);
  }, []);
  const { view, name } = place.value;
  useEffect(() => {
    const { title } = VIEWS.find(({ id }) => id === view);
    document.title = name ? `${name} · ${title} · Routebook` : `${title} · Routebook`;
    window.scrollTo(0, 0);
  }, [view, name]);
  return html`<div class="frame">
    <${Side} help=${() => setHelp(true)} />
    <main class="main" id=${`view-${view}`}>
      <div class="top"><${Search} /><span class="utc">${words.day(now.value)} <b>${words.clock(now.value)}</b> UTC</span></div>
      <${SHOWN[view]} key=${`${view} ${name}`} name=${name} />
    </main>
    <${Dialog} open=${help} onClose=${() => setHelp(false)} label="Keys">
      <h2>Keys</h2>
      <dl>${KEYS.map(([keys, what]) => html`<dt>${keys}</dt><dd>${what}</dd>`)}</dl>
      <form method="dialog"><div class="controls"><button autofocus>Close</button></div></form>
    <//>
  </div>`;
}

function pressed(event, help) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const typing = event.target.closest("input:not([type=range]), select, textarea");
  if (typing) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const index = "12345678".indexOf(event.key);
  if (event.key.length === 1 && index >= 0) go(VIEWS[index].id);
  else if (event.key === "/") document.getElementById("search").focus();
  else if (event.key === "p") pause(!paused.value);
  else if (event.key === "?") help();
  else if (event.key === "j" || event.key === "k") step(event.key === "j" ? 1 : -1);
  else return;
  event.preventDefault();
}

// The links of rows and tiles, one after the other.
function step(by) {
  const links = [...document.querySelectorAll(".main .row a, .main .tile, .main .cell, .main tbody a")];
  if (!links.length) return;
  const at = links.indexOf(document.activeElement);
  const next = links[at < 0 ? 0 : Math.min(links.length - 1, Math.max(0, at + by))];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}

render(html`<${Page} />`, document.getElementById("page"));
