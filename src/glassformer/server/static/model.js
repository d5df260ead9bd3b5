// Model: one run of a real model; its heads as small maps, one of them enlarged, one of its rows in numbers.
import { address as page, announce, base64, bytes, get, go, html, isAbort, layerName, LongWork, nothing, percent, post, Problem, readable, replaceHash, short } from "./lib.js";
import "./map.js";
import { colours, npy, toImage } from "./npy.js";
import * as paper from "./paper.js";
import * as tour from "./tour.js";

export const state = {
  /** @type {any[]} */ models: [], name: "",
  /** @type {any} */ about: null,
  texts: [""],
  /** @type {{data: string, suffix: string, name: string} | null} */ file: null,
  /** @type {any} */ look: null,
  /** @type {any} */ row: null,
  /** @type {any} */ changed: null, change: "off",
  path: "", head: 0, query: 0, hover: "", order: "behaviour",
  /** @type {Problem | null} */ problem: null,
  /** @type {any[]} */ clips: [],
  /** @type {HTMLCanvasElement[]} */ thumbs: [],
};
let refresh = () => {};
const work = new LongWork(() => refresh());

/** @param {{name: string, query: URLSearchParams}} where @param {() => void} redraw */
export async function enter(where, redraw) {
  refresh = redraw;
  tour.seen.zoomed = true;
  if (!state.models.length) {
    try { state.models = (await get("api/models")).models; } catch (error) { state.problem = /** @type {Problem} */ (error); return refresh(); }
  }
  const name = where.name || state.name || "writer";
  const texts = ["t", "u"].map((key) => where.query.get(key)).filter((text) => text !== null);
  const given = where.query.get("look");
  if (given) { if (given !== state.look?.id) await open(name, given); }
  else if (name !== state.name) await choose(name, texts);
  else if (texts.length && (texts[0] !== state.texts[0] || (texts[1] ?? "") !== (state.texts[1] ?? ""))) { state.texts = texts; state.file = null; await run(); }
  const path = where.query.get("p");
  if (path && state.look?.layers.some((layer) => layer.path === path)) await pick(path, Number(where.query.get("h") ?? 1) - 1, Number(where.query.get("q") ?? 1) - 1);
  refresh();
}

/** @param {string} name @param {string[]} texts */
async function choose(name, texts) {
  Object.assign(state, { name, about: null, look: null, row: null, changed: null, problem: null, file: null, thumbs: [] });
  await during("Loading the model", async (signal, progress) => {
    state.about = await get(`api/models/${encodeURIComponent(name)}`, signal, progress);
    state.texts = texts.length ? texts : state.about.example.length ? [...state.about.example] : [""];
    if (state.about.look) return;
    if (state.about.inputs[0] === "audio") { state.clips = await get("api/clips", signal); }
  });
  if (state.about?.look) await open(name, state.about.look); // a recorded run
  else if (state.about?.inputs[0] === "text" && state.texts[0]) await run();
  else if (state.about?.inputs[0] === "audio" && state.clips.length) await useClip(state.clips[0].name);
  else if (state.about?.inputs[0] === "image") await useExample();
}

/** A run that was made elsewhere: in a notebook. @param {string} name @param {string} id */
async function open(name, id) {
  Object.assign(state, { name, about: null, look: null, row: null, changed: null, problem: null, file: null, thumbs: [] });
  await during("Loading the run", async (signal, progress) => {
    const look = await get(`api/looks/${encodeURIComponent(id)}`, signal, progress);
    if (look.inputs.length) state.about = await get(`api/models/${encodeURIComponent(name)}`, signal);
    state.texts = look.texts;
    await shown(look, signal);
  });
}

/** @param {string} words @param {(signal: AbortSignal, progress: import("./lib.js").OnProgress) => Promise<void>} steps */
async function during(words, steps) {
  state.problem = null;
  try { await work.run(words, steps); } catch (error) { state.problem = /** @type {Problem} */ (error); refresh(); }
}

