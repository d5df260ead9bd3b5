// Starts the page without a server: exercises are computed by Python in a worker, models replay recorded runs.
import { useTransport } from "./lib.js";
import { Unreachable } from "./transport.js";

const SECONDS = 60; // after which the worker is ended, as the server ends its processes

/** @type {Map<string, Promise<Record<string, string>>>} */
const bundles = new Map();
/** @param {string} name */
function bundle(name) {
  if (!bundles.has(name)) bundles.set(name, fetch(`recorded/${encodeURIComponent(name)}.json`).then((response) => (response.ok ? response.json() : {}), () => { bundles.delete(name); throw new Unreachable("the site is not responding"); }));
  return /** @type {Promise<Record<string, string>>} */ (bundles.get(name));
}
/** JSON with sorted keys, so that equal requests have equal keys. @param {any} value @returns {string} */
const canonical = (value) => Array.isArray(value) ? `[${value.map(canonical)}]`
  : value && typeof value === "object" ? `{${Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`)}}` : JSON.stringify(value);

/** The file in which a request would be recorded. @param {string} path @param {any} body */
function placeOf(path, body) {
  const [plain, query = ""] = path.split("?"), parts = plain.split("/"), asked = new URLSearchParams(query);
  if (parts[1] !== "looks") return ["models", "clips"].includes(parts[1]) ? "models" : ["lab", "compare"].includes(parts[1]) ? parts[1] : "exercises";
  const layer = asked.get("path") ?? body?.path ?? body?.heads?.[0].path, head = asked.get("head") ?? body?.head ?? body?.heads?.[0].head;
  return layer === undefined || layer === null ? `${parts[2]}` : `${parts[2]}-${layer}-${head}`;
}
const decode = (text) => Uint8Array.from(atob(text), (char) => char.charCodeAt(0)).buffer;
const encode = (value) => /** @type {ArrayBuffer} */ (new TextEncoder().encode(JSON.stringify(value)).buffer);
/** @param {string} fact @param {string} remedy */
const refusal = (fact, remedy) => ({ status: 404, body: encode({ fact, remedy }) });

// -- Python in a worker: one request at a time; those that nobody waits for any more are never sent -------------------

/** @type {Worker | null} */ let worker = null;
/** @type {{id: number, message: any, resolve: (answer: any) => void}[]} */ const queue = [];
let count = 0, busy = 0, timer = 0, up = false;
function start() {
  if (worker) return;
  worker = new Worker("worker.js", { type: "module" });
  worker.onmessage = ({ data }) => {
    if (data.kind === "ready") { up = true; document.documentElement.dataset.engine = "ready"; dispatchEvent(new HashChangeEvent("hashchange")); return next(); }
    if (data.kind === "failed") { console.error(data.text); return end(refusal("Python could not be started in this browser", "reload the page, or use glassformer serve")); }
    const at = queue.findIndex((each) => each.id === data.id);
    if (at >= 0) queue.splice(at, 1)[0].resolve({ status: data.status, body: data.body });
    busy = 0;
    clearTimeout(timer);
    next();
  };
}
function next() {
  if (!up || busy || !queue.length) return;
  busy = queue[0].id;
  worker?.postMessage(queue[0].message);
  timer = setTimeout(() => end({ status: 422, body: encode({ fact: `this takes longer than ${SECONDS} seconds to work out exactly`, remedy: "use smaller or simpler numbers" }) }), 1000 * SECONDS);
}
/** Terminates the worker and its request, and starts another worker. */
function end(answer) {
  worker?.terminate();
  worker = null;
  up = false;
  queue.shift()?.resolve(answer);
  busy = 0;
  if (queue.length) start();
}
function compute(method, path, body, signal) {
  start();
  return new Promise((resolve, reject) => {
    const id = ++count;
    queue.push({ id, message: { id, method, path, body }, resolve });
    signal?.addEventListener("abort", () => {
      const at = queue.findIndex((each) => each.id === id);
      if (at >= 0 && busy !== id) queue.splice(at, 1);
      reject(new DOMException("aborted", "AbortError"));
    });
    next();
  });
}

// -- recorded recognition ---------------------------------------------------------------------------------------------

let clip = "";
/** Replays the listener's recorded responses while the recording plays. */
function replay() {
  const name = clip;
  clip = "";
  /** @type {any} */
  const channel = { readyState: 0, binaryType: "arraybuffer", onopen: null, onerror: null, onmessage: null, close() { this.readyState = 3; } };
  /** @type {string[]} */ let answers = [];
  let at = 0;
  const say = (text) => channel.readyState === 1 && channel.onmessage?.({ data: text });
  channel.send = (data) => {
    if (typeof data === "string" && !/"end"/.test(data)) return;
    if (!name) return say(JSON.stringify({ fact: "this static copy cannot transcribe your own audio", remedy: "play one of the recordings, or use glassformer serve" }));
    if (typeof data === "string") while (at < answers.length) say(answers[at++]);
    else if (at < answers.length - 1) say(answers[at++]);
  };
  bundle("live").then((recorded) => { answers = JSON.parse(recorded[name] ?? "[]"); channel.readyState = 1; channel.onopen?.(new Event("open")); });
  return channel;
}

useTransport({
  async request(method, path, body, signal) {
    const given = body === undefined ? null : JSON.parse(body);
    const place = placeOf(path, given);
    const found = (await bundle(place))[`${method} ${path} ${given === null ? "" : canonical(given)}`];
    if (signal?.aborted) throw new DOMException("aborted", "AbortError");
    if (path.startsWith("api/clips/")) clip = decodeURIComponent(path.slice(10));
    if (found !== undefined) return { status: 200, body: decode(found) };
    if (place === "exercises") return compute(method, path, body, signal);
    return refusal("this was not recorded", "glassformer serve runs models and experiments");
  },
  connect: replay,
  asset: (name) => name,
  notes: {
    get paper() { return up ? "" : "Python is loading: edits are computed once it is ready."; },
    get check() { return up ? "" : "Python is loading: answers are graded once it is ready."; },
    model: "Recorded runs: heads, rows and edits for one input per model. glassformer serve runs the models on your own input.",
    live: "Recorded runs: the listener's transcripts of these recordings.",
    lab: "Recorded experiments, with their default parameters.",
  },
});
start();
await import("./app.js");
