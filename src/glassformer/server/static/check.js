// Check: a learner's own working, graded as it is typed; hints in three steps; practice sheets.
import { base64, copy, get, go, html, indexed, LongWork, nothing, pack, post, Problem, replaceHash, unpack } from "./lib.js";
import { formula } from "./matrix.js";
import * as paper from "./paper.js";

export const state = {
  name: "",
  /** @type {any} */ exercise: null,
  /** @type {any} */ sheet: null,
  /** @type {Record<string, string[][]>} */ answers: {}, mode: "grids", text: "",
  /** A document that is not plain text. @type {{name: string, data: string} | null} */ file: null,
  /** @type {any} */ grade: null,
  /** @type {Problem | null} */ problem: null,
  /** @type {Record<string, any>} */ hints: {},
  /** @type {Set<string>} */ shown: new Set(),
  /** @type {any[]} */ library: [],
  /** @type {any} */ options: null,
  practice: { topic: "attention", level: "easy", tokens: 3, width: 2, heads: 1, seed: Math.floor(Math.random() * 1e6) },
};
let refresh = () => {};

/** @param {{name: string, query: URLSearchParams}} where @param {() => void} redraw */
export async function enter(where, redraw) {
  refresh = redraw;
  get("api/exercises").then((list) => { state.library = list; refresh(); }, () => {});
  get("api/practice").then((options) => { state.options = options; refresh(); }, () => {});
  try {
    const packed = where.query.get("x");
    if (where.query.get("new")) { likeThis(); await newExercise(); }
    else if (packed) { const exercise = JSON.parse(await unpack(packed)); if (JSON.stringify(exercise) !== JSON.stringify(state.exercise)) await open("", exercise); const work = where.query.get("a"); if (work) { fill(JSON.parse(await unpack(work))); await grade(); } }
    else if (where.name || !state.exercise) {
      const name = where.name || "four-tokens";
      if (name !== state.name) await open(name, await get(`api/exercises/${encodeURIComponent(name)}`));
    }
  } catch (error) { state.problem = error instanceof Problem ? error : new Problem("this address does not contain an exercise", "choose one from the list", 422); }
  refresh();
}

/** @param {string} name @param {any} exercise */
async function open(name, exercise) {
  Object.assign(state, { name, exercise, sheet: null, answers: {}, grade: null, problem: null, hints: {}, text: "", file: null });
  state.shown.clear();
  if (String(exercise.scale) === "inf") throw new Problem("β = ∞ cannot be graded", "choose a finite β on Paper", 422);
  state.sheet = await post("api/check/sheet", { exercise });
  for (const step of state.sheet.steps) state.answers[step.symbol] = Array.from({ length: step.rows }, () => Array(step.columns).fill(""));
  refresh();
}

/** A learner's working that the address holds: a text, or cells. @param {{text?: string, answers?: Record<string, string[][]>}} work */
function fill({ text, answers }) {
  state.mode = text ? "text" : "grids";
  state.text = text ?? "";
  for (const [symbol, rows] of Object.entries(answers ?? {})) rows.forEach((row, i) => row.forEach((cell, j) => {
    if (state.answers[symbol]?.[i]?.[j] !== undefined) state.answers[symbol][i][j] = cell;
  }));
}

/** The kind of exercise that is on Paper now. */
function likeThis() {
  const e = paper.state.exercise ?? {};
  const heads = e.heads?.length ?? 1;
  state.practice.topic = e.transport ? "transport" : e.patches ? "patches" : e.memory ? "cross" : heads > 1 ? "heads" : e.mask && e.mask !== "none" ? "mask" : e.layernorm ? "layernorm" : "attention";
  state.practice.heads = Math.min(2, heads);
  state.practice.seed = Math.floor(Math.random() * 1e6);
}
async function newExercise() {
  const settings = { ...state.practice, heads: state.practice.topic === "heads" ? Math.max(2, state.practice.heads) : state.practice.heads, width: state.practice.topic === "heads" ? Math.max(state.practice.width, 2) : state.practice.width };
  const exercise = await post("api/practice", settings);
  await open("", exercise);
  replaceHash(`#/check?x=${await pack(JSON.stringify(exercise))}`);
}

