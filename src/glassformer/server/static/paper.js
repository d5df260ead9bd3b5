// Paper: one whole exercise: the plot and the numbers of one query, then every step in order.
import { address as page, copy, download, get, go, html, index, indexed, isAbort, noChange, nothing, pack, percent, post, Problem, replaceHash, short, toast, toNumber, Unreachable, unpack, word } from "./lib.js";
import { formula, hue, inputAt, marks, matrixEditor, matrixGrid, numberAt } from "./matrix.js";
import { plane } from "./plane.js";
import { cellAt, isRounded, link, operands, select, selection, sentence, split, symbols } from "./select.js";

export const state = {
  /** @type {any[]} */ library: [],
  name: "",
  /** @type {any} */ original: null,
  /** @type {any} */ exercise: null,
  /** @type {any} */ view: null,
  /** @type {Problem | null} */ problem: null, /** Why there are only decimals. */ inexact: "", stale: false, /** Exact values take long. */ slow: false,
  /** Why the address could not be opened. @type {Problem | null} */ lost: null,
  query: 0, head: 0, exact: false, rows: "one",
  /** @type {any[]} */ past: [],
  /** @type {any[]} */ future: [],
  /** @type {null | "open" | "export"} */ menu: null,
  /** Where in a model this exercise comes from. */ origin: "",
};

let refresh = (now = false) => {};
/** @type {Set<() => void>} called after every change: the tour watches */
export const watchers = new Set();
const changed = (now = false) => { refresh(now); watchers.forEach((watch) => watch()); };

// -- opening -----------------------------------------------------------------------------------------------------------

/** @param {{name: string, query: URLSearchParams}} where @param {(now?: boolean) => void} redraw */
export async function enter(where, redraw) {
  refresh = redraw;
  state.lost = null;
  const packed = where.query.get("x");
  if (!state.library.length) get("api/exercises").then((list) => { state.library = list; refresh(); }, () => {});
  try {
    if (packed) {
      const exercise = JSON.parse(await unpack(packed));
      if (JSON.stringify(exercise) !== JSON.stringify(state.exercise)) await start("", exercise, exercise);
    } else {
      const name = where.name || (state.exercise ? state.name : "first-look");
      if (where.name || !state.exercise) {
        if (name !== state.name || !state.exercise) {
          const exercise = await get(`api/exercises/${encodeURIComponent(name)}`);
          await start(name, exercise, copy(exercise));
        }
      }
      const beta = where.query.get("b");
      if (beta && String(state.exercise.scale) !== beta) change({ scale: beta });
    }
  } catch (error) {
    if (error instanceof Unreachable) throw error;
    state.lost = error instanceof Problem ? error : new Problem("this address does not contain an exercise", "open one from the list", 422);
    if (!state.exercise) { const exercise = await get("api/exercises/first-look"); await start("first-look", exercise, copy(exercise)); }
  }
  const at = where.query.get("at");
  if (where.query.has("h")) state.head = Number(where.query.get("h")) - 1 || 0;
  if (state.stale) decimals(); // the server is back
  if (at) { chooseRowOf(at); selection.at = at; selection.pinned = true; }
  changed();
}
export function leave() { clearTimeout(exactTimer); }

/** @param {string} name @param {any} original @param {any} exercise */
export async function start(name, original, exercise) {
  Object.assign(state, { name, original: copy(original), exercise, past: [], future: [], head: 0, rows: "one", problem: null, view: null, origin: "" });
  selection.at = ""; selection.pinned = false;
  await decimals();
  const attention = state.view?.attention;
  state.query = attention ? attention.queries.length - 1 : 0;
  changed();
}

function chooseRowOf(at) {
  const attention = state.view?.attention;
  if (!attention) return;
  const { symbol, row, column } = split(at);
  attention.heads.forEach((head, h) => {
    if ([head.Q, head.product, head.S, head.scaled, head.A, head.H].includes(symbol)) {
      state.head = h;
      state.query = Math.min(attention.rows ? row : column, attention.queries.length - 1);
    }
  });
}

// -- two lanes: decimals at once, exact values when nothing has happened for a moment -----------------------------------

const IDLE = 120; // ms without an edit before exact values are asked for
const STALE = 300; // ms after which the last result is dimmed
const SLOW = 1000; // ms after which the page says that exact values are still being computed
let busy = false, exactTimer = 0, staleTimer = 0, version = 0;
/** @type {AbortController | null} */
let exactRequest = null;
/** Milliseconds from the last edit until its decimals and its exact values are on the page. */
export const timing = { edited: 0, decimals: 0, exact: 0 };

