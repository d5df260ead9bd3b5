// Helpers of every room: requests, the state in the URL, number formatting, sharing.
import { http, Unreachable } from "./transport.js";
import { html } from "./vendor/lit-html.js";
export { html, noChange, nothing, render, svg } from "./vendor/lit-html.js";
export { Unreachable };

/** An error response of the server: what is wrong, and what to do. */
export class Problem extends Error {
  /** @param {string} fact @param {string} remedy @param {number} status */
  constructor(fact, remedy, status) {
    super(`${fact}: ${remedy}`);
    this.fact = fact;
    this.remedy = remedy;
    this.status = status;
  }
}

/** The transport of requests to Python. A widget and a static site replace it before the page starts. */
let transport = http;
/** @param {import("./transport.js").Transport} other */
export function useTransport(other) { transport = other; }
/** The rooms that this transport serves, of those given. @param {string[]} names */
export const roomsOf = (names) => names.filter((name) => !transport.rooms || transport.rooms.includes(name));
/** What the transport says about a room, if anything. @param {string} room */
export const noteOf = (room) => transport.notes?.[room] ?? "";
/** The URL of the page about the API, or "" where there is none. */
export const docsOf = () => transport.docs ?? "";
/** The colour scheme of the embedding page: light, dark, or "" if there is none. */
export const themeAround = () => transport.theme ?? "";
/** The URL of a file of the page. @param {string} name */
export const asset = (name) => transport.asset(name);
/** A WebSocket, or an object with its interface. @param {string} path */
export const connect = (path) => transport.connect(path);

const listeners = new Set();
/** Tells the page that the server is gone, or is back. @param {(gone: boolean) => void} listener */
export function onServer(listener) { listeners.add(listener); }
const say = (gone) => listeners.forEach((listener) => listener(gone));

/** @typedef {(now: import("./transport.js").Progress) => void} OnProgress */
/** The body of the answer. @param {string} method @param {string} path @param {any} [body] @param {AbortSignal} [signal] @param {OnProgress} [progress] */
async function request(method, path, body, signal, progress) {
  let answer;
  try {
    answer = await transport.request(method, path, body === undefined ? undefined : JSON.stringify(body), signal, progress);
  } catch (error) {
    if (error instanceof Unreachable) say(true);
    throw error;
  }
  say(false);
  if (answer.status < 300) return answer.body;
  let value;
  try { value = parse(answer.body); } catch { throw new Problem(`the server answered ${answer.status}`, "try again", answer.status); }
  throw new Problem(value.fact ?? "something went wrong", value.remedy ?? "try again", answer.status);
}
/** @param {ArrayBuffer} body */
const parse = (body) => JSON.parse(new TextDecoder().decode(body));
/** @param {string} path @param {AbortSignal} [signal] @param {OnProgress} [progress] */
export const get = async (path, signal, progress) => parse(await request("GET", path, undefined, signal, progress));
/** @param {string} path @param {any} body @param {AbortSignal} [signal] @param {OnProgress} [progress] */
export const post = async (path, body, signal, progress) => parse(await request("POST", path, body, signal, progress));