let timer = 0;
const work = new LongWork(() => refresh());
function gradeSoon() { clearTimeout(timer); timer = setTimeout(grade, 250); }
async function grade() {
  const body = state.mode === "grids" ? { exercise: state.exercise, answers: state.answers } : state.file ? { exercise: state.exercise, file: state.file.data, name: state.file.name } : { exercise: state.exercise, text: state.text };
  const empty = state.mode === "grids" ? !Object.values(state.answers).some((rows) => rows.some((row) => row.some((cell) => cell.trim()))) : !state.file && !state.text.trim();
  if (empty) { work.cancel(); state.grade = null; state.problem = null; return refresh(); }
  try {
    const grade = await work.run("Grading", (signal) => post("api/check/grade", body, signal));
    if (!grade) return; // cancelled, or something newer is graded
    Object.assign(state, { grade, problem: null });
  } catch (error) { Object.assign(state, { grade: null, problem: error }); }
  refresh();
  // on narrow screens the verdict covers a part of the page: the cell that is being edited is kept above it
  if (document.activeElement?.closest(".answer")) document.activeElement.scrollIntoView({ block: "nearest" });
}

/** @param {string} at */
const verdictAt = (at) => state.grade?.cells.find((cell) => cell.address === at && cell.given !== null);
const GLYPHS = { right: "✓", follows: "→", rounded: "~", wrong: "✗", missing: "?", unread: "?" };
const MEANS = { right: "right", follows: "right, given your earlier numbers", rounded: "off in the last digit", wrong: "wrong", missing: "not found", unread: "cannot be read" };

/** @param {any} step */
async function hint(step) {
  const before = state.hints[step.symbol];
  const level = Math.min(3, (before?.level ?? 0) + 1);
  const open = range(step.rows * step.columns).map((n) => [Math.floor(n / step.columns), n % step.columns]).filter(([i, j]) => {
    const verdict = verdictAt(`${step.symbol}.${i + 1}.${j + 1}`)?.verdict;
    return (state.mode === "grids" ? !state.answers[step.symbol][i][j].trim() : !verdict) || ["wrong", "rounded", "unread"].includes(verdict);
  });
  // hint at the first cell that is empty or wrong; after its value has been shown, at the next one
  const shown = before?.level >= 3, after = open.find(([i, j]) => shown && (i > before.row || (i === before.row && j > before.column)));
  const [row, column] = before && !shown ? [before.row, before.column] : after ?? open[0] ?? [0, 0];
  const answer = await post("api/check/hint", { exercise: state.exercise, symbol: step.symbol, level, row: row + 1, column: column + 1 });
  state.hints[step.symbol] = { ...answer, row, column, level };
  refresh();
}

function cellInput(step, i, j) {
  const at = `${step.symbol}.${i + 1}.${j + 1}`, verdict = verdictAt(at);
  const text = state.answers[step.symbol][i][j];
  const label = `${step.spoken} row ${i + 1} column ${j + 1}${verdict ? `: ${MEANS[verdict.verdict]}` : ""}`;
  return html`<span class="answer ${verdict && text.trim() ? verdict.verdict : ""} ${state.shown.has(at) ? "shown" : ""}">
    <input class="num" id=${`answer-${at}`} aria-label=${label} autocomplete="off" spellcheck="false" .value=${text} size=${Math.max(4, Math.min(12, text.length))}
      @input=${(event) => { state.answers[step.symbol][i][j] = event.target.value; event.target.size = Math.max(4, Math.min(12, event.target.value.length)); gradeSoon(); }}
      @keydown=${(event) => walk(event, step, i, j)} @paste=${(event) => paste(event, step, i, j)}>
    <span class="glyph" aria-hidden="true">${verdict && text.trim() ? GLYPHS[verdict.verdict] : ""}</span></span>`;
}
function walk(event, step, i, j) {
  const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], Enter: [1, 0] }[event.key];
  if (!by) return;
  const target = document.getElementById(`answer-${step.symbol}.${i + by[0] + 1}.${j + by[1] + 1}`);
  if (target) { event.preventDefault(); target.focus(); }
}
function paste(event, step, i, j) {
  const rows = (event.clipboardData?.getData("text/plain") ?? "").trim().split(/\r?\n/).map((line) => line.split(/\t|;|,\s/));
  if (rows.length < 2 && rows[0].length < 2) return;
  event.preventDefault();
  rows.forEach((row, di) => row.forEach((cell, dj) => { if (i + di < step.rows && j + dj < step.columns) state.answers[step.symbol][i + di][j + dj] = cell.trim(); }));
  gradeSoon();
  refresh();
}

