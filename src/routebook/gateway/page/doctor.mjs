// View 7: what is wrong, with evidence and remedy; who the guard holds; and what can be done here.
import { useState } from "preact/hooks";
import { html } from "./html.mjs";
import { link } from "./address.mjs";
import { ask, segment, useAnswer } from "./api.mjs";
import { now } from "./clock.mjs";
import { groups } from "./live.mjs";
import { BrokerLink, Dialog, Empty, Panel, Prose, Say, Table, sentence } from "./parts.mjs";
import * as words from "./words.mjs";

const MOST_HELD = 50;

export function Doctor() {
  const doctor = useAnswer("v1/doctor", { everyMs: 30_000 });
  const [again, setAgain] = useState(0);
  const guard = useAnswer("v1/guard", { everyMs: 2000, again });
  const [doing, act] = useState(null);
  const [done, tell] = useState(null);
  return html`<${Diagnosis} doctor=${doctor} guard=${guard} />
    ${done ? html`<p class="empty" role="status">${done}</p><br />` : null}
    <${Guard} answer=${guard} act=${act} />
    <${Findings} answer=${doctor} />
    <${Changes} act=${act} />
    <${Confirm} doing=${doing} close=${() => act(null)} tell=${(text) => { tell(text); setAgain(again + 1); }} />`;
}

function Diagnosis({ doctor, guard }) {
  const counts = doctor.body?.counts;
  const holding = guard.body?.holding;
  if (!counts) return html`<${Say} sentence=${doctor.error ? sentence(doctor.error.message) : "The doctor is looking."} level="muted" />`;
  const parts = [];
  if (counts.error) parts.push(words.counted(counts.error, "error"));
  if (counts.warning) parts.push(words.counted(counts.warning, "warning"));
  const found = parts.length ? `The doctor found ${words.listed(parts)}.` : counts.info ? `Nothing is wrong; ${words.counted(counts.info, "thing")} worth knowing.` : "Nothing is wrong.";
  const said = holding ? "The guard holds brokers that fell silent." : found;
  return html`<${Say} sentence=${said} more=${holding ? found : null} level=${holding || counts.error ? "bad" : counts.warning ? "warn" : ""} />`;
}

const ORDER = { error: 0, warning: 1, info: 2 };

function Findings({ answer }) {
  const findings = (answer.body?.findings ?? []).toSorted((a, b) => ORDER[a.severity] - ORDER[b.severity]);
  return html`<${Panel} title="Findings" at=${answer.at} staleMs=${90_000} error=${answer.error} asking=${answer.asking} note="addresses of brokers are not tried from here; routebook doctor does">
    ${findings.map((each) => html`<div class=${`finding ${each.severity}`} key=${`${each.check} ${each.subject}`}>
      <h3>${each.check.replaceAll("-", " ")} <span class="muted">· ${each.severity} · ${each.subject}</span></h3>
      <ul>${each.evidence.map((text) => html`<li><${Prose} text=${text} /></li>`)}</ul>
      <p class="remedy muted"><${Prose} text=${each.remedy} /></p>
    </div>`)}
    ${answer.body?.state === "looking" ? html`<${Empty}>Asking every node for every topic.<//>` : null}
    ${answer.body?.state === "done" && !findings.length ? html`<${Empty}>No findings.<//>` : null}
  <//>`;
}

const HELD = [
  { name: "broker", head: true, cell: (row) => html`<${BrokerLink} name=${row.broker} />` },
  { name: "cluster", cell: (row) => row.cluster },
  { name: "address", cell: (row) => `${row.broker_id === 0 ? "master" : `slave ${row.broker_id}`} ${row.address}` },
  { name: "silent for", cell: (row) => words.span(row.silent_ms) },
];

function Guard({ answer, act }) {
  const asked = answer.body?.nodes ?? [];
  const holding = asked.filter((node) => node.holding);
  return html`<${Panel} title="Guard" at=${answer.at} error=${answer.error} asking=${answer.asking}>
    ${holding.map((node) => html`<${Holding} key=${node.address} node=${node} at=${answer.at} act=${act} />`)}
    ${asked.filter((node) => node.error).map((node) => html`<p class="why" key=${node.address}>${node.node ?? node.address}: ${node.error}</p>`)}
    ${asked.length && !holding.length ? html`<${Empty}>No node holds a broker that fell silent.<//>` : null}
  <//>`;
}