/** A long task with its progress and Cancel. One task runs at a time: the next one aborts it. */
export class LongWork {
  words = ""; seconds = 0;
  /** @type {import("./transport.js").Progress} */ now = { what: "", done: 0, total: 0 };
  /** @type {AbortController | null} */ #running = null;
  /** @param {() => void} redraw */
  constructor(redraw) { this.redraw = redraw; }
  get busy() { return !!this.#running; }
  cancel() { this.#running?.abort(); }
  /** Returns the result of the work, or undefined if it was cancelled. @template T @param {string} words @param {(signal: AbortSignal, progress: OnProgress) => Promise<T>} work */
  async run(words, work) {
    this.cancel();
    const mine = (this.#running = new AbortController());
    Object.assign(this, { words, seconds: 0, now: { what: "", done: 0, total: 0 } });
    const clock = setInterval(() => { if (this.#running === mine) { this.seconds += 1; this.redraw(); } }, 1000);
    this.redraw();
    try { return await work(mine.signal, (now) => { if (this.#running === mine) { this.now = now; this.redraw(); } }); }
    catch (error) { if (!isAbort(error)) throw error; }
    finally { clearInterval(clock); if (this.#running === mine) { this.#running = null; this.redraw(); } }
  }
  /** The task, its elapsed time and progress, and a button that cancels it. */
  template() {
    const { what, done, total } = this.now;
    return html`<p class="busy-line" role="status"><span class="spin" aria-hidden="true"></span><span>${what || this.words}<span aria-hidden="true">${total ? ` ${done} of ${total}` : ""} …${this.seconds ? ` ${this.seconds} s` : ""}</span></span>
      ${total ? html`<progress aria-label="Progress" max=${total} .value=${done}></progress>` : ""}<button @click=${() => this.cancel()}>Cancel</button></p>`;
  }
}
/** @param {string} path @param {AbortSignal} [signal] */
export const bytes = (path, signal) => request("GET", path, undefined, signal);

/** Whether an error only says that a newer request has taken this one's place. @param {any} error */
export const isAbort = (error) => error instanceof DOMException && error.name === "AbortError";

/** Said to a screen reader. @param {string} text */
export function announce(text) {
  const live = document.getElementById("live");
  if (live && live.textContent !== text) live.textContent = text;
}

// -- the address of the page ----------------------------------------------------------------------------------------

/** Where the URL is stored: in the location of the page, or in memory if the page is embedded in another one. */
export const address = {
  get: () => location.hash,
  /** Goes there. @param {string} hash */
  set(hash) { location.hash = hash; },
  /** Writes the address without leaving the page. @param {string} hash */
  replace(hash) { history.replaceState(null, "", hash); },
  /** @param {() => void} listener */
  onChange(listener) { addEventListener("hashchange", listener); },
  /** What is shared: the whole address. @param {string} hash */
  link: (hash) => location.origin + location.pathname + hash,
};
/** URLs in memory, for a page in a notebook: links are followed without a navigation. */
export function keepAddressInMemory() {
  let now = "";
  const changed = new Set();
  Object.assign(address, {
    get: () => now,
    set(hash) { if (hash !== now) { now = hash; changed.forEach((listener) => listener()); } },
    replace(hash) { now = hash; },
    onChange(listener) { changed.add(listener); },
    link: (hash) => `http://127.0.0.1:8765/${hash}`, // where glassformer serve opens it
  });
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a[href^='#']") : null;
    if (!link || event.defaultPrevented) return;
    event.preventDefault();
    const hash = /** @type {string} */ (link.getAttribute("href"));
    if (hash.startsWith("#/")) address.set(hash);
    else document.getElementById(hash.slice(1))?.focus();
  });
}

/** Parses `#/paper/four-tokens?b=inf&at=A.1.2` into room, name and parameters. */
export function route() {
  const [path, query = ""] = decodeURI(address.get().replace(/^#\/?/, "")).split("?");
  const [room = "", name = ""] = path.split("/");
  return { room: room || "paper", name, query: new URLSearchParams(query) };
}
/** Goes to another address. @param {string} hash */
export const go = (hash) => address.set(hash);
/** Writes the address without leaving the page. @param {string} hash */
export function replaceHash(hash) { if (address.get() !== hash) address.replace(hash); }

/** Text as deflate and base64url: what a shared address holds. @param {string} text */
export async function pack(text) {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** @param {string} packed */
export async function unpack(packed) {
  const binary = atob(packed.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(binary, (char) => char.charCodeAt(0));
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw")).getReader();
  const parts = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    if ((size += value.length) > 200_000) throw new Problem("the shared exercise is too large", "open it from a file", 413);
  }
  return new Blob(parts).text();
}

// -- numbers --------------------------------------------------------------------------------------------------------

/** @param {number | string} value */
export const toNumber = (value) =>
  value === "inf" ? Infinity : value === "-inf" ? -Infinity : Number(value);

/** @param {number} value @param {number} [digits] */
export function short(value, digits = 2) {
  if (value === Infinity) return "∞";
  if (value === -Infinity) return "−∞";
  const text = Number.isInteger(value) ? String(value) : value.toFixed(digits).replace(/\.?0+$/, "");
  return (text === "-0" ? "0" : text).replace("-", "−");
}
/** A token as it is shown: spaces and line breaks are visible. @param {string | undefined} label */
export const readable = (label) => (label ?? "").replaceAll("\n", "↵").trim() || "␣";

/** A token in a sentence: its label, or its number where it has none. @param {string} label */
export const word = (label) => (/^\d+$/.test(label) ? `token ${label}` : label);
/** A sentence with its W_O and W1 as W and an index. @param {string} text */
export const indexed = (text) => text.replace(/\b([WbQKVAHX])(\d)\b/g, "$1_$2").split(/(?<=\b[A-Za-z])_(\w+)/).map((part, n) => (n % 2 ? html`<sub>${part}</sub>` : part));
/** A number as an index: k₁. @param {string} label */
export const index = (label) => label.replace(/\d/g, (digit) => "₀₁₂₃₄₅₆₇₈₉"[Number(digit)]);

/** `decoder.3.attention` as "decoder layer 4", counted from 1 as heads and queries are. @param {string} path */
export const layerName = (path) => path.replace(/^(\w+)\.(\d+)\.(\w+)$/, (_, stack, number, kind) => `${stack} layer ${Number(number) + 1}${kind === "cross" ? " (cross-attention)" : ""}`);

/** @param {number} value */
export const percent = (value) => `${(100 * value).toFixed(1)} %`;

/** @param {ArrayBuffer} body */
export function base64(body) {
  const bytes = new Uint8Array(body);
  let binary = "";
  for (let i = 0; i < bytes.length; i += 32768) binary += String.fromCharCode(...bytes.subarray(i, i + 32768));
  return btoa(binary);
}

/** A figure of the server, drawn for wide screens and for narrow ones. @param {{figure: string, narrow: string}} figure @param {string} alt */
export function drawing({ figure, narrow }, alt) {
  const url = (svg) => `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  return html`<picture><source media="(max-width: 700px)" srcset=${url(narrow)}><img alt=${alt} src=${url(figure)}></picture>`;
}

/** @param {any} value */
export const copy = (value) => structuredClone(value);

/** Saves text as a file. @param {string} name @param {string} text @param {string} type */
export function download(name, text, type = "text/plain") {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** A short message that goes away by itself. @param {string} text */
export function toast(text) {
  document.querySelector(".toast")?.remove();
  const box = document.createElement("div");
  box.className = "toast";
  box.textContent = text;
  document.body.append(box);
  announce(text);
  setTimeout(() => box.remove(), 3500);
}