async function run() {
  if (!state.file && !state.texts.some((text) => text.trim())) { state.problem = new Problem("there is no text", "write one above", 422); return refresh(); }
  await during("Running the model", async (signal, progress) => {
    const body = state.file ? { texts: [], file: state.file.data, suffix: state.file.suffix } : { texts: state.texts.filter((text) => text.trim()) };
    await shown(await post(`api/models/${encodeURIComponent(state.name)}/look`, body, signal, progress), signal);
  });
}
/** @param {any} look @param {AbortSignal} signal */
async function shown(look, signal) {
  state.look = look;
  state.changed = null;
  state.thumbs = [];
  const plain = (head) => ["diffuse", "global"].includes(head.label); // little to see
  const across = look.heads.filter((head) => head.path.endsWith(".cross")); // from a translation to its source
  const list = across.length ? across : look.heads;
  const first = list.find((head) => head.label && !plain(head)) ?? list.find((head) => !plain(head)) ?? list[0];
  const layer = look.layers.find((each) => each.path === first.path);
  state.path = first.path; state.head = first.head;
  // the last token that is a word: </s> and full stops have little to show; in a translation the token that predicts it
  const word = layer.query_labels.findLastIndex((label) => /^[^<]*[\p{L}\p{N}]/u.test(label));
  const [rows, columns] = layer.grid ?? look.grid ?? [0, 0];
  state.query = look.grid ? (layer.grid ? 0 : look.prefix) + Math.floor(rows / 2) * columns + Math.floor(columns / 2) : Math.max(word - (across.length ? 1 : 0), 0);
  refresh();
  await Promise.all([thumbnails(signal), readRow(signal)]);
}

async function thumbnails(signal) {
  const { shape, data } = await npy(`api/looks/${state.look.id}/thumbnails.npy`, signal);
  const [count, rows, columns] = shape, table = colours();
  state.thumbs = Array.from({ length: count }, (_, i) => toImage(data.subarray(i * rows * columns, (i + 1) * rows * columns), rows, columns, table));
  state.raw = { shape, data };
  refresh();
}

/** @type {AbortController | null} */
let rowRequest = null;
async function readRow(signal) {
  rowRequest?.abort();
  rowRequest = new AbortController();
  signal?.addEventListener("abort", () => rowRequest?.abort());
  const { path, head, query } = state;
  try {
    state.row = await get(`api/looks/${state.look.id}/row?path=${encodeURIComponent(path)}&head=${head}&query=${query}`, rowRequest.signal);
    const top = state.row.keys[0];
    announce(`${readable(state.row.label)} looks most at ${readable(top.label)}, ${percent(top.weight)}`);
    address();
  } catch (caught) { if (isAbort(caught)) return; const error = /** @type {Problem} */ (caught); if (error.status === 422 && /expired/.test(error.message)) return run(); state.problem = error; }
  refresh();
}
async function pick(path, head, query) {
  const layer = state.look.layers.find((each) => each.path === path);
  if (!layer) return;
  state.changed = path === state.path && head === state.head ? state.changed : null;
  Object.assign(state, { path, head: Math.max(0, Math.min(head, layer.heads - 1)), query: Math.max(0, Math.min(query, layer.queries - 1)) });
  refresh();
  await readRow();
}
function address() {
  if (!page.get().startsWith("#/model")) return;
  const query = new URLSearchParams();
  if (!state.file) { query.set("t", state.texts[0]); if (state.texts[1]?.trim()) query.set("u", state.texts[1]); }
  query.set("p", state.path); query.set("h", String(state.head + 1)); query.set("q", String(state.query + 1));
  replaceHash(`#/model/${state.name}?${query}`);
}
const layerNow = () => state.look.layers.find((each) => each.path === state.path);

async function switchHead() {
  await during("Running the model with the change", async (signal, progress) => {
    state.changed = await post(`api/looks/${state.look.id}/change`, { heads: [{ path: state.path, head: state.head }], change: state.change }, signal, progress);
    tour.seen.switched = true;
    tour.check();
  });
}
async function toPaper() {
  await during("Writing the row as an exercise", async (signal) => {
    const { exercise } = await post(`api/looks/${state.look.id}/paper`, { path: state.path, head: state.head, query: state.query }, signal);
    const here = page.get();
    await paper.start("", exercise, structuredClone(exercise));
    paper.state.origin = here;
    go(await paper.hash());
  });
}

// -- input -------------------------------------------------------------------------------------------------------------

/** @param {File | Blob} file @param {string} name */
async function take(file, name) {
  const suffix = (name.match(/\.(png|jpe?g|wav|flac|ogg)$/i)?.[0] ?? "").toLowerCase().replace("jpeg", "jpg");
  if (!suffix) { state.problem = new Problem(`${name} is neither an image nor a recording`, "give a PNG, JPEG, WAV, FLAC or Ogg file", 422); return refresh(); }
  state.file = { data: base64(await file.arrayBuffer()), suffix, name };
  await run();
}
async function useClip(name) {
  const body = await bytes(`api/clips/${encodeURIComponent(name)}`);
  await take(new Blob([body]), `${name}.flac`);
}