function stepGrid(step) {
  const marks = state.grade?.cells.filter((cell) => cell.address.startsWith(`${step.symbol}.`) && cell.given !== null) ?? [];
  const done = marks.length === step.rows * step.columns && marks.every((cell) => ["right", "follows"].includes(cell.verdict));
  return html`<li class="step-block"><div class="row"><h3>${step.title || `Compute ${step.spoken}`} ${done ? html`<span class="done">✓ complete</span>` : nothing}</h3><span class="spacer"></span>${hintButton(step)}</div>
    <div class="step"><span class="name" .innerHTML=${step.name}></span><span class="eq">=</span>
      <div class="matrix ${step.rows * step.columns === 1 ? "scalar" : ""}" .style=${`--n: ${step.columns}`} role="group" aria-label=${step.spoken}>${range(step.rows).map((i) => html`<div class="row">${range(step.columns).map((j) => cellInput(step, i, j))}</div>`)}</div></div>
    ${hintText(step)}</li>`;
}
function hintButton(step) {
  const help = state.hints[step.symbol];
  return html`<button @click=${() => hint(step)}>${!help ? "Hint" : help.level < 3 ? "Another hint" : "Next cell"}</button>`;
}
function hintText(step) {
  const help = state.hints[step.symbol];
  return help ? html`<p class="hint"><b>Hint ${help.level} of 3.</b> ${help.formula ? formula(help.formula) : help.words}
    ${help.how ? html`<br>${cellName(step, help)}: <b>${help.how}</b>` : nothing} ${help.decimal ? html` = <b>${help.decimal}</b>` : nothing}</p>` : nothing;
}
const cellName = (step, help) => `${step.spoken}, row ${help.row + 1}, column ${help.column + 1}`;
const range = (n) => Array.from({ length: n }, (_, i) => i);

function show(mistake) {
  state.shown = new Set(mistake.cells);
  refresh();
  requestAnimationFrame(() => { const first = document.getElementById(`answer-${mistake.cells[0]}`); first?.scrollIntoView({ block: "center" }); first?.focus(); });
}

function verdicts() {
  const grade = state.grade, graded = grade?.score !== null;
  const [first, ...rest] = grade ? grade.summary.slice(graded ? 1 : 0).filter((text) => state.mode === "text" || !/ not found: |^Of the /.test(text)) : [];
  return html`<aside class="verdict ${work.busy ? "stale" : ""} ${grade || state.problem ? "graded" : ""}" aria-label="Grade" aria-live="polite">
    ${work.busy ? html`<div class="overlay">${work.template()}</div>` : nothing}
    ${state.problem ? html`<p class="problem" role="alert">${state.problem.message}</p>` : nothing}
    ${grade ? html`${graded ? html`<p class="score"><b>${Math.round(100 * grade.score)} %</b> of the whole exercise</p>` : nothing}
      ${first ? html`<p>${first}</p>` : nothing}
      ${grade.mistakes.length ? html`<h2>What went wrong</h2><ul class="mistakes">${grade.mistakes.map((mistake) => html`<li>${indexed(mistake.text)} ${mistake.cells.length ? html`<button @click=${() => show(mistake)}>Show me</button>` : nothing}</li>`)}</ul>` : nothing}
      ${rest.map((text) => html`<p class="quiet">${text}</p>`)}
      ${Object.entries(grade.details).map(([title, items]) => html`<details><summary>${title}</summary><ul>${items.map((item) => html`<li>${item}</li>`)}</ul></details>`)}` : nothing}
    <p class="quiet key"><span class="right">✓ right</span> <span class="follows">→ follows from your earlier numbers</span> <span class="wrong">~ last digit</span> <span class="wrong">✗ wrong</span> <span class="wrong">? cannot be read</span></p>
  </aside>`;
}

