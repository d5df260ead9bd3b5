// Linking: every number has an address such as A.1.2; selecting one shows its operands and writes its sum out.
import { announce } from "./lib.js";

/** What is selected; `invalid` is the given number that cannot be read. @typedef {{at: string, pinned: boolean, trail: string[], invalid: string}} Selection */
/** @type {Selection} */
export const selection = { at: "", pinned: false, trail: [], invalid: "" };

/** @type {Map<string, any>} matrices of the page by symbol */
let matrices = new Map();
/** @type {(at: string) => string} how the page calls a number in words */
let nameOf = (at) => at;
let changed = () => {};

/** The page tells what is on it. @param {any} view @param {(at: string) => string} named @param {() => void} redraw
 * @param {(at: string) => Promise<any>} explain asks for the operands and the sum of a number that came without them */
export function link(view, named, redraw, explain) {
  matrices = new Map([...(view?.given ?? []), ...(view?.steps ?? [])].map((matrix) => [matrix.symbol, matrix]));
  nameOf = named;
  changed = redraw;
  const cell = selection.at ? cellAt(selection.at) : null;
  if (!cell?.matrix.op || cell.explained) return;
  const { matrix, row, column } = cell, line = ((matrix.cells ??= [])[row] ??= []);
  line[column] = { operands: [], how: "" };
  explain(selection.at).then((found) => { line[column] = found; changed(); announce(sentence()); }, () => { line[column] = undefined; });
}

/** @param {string} at */
export function split(at) {
  const [symbol, row, column] = at.split(".");
  return { symbol, row: Number(row) - 1, column: Number(column) - 1 };
}

/** The cell of an address: its value, and for computed ones its operands and its sum. @param {string} at */
export function cellAt(at) {
  const { symbol, row, column } = split(at);
  const matrix = matrices.get(symbol);
  if (!matrix || !(row >= 0 && row < matrix.rows && column >= 0 && column < matrix.columns)) return null;
  const explained = matrix.cells?.[row]?.[column];
  return {
    matrix, row, column,
    decimal: matrix.decimal[row][column],
    math: matrix.math?.[row]?.[column] ?? null,
    text: matrix.text[row][column],
    value: matrix.value[row][column],
    explained: !!explained,
    operands: explained?.operands ?? [],
    how: explained?.how ?? "",
  };
}

/** The operands of the selected number. */
export function operands() {
  return new Set(selection.at ? cellAt(selection.at)?.operands ?? [] : []);
}
/** The symbols whose letters are underlined. */
export function symbols() {
  const found = new Set([...operands()].map((at) => split(at).symbol));
  if (selection.at) found.add(split(selection.at).symbol);
  return found;
}

/** Whether the decimals of a cell are not all there is. @param {{value: any, decimal: string}} cell */
export const isRounded = ({ value, decimal }) => typeof value === "number" && /\.|·/.test(decimal) && !(Math.abs(value - Number(decimal.replace("−", "-"))) < 1e-9);

/** `q·k cat = 1·2 + 0·1 = 2` */
export function sentence() {
  const cell = selection.at ? cellAt(selection.at) : null;
  if (!cell) return "";
  const name = nameOf(selection.at), is = isRounded(cell) ? "≈" : "=";
  return cell.how && cell.how !== cell.decimal ? `${name} = ${cell.how} ${is} ${cell.decimal}` : `${name} ${is} ${cell.decimal}`;
}

/** @param {string} at @param {{pin?: boolean, keepTrail?: boolean}} [options] */
export function select(at, { pin = false, keepTrail = false } = {}) {
  if (selection.at === at && selection.pinned === (pin || selection.pinned)) return;
  selection.at = at;
  selection.pinned = pin || (selection.pinned && !!at);
  if (!keepTrail) selection.trail = [];
  changed();
  if (at) announce(sentence());
}
export function release() {
  selection.at = "";
  selection.pinned = false;
  selection.trail = [];
  changed();
}

/** @param {string} at */
export function focusAt(at) {
  const target = [...document.querySelectorAll(`[data-at="${CSS.escape(at)}"]`)]
    .find((element) => element instanceof HTMLElement && element.offsetParent !== null);
  if (target instanceof HTMLElement) {
    target.focus({ preventScroll: false });
    return true;
  }
  return false;
}

// One set of listeners for the whole page: numbers only carry data-at.
const addressOf = (event) => event.target instanceof Element ? event.target.closest("[data-at]")?.getAttribute("data-at") ?? "" : "";

/** The last position of the pointer: numbers that scroll under it are not selected. */
let rest = [-1, -1];
document.addEventListener("pointermove", (event) => { rest = [event.clientX, event.clientY]; }, { passive: true });
document.addEventListener("pointerover", (event) => {
  if (event.pointerType === "touch" || selection.pinned || (event.clientX === rest[0] && event.clientY === rest[1])) return;
  const at = addressOf(event);
  if (at) select(at);
  else if (selection.at && !document.activeElement?.matches("[data-at]")) release();
});
document.addEventListener("focusin", (event) => {
  const at = addressOf(event);
  if (at && !(selection.pinned && selection.at === at)) {
    selection.pinned = false;
    select(at, { keepTrail: true });
  }
});
document.addEventListener("click", (event) => {
  const at = addressOf(event);
  if (!at) return;
  if (selection.pinned && selection.at === at) { selection.pinned = false; changed(); }
  else { selection.pinned = false; selection.at = ""; select(at, { pin: true }); }
  const target = /** @type {Element} */ (event.target);
  // the sentence may cover the number
  if (selection.pinned && !target.matches("input")) requestAnimationFrame(() => requestAnimationFrame(() => target.scrollIntoView({ block: "nearest" })));
});
document.addEventListener("keydown", (event) => {
  const element = event.target;
  if (event.key === "Escape" && selection.at) { release(); return; }
  if (!(element instanceof HTMLElement) || !element.dataset.at) return;
  const typing = element instanceof HTMLInputElement;
  const at = element.dataset.at;
  const { symbol, row, column } = split(at);
  const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  if (step && !event.altKey && !event.ctrlKey && !event.metaKey) {
    if (typing && step[1] && !atEdge(element, step[1])) return;
    if (element.closest("svg")) return; // a mark in the plane: arrows move it
    if (focusAt(`${symbol}.${row + step[0] + 1}.${column + step[1] + 1}`) || !typing) event.preventDefault();
    return;
  }
  if (event.key === "Enter" && !typing) {
    const first = cellAt(at)?.operands[0];
    if (first) {
      selection.trail.push(at);
      focusAt(first);
      event.preventDefault();
    }
  }
  if (event.key === "Backspace" && (!typing || !element.dataset.typed)) {
    const back = selection.trail.pop();
    if (back) { focusAt(back); event.preventDefault(); }
  }
});

/** @param {HTMLInputElement} input @param {number} direction */
function atEdge(input, direction) {
  const edge = direction < 0 ? 0 : input.value.length;
  return input.selectionStart === edge && input.selectionEnd === edge
    || (input.selectionStart === 0 && input.selectionEnd === input.value.length);
}
