// Starts the page inside a notebook: requests go through the port that the widget passes.
import { address, keepAddressInMemory, useTransport } from "./lib.js";

const newId = () => Math.random().toString(36).slice(2);

addEventListener("message", async ({ data, ports: [port] }) => {
  /** @type {Map<string, {resolve: (answer: any) => void, progress?: (now: any) => void}>} */
  const waiting = new Map();
  /** @type {Map<string, any>} */
  const channels = new Map();
  port.onmessage = ({ data: answer }) => {
    if (answer.kind === "message") return channels.get(answer.id)?.onmessage?.({ data: answer.text });
    if (answer.kind === "progress") return waiting.get(answer.id)?.progress?.(answer);
    waiting.get(answer.id)?.resolve({ status: answer.status, body: answer.body });
    waiting.delete(answer.id);
  };
  useTransport({
    theme: data.theme,
    asset: (name) => data.assets[name],
    connect(path) {
      const id = newId();
      /** @type {any} a part of WebSocket */
      const channel = {
        readyState: 0, binaryType: "arraybuffer", onopen: null, onerror: null, onmessage: null,
        send(data) { port.postMessage({ kind: "message", id, ...(typeof data === "string" ? { text: data } : { body: data.buffer ?? data }) }); },
        close() { this.readyState = 3; channels.delete(id); port.postMessage({ kind: "close", id }); },
      };
      channels.set(id, channel);
      port.postMessage({ kind: "connect", id, path });
      queueMicrotask(() => { channel.readyState = 1; channel.onopen?.(new Event("open")); });
      return channel;
    },
    request: (method, path, body, signal, progress) => new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(new DOMException("aborted", "AbortError"));
      const id = newId();
      waiting.set(id, { resolve, progress });
      signal?.addEventListener("abort", () => {
        if (!waiting.delete(id)) return;
        port.postMessage({ kind: "abort", id });
        reject(new DOMException("aborted", "AbortError"));
      });
      port.postMessage({ kind: "request", id, method, path, body, progress: !!progress });
    }),
  });
  keepAddressInMemory();
  address.replace(data.address);
  await import("./app.js");
}, { once: true });
