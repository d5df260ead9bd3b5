// The page: header, rooms by address, undo, theme. A room has enter(where, redraw), template(), title(), and maybe leave().
import { address, asset, docsOf, get, html, noteOf, nothing, onServer, render, roomsOf, route, themeAround } from "./lib.js";
import * as paper from "./paper.js";
import * as tour from "./tour.js";

/** @type {Record<string, () => Promise<any>>} */
const ROOMS = {
  paper: async () => paper,
  check: () => import("./check.js"),
  model: () => import("./model.js"),
  live: () => import("./live.js"),
  lab: () => import("./lab.js"),
  compare: () => import("./compare.js"),
};
const NAMES = { paper: "Paper", check: "Check", model: "Model", live: "Live", lab: "Lab", compare: "Compare" };

/** Shown until the room of the first URL has loaded. */
const waiting = { template: () => html`<p class="quiet">Loading …</p>`, title: () => "Loading" };
let room = /** @type {any} */ (waiting), current = "", gone = false, queued = false;
const stored = (key, value) => { try { if (value === undefined) return localStorage.getItem(key); localStorage.setItem(key, value); } catch { /* private windows */ } return null; };

/** Draws once in the next frame, however often it is called, or immediately. */
export function redraw(now = false) {
  if (now) return draw();
  if (!queued) requestAnimationFrame(() => { if (queued) draw(); });
  queued = true;
}
function draw() {
    queued = false;
    render(header(), /** @type {HTMLElement} */ (document.getElementById("head")));
    render(room.template(), /** @type {HTMLElement} */ (document.getElementById("main")));
    render(footer(), /** @type {HTMLElement} */ (document.getElementById("foot")));
    render(tour.card(), /** @type {HTMLElement} */ (document.getElementById("dialog")));
    document.title = `${room.title()} · Glassformer`;
}

function theme() {
  const order = ["auto", "light", "dark"], now = stored("theme") ?? "auto";
  const next = order[(order.indexOf(now) + 1) % 3];
  stored("theme", next);
  applyTheme();
  room.recolour?.();
  redraw();
}
function applyTheme() {
  const now = stored("theme") ?? "auto";
  const chosen = now === "auto" ? themeAround() : now;
  if (chosen) document.documentElement.dataset.theme = chosen;
  else delete document.documentElement.dataset.theme;
}

function header() {
  return html`<div class="bar"><a class="brand" href="#/paper/first-look" aria-label="Glassformer"><img src=${asset("icon.svg")} alt="" width="22" height="22"><span class="word">Glassformer</span></a>
    <nav aria-label="Rooms">${roomsOf(Object.keys(NAMES)).map((key) => html`<a href=${`#/${key}`} aria-current=${key === current ? "page" : nothing}>${NAMES[key]}</a>`)}</nav>
    <span class="spacer"></span>
    ${tour.button()}
    <button @click=${paper.undo} ?disabled=${!paper.state.past.length || current !== "paper"} title="Undo (Ctrl+Z)">Undo</button>
    <button @click=${paper.share} title="Copy an address that opens what you see now">Share</button>
    <button class="icon" @click=${theme} aria-label=${`Colours: ${stored("theme") ?? "auto"}. Change`} title=${`Colours: ${stored("theme") ?? "auto"}`}>◐</button></div>
    ${gone ? html`<p class="problem banner" role="alert">The server is not responding: start glassformer serve again. The page stays readable and tries again by itself.</p>` : nothing}
    ${noteOf(current) ? html`<p class="quiet banner">${noteOf(current)}</p>` : nothing}`;
}
const footer = () => (docsOf() ? html`<p class="quiet">Everything here runs on your machine. <a href=${docsOf()}>API reference</a></p>` : nothing);

async function go() {
  const where = route();
  const name = where.room in ROOMS && roomsOf([where.room]).length ? where.room : "paper";
  if (room.leave && name !== current) room.leave();
  if (!current) { current = name; redraw(); }
  try {
    const next = await ROOMS[name]();
    const zoom = name !== current && [name, current].includes("model") && [name, current].includes("paper");
    if (zoom && "startViewTransition" in document && !matchMedia("(prefers-reduced-motion: reduce)").matches) {
      const shown = next.enter(where, redraw);
      // the old room stays until the map has loaded, or until the wait would be noticeable
      await Promise.race([shown, new Promise((resolve) => setTimeout(resolve, 700))]);
      // a navigation that comes before the animation skips it, not the drawing
      document.startViewTransition(() => { room = next; current = name; draw(); scrollTo(0, 0); }).ready.catch(() => {});
      await shown;
    } else {
      if (name !== current) scrollTo(0, 0);
      room = next; current = name;
      redraw();
      await room.enter(where, redraw);
    }
  } catch (error) {
    console.error(error);
  }
  redraw();
}

onServer((now) => {
  if (now === gone) return;
  gone = now;
  redraw();
  if (gone) retry();
});
async function retry() {
  while (gone) {
    await new Promise((resolve) => setTimeout(resolve, 2000));
    try { await get("api/practice"); await go(); } catch { /* not yet */ }
  }
}

address.onChange(go);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { room.recolour?.(); redraw(); }); // canvases are drawn again
addEventListener("keydown", (event) => {
  if (!(event.ctrlKey || event.metaKey) || event.altKey || current !== "paper") return;
  const key = event.key.toLowerCase();
  if (key === "z" && !event.shiftKey) { event.preventDefault(); paper.undo(); }
  if (key === "y" || (key === "z" && event.shiftKey)) { event.preventDefault(); paper.redo(); }
});
applyTheme();
tour.setup(redraw);
document.getElementById("main")?.replaceChildren();
go();
Object.assign(window, { glassformer: { paper, tour } });
// torch is loaded once the first screen is shown and no number was edited for a while: loading it delays the answers
const QUIET = 3000; // ms
function warm() {
  const wait = Math.max(paper.timing.edited, 0) + QUIET - performance.now();
  if (wait > 0) setTimeout(warm, wait); else get("api/models").catch(() => {});
}
warm();
