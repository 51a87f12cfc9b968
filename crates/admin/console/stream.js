// Requests to this node, with the token if there is one, and the stream of snapshots. EventSource cannot send a token, so
// the stream is read by fetch.

const KEPT = "hopcache-admin-token";
const RETRY_FIRST_MS = 250;
const RETRY_MAX_MS = 2000;
/** A line of a snapshot is shorter than that; more is not from a node. */
const PENDING_MAX = 32 * 1024 * 1024;

export const token = {
  get: () => sessionStorage.getItem(KEPT),
  set: (value) => sessionStorage.setItem(KEPT, value),
  forget: () => sessionStorage.removeItem(KEPT),
};

/** The node wants a token, or another one. */
export class TokenNeeded extends Error {}

async function ask(path, options = {}) {
  const known = token.get();
  const headers = { ...options.headers, ...(known ? { authorization: `Bearer ${known}` } : {}) };
  const response = await fetch(path, { ...options, headers, cache: "no-store" });
  if (response.status === 401) throw new TokenNeeded(await problem(response));
  if (!response.ok) throw new Error(await problem(response));
  return response;
}

async function problem(response) {
  const said = await response.json().catch(() => ({}));
  return said.detail ?? `the node answered ${response.status}`;
}

export const get = async (path) => (await ask(path)).json();

export const post = async (path, body) =>
  (await ask(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) })).json();

/** Gives every snapshot to `onSnapshot`, for ever. `onState` hears how the connection is. Ends when a token is needed. */
export async function follow(onSnapshot, onState) {
  let wait = RETRY_FIRST_MS;
  for (;;) {
    try {
      const response = await ask("/admin/v1/events", { headers: { accept: "text/event-stream" } });
      onState("live");
      for await (const data of events(response.body)) {
        wait = RETRY_FIRST_MS;
        onSnapshot(JSON.parse(data));
      }
      onState("lost", "the stream has ended");
    } catch (error) {
      if (error instanceof TokenNeeded) throw error;
      onState("lost", error.message);
    }
    await new Promise((done) => setTimeout(done, wait));
    wait = Math.min(2 * wait, RETRY_MAX_MS);
  }
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let pending = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    pending += value;
    if (pending.length > PENDING_MAX) throw new Error("a snapshot is too long");
    const ended = pending.split("\n\n");
    pending = ended.pop();
    for (const event of ended) {
      const data = event.split("\n").find((line) => line.startsWith("data: "));
      if (data) yield data.slice(6);
    }
  }
}