/** The cells of one symbol that were found in a document, where they belong. @param {string} symbol @param {any[]} cells */
function readMatrix(symbol, cells) {
  const step = state.sheet.steps.find((each) => each.symbol === symbol);
  const found = new Map(cells.map((cell) => [cell.address, cell]));
  const [rows, columns] = [1, 2].map((part) => Math.max(...cells.map((cell) => Number(cell.address.split(".")[part]))));
  const draw = (cell) => (cell ? html`<span class="answer flat ${cell.verdict} ${state.shown.has(cell.address) ? "shown" : ""}" id=${`answer-${cell.address}`} tabindex="-1" title=${MEANS[cell.verdict]}>${cell.given}<span class="glyph">${GLYPHS[cell.verdict]}</span></span>` : html`<span></span>`);
  return html`<div class="found"><div class="step">${step ? html`<span class="name" .innerHTML=${step.name}></span>` : html`<span class="name">${symbol}</span>`}<span class="eq">=</span>
    <div class="matrix" .style=${`--n: ${columns}`} role="group" aria-label=${symbol}>${range(rows).map((i) => html`<div class="row">${range(columns).map((j) => draw(found.get(`${symbol}.${i + 1}.${j + 1}`)))}</div>`)}</div>${step ? hintButton(step) : nothing}</div>${step ? hintText(step) : nothing}</div>`;
}

function pasted() {
  const take = async (event) => {
    event.preventDefault();
    const file = event.dataTransfer?.files[0] ?? event.target.files?.[0];
    if (!file) return;
    const chooser = document.querySelector(".drop input[type=file]");
    if (event.dataTransfer && chooser instanceof HTMLInputElement) chooser.files = event.dataTransfer.files; // it names the file
    const plain = /\.(md|markdown|txt|tex)$/i.test(file.name) && file.size <= 200_000; // is shown, and can be changed
    Object.assign(state, { text: plain ? await file.text() : "", file: plain ? null : { name: file.name, data: base64(await file.arrayBuffer()) } });
    gradeSoon();
    refresh();
  };
  const marks = state.grade?.cells.filter((cell) => cell.given !== null) ?? [];
  const symbols = [...new Set(marks.map((cell) => cell.address.split(".")[0]))];
  return html`<div class="drop" @dragover=${(event) => event.preventDefault()} @drop=${take}>
    <label for="working">Paste your working (Markdown, LaTeX or plain text), or drop a file: these, PDF, Word, Excel or a notebook</label>
    <textarea id="working" rows="12" spellcheck="false" .value=${state.text} placeholder="Q = [[1, 2], [2, 0], [0, 1], [1, 1]]&#10;S = Q K^T = ..." @input=${(event) => { state.text = event.target.value; state.file = null; gradeSoon(); }}></textarea>
    <p class="row"><input type="file" accept=".md,.txt,.tex,.csv,.yaml,.json,.pdf,.docx,.xlsx,.ipynb,.html,.typ,text/*" aria-label="File with your working" @change=${take}>${state.file && state.grade ? html`<span>${state.file.name} is graded.</span>` : nothing}</p>
    <div class="given">${symbols.map((symbol) => readMatrix(symbol, marks.filter((cell) => cell.address.startsWith(`${symbol}.`))))}</div>
  </div>`;
}