/** @param {HTMLCanvasElement} canvas */
const context = (canvas) => /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
const pad = { canvas: /** @type {HTMLCanvasElement | null} */ (null), last: /** @type {number[] | null} */ (null) };
function canvasOf() {
  if (!pad.canvas) {
    const canvas = pad.canvas = document.createElement("canvas");
    canvas.width = canvas.height = 280;
    canvas.className = "pad";
    canvas.setAttribute("aria-label", "Draw here");
    clearPad();
    const at = (event) => { const box = canvas.getBoundingClientRect(); return [(event.clientX - box.left) / box.width * 280, (event.clientY - box.top) / box.height * 280]; };
    canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); pad.last = at(event); stroke(pad.last, pad.last); });
    canvas.addEventListener("pointermove", (event) => { if (pad.last) { const now = at(event); stroke(pad.last, now); pad.last = now; } });
    canvas.addEventListener("pointerup", () => { pad.last = null; usePad(); });
  }
  return pad.canvas;
}
function stroke(a, b) {
  const c = context(canvasOf());
  c.strokeStyle = "#fff"; c.lineWidth = 22; c.lineCap = c.lineJoin = "round";
  c.beginPath(); c.moveTo(a[0], a[1]); c.lineTo(b[0] + 0.1, b[1]); c.stroke();
}
function clearPad() { const c = context(canvasOf()); c.fillStyle = "#000"; c.fillRect(0, 0, 280, 280); }
/** What the model is shown first: the example image in its folder, or a drawn digit. */
async function useExample() {
  if (!state.about.picture) return drawExample();
  await take(new Blob([Uint8Array.from(atob(state.about.picture), (char) => char.charCodeAt(0))]), "example.jpg");
}
async function usePad() { const blob = await new Promise((resolve) => canvasOf().toBlob(resolve, "image/png")); if (blob) await take(blob, "drawing.png"); }
async function drawExample() {
  canvasOf();
  clearPad();
  const path = [[90, 85], [140, 60], [190, 90], [180, 135], [135, 150], [185, 165], [195, 205], [145, 235], [85, 210]];
  for (let i = 1; i < path.length; i++) stroke(path[i - 1], path[i]);
  await usePad();
}

const mic = { recorder: /** @type {any} */ (null) };
async function record() {
  if (mic.recorder) { mic.recorder.stop(); return; }
  const { recordWav, unheard } = await import("./audio.js");
  try {
    mic.recorder = await recordWav(30, async (blob) => { mic.recorder = null; await take(blob, "microphone.wav"); });
  } catch (error) { state.problem = unheard(error, "choose a file"); }
  refresh();
}

function inputs() {
  const kinds = state.about?.inputs ?? [];
  if (!kinds.length) return state.look?.texts.some((text) => text) ? html`<p class="said-text">“${state.look.texts.join("” and “")}”</p>` : nothing; // a recorded run
  if (kinds[0] === "text") {
    const two = state.about.verbs.includes("embed") && !state.about.verbs.includes("generate");
    const field = (i, label) => html`<label class="field">${label}<textarea rows="2" spellcheck="false" .value=${state.texts[i] ?? ""} @input=${(event) => { state.texts[i] = event.target.value; state.file = null; }}
      @keydown=${(event) => { if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); run(); } }}></textarea></label>`;
    return html`<div class="inputs">${field(0, "Text")}${kinds.length > 1 ? field(1, "Its translation (by default the model's own)") : two ? field(1, "Compare with") : nothing}<button class="primary" @click=${run}>Run</button></div>`;
  }
  const drop = { over: (event) => event.preventDefault(), drop: (event) => { event.preventDefault(); const file = event.dataTransfer?.files[0]; if (file) take(file, file.name); } };
  const chooser = (accept) => html`<input type="file" aria-label="File" accept=${accept} @change=${(event) => { const file = event.target.files[0]; if (file) take(file, file.name); }}>`;
  if (kinds[0] === "image") return html`<div class="inputs drop" @dragover=${drop.over} @drop=${drop.drop}>
    ${state.about.picture ? nothing : canvasOf()}<div><p>${state.about.picture ? "Drop a photograph here, or choose one." : "Draw on the black square, or drop an image."}</p>${chooser("image/png,image/jpeg")}<p class="row">${state.about.picture ? nothing : html`<button @click=${() => { clearPad(); Object.assign(state, { look: null, row: null, changed: null, problem: null }); refresh(); }}>Clear</button>`} <button @click=${useExample}>An example</button></p></div></div>`;
  return html`<div class="inputs drop" @dragover=${drop.over} @drop=${drop.drop}><div><label>Recording <select @change=${(event) => useClip(event.target.value)}>${state.clips.map((clip) => html`<option value=${clip.name}>${clip.text}</option>`)}</select></label>
    <p class="row">${chooser("audio/*,.wav,.flac,.ogg")}<button @click=${record} aria-pressed=${!!mic.recorder}>${mic.recorder ? "Stop" : "Microphone"}</button></p><p class="quiet">Or drop a WAV, FLAC or Ogg file of up to 30 seconds.</p></div></div>`;
}

