// Starts the page inside a notebook: requests go through the port that the widget hands over.
import { address, keepAddressInMemory, useTransport } from "./lib.js";
import { Gone } from "./transport.js";

addEventListener("message", async ({ data, ports: [port] }) => {
  /** @type {Map<string, {resolve: (answer: any) => void}>} */
  const waiting = new Map();
  port.onmessage = ({ data: answer }) => {
    waiting.get(answer.id)?.resolve({ status: answer.status, body: answer.body });
    waiting.delete(answer.id);
  };
  useTransport({
    rooms: ["paper", "check", "model", "lab"],
    theme: data.theme,
    asset: (name) => data.assets[name],
    connect() { throw new Gone("live recognition needs glassformer serve"); },
    request: (method, path, body, signal) => new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(new DOMException("aborted", "AbortError"));
      const id = Math.random().toString(36).slice(2);
      waiting.set(id, { resolve });
      signal?.addEventListener("abort", () => {
        if (!waiting.delete(id)) return;
        port.postMessage({ kind: "abort", id });
        reject(new DOMException("aborted", "AbortError"));
      });
      port.postMessage({ kind: "request", id, method, path, body });
    }),
  });
  keepAddressInMemory();
  address.replace(data.address);
  await import("./app.js");
}, { once: true });
