// A long list from the gateway, page by page as the reader comes to its end.
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, url } from "./api.mjs";

const LIMIT = 500;

// {items, total, at, error, asking, more()}; begins anew when path or parameters change.
export function usePages(path, params, member) {
  const question = path === null ? null : url(path, { ...params, limit: LIMIT });
  const [state, setState] = useState(empty(question));
  const busy = useRef(false);
  const current = state.question === question ? state : empty(question);

  const load = async (cursor, before) => {
    if (busy.current === question) return;
    busy.current = question;
    try {
      const body = await ask(url(path, { ...params, limit: LIMIT, cursor }));
      if (busy.current !== question) return;
      setState({
        question,
        body,
        items: [...before, ...body[member]],
        total: body.total,
        next: body.next,
        at: Date.now() - (body.age_ms ?? 0),
        error: null,
        asking: false,
      });
    } catch (error) {
      if (busy.current === question) setState((old) => ({ ...(old.question === question ? old : empty(question)), error, asking: false }));
    } finally {
      if (busy.current === question) busy.current = false;
    }
  };

  useEffect(() => {
    if (question !== null) load(null, []);
  }, [question]);

  return {
    ...current,
    more: () => {
      if (current.next && !current.error) load(current.next, current.items);
    },
  };
}

function empty(question) {
  return { question, body: null, items: [], total: null, next: null, at: null, error: null, asking: question !== null };
}
