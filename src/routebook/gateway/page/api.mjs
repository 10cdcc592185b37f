// Questions to the gateway. Addresses are relative, so a proxy may put the page under any path.
import { useEffect, useState } from "preact/hooks";

export class Refused extends Error {
  constructor(status, sentence, retryMs, body) {
    super(sentence);
    this.status = status;
    this.retryMs = retryMs;
    this.body = body;
  }
}

// "no-cache": the browser asks with the etag it has, and an answer that is the same costs nothing.
export async function request(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { cache: "no-cache", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "the gateway does not answer", 2000, null);
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => null);
  const sentence = body?.error ?? `the gateway answered ${response.status}`;
  const retry = Number(response.headers.get("Retry-After")) * 1000 || null;
  throw new Refused(response.status, String(sentence), retry, body);
}

export async function ask(path, options = {}) {
  return (await request(path, options)).json();
}

export function url(path, params = {}) {
  const given = Object.entries(params).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const query = new URLSearchParams(given).toString();
  return query ? `${path}?${query}` : path;
}

export const segment = encodeURIComponent;

// An answer that stays on the page while it is asked for again:
// {body, at, error, asking}. `path` null: nothing is asked. `everyMs`: again and again while seen.
export function useAnswer(path, { everyMs = null, again = 0 } = {}) {
  const [answer, setAnswer] = useState({ path: null, body: null, at: null, error: null, asking: false });
  useEffect(() => {
    if (path === null) return undefined;
    const stop = new AbortController();
    let timer = null;
    const run = async () => {
      setAnswer((before) => (before.path === path ? { ...before, asking: true } : { path, body: null, at: null, error: null, asking: true }));
      let next = everyMs;
      try {
        const body = await ask(path, { signal: stop.signal });
        setAnswer({ path, body, at: Date.now() - (body?.age_ms ?? 0), error: null, asking: false });
      } catch (error) {
        if (error.name === "AbortError") return;
        // What was known stays, with its age, beside the sentence that says why there is no newer.
        setAnswer((before) => ({ ...before, error, asking: false }));
        if (error.status === 0 || error.status === 503 || error.status === 429) next = error.retryMs ?? 5000;
      }
      if (next) timer = setTimeout(run, next);
    };
    run();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [path, everyMs, again]);
  return answer.path === path ? answer : { path, body: null, at: null, error: null, asking: path !== null };
}

// What journals of nodes tell, by the name of the node.
export function nodesOf(answer) {
  return (answer.body?.nodes ?? []).toSorted((one, other) => (one.node < other.node ? -1 : 1));
}