/** Rendered completely at first, with fixed widths and above everything that loads later: nothing moves under a click. */
function toolbar() {
  const set = (key, number = true) => (event) => { state.practice[key] = number ? Number(event.target.value) : event.target.value; };
  const pick = (key, options) => html`<select class=${key} aria-label=${key} @change=${set(key, false)}>${(options ?? [state.practice[key]]).map((name) => html`<option ?selected=${state.practice[key] === name}>${name}</option>`)}</select>`;
  const count = (key, most) => html`<label>${key} <input class="num box" type="number" min="1" max=${most} .value=${String(state.practice[key])} @change=${set(key)}></label>`;
  const mode = (key, words) => html`<button aria-pressed=${state.mode === key} @click=${() => { if (state.mode === key) return; Object.assign(state, { mode: key, grade: null, hints: {} }); gradeSoon(); refresh(); }}>${words}</button>`;
  return html`<div class="tools" role="toolbar" aria-label="Exercise to work on">
    <label>Exercise <select class="exercise" @change=${(event) => { go(`#/check/${event.target.value}`); }}>
      ${state.library.some((each) => each.name === state.name) ? nothing : html`<option selected value=${state.name}>${state.sheet?.title ?? state.exercise?.title ?? ""}</option>`}
      ${state.library.map((each) => html`<option value=${each.name} ?selected=${each.name === state.name}>${each.title}</option>`)}</select></label>
    <span class="either">${mode("grids", "Grids")}${mode("text", "Paste or drop")}</span>
    <span class="spacer"></span>
    <span class="row" role="group" aria-label="Practice">Practise ${pick("topic", state.options?.topics)}${pick("level", state.options?.levels)}${count("tokens", 8)}${count("width", 8)}
      <button class="primary" @click=${async () => { state.practice.seed = Math.floor(Math.random() * 1e6); try { await newExercise(); } catch (error) { state.problem = /** @type {Problem} */ (error); refresh(); } }}>New exercise</button></span></div>`;
}

export function template() {
  const { sheet } = state;
  return html`<div class="room check">${toolbar()}${sheet ? worksheet(sheet) : html`<h1>Check</h1>${state.problem ? html`<p class="problem" role="alert">${state.problem.message}</p>` : html`<p class="quiet">Loading the exercise …</p>`}`}</div>`;
}
function worksheet(sheet) {
  return html`<h1>${sheet.title}</h1>${sheet.text ? html`<p class="text quiet">${indexed(sheet.text)}</p>` : nothing}
    <section aria-label="Given"><h2>Given</h2><div class="given">${sheet.given.map((matrix) => html`<div class="step"><span class="name" .innerHTML=${matrix.name}></span><span class="eq">=</span>
      <div class="matrix" .style=${`--n: ${matrix.columns}`} role="img" aria-label=${`${matrix.spoken}: ${matrix.text.map((row) => row.join(" ")).join("; ")}`}>${matrix.text.map((row) => html`<div class="row">${row.map((cell) => html`<span class="num">${cell.replace("-", "−")}</span>`)}</div>`)}</div></div>`)}</div></section>
    <div class="work"><section aria-label="Your working">${state.mode === "grids" ? html`<h2>Find</h2><p class="quiet">Fill in any cell: it is graded as you type. Write decimals, fractions, roots or powers of e, such as 0.61, 1/2, sqrt(3) or e^2, and -inf for −∞.</p><ol class="plain">${sheet.steps.map(stepGrid)}</ol>` : pasted()}</section>${verdicts()}</div>
    <p class="row"><button @click=${async () => { await paper.start(state.name, state.exercise, copy(state.exercise)); go(await paper.hash()); }}>See the solution on Paper ▸</button></p>`;
}
export const title = () => (state.sheet ? `${state.sheet.title} · Check` : "Check");