/** @param {any} view @param {"decimals" | "exact"} lane @param {number} mine */
function present(view, lane, mine) {
  Object.assign(state, { view, problem: null, inexact: "" });
  selection.invalid = "";
  if (mine === version) { clearTimeout(staleTimer); staleTimer = 0; state.stale = false; }
  settle();
  changed(true);
  void document.body.offsetHeight; // laid out while the next frame is waited for
  painted(() => { if (mine === version) timing[lane] = performance.now() - timing.edited; if (!performance.getEntriesByName("usable").length) performance.mark("usable"); });
}
/** Calls back once the next frame has been laid out and painted. @param {() => void} callback */
function painted(callback) {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => { port1.close(); callback(); };
  requestAnimationFrame(() => port2.postMessage(null));
}
/** @param {any} error @param {number} mine */
function failed(error, mine) {
  if (isAbort(error) || mine !== version) return;
  clearTimeout(staleTimer); staleTimer = 0;
  state.stale = true; // what is shown does not follow from what was typed
  state.problem = error instanceof Problem ? error : error instanceof Unreachable ? null : new Problem("the page had an error", "reload it", 0);
  if (state.problem?.status === 422) selection.invalid = lastEdit.key;
  changed();
}

/** Handles a changed exercise. One request for decimals is in flight at a time; the latest exercise is sent next. */
async function decimals() {
  version += 1;
  timing.edited = performance.now();
  timing.decimals = timing.exact = 0;
  clearTimeout(exactTimer);
  exactRequest?.abort();
  exactTimer = setTimeout(exactly, IDLE, version);
  if (!staleTimer) staleTimer = setTimeout(() => { state.stale = true; changed(); }, STALE);
  if (busy) return;
  busy = true;
  let mine;
  do {
    mine = version;
    try {
      const { exercise } = state, view = await post("api/paper", { exercise, exact: false, explain: needed() });
      view.exercise = exercise;
      if (!(mine === version && timing.exact)) present(view, "decimals", mine);
    } catch (error) { failed(error, mine); }
  } while (mine !== version);
  busy = false;
}

/** The steps whose sums are visible and are requested with the decimals; all steps until the page is rendered. */
function needed() {
  if (!state.view) return undefined;
  const { symbol } = split(selection.at), head = state.view.attention?.heads[state.head];
  return [...new Set([symbol, head?.product])].filter((each) => each && state.view.steps.some((step) => step.symbol === each));
}
/** The sum of a number that is shown, which may be of an exercise before the last edit. @param {string} at */
const explain = (at) => post("api/paper/cell", { exercise: state.view.exercise, address: at, exact: state.view.exact });

/** @param {number} mine */
async function exactly(mine) {
  const mineRequest = (exactRequest = new AbortController());
  const slow = setTimeout(() => { state.slow = true; changed(); }, SLOW);
  try {
    const { exercise } = state, view = await post("api/paper", { exercise, exact: true }, mineRequest.signal);
    view.exercise = exercise;
    if (mine !== version) return;
    present(view, "exact", mine);
    document.documentElement.dataset.exact = String(version);
  } catch (error) {
    if (error instanceof Problem && error.status === 422 && mine === version && timing.decimals) { state.inexact = error.fact; changed(); } // the decimals are right
    else failed(error, mine);
  }
  finally { clearTimeout(slow); if (state.slow) { state.slow = false; changed(); } }
}

function settle() {
  const attention = state.view?.attention;
  if (!attention) return;
  state.head = Math.min(state.head, attention.heads.length - 1);
  state.query = Math.min(state.query, attention.queries.length - 1);
}

// -- changing ----------------------------------------------------------------------------------------------------------

let lastEdit = { key: "", time: 0 };
/** Remembers the exercise as it was; edits of one number in quick succession are one. @param {string} key */
function remember(key) {
  const now = performance.now();
  if (!(key && key === lastEdit.key && now - lastEdit.time < 1000)) {
    state.past.push(JSON.stringify(state.exercise));
    if (state.past.length > 200) state.past.shift();
    state.future = [];
  }
  lastEdit = { key, time: now };
}
/** @param {any} patch @param {string} [key] */
export function change(patch, key = "") {
  remember(key);
  const next = { ...state.exercise, ...patch };
  for (const name of Object.keys(next)) if (next[name] === undefined) delete next[name];
  state.exercise = next;
  decimals();
  address();
}
export function undo() { travel(state.past, state.future); }
export function redo() { travel(state.future, state.past); }
function travel(from, to) {
  if (!from.length) return;
  to.push(JSON.stringify(state.exercise));
  state.exercise = JSON.parse(from.pop());
  lastEdit.key = "";
  decimals();
  address();
}

/** The numbers of a given matrix as they were typed. @param {any} matrix */
function typed(matrix) {
  const found = matrix.path.reduce((value, key) => value?.[key], state.exercise);
  const at = (i, j) => Array.isArray(found) ? (Array.isArray(found[0]) ? found[i]?.[j] : found[Math.max(i, j)]) : found;
  return { ...matrix, text: matrix.text.map((row, i) => row.map((text, j) => { const own = at(i, j); return typeof own === "number" || typeof own === "string" ? String(own) : text; })) };
}

