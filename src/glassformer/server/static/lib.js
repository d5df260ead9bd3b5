// Small things every room uses: requests, the state of the address, numbers, sharing.
export { html, nothing, render, svg } from "./vendor/lit-html.js";

/** A refusal of the server: what is wrong, and what to do. */
export class Problem extends Error {
  /** @param {string} fact @param {string} remedy @param {number} status */
  constructor(fact, remedy, status) {
    super(`${fact}: ${remedy}`);
    this.fact = fact;
    this.remedy = remedy;
    this.status = status;
  }
}

/** The server went away. */
export class Gone extends Error {}

/** How requests reach the engine: over HTTP here; a static site puts a worker in its place. */
export const engine = {
  /** @param {string} method @param {string} path @param {any} body @param {AbortSignal | undefined} signal */
  async request(method, path, body, signal) {
    let response;
    try {
      response = await fetch(path, {
        method, signal,
        headers: body === undefined ? {} : { "content-type": "application/json" },
        body: body === undefined ? undefined : JSON.stringify(body),
      });
    } catch (error) {
      if (error instanceof DOMException && error.name === "AbortError") throw error;
      throw new Gone("the server does not answer");
    }
    const text = await response.text();
    let value;
    try { value = JSON.parse(text); } catch { throw new Problem(`the server answered ${response.status}`, "try again", response.status); }
    if (!response.ok) throw new Problem(value.fact ?? "something went wrong", value.remedy ?? "try again", response.status);
    return value;
  },
};

const listeners = new Set();
/** Tells the page that the server is gone, or is back. @param {(gone: boolean) => void} listener */
export function onServer(listener) { listeners.add(listener); }
const say = (gone) => listeners.forEach((listener) => listener(gone));

/** @param {string} method @param {string} path @param {any} [body] @param {AbortSignal} [signal] */
async function request(method, path, body, signal) {
  try {
    const value = await engine.request(method, path, body, signal);
    say(false);
    return value;
  } catch (error) {
    if (error instanceof Gone) say(true);
    throw error;
  }
}
/** @param {string} path @param {AbortSignal} [signal] */
export const get = (path, signal) => request("GET", path, undefined, signal);
/** @param {string} path @param {any} body @param {AbortSignal} [signal] */
export const post = (path, body, signal) => request("POST", path, body, signal);

/** Whether an error only says that a newer request has taken this one's place. @param {any} error */
export const isAbort = (error) => error instanceof DOMException && error.name === "AbortError";

/** Said to a screen reader. @param {string} text */
export function announce(text) {
  const live = document.getElementById("live");
  if (live && live.textContent !== text) live.textContent = text;
}

// -- the address of the page ----------------------------------------------------------------------------------------

/** `#/paper/four-tokens?b=inf&at=A.1.2` as its room, its name and its parameters. */
export function route() {
  const [path, query = ""] = decodeURI(location.hash.replace(/^#\/?/, "")).split("?");
  const [room = "", name = ""] = path.split("/");
  return { room: room || "paper", name, query: new URLSearchParams(query) };
}

/** Writes the address without leaving the page. @param {string} hash */
export function replaceHash(hash) {
  if (location.hash !== hash) history.replaceState(null, "", location.pathname + location.search + hash);
}

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
/** @param {number} value */
export const percent = (value) => `${(100 * value).toFixed(1)} %`;

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