function Holding({ node, at, act }) {
  const left = node.left_ms === null ? null : Math.max(0, node.left_ms - (now.value - at));
  const passed = now.value - at;
  const rows = node.held.slice(0, MOST_HELD).map((each) => ({ ...each, silent_ms: Math.floor((each.silent_ms + passed) / 1000) * 1000 }));
  return html`<div class="finding error">
    <h3>${node.node ?? node.address} holds ${words.counted(node.held_in_all, "broker")} for ${left === null ? "an unknown time" : words.span(Math.floor(left / 1000) * 1000)} more</h3>
    <p>${node.why ? sentence(node.why) : ""} Most likely this node is cut off from them.</p>
    <${Table} columns=${HELD} rows=${rows} keyOf=${(row) => `${row.cluster} ${row.broker} ${row.broker_id} ${row.address}`} caption="Held brokers" />
    ${node.held_in_all > rows.length ? html`<p class="muted small">and ${words.number(node.held_in_all - rows.length)} more</p>` : null}
    <p class="controls"><button type="button" class="grave" onClick=${() => act({ what: "release", name: "release", path: "v1/guard/release", title: "Let all held brokers go", warning: "Every node drops the brokers it holds, with all their routes. Do it when they are really gone." })}>Let them go…</button></p>
  </div>`;
}

function Changes({ act }) {
  const submit = (event) => {
    event.preventDefault();
    const name = event.target.elements.broker.value.trim();
    const what = event.submitter.value;
    if (!name) return;
    const warning = what === "drain" ? "Write permission is taken from all its topics on every node. Producers go elsewhere; consumers read on." : "What a drain took is given back on every node.";
    act({ what, name, path: `v1/${what}/${segment(name)}`, title: `${what === "drain" ? "Drain" : "Undrain"} ${name}`, warning });
  };
  return html`<section class="panel"><header><h2>Take a broker out of writing</h2><span class="muted small">needs the admin token of the gateway</span></header>
    <form class="range" onSubmit=${submit}>
      <label>broker <input name="broker" list="brokers" required autocomplete="off" spellcheck="false" /></label>
      <datalist id="brokers">${groups.value.slice(0, 200).map((group) => html`<option key=${group.key} value=${group.broker}></option>`)}</datalist>
      <button name="what" value="drain">Drain…</button><button name="what" value="undrain">Undrain…</button>
      <a class="muted small" href=${link("feed", "", { cause: "admin" })}>what was done before</a>
    </form>
  </section>`;
}

// Nothing is changed by a slip: the name is typed again, and the token is asked for every time.
function Confirm({ doing, close, tell }) {
  const [problem, say] = useState(null);
  const [busy, work] = useState(false);
  if (doing === null) return html`<${Dialog} open=${false} onClose=${close} label="Confirm" />`;
  const submit = async (event) => {
    event.preventDefault();
    const { typed, token } = event.target.elements;
    if (typed.value !== doing.name) {
      say(`That is not ${doing.name}.`);
      return;
    }
    work(true);
    try {
      const body = await ask(doing.path, { method: "POST", headers: { Authorization: `Bearer ${token.value}`, "Content-Type": "application/json" }, body: "{}" });
      tell(body.nodes.map((node) => `${node.node ?? node.address}: ${node.error ?? node.text}.`).join(" "));
      say(null);
      close();
    } catch (error) {
      const failed = error.body?.nodes?.map((node) => `${node.node ?? node.address}: ${node.error ?? node.text}.`).join(" ");
      say(failed || sentence(error.message));
    } finally {
      work(false);
    }
  };
  return html`<${Dialog} open onClose=${() => { say(null); close(); }} label=${doing.title}>
    <h2>${doing.title}</h2>
    <p class="muted">${doing.warning} It is written into the journal, with the name of the token and your address.</p>
    <form onSubmit=${submit}>
      <label>Type ${doing.name} <input name="typed" required autocomplete="off" spellcheck="false" autofocus /></label>
      <label>Admin token <input name="token" type="password" required autocomplete="off" /></label>
      ${problem ? html`<p class="bad small" role="alert">${problem}</p>` : null}
      <div class="controls"><button type="button" onClick=${close}>Leave it</button><button class="grave" disabled=${busy}>${busy ? "Asking the nodes" : doing.title}</button></div>
    </form>
  <//>`;
}
