// Server-sent events by fetch: EventSource cannot send a token, nor say why it was refused.
import { request } from "./api.mjs";

// The gateway says something at least every 15 s; silence of three times that is a dead connection.
export const SILENCE_MS = 45_000;

// Calls heard({event, id, data}) until the stream ends; throws Refused, or AbortError.
export async function listen(path, { signal, heard, opened, silenceMs = SILENCE_MS }) {
  const ended = new AbortController();
  const abort = () => ended.abort();
  signal.addEventListener("abort", abort, { once: true });
  let timer = null;
  const alive = () => {
    clearTimeout(timer);
    timer = setTimeout(abort, silenceMs);
  };
  try {
    alive();
    const response = await request(path, {
      signal: ended.signal,
      cache: "no-store",
      headers: { Accept: "text/event-stream" },
    });
    opened();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const feed = frames(heard);
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      alive();
      feed(value);
    }
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", abort);
    ended.abort();
  }
}

// Takes text in whatever pieces it comes; calls heard for each frame that is whole.
export function frames(heard) {
  let unread = "";
  let frame = { event: "message", id: null, data: [] };
  return (text) => {
    unread += text;
    const lines = unread.split(/\r\n|\n|\r(?!$)/);
    unread = lines.pop();
    for (const line of lines) {
      if (line === "") {
        if (frame.data.length) heard({ ...frame, data: frame.data.join("\n") });
        frame = { event: "message", id: frame.id, data: [] };
        continue;
      }
      const colon = line.indexOf(":");
      if (colon === 0) continue; // a comment, to keep the connection
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (field === "data") frame.data.push(value);
      else if (field === "event") frame.event = value;
      else if (field === "id") frame.id = value;
    }
  };
}
