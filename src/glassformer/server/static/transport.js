// How requests reach Python: over HTTP here, over a widget's messages in a notebook, in a worker on a static site.

/**
 * @typedef {{status: number, body: ArrayBuffer}} Answer
 * @typedef {Pick<WebSocket, "readyState" | "send" | "close" | "onopen" | "onerror" | "onmessage" | "binaryType">} Channel
 * @typedef {object} Transport
 * @property {(method: string, path: string, body: string | undefined, signal: AbortSignal | undefined) => Promise<Answer>} request
 *   One request and its answer. Rejects with Gone where nobody answers, and with an AbortError when it was aborted.
 * @property {(path: string) => Channel} connect A WebSocket, or what behaves like one.
 * @property {(name: string) => string} asset The URL of a file of the page.
 * @property {string[]} [rooms] The rooms that work over this transport; all of them if left out.
 * @property {string} [theme] "light" or "dark" where the page is a part of another one; otherwise the system's.
 * @property {string} [docs] The URL of the page about the API, where there is one.
 * @property {Record<string, string>} [notes] A sentence on top of a room, by its name.
 */

/** Nobody answers. */
export class Gone extends Error {}

/** Over HTTP, to the server that the page came from. @type {Transport} */
export const http = {
  async request(method, path, body, signal) {
    try {
      const response = await fetch(path, { method, signal, body, headers: body === undefined ? {} : { "content-type": "application/json" } });
      return { status: response.status, body: await response.arrayBuffer() };
    } catch (error) {
      if (error instanceof DOMException && error.name === "AbortError") throw error;
      throw new Gone("the server is not responding");
    }
  },
  connect: (path) => new WebSocket(new URL(path, location.href.replace(/^http/, "ws"))),
  asset: (name) => name,
  docs: "api.html",
};
