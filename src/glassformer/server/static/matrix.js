// Matrices as grids: computed ones to navigate, given ones to edit.
import { html, nothing } from "./lib.js";
import { operands, select, selection, split, symbols } from "./select.js";

/** Classes of a number: selected, an operand of the selected one, or neither. @param {string} at @param {Set<string>} used */
export const marks = (at, used) => (selection.at === at ? " at" : "") + (used.has(at) ? " operand" : "");

/** The colour of a symbol: q, k, v, a or none. @param {string} symbol */
export function hue(symbol) {
  const base = symbol.replace(/\d+$/, "");
  return { Q: "q", WQ: "q", bQ: "q", K: "k", WK: "k", bK: "k", V: "v", WV: "v", bV: "v", A: "a" }[base] ?? "";
}

/** One number of a computed matrix. @param {any} matrix @param {number} i @param {number} j @param {boolean} exact @param {Set<string>} used @param {string} [role] */
export function numberAt(matrix, i, j, exact, used, role = "gridcell") {
  const at = `${matrix.symbol}.${i + 1}.${j + 1}`;
  const math = exact ? matrix.math?.[i]?.[j] : null;
  const masked = matrix.value[i][j] === "-inf";
  return html`<span class="num${marks(at, used)}${masked ? " masked" : ""}" data-at=${at} tabindex=${selection.at === at || (i === 0 && j === 0 && split(selection.at).symbol !== matrix.symbol) ? 0 : -1}
    role=${role} aria-label=${`${matrix.spoken} ${i + 1},${j + 1}: ${matrix.decimal[i][j]}`}
    >${math ? html`<span .innerHTML=${math}></span>` : matrix.decimal[i][j]}</span>`;
}

/** A computed matrix. @param {any} matrix @param {boolean} exact */
export function matrixGrid(matrix, exact) {
  const used = operands();
  return html`<div class="matrix ${hue(matrix.symbol)} ${matrix.rows * matrix.columns === 1 ? "scalar" : ""}" .style=${`--n: ${matrix.columns}`} role="grid" aria-label=${matrix.spoken}>
    ${matrix.decimal.map((row, i) => html`<div class="row" role="row">${row.map((_, j) => numberAt(matrix, i, j, exact, used))}</div>`)}
  </div>`;
}

/** Puts texts into cells of a given matrix, as one edit. @typedef {(symbol: string, cells: [number, number, string][]) => void} Edit */

/** An input for one given number. @param {any} matrix @param {number} i @param {number} j
 * @param {Edit} edit @param {string} label @param {Set<string>} used */
export function inputAt(matrix, i, j, edit, label, used) {
  const at = `${matrix.symbol}.${i + 1}.${j + 1}`;
  const text = matrix.text[i][j], put = (now) => edit(matrix.symbol, [[i, j, now]]);
  return html`<input class="num${marks(at, used)}" data-at=${at} aria-label=${label} aria-invalid=${selection.invalid === at ? "true" : nothing} autocomplete="off" spellcheck="false"
    .value=${text} size=${Math.max(2, Math.min(10, text.length))}
    @input=${(event) => { event.target.dataset.typed = "1"; event.target.size = Math.max(2, Math.min(10, event.target.value.length)); put(event.target.value); }}
    @focus=${(event) => { delete event.target.dataset.typed; event.target.select(); }}
    @keydown=${(event) => bump(event, put)}
    @pointerdown=${(event) => scrub(event, put)} @dragstart=${(event) => event.preventDefault()}
    @paste=${(event) => paste(event, matrix, i, j, edit)}>`;
}

/** Alt and an arrow: one more, one less. @param {KeyboardEvent} event @param {(text: string) => void} put */
function bump(event, put) {
  const step = { ArrowUp: 1, ArrowDown: -1 }[event.key];
  const input = /** @type {HTMLInputElement} */ (event.target);
  if (!step || !event.altKey || !/^-?\d+(\.\d+)?$/.test(input.value)) return;
  event.preventDefault();
  input.value = String(Math.round((Number(input.value) + step) * 1e6) / 1e6);
  put(input.value);
}

/** Dragging a number sideways changes it: by 1 if it is whole, otherwise by 0.1, for every 8 pixels. @param {PointerEvent} event @param {(text: string) => void} put */
function scrub(event, put) {
  const input = /** @type {HTMLInputElement} */ (event.target);
  if (event.button || event.pointerType === "touch" || !/^-?\d+(\.\d+)?$/.test(input.value)) return;
  const begun = Number(input.value), step = Number.isInteger(begun) ? 1 : 0.1, from = event.clientX;
  let last = begun;
  const moved = (e) => {
    const now = Math.round((begun + Math.trunc((e.clientX - from) / 8) * step) * 1e6) / 1e6;
    if (now === last) return;
    e.preventDefault();
    last = now;
    input.value = String(now);
    put(input.value);
  };
  const ended = () => { removeEventListener("pointermove", moved); removeEventListener("pointerup", ended); removeEventListener("pointercancel", ended); };
  addEventListener("pointermove", moved);
  addEventListener("pointerup", ended);
  addEventListener("pointercancel", ended);
}

/** Cells from a spreadsheet fill the matrix from here on. @param {ClipboardEvent} event @param {any} matrix @param {number} i @param {number} j @param {Edit} edit */
function paste(event, matrix, i, j, edit) {
  const text = event.clipboardData?.getData("text/plain") ?? "";
  const rows = text.trim().split(/\r?\n/).map((line) => line.split(/\t|;|,\s/));
  if (rows.length < 2 && rows[0].length < 2) return;
  event.preventDefault();
  const cells = rows.flatMap((row, di) => row.map((cell, dj) => /** @type {[number, number, string]} */ ([i + di, j + dj, cell.trim()])));
  edit(matrix.symbol, cells.filter(([r, c, cell]) => r < matrix.rows && c < matrix.columns && cell));
}

/** A given matrix, to edit. @param {any} matrix @param {Edit} edit */
export function matrixEditor(matrix, edit) {
  const used = operands();
  return html`<div class="matrix editor ${hue(matrix.symbol)} ${matrix.rows * matrix.columns === 1 ? "scalar" : ""}" .style=${`--n: ${matrix.columns}`} role="group" aria-label=${`${matrix.spoken}, given`}>
    ${matrix.text.map((row, i) => html`<div class="row">${row.map((_, j) =>
      inputAt(matrix, i, j, edit, `${matrix.spoken} row ${i + 1} column ${j + 1}`, used))}</div>`)}
  </div>`;
}

/** MathML whose letters are underlined where the selected number comes from. @param {string} markup */
export function formula(markup) {
  if (!markup) return nothing;
  const used = symbols();
  const marked = markup.replace(/class="sym" data-symbol="([^"]*)"/g, (whole, symbol) =>
    `class="sym ${hue(symbol)}${used.has(symbol) ? " used" : ""}" data-symbol="${symbol}"`);
  return html`<span class="formula" .innerHTML=${marked}></span>`;
}

export { select };