/** @param {string} symbol @param {[number, number, string][]} cells @param {string} [key] edits with equal keys in quick succession are undone together */
function edit(symbol, cells, key = cells.length === 1 ? `${symbol}.${cells[0][0] + 1}.${cells[0][1] + 1}` : "") {
  const matrix = state.view?.given.find((each) => each.symbol === symbol);
  if (!matrix) return;
  remember(key);
  const next = copy(state.exercise);
  const keys = matrix.path, last = keys[keys.length - 1];
  let holder = next;
  for (const part of keys.slice(0, -1)) holder = holder[part] = typeof holder[part] === "object" && holder[part] ? holder[part] : {};
  if (holder[last] === undefined || typeof holder[last] === "string" && matrix.rows * matrix.columns > 1) holder[last] = matrix.text.map((row) => [...row]);
  for (const [i, j, text] of cells) {
    const value = /^-?\d{1,15}$/.test(text.trim()) ? Number(text) : text.trim();
    if (!Array.isArray(holder[last])) holder[last] = value;
    else if (Array.isArray(holder[last][0])) holder[last][i][j] = value;
    else holder[last][Math.max(i, j)] = value;
  }
  state.exercise = next;
  decimals();
  address();
}

let addressTimer = 0;
function address() {
  clearTimeout(addressTimer);
  addressTimer = setTimeout(async () => { if (page.get().startsWith("#/paper") || !page.get().replace(/^#\/?/, "")) replaceHash(await hash()); }, 300);
}

/** The address of what is on the page. */
export async function hash(room = "paper") {
  const { scale: _, ...rest } = state.exercise ?? {};
  const { scale: __, ...before } = state.original ?? {};
  const query = new URLSearchParams();
  let path = `#/${room}`;
  if (state.name && JSON.stringify(rest) === JSON.stringify(before)) {
    path += `/${state.name}`;
    if (String(state.exercise.scale) !== String(state.original.scale)) query.set("b", state.exercise.scale);
  } else query.set("x", await pack(JSON.stringify(state.exercise)));
  if (room === "paper") {
    if (state.head) query.set("h", String(state.head + 1));
    if (selection.pinned && selection.at) query.set("at", selection.at);
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

/** Copies the address of what is shown; on Paper it holds the whole exercise. */
export async function share() {
  if (/^#?\/?(paper|$)/.test(page.get())) replaceHash(await hash());
  try { await navigator.clipboard.writeText(page.link(page.get())); toast("Link copied: it opens what you see now."); }
  catch { toast("The URL of this page opens what you see now: copy it from the address bar."); }
}

// -- shapes: layout, heads, tokens --------------------------------------------------------------------------------------

const flip = (m) => m[0].map((_, j) => m.map((row) => row[j]));
const isMatrix = (m) => Array.isArray(m) && Array.isArray(m[0]);

/** Rows become columns everywhere. */
export function toggleLayout() {
  const next = copy(state.exercise);
  const turn = (holder, keys) => { for (const key of keys) if (holder && isMatrix(holder[key])) holder[key] = flip(holder[key]); };
  turn(next, ["X", "Q", "K", "V", "WO", "memory", "positions", "mask"]);
  for (const head of next.heads ?? []) turn(head, ["WQ", "WK", "WV", "Q", "K", "V"]);
  turn(next.ffn, ["W1", "W2"]);
  turn(next.patches, ["W"]);
  next.layout = (next.layout ?? "rows") === "rows" ? "columns" : "rows";
  change(next);
}

/** @param {number} by */
function changeHeads(by) {
  const next = copy(state.exercise);
  const heads = next.heads?.length ? next.heads : [{ Q: next.Q, K: next.K, V: next.V }];
  const swap = (m) => m && ((next.layout ?? "rows") === "rows" ? m.map((row) => [...row].reverse()) : [...m].reverse());
  if (by > 0) {
    const last = copy(heads[heads.length - 1]);
    if (last.Q) last.Q = swap(last.Q); else last.WQ = flip(flip(last.WQ)).map((row) => [...row].reverse());
    heads.push(last);
  } else heads.pop();
  for (const key of ["Q", "K", "V", "WO", "bO"]) next[key] = undefined;
  next.heads = heads;
  state.head = Math.max(0, Math.min(state.head, heads.length - 1));
  if (by > 0) state.head = heads.length - 1;
  change(next);
}

/** The vector of the n-th added token; no two of them coincide in the plot. */
const FRESH = [[1, 0], [2, 0], [-1, 0], [0, 1], [1, 1], [2, -1], [-1, 1], [1, -1], [1, 2], [2, -2], [-1, 2], [1, -2]];

/** @param {number} by */
function changeTokens(by) {
  const next = copy(state.exercise), rows = (next.layout ?? "rows") === "rows";
  const grow = (holder, key) => {
    if (!isMatrix(holder?.[key])) return;
    let m = rows ? holder[key] : flip(holder[key]);
    if (by > 0) m.push(m[0].map((_, j) => FRESH[m.length]?.[j] ?? 0)); else m.pop();
    holder[key] = rows ? m : flip(m);
  };
  for (const key of ["X", "Q", "K", "V", "positions"]) grow(next, key);
  for (const head of next.heads ?? []) for (const key of ["Q", "K", "V"]) grow(head, key);
  if (next.labels) { if (by > 0) next.labels.push(`word ${next.labels.length + 1}`); else next.labels.pop(); }
  if (isMatrix(next.mask)) next.mask = "none";
  change(next);
}

/** Makes queries, keys and values given matrices, so that they can be dragged. */
function release() {
  const { attention } = state.view, next = copy(state.exercise);
  const texts = (symbol) => matrixOf(symbol).text.map((row) => [...row]);
  next.heads = attention.heads.map((head) => ({ Q: texts(head.Q), K: texts(head.K), V: texts(head.V) }));
  for (const key of ["X", "memory", "positions", "patches", "text"]) next[key] = undefined; // its text asks for them
  if (attention.heads.length === 1) { Object.assign(next, next.heads[0]); next.heads = undefined; }
  change(next);
}
const canRelease = () => { const e = state.exercise; return !state.view.attention.direct && !e.residual && !e.layernorm && !e.ffn; };

// -- reading the view --------------------------------------------------------------------------------------------------

/** @param {string} symbol */
const matrixOf = (symbol) => [...state.view.given, ...state.view.steps].find((matrix) => matrix.symbol === symbol);
const place = (t, c) => (state.view.attention.rows ? [t, c] : [c, t]);
const addressOf = (symbol, t, c) => { const [i, j] = place(t, c); return `${symbol}.${i + 1}.${j + 1}`; };
const valueOf = (matrix, t, c) => { const [i, j] = place(t, c); return toNumber(matrix.value[i][j]); };
const tokensOf = (matrix) => (state.view.attention.rows ? matrix.rows : matrix.columns);
const widthOf = (matrix) => (state.view.attention.rows ? matrix.columns : matrix.rows);
const vectorOf = (matrix, t) => Array.from({ length: widthOf(matrix) }, (_, c) => valueOf(matrix, t, c));

/** What a number is called in words. @param {string} at */
export function nameOf(at) {
  const { symbol, row, column } = split(at);
  const attention = state.view?.attention;
  const matrix = state.view && matrixOf(symbol);
  if (attention && matrix) {
    const [t, c] = attention.rows ? [row, column] : [column, row];
    for (const head of attention.heads) {
      const key = word(attention.keys[c] ?? ""), query = word(attention.queries[t] ?? "");
      if (symbol === head.A) return `weight of ${key} for ${query}`;
      if (symbol === head.product) return t === state.query ? `q·k ${key}` : `q·k of ${query} and ${key}`;
      if (symbol === head.S || symbol === head.scaled) return `β q·k ${key}`;
      if (symbol === head.H) return `h of ${query}, coordinate ${c + 1}`;
      if (symbol === head.Q) return `q of ${query}, coordinate ${c + 1}`;
      if (symbol === head.K) return `k of ${word(attention.keys[t])}, coordinate ${c + 1}`;
      if (symbol === head.V) return `v of ${word(attention.keys[t])}, coordinate ${c + 1}`;
    }
  }
  return matrix && matrix.rows * matrix.columns === 1 ? matrix.spoken : `${matrix?.spoken ?? symbol} row ${row + 1} column ${column + 1}`;
}

// -- β -----------------------------------------------------------------------------------------------------------------

const TOP = 1000;
const toBeta = (p) => {
  if (p >= TOP) return Infinity;
  const raw = (1.5 * p) / (TOP - p);
  const step = raw < 2 ? 0.05 : raw < 10 ? 0.25 : raw < 50 ? 1 : 10;
  return Math.round(raw / step) * step;
};
const toSlider = (beta) => (beta === Infinity ? TOP : Math.round((TOP * beta) / (beta + 1.5)));

let typingBeta = false; // an answer to an earlier change leaves alone what is being typed
function betaControl() {
  const { beta } = state.view.attention;
  const text = String(state.exercise.scale ?? "1/sqrt(dk)"), own = toNumber(text);
  const value = Number.isNaN(own) ? toNumber(beta.value) : own; // what was set last, though its answer may not be there yet
  const set = (b) => change({ scale: b === Infinity ? "inf" : Number(b.toFixed(2)) }, "scale");
  return html`<div class="beta">
    <label for="beta" title="The scores are multiplied by β before softargmax: 0 attends to all tokens equally, ∞ only to the largest score"><i>β</i> <small>scale</small></label>
    <button class="end" @click=${() => set(0)} aria-label="β = 0">0</button>
    <input id="beta" type="range" min="0" max=${TOP} step="1" .value=${String(toSlider(value))} aria-valuetext=${value === Infinity ? "infinity" : short(value, 3)}
      @input=${(event) => set(toBeta(Number(event.target.value)))}>
    <button class="end" @click=${() => set(Infinity)} aria-label="β = infinity">∞</button>
    <input class="num box" aria-label="β, a number, an expression in dk, or ∞" .value=${typingBeta ? noChange : text === "inf" ? "∞" : text === "none" ? "1" : text} size=${Math.max(3, Math.min(10, text.length))}
      @input=${() => { typingBeta = true; }} @blur=${() => { typingBeta = false; }} @change=${(event) => { typingBeta = false; const t = event.target.value.trim(); change({ scale: /^(∞|inf.*)$/i.test(t) ? "inf" : /^\d+(\.\d+)?$/.test(t) ? Number(t) : t || "none" }); }}>
    ${Number.isFinite(value) && Number.isNaN(Number(text)) && text !== "none" ? html`<span class="quiet">= ${short(value, 3)}</span>` : nothing}
  </div>`;
}

// -- the first screen --------------------------------------------------------------------------------------------------

function look() {
  const { attention } = state.view;
  const head = attention.heads[Math.min(state.head, attention.heads.length - 1)], t = Math.min(state.query, attention.queries.length - 1);
  const Q = matrixOf(head.Q), K = matrixOf(head.K), V = matrixOf(head.V), S = matrixOf(head.S), A = matrixOf(head.A), H = matrixOf(head.H);
  const keys = tokensOf(K);
  const weights = Array.from({ length: keys }, (_, s) => valueOf(A, t, s));
  const hidden = Array.from({ length: keys }, (_, s) => valueOf(S, t, s) === -Infinity);
  const move = attention.direct ? (kind, index, x, y, done) => {
    const symbol = { q: head.Q, k: head.K, v: head.V }[kind], row = kind === "q" ? t : index;
    const cells = [x, y].slice(0, kind === "v" ? widthOf(V) : attention.width).map((value, c) => /** @type {[number, number, string]} */ ([...place(row, c), String(value)]));
    edit(symbol, cells, `${symbol}.${row}`);
    if (done) lastEdit.key = "";
  } : null;
  return {
    head, t, Q, K, V, S, A, H, keys, weights, hidden,
    picture: plane({
      q: vectorOf(Q, t), keys: range(keys).map((s) => vectorOf(K, s)), values: range(keys).map((s) => vectorOf(V, s)), weights,
      output: vectorOf(H, t), labels: attention.keys, query: attention.queries[t], hidden, rows: attention.rows, width: Math.max(attention.width, widthOf(V)),
      addresses: { q: addressOf(head.Q, t, 0), k: range(keys).map((s) => addressOf(head.K, s, 0)), v: range(keys).map((s) => addressOf(head.V, s, 0)), h: addressOf(head.H, t, 0), a: range(keys).map((s) => addressOf(head.A, t, s)) },
      move,
    }),
  };
}
const range = (n) => Array.from({ length: n }, (_, i) => i);

/** A vector in brackets, each coordinate with its address; given ones can be typed into. */
function vector(matrix, t, label, used) {
  const own = matrix.path ? typed(matrix) : null;
  const cells = range(widthOf(matrix)).map((c) => {
    const [i, j] = place(t, c);
    return html`${c ? html`<span class="comma">,</span>` : nothing}${own ? inputAt(own, i, j, edit, `${label}, coordinate ${c + 1}`, used) : numberAt(matrix, i, j, false, used, "button")}`;
  });
  return html`<span class="vector ${hue(matrix.symbol)}">(${cells})</span>`;
}

/** Number of characters of a displayed vector. */
const lengthOf = (matrix, t) => range(widthOf(matrix)).reduce((sum, c) => { const [i, j] = place(t, c); return sum + 2 + (matrix.decimal ?? matrix.text)[i][j].length; }, 0);

function panel(shown) {
  const { attention } = state.view;
  const { head, t, Q, K, V, A, H, keys, weights, hidden } = shown;
  const used = operands();
  const product = matrixOf(head.product), scaled = matrixOf(head.S);
  const same = head.product === head.S;
  const num = (matrix, s, exact = false) => { const [i, j] = place(t, s); return numberAt(matrix, i, j, exact, used, "button"); };
  const limit = toNumber(attention.beta.value) === Infinity;
  const order = [...weights.keys()].sort((a, b) => weights[b] - weights[a]);
  const kept = new Set(keys <= 4 ? order : order.slice(0, 3));
  const outs = vectorOf(H, t);
  const tiny = (x) => (x === 0 ? "0" : x === 1 ? "1" : x.toFixed(3).replace(/^0/, ""));
  return html`<section class="numbers" aria-label="Numbers">
    <p class="query"><b class="q"><i>q</i></b> = ${vector(Q, t, `q of ${attention.queries[t]}`, used)} <span class="quiet">the query of ${/^\d+$/.test(attention.queries[t]) ? word(attention.queries[t]) : html`“${attention.queries[t]}”`}</span></p>
    <div class="scroll"><table class="attend ${range(keys).some((s) => lengthOf(K, s) + (cellAt(addressOf(head.product, t, s))?.how ?? "").length + lengthOf(V, s) > 36) ? "long" : ""}">
      <thead><tr><td></td><th scope="col" class="k"><i>k</i> <small>key</small></th><th scope="col"><i>q·k</i> <small>score</small></th><th scope="col" class="narrow-off"><i>β q·k</i> <small>scaled</small></th><th scope="col" class="a"><i>A</i> <small>weight</small></th><th scope="col" class="v"><i>v</i> <small>value</small></th></tr></thead>
      <tbody>${range(keys).map((s) => {
        const at = addressOf(head.product, t, s), cell = cellAt(at), weight = addressOf(head.A, t, s);
        return html`<tr class=${hidden[s] ? "hidden" : ""}>
          <th scope="row">${attention.keys[s]}</th>
          <td>${vector(K, s, `k of ${attention.keys[s]}`, used)}</td>
          <td class="product"><span class="how">${cell?.how ? `${cell.how} = ` : ""}</span>${num(product, s)}</td>
          <td class="narrow-off">${limit ? html`<span class="quiet">${weights[s] > 0 ? "largest" : "–"}</span>` : same ? html`<span class="num${marks(at, used)}" data-at=${at}>${product.decimal[place(t, s)[0]][place(t, s)[1]]}</span>` : num(scaled, s)}</td>
          <td class="weight"><svg class="bar" viewBox="0 0 100 14" preserveAspectRatio="none" aria-hidden="true"><rect width=${weights[s] ? Math.max(0.8, 100 * weights[s]) : 0} height="14" rx="1" /></svg><span class="num${marks(weight, used)}" data-at=${weight} tabindex="0" role="button" aria-label=${`weight of ${attention.keys[s]}: ${percent(weights[s])}`}>${percent(weights[s])}</span></td>
          <td>${vector(V, s, `v of ${attention.keys[s]}`, used)}</td>
        </tr>`; })}</tbody>
    </table></div>
    <p class="output"><b class="h"><i>h</i></b> = ${range(keys).filter((s) => kept.has(s)).map((s, n) => html`${n ? " + " : ""}<span class="num${marks(addressOf(head.A, t, s), used)}" data-at=${addressOf(head.A, t, s)}>${tiny(weights[s])}</span>·(${vectorOf(V, s).map((x) => short(x)).join(", ")})`)}${kept.size < keys ? " + …" : ""}
      = (${outs.map((x, c) => html`${c ? ", " : ""}<span class="num${marks(addressOf(head.H, t, c), used)}" tabindex="0" role="button" aria-label=${`h coordinate ${c + 1}: ${short(x, 4)}`} data-at=${addressOf(head.H, t, c)}>${short(x)}</span>`)})</p>
  </section>`;
}

/** All rows of A at once. */
function everyRow(shown) {
  const { attention } = state.view, { head, A } = shown, used = operands();
  return html`<section class="numbers" aria-label="All rows of A">
    <div class="scroll"><table class="heat"><thead><tr><th scope="col" class="quiet">query↓ key→</th>${attention.keys.map((key) => html`<th scope="col">${key}</th>`)}<th scope="col" class="h"><i>h</i></th></tr></thead>
      <tbody>${attention.queries.map((query, t) => html`<tr class=${t === state.query ? "current" : ""}><th scope="row"><button class="plain" @click=${() => { state.query = t; changed(); }}>${query}</button></th>
        ${attention.keys.map((_, s) => { const at = addressOf(head.A, t, s), w = valueOf(A, t, s), hidden = valueOf(matrixOf(head.S), t, s) === -Infinity; return html`<td class="num${marks(at, used)}${hidden ? " masked" : ""} w${Math.round(w * 10)}" data-at=${at} tabindex="0">${hidden ? "" : percent(w)}</td>`; })}
        <td class="vec">(${vectorOf(shown.H, t).map((x, c) => html`${c ? ", " : ""}<span class="num${marks(addressOf(head.H, t, c), used)}" data-at=${addressOf(head.H, t, c)}>${short(x)}</span>`)})</td></tr>`)}</tbody></table></div>
    <p class="quiet">Each row sums to 100 %. Click a word on the left to see its row in the picture.</p>
  </section>`;
}

/** exp(score) over the sum of all of them, for scores whose exact form is long. */
function powers({ head, t, keys, hidden }, s) {
  const power = (k) => { const [i, j] = place(t, k); return html`e<sup>${matrixOf(head.S).decimal[i][j]}</sup>`; };
  const seen = range(keys).filter((k) => !hidden[k]);
  return seen.length > 6 || hidden[s] ? nothing : html`${power(s)} / (${seen.map((k, n) => html`${n ? " + " : ""}${power(k)}`)})`;
}

function equation(shown) {
  const { head, t, weights } = shown, { attention } = state.view;
  const chosen = split(selection.at);
  const rows = attention.rows;
  const mine = chosen.symbol === head.A && (rows ? chosen.row : chosen.column) === t;
  const s = mine ? (rows ? chosen.column : chosen.row) : weights.indexOf(Math.max(...weights));
  const cell = cellAt(addressOf(head.A, t, s));
  const limit = toNumber(attention.beta.value) === Infinity;
  const used = symbols(), letter = (text, symbol, colour) => html`<i class="sym ${colour} ${used.has(symbol) ? "used" : ""}">${text}</i>`;
  const q = letter("q", head.Q, "q"), K = letter("K", head.K, "k");
  return html`<p class="equation">${letter("A", head.A, "a")} = softargmax(<i>β</i> ${rows ? html`${q}·${K}ᵀ` : html`${K}ᵀ${q}`})${limit ? html` <span class="quiet">for β → ∞</span>` : nothing}, for <b>${word(attention.keys[s])}</b>:
    ${cell?.math && cell.math.length < 900 && cell.math.split("<mfrac").length < 3 ? html`<span class="math" .innerHTML=${cell.math}></span>` : powers(shown, s)}
    ${cell && (cell.math === null || !/^<math><mn>/.test(cell.math)) ? html`${isRounded(cell) ? "≈" : "="} ${cell.decimal}` : nothing}</p>`;
}

// -- the rest of the page ----------------------------------------------------------------------------------------------

/** Two choices, one of them pressed. @param {string} label @param {string[]} choices @param {string} now @param {() => void} toggle */
const either = (label, choices, now, toggle) => html`<span class="either" role="group" aria-label=${label} title=${`${label} ${choices.join(" or ")}`}>${choices.map((key) => html`<button aria-pressed=${key === now} @click=${() => { if (key !== now) toggle(); }}>${key}</button>`)}</span>`;

function toolbar() {
  const { attention } = state.view, e = state.exercise;
  const heads = attention?.heads.length ?? 0, tokens = attention?.keys.length ?? 0;
  const simple = attention && !e.memory && !e.patches;
  return html`<div class="tools" role="toolbar" aria-label="The exercise">
    <label>Exercise <select class="exercise" @change=${(event) => { go(`#/paper/${event.target.value}`); }}>
      ${state.name && JSON.stringify(e) === JSON.stringify(state.original) ? nothing : html`<option selected value="">${state.name ? "✎ " : ""}${state.view.title}</option>`}
      ${state.library.map((each) => html`<option value=${each.name} ?selected=${each.name === state.name && JSON.stringify(e) === JSON.stringify(state.original)}>${each.title}</option>`)}</select></label>
    ${attention ? html`
      <button aria-pressed=${attention.mask === "causal"} ?disabled=${attention.queries.length < 2 || !!e.memory} @click=${() => change({ mask: attention.mask === "causal" ? "none" : "causal" })}>Hide the future</button>
      <button aria-pressed=${state.rows === "all"} @click=${() => { state.rows = state.rows === "all" ? "one" : "all"; changed(); }}>All rows</button>
      <span class="stepper" role="group" aria-label="Heads">Heads <button aria-label="One head less" ?disabled=${heads < 2} @click=${() => changeHeads(-1)}>−</button><b>${heads}</b><button aria-label="One head more" ?disabled=${heads >= 4} @click=${() => changeHeads(1)}>+</button></span>
      ${simple ? html`<span class="stepper" role="group" aria-label="Tokens">Tokens <button aria-label="One token less" ?disabled=${tokens < 2} @click=${() => changeTokens(-1)}>−</button><b>${tokens}</b><button aria-label="One token more" ?disabled=${tokens >= 12} @click=${() => changeTokens(1)}>+</button></span>` : nothing}` : nothing}
    ${state.view.kind === "attention" || state.view.kind === "tokens" ? either("Tokens as", ["rows", "columns"], state.view.layout, toggleLayout) : nothing}
    ${either("Numbers", ["decimal", "exact"], state.exact ? "exact" : "decimal", () => { state.exact = !state.exact; changed(); })}
    <span class="spacer"></span>
    <span class="stepper"><button class="wide" @click=${() => { state.menu = "open"; changed(); }}>Open</button>
    <button class="wide" @click=${() => { state.menu = "export"; changed(); }}>Save</button></span>
  </div>`;
}

function dialog() {
  if (!state.menu) return nothing;
  const box = () => /** @type {HTMLDialogElement | null} */ (document.querySelector("dialog"));
  const close = () => box()?.close();
  queueMicrotask(() => { if (!box()?.open) box()?.showModal(); });
  const opened = async (text) => {
    try {
      const exercise = await post("api/paper/parse", { text });
      close();
      await start("", exercise, exercise);
      address();
    } catch (error) { state.dialogProblem = error; changed(); }
  };
  const body = state.menu === "open" ? html`
    <h2 id="dialog-title">Open an exercise</h2>
    <p>Choose a YAML file, drop it here, or paste its text.</p>
    <input type="file" accept=".yaml,.yml,.json,.txt" aria-label="Exercise file" @change=${async (event) => { const file = event.target.files[0]; if (file) opened(await file.text()); }}>
    <textarea id="exercise-text" rows="8" aria-label="Text of the exercise" spellcheck="false" placeholder="X: [[1, 2], [0, 1]]&#10;heads:&#10;  - {WQ: [[1, 0], [0, 1]], WK: [[1, 0], [0, 1]], WV: [[1, 0], [0, 1]]}"></textarea>
    <p class="row"><button class="primary" @click=${() => opened(/** @type {any} */ (document.getElementById("exercise-text")).value)}>Open</button> <button @click=${close}>Cancel</button></p>`
    : html`<h2 id="dialog-title">Save or export</h2>
    <p class="row">${[["yaml", "Exercise (YAML)", "yaml"], ["markdown", "Solution (Markdown)", "md"], ["latex", "Solution (LaTeX)", "tex"], ["html", "Solution (HTML)", "html"]].map(([format, label, ending]) =>
      html`<button @click=${async () => { try { const { text } = await post("api/paper/export", { exercise: state.exercise, format }); download(`${state.name || "exercise"}.${ending}`, text); close(); } catch (error) { state.dialogProblem = error; changed(); } }}>${label}</button>`)}</p>
    <p class="row"><button @click=${() => { share(); close(); }}>Copy the address of this page</button> <button @click=${close}>Cancel</button></p>`;
  const drop = async (event) => { event.preventDefault(); const file = event.dataTransfer?.files[0]; if (file) opened(await file.text()); };
  return html`<dialog aria-labelledby="dialog-title" @click=${(event) => { if (event.target === event.currentTarget) close(); }} @close=${() => { state.menu = state.dialogProblem = null; changed(); }}>
    <div @dragover=${(event) => event.preventDefault()} @drop=${drop}>${body}
    ${state.dialogProblem ? html`<p class="problem" role="alert">${state.dialogProblem.message}</p>` : nothing}</div></dialog>`;
}

/** The number of the head that a step belongs to, where there are several. @param {any} matrix */
const headOf = (matrix) => (matrix && state.view.attention?.heads.length > 1 ? matrix.symbol.match(/^(?:[QKVSEZAH]|QKt|KtQ|Su)(\d+)$/)?.[1] ?? "" : "");

function steps() {
  const { given, steps } = state.view;
  return html`<section class="steps" aria-label="All steps">
    <h2>Given</h2>
    <div class="given">${given.map((matrix) => html`<div class="step"><span class="name" .innerHTML=${matrix.name}></span><span class="eq">=</span>${matrix.path ? matrixEditor(typed(matrix), edit) : matrixGrid(matrix, state.exact)}</div>`)}</div>
    <h2>Every step</h2>
    <ol>${steps.map((matrix, n) => html`${headOf(matrix) && headOf(matrix) !== headOf(steps[n - 1]) ? html`<li class="of-head">Head ${headOf(matrix)}</li>` : nothing}<li class="step-block" id=${`step-${matrix.symbol}`}>
      ${matrix.title ? html`<h3>${matrix.title}</h3>` : nothing}
      <div class="step">${matrix.formula ? formula(matrix.formula) : html`<span class="name" .innerHTML=${matrix.name}></span><span class="eq">=</span><span class="words">${matrix.words.replace(/\b([A-Z])(\d)\b/g, (_, letter, digit) => letter + index(digit))}</span>`}
      <span class="eq">=</span>${matrixGrid(matrix, state.exact)}</div>
      ${matrix.sentences?.length ? html`<details><summary>In words</summary><ul>${matrix.sentences.map((text) => html`<li>${text}</li>`)}</ul></details>` : nothing}</li>`)}</ol>
  </section>`;
}

export function template() {
  const view = state.view;
  if (!view) return html`${state.problem ? html`<p class="problem" role="alert">${state.problem.message}</p>` : html`<p class="quiet">Loading the exercise …</p>`}`;
  link(view, nameOf, changed, explain);
  const { attention } = view;
  const shown = attention ? look() : null;
  const said = state.stale && (state.problem || cellAt(selection.at)?.matrix.path) ? "" : sentence(); // what is being typed may not be what was computed
  return html`<div class="room paper ${state.stale ? "stale" : ""}">
    <div class="ask"><div><h1>${view.title}</h1>${view.text ? html`<p class="text">${indexed(view.text)}</p>` : nothing}</div>
      ${attention ? html`<div class="who" role="group" aria-label="Whose row is shown">${attention.queries.map((label, t) => html`<button class="token" aria-pressed=${t === state.query} @click=${() => { state.query = t; changed(); }} aria-label=${word(label)}>${/^\d+$/.test(label) ? html`<i>q</i>${index(label)}` : label}</button>`)}
        ${attention.heads.length > 1 ? html`<span class="heads" role="group" aria-label="Head">${attention.heads.map((_, h) => html`<button aria-pressed=${h === state.head} @click=${() => { state.head = h; changed(); }}>head ${h + 1}</button>`)}</span>` : nothing}</div>` : nothing}
      ${attention ? betaControl() : nothing}</div>
    ${state.lost ? html`<p class="problem" role="alert">${state.lost.message}</p>` : nothing}
    ${state.inexact ? html`<p class="quiet note" role="status">Only decimals are shown; exact values cannot be computed: ${state.inexact}.</p>` : nothing}
    ${state.problem ? html`<p class="problem" role="alert">${state.problem.message} <button @click=${undo} ?disabled=${!state.past.length}>Undo</button></p>` : nothing}
    ${shown ? html`<div class="screen">
      <section class="picture" aria-label="Picture">${shown.picture}${canRelease() ? html`<p><button @click=${release}>Unlock q, k and v to drag them</button></p>` : nothing}</section>
      ${state.rows === "all" ? everyRow(shown) : panel(shown)}
      <div class="under">${equation(shown)}<a class="button primary" href=${state.origin || "#/model/writer"}>${state.origin ? "Back to the model ▸" : "This row in a real model ▸"}</a></div>
    </div>` : nothing}
    <div class="sentence" ?data-empty=${!said}><p class="hint">Point at a number, or tap it: its operands are outlined and its sum is written out here.<span class="narrow-off"> Click to select it; arrow keys move, Enter goes to an operand, Backspace goes back.</span></p>${said ? html`<p class="said">${said}</p>` : nothing}</div>
    ${state.slow ? html`<div class="overlay"><p class="busy-line" role="status"><span class="spin" aria-hidden="true"></span>Computing exact values; decimals are shown meanwhile … <button @click=${() => exactRequest?.abort()}>Cancel</button></p></div>` : nothing}
    ${toolbar()}
    ${steps()}
    <p class="row"><a class="button" href="#/check" @click=${async (event) => { event.preventDefault(); go(await hash("check")); }}>Work it out yourself ▸</a> <a class="button" href="#/check?new=1">Practise like this ▸</a></p>
    ${dialog()}
  </div>`;
}
export const title = () => state.view?.title ?? "Paper";