// -- heads -------------------------------------------------------------------------------------------------------------

function heads() {
  const { look } = state;
  const index = new Map();
  let n = 0;
  for (const layer of look.layers) for (let h = 0; h < layer.heads; h++) index.set(`${layer.path}/${h}`, n++);
  const list = state.order === "behaviour" ? look.heads : [...index.keys()].map((key) => look.heads.find((head) => `${head.path}/${head.head}` === key));
  return html`<section class="thumbs" aria-label="Heads"><div class="row"><h2>${look.heads.length} heads</h2><span class="spacer"></span>
      <label class="quiet">by <select aria-label="Order of the heads" @change=${(event) => { state.order = event.target.value; refresh(); requestAnimationFrame(() => requestAnimationFrame(() => document.querySelector(".thumb.now")?.scrollIntoView({ block: "nearest" }))); }}><option value="behaviour" ?selected=${state.order === "behaviour"}>what they do</option><option value="layer" ?selected=${state.order === "layer"}>layer</option></select></label></div>
    ${remark() ? html`<p class="quiet">${remark()}</p>` : nothing}
    <div class="grid">${list.map((head) => { const now = head.path === state.path && head.head === state.head; return html`<button class="thumb ${now ? "now" : ""}" aria-pressed=${now} @click=${() => pick(head.path, head.head, state.query)}
      title=${`${layerName(head.path)}, head ${head.head + 1}: ${meaningOf(head.label)}`} aria-label=${`${layerName(head.path)}, head ${head.head + 1}${head.label ? `: ${head.label}` : ""}`}>${thumb(index.get(`${head.path}/${head.head}`))}<span>${head.label || "other"}</span><small>${place(head.path)}·${head.head + 1}</small></button>`; })}</div></section>`;
}
/** Notes on the maps: which text they belong to, and why this head is shown first. */
function remark() {
  const { look } = state;
  if (look.heads[0]?.label === "alignment") return "Alignments come first: in these heads of the cross-attention (×) the translation looks at its source, word by word.";
  return look.answer.kind === "vector" && look.texts.length > 1 ? "The maps are those of the first text. The second is only compared with it." : "";
}
const place = (path) => path.replace(/^(\w)\w*\.(\d+)\.(\w+)$/, (_, stack, number, kind) => `${stack}${Number(number) + 1}${kind === "cross" ? "×" : ""}`);
/** What a head with this label does, in words. */
const MEANINGS = {
  self: "attends to the token itself", previous: "attends to the token before", next: "attends to the token after", first: "attends to the first token",
  separator: "attends to separators", duplicate: "attends to earlier copies of the token", induction: "attends to what followed earlier copies of the token",
  row: "attends along the patch's row", column: "attends along the patch's column", CLS: "attends to the class token", registers: "attends to the registers",
  alignment: "attends to each part of the source in turn",
  diffuse: "attends almost uniformly to everything", global: "attends almost uniformly to everything",
};
/** @param {string} label */
function meaningOf(label) {
  if (!label) return "fits none of the named patterns on this input";
  const near = label.match(/^(local|convolution) ([\d×]+)$/), far = label.match(/^offset (.+)$/);
  if (near) return `attends within a window of ${near[2]}, ${near[1] === "convolution" ? "by position alone" : "depending on the content"}`;
  if (/^(above|below|left|right)/.test(label)) return `attends to the cell ${label.replace("above", "above it").replace("below", "below it").replace(/ it (\w+)/, " it on the $1").replace(/^(left|right)/, "on its $1")}`;
  return far ? `attends to the token ${far[1]} positions away` : label.split(", ").map((part) => MEANINGS[part] ?? part).join(", ");
}
/** @param {number} i */
function thumb(i) { return state.thumbs[i] ?? html`<span class="empty"></span>`; }

