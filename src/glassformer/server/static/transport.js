// How requests reach Python: over HTTP here, over a widget's messages in a notebook, in a worker on a static site.

/**
 * @typedef {{status: number, body: ArrayBuffer}} Answer
 * @typedef {Pick<WebSocket, "readyState" | "send" | "close" | "onopen" | "onerror" | "onmessage" | "binaryType">} Channel
 * @typedef {object} Transport
 * @typedef {{what: string, done: number, total: number}} Progress What is being done; the total is 0 where it is not known.
 * @property {(method: string, path: string, body: string | undefined, signal: AbortSignal | undefined, progress?: (now: Progress) => void) => Promise<Answer>} request
 *   One request and its answer; `progress` receives the progress of long work. Rejects with Unreachable if there is no response, and
 *   with an AbortError when it was aborted.
 * @property {(path: string) => Channel} connect A WebSocket, or an object with its interface.
 * @property {(name: string) => string} asset The URL of a file of the page.
 * @property {string[]} [rooms] The rooms that work over this transport; all of them if left out.
 * @property {string} [theme] "light" or "dark" where the page is a part of another one; otherwise the system's.
 * @property {string} [docs] The URL of the page about the API, where there is one.
 * @property {Record<string, string>} [notes] A sentence on top of a room, by its name.
 */

/** Reads server-sent events: progress, then the answer. @param {ReadableStream<any>} stream @param {(now: Progress) => void} progress @returns {Promise<Answer>} */
async function events(stream, progress) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = ""; ;) {
    const { done, value = "" } = await reader.read();
    if (done) throw new Unreachable("the server ended before it answered");
    const parts = (text + value).split("\n\n");
    text = parts.pop() ?? "";
    for (const part of parts) {
      const [, name, data] = part.match(/^event: (.*)\ndata: (.*)$/) ?? [];
      if (name === "progress") progress(JSON.parse(data));
      if (name === "answer") { const { status, body } = JSON.parse(data); return { status, body: /** @type {ArrayBuffer} */ (new TextEncoder().encode(JSON.stringify(body)).buffer) }; }
    }
  }
}

/** There is no response. */
export class Unreachable extends Error {}

/** Over HTTP, to the server that the page came from. @type {Transport} */
export const http = {
  async request(method, path, body, signal, progress) {
    try {
      const headers = { ...(body === undefined ? {} : { "content-type": "application/json" }), ...(progress ? { accept: "text/event-stream" } : {}) };
      const response = await fetch(path, { method, signal, body, headers });
      if (progress && response.body && response.headers.get("content-type") === "text/event-stream") return await events(response.body, progress);
      return { status: response.status, body: await response.arrayBuffer() };
    } catch (error) {
      if (error instanceof DOMException && error.name === "AbortError") throw error;
      throw new Unreachable("the server is not responding");
    }
  },
  connect: (path) => new WebSocket(new URL(path, location.href.replace(/^http/, "ws"))),
  asset: (name) => name,
  docs: "api.html",
};