function bigMap() {
  const layer = layerNow();
  queueMicrotask(() => { const map = document.querySelector("attention-map"); if (map && state.look) /** @type {any} */ (map).show(state.look.id, layer, state.head, state.query); });
  const label = state.look.heads.find((head) => head.path === state.path && head.head === state.head)?.label;
  return html`<section class="map" aria-label="Attention map"><h2><i>A</i> of ${layerName(state.path)}, head ${state.head + 1} <span class="tag">${label || "other"}</span></h2>
    <p class="quiet meaning">This head ${meaningOf(label ?? "")}. ${state.path.endsWith(".cross") ? "Each row predicts the token after its own. " : ""}<code>${state.path}</code></p>
    <attention-map @row=${(event) => pick(state.path, state.head, event.detail.query)} @cell=${(event) => { const { query, key } = event.detail; state.hover = `${readable(layer.query_labels[query])} → ${readable(layer.key_labels[key])}`; refresh(); }}></attention-map>
    <p class="legend">0 <span class="ramp" aria-hidden="true"></span> ${state.row?.path === state.path && state.row.head === state.head ? largest(state.row.largest) : "the largest weight"} <span>weight, square-root scale; the upper end is this head's largest. Rows are queries, columns keys${layer.causal ? "; hatched keys are masked" : ""}. Scroll or press + and − to zoom, drag to move.</span></p>
    <p class="hover quiet">${state.hover || "\u00a0"}</p>
    ${state.look.grid ? picture(layer) : tokens(layer)}</section>`;
}
const largest = (weight) => (weight >= 0.01 ? weight.toFixed(2) : weight.toPrecision(2));
function tokens(layer) {
  if (layer.queries > 200) return html`<p><label>Query <input class="num box" type="number" min="1" max=${layer.queries} .value=${String(state.query + 1)} @change=${(event) => pick(state.path, state.head, Number(event.target.value) - 1)}></label></p>`;
  const weights = state.row?.path === state.path ? state.row.all : [];
  const same = layer.queries === layer.keys;
  return html`<div class="who" role="group" aria-label="Query">${layer.query_labels.map((label, t) => html`<button class="token w${same ? Math.min(10, Math.round((weights[t] ?? 0) * 10)) : 0}" aria-pressed=${t === state.query} title=${same && weights[t] !== undefined ? percent(weights[t]) : ""} @click=${() => pick(state.path, state.head, t)}>${readable(label)}</button>`)}</div>
    <p class="quiet">${state.look.inputs?.[0] === "text" ? `The model reads tokens: words, or pieces of words${layer.query_labels.some((label) => /^<0x..>$/.test(label)) ? ", and bytes such as <0xC3> where its vocabulary has neither" : ""}. ` : ""}${same ? `Shaded by the weight that “${readable(layer.query_labels[state.query])}” gives them.` : ""}</p>`;
}
function picture(layer) {
  const [rows, columns] = layer.grid ?? state.look.grid, prefix = layer.grid ? 0 : state.look.prefix, pixels = state.look.image;
  // the keys of a layer with a grid of its own have a ring around them
  const cell = (i) => (layer.grid ? (Math.floor(i / columns) + 1) * (columns + 2) + (i % columns) + 1 : i + prefix);
  const all = state.row?.all ?? [], weights = [...all.slice(0, prefix), ...Array.from({ length: rows * columns }, (_, i) => all[cell(i)] ?? 0)];
  const top = Math.max(...weights.slice(prefix), 1e-9);
  const size = 240, h = size / rows, w = size / columns;
  const canvas = image(pixels);
  return html`<div class="patches">${canvas}<svg viewBox="0 0 ${size} ${size}" role="group" aria-label="Patches">${Array.from({ length: rows * columns }, (_, i) => html`<svg x=${(i % columns) * w} y=${Math.floor(i / columns) * h} width=${w} height=${h}><rect class="patch ${i + prefix === state.query ? "now" : ""}" width="100%" height="100%" fill-opacity=${0.75 * Math.sqrt(Math.max(0, weights[i + prefix] ?? 0) / top)}
    tabindex="0" role="button" aria-label=${`patch ${layer.query_labels[i + prefix]}, weight ${percent(weights[i + prefix] ?? 0)}`} @click=${() => pick(state.path, state.head, i + prefix)} @keydown=${(event) => { if (event.key === "Enter") pick(state.path, state.head, i + prefix); }} /></svg>`)}</svg></div>
    <p class="quiet">Click a patch: the others are shaded by the weight it gives them.</p>`;
}
const drawn = { pixels: null, canvas: /** @type {HTMLCanvasElement | null} */ (null) };
function image(pixels) {
  if (drawn.pixels === pixels && drawn.canvas) return drawn.canvas;
  const canvas = document.createElement("canvas");
  canvas.height = pixels.length; canvas.width = pixels[0].length;
  const c = context(canvas), data = c.createImageData(canvas.width, canvas.height);
  pixels.forEach((row, y) => row.forEach((p, x) => { const rgb = p.length === 1 ? [p[0], p[0], p[0]] : p; data.data.set([...rgb, 255], 4 * (y * canvas.width + x)); }));
  c.putImageData(data, 0, 0);
  drawn.pixels = pixels; drawn.canvas = canvas;
  return canvas;
}

// -- the row in numbers ------------------------------------------------------------------------------------------------

/** Numbers below one another have the same number of decimals. @param {number} x */
const fixed = (x) => x.toFixed(2).replace(/^-(0\.00)$/, "$1").replace("-", "−");
/** @param {number[]} values */
const vector = (values) => `(${values.map(fixed).join(", ")})`;
/** @param {number[]} list */
const counted = (list) => (list.length > 1 ? `numbers ${list.map((c) => c + 1).join(" and ")} are` : `number ${list[0] + 1} is`);
function numbers() {
  const row = state.row;
  if (!row) return html`<section class="numbers"><p class="quiet">Choose a row of the map.</p></section>`;
  const biased = row.keys.some((key) => Math.abs(key.bias) > 1e-4);
  const keys = row.keys.slice(0, 8), others = row.others.count + row.keys.length - keys.length;
  const rest = Math.max(0, row.others.weight + row.keys.slice(8).reduce((sum, key) => sum + key.weight, 0));
  const weight = (share, bar = share) => html`<td class="weight"><svg class="bar" viewBox="0 0 100 14" preserveAspectRatio="none" aria-hidden="true"><rect width=${bar ? Math.max(0.8, 100 * bar) : 0} height="14" rx="1" /></svg><span class="num">${percent(share)}</span></td>`;
  const [d, e] = [row.width, row.value_width];
  const two = [0, 1].slice(0, row.coordinates.length).sort((a, b) => row.coordinates[a] - row.coordinates[b]), shown = (values) => vector(two.map((n) => values[n]));
  return html`<section class="numbers" aria-label="One row in numbers">
    <p class="query"><b class="q"><i>q</i></b> = <span class="q">${shown(row.q)}</span> <span class="quiet">the query of <b>“${state.look.grid && /^\d/.test(row.label) ? "patch " : ""}${readable(row.label)}”</b>, number ${row.query + 1} of ${layerNow().queries}; <i>β</i> = ${short(row.beta, 4)}</span></p>
    <div class="scroll"><table class="attend"><thead><tr><td></td><th scope="col" class="k narrow-off"><i>k</i></th><th scope="col"><i>q·k</i></th><th scope="col" class="narrow-off">${biased ? html`<i>S</i>` : html`<i>β q·k</i>`}</th><th scope="col" class="a"><i>A</i></th>${e ? html`<th scope="col" class="v"><i>v</i></th>` : nothing}</tr></thead>
    <tbody>${keys.map((key) => html`<tr><th scope="row">${readable(key.label)}</th><td class="k vec narrow-off">${shown(key.k)}</td><td>${fixed(key.product)}</td><td class="narrow-off">${fixed(key.score)}</td>${weight(key.weight)}${e ? html`<td class="v vec">${vector(key.v)}</td>` : nothing}</tr>`)}
      ${others > 0 ? html`<tr><th scope="row" class="quiet">${others} other keys</th><td class="narrow-off"></td><td></td><td class="narrow-off"></td>${weight(rest, 0)}${e ? html`<td></td>` : nothing}</tr>` : nothing}</tbody></table></div>
    ${e ? output(row) : nothing}
    <p class="quiet">${biased ? html`<i>S</i> = <i>β q·k</i> + the bias of this layer. ` : nothing}<i>q</i> and <i>k</i> have ${d} coordinates; ${counted(two.map((n) => row.coordinates[n]))} shown here, where <i>q·k</i> is largest.${e ? html` <i>v</i> and <i>h</i> have ${e}; ${counted(row.value_coordinates)} shown, where <i>h</i> is largest.` : nothing}</p>
    <p><button class="primary" @click=${toPaper}>Put this row on paper ▸</button></p>
    <details><summary><i>q·k</i> by coordinate</summary><div class="scroll"><table class="plainTable"><thead><tr><th scope="col">key</th>${row.coordinates.map((c) => html`<th scope="col">${c + 1}</th>`)}<th scope="col">the other ${d - row.coordinates.length}</th><th scope="col">sum</th></tr></thead>
      <tbody>${keys.map((key) => html`<tr><th scope="row">${readable(key.label)}</th>${key.by_coordinate.map((x, n) => html`<td title=${`${short(row.q[n], 3)} · ${short(key.k[n], 3)}`}>${fixed(x)}</td>`)}<td>${fixed(key.product - key.by_coordinate.reduce((a, b) => a + b, 0))}</td><td>${fixed(key.product)}</td></tr>`)}</tbody></table></div></details>
  </section>`;
}
/** h as the sum of the values with the largest weights and one term for all others. */
function output(row) {
  const total = row.keys.length + row.others.count, kept = row.keys.slice(0, total > 4 ? 3 : 4).filter((key) => key.weight > 5e-4);
  const left = 1 - kept.reduce((sum, key) => sum + key.weight, 0);
  const mean = row.h.map((x, c) => (x - kept.reduce((sum, key) => sum + key.weight * key.v[c], 0)) / left);
  const term = (share, v) => html`${share.toFixed(3).replace(/^0/, "")}·<span class="v">${vector(v)}</span>`;
  return html`<p class="output"><b class="h"><i>h</i></b> = ${kept.map((key, n) => html`${n ? " + " : ""}${term(key.weight, key.v)}`)}
    ${total > kept.length && left > 5e-4 ? html` + ${term(left, mean)} <span class="quiet">(the mean of the ${total - kept.length} other values)</span>` : nothing} = <b>${vector(row.h)}</b></p>`;
}

function answer() {
  const { look, changed } = state, now = look.answer;
  if (now.kind === "none") return nothing; // a trace without its model
  const bar = (p) => html`<svg class="bar" viewBox="0 0 100 14" preserveAspectRatio="none" aria-hidden="true"><rect width=${Math.max(0.5, 100 * Math.max(0, p))} height="14" rx="1" /></svg>`;
  const shown = (p) => (now.kind === "vector" ? p.toFixed(3).replace("-", "−") : percent(p));
  // rounded as in the columns, so that the difference is that of the displayed numbers
  const difference = ({ before, after }) => { const digits = now.kind === "vector" ? 3 : 1, [a, b] = [before, after].map((p) => Number((now.kind === "vector" ? p : 100 * p).toFixed(digits))), by = Number((b - a).toFixed(digits)); return html`<td class="num ${by > 0 ? "up" : by < 0 ? "down" : ""}">${by > 0 ? "+" : by < 0 ? "−" : ""}${Math.abs(by).toFixed(digits)}</td>`; };
  const name = (text) => html`<code>${text.replaceAll("\n", "↵").replace(/\s/g, "␣").replace(/\p{C}/gu, "·") || "·"}</code>`;
  // after the model's own translation, the next token is the end token; after a given one, it is a prediction
  const listed = now.options.length > 0 && (now.kind !== "text" || (state.texts[1] ?? "").trim());
  const label = now.kind !== "vector" && !look.verbs.includes("classify") ? name : (text) => text;
  return html`<section class="answers" aria-label="Answer"><h2>${now.heading}</h2>
    ${look.verbs.includes("transcribe") ? html`<p class="quiet">Letter by letter, the most likely one each time. Live also uses a language model.</p>` : nothing}
    ${now.text ? html`<p class="said-text">“${now.text}”</p>` : now.kind === "text" && !look.answer.options.length ? html`<p class="quiet">No speech was recognised.</p>` : nothing}
    <p class="row"><label>${layerName(state.path)}, head ${state.head + 1}: <select aria-label="Change" @change=${(event) => { state.change = event.target.value; refresh(); }}>${Object.entries(look.changes).map(([key, words]) => html`<option value=${key} ?selected=${state.change === key}>${words}</option>`)}</select></label>
      <button class="primary" @click=${switchHead}>${state.change === "off" ? "Switch this head off" : "Change this head"}</button>
      ${changed ? html`<button @click=${() => { state.changed = null; refresh(); }}>Back to normal</button>` : nothing}</p>
    ${changed?.after.text ? html`<p class="said-text after">After: “${changed.after.text}” ${changed.after.text === changed.before.text ? html`<span class="quiet">the same</span>` : nothing}</p>` : nothing}
    ${listed ? html`<div class="scroll"><table class="options ${changed ? "changed" : ""}"><thead><tr><th scope="col">${now.kind === "vector" ? "cosine with" : look.verbs.includes("classify") ? "class" : now.kind === "text" ? `next token after “${state.texts[1]}”` : "next token"}</th><th scope="col">${changed ? "before" : now.kind === "vector" ? "cosine" : "probability"}</th>${changed ? html`<th scope="col">after</th><th scope="col">difference${now.kind === "vector" ? "" : " in points"}</th>` : nothing}</tr></thead><tbody>
      ${(changed ? changed.rows : now.options.map((each) => ({ name: each.name, before: each.p }))).slice(0, 10).map((each) => html`<tr><th scope="row">${label(each.name)}</th><td class="weight">${bar(each.before)}<span class="num">${shown(each.before)}</span></td>
        ${changed ? html`<td class="weight">${bar(each.after)}<span class="num">${shown(each.after)}</span></td>${difference(each)}` : nothing}</tr>`)}</tbody></table></div>` : nothing}
  </section>`;
}

/** A fact about the model, such as "context 256 tokens". @param {string} key @param {string} value */
const fact = (key, value) => key === "layers" ? value.replace(/^(.*) \+ (.*)$/, "encoder: $1, decoder: $2").replace(/(\d+) × (\d+)/g, (_, count, width) => `${count} layer${count === "1" ? "" : "s"} of width ${width}`) : key === "context" && value === "any" ? "texts of any length" : { vectors: `vectors by ${value}`, classes: `${value} classes`, symbols: `${value} symbols`, vocabulary: `${value} tokens in the vocabulary`, image: `images of ${value}` }[key] ?? `${key} ${value}`;
/** What the model does, in the first words of its card. */
function does() {
  const [first] = (state.models.find((model) => model.name === state.name)?.about ?? "").split(": ");
  return first ? html`${first}${state.about.verbs.includes("transcribe") ? ", as a demonstration: it knows one voice and mishears many words" : ""}. ` : nothing;
}

function empty() {
  const example = () => { if (state.about.inputs[0] === "text") { state.texts = [...(state.about.example.length ? state.about.example : ["The cat sat by the king, because it"])]; run(); } else if (state.about.inputs[0] === "image") useExample(); else if (state.clips.length) useClip(state.clips[0].name); };
  return html`<p>Give the model an input to see where each head attends. <button @click=${example}>Use an example</button></p>`;
}

export function template() {
  const { look, about } = state;
  return html`<div class="room model ${work.busy ? "busy" : ""}">
    <h1 class="visually-hidden">Model: ${state.name}</h1>
    <div class="row pick" role="group" aria-label="Model">${state.models.map((model) => html`<button aria-pressed=${model.name === state.name} title=${model.about} @click=${() => { go(`#/model/${model.name}`); }}>${model.name}</button>`)}</div>
    ${about ? html`<p class="quiet arch">${does()}<b>${about.architecture}</b>, ${about.parameters.toLocaleString("en")} parameters${Object.entries(about.facts).map(([key, value]) => html`, ${fact(key, value)}`)}</p>` : nothing}
    ${inputs()}
    ${work.busy ? html`<div class="overlay">${work.template()}</div>` : nothing}
    ${state.problem ? html`<p class="problem" role="alert">${state.problem.message}</p>` : nothing}
    ${look ? html`${look.notes.map((note) => html`<p class="quiet">${note}</p>`)}<div class="inside">${heads()}${bigMap()}<div class="side">${numbers()}${answer()}</div></div>` : about && !work.busy && !state.problem ? empty() : !about && state.name && !work.busy ? html`<p>${state.problem ? nothing : "The model was not loaded. "}<button @click=${() => choose(state.name, [])}>Load it</button></p>` : nothing}
  </div>`;
}
export function recolour() {
  if (state.raw) { const [count, rows, columns] = state.raw.shape, table = colours(); state.thumbs = Array.from({ length: count }, (_, i) => toImage(state.raw.data.subarray(i * rows * columns, (i + 1) * rows * columns), rows, columns, table)); }
  /** @type {any} */ (document.querySelector("attention-map"))?.recolour();
  refresh();
}
export const title = () => `${state.name || "Model"} · Model`;
