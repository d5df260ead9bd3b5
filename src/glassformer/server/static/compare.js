// Compare: the measured tables of a comparison of architectures. A cell opens its curve and how it was measured.
import { drawing, get, go, html, nothing, Problem } from "./lib.js";

export const state = {
  /** @type {any} */ data: null, table: 0,
  /** @type {any[] | null} */ figures: null,
  /** @type {{row: number, column: number} | null} */ cell: null,
  /** @type {Problem | null} */ problem: null,
};
let refresh = () => {};

/** @param {any} where @param {() => void} redraw */
export async function enter(where, redraw) {
  refresh = redraw;
  const table = Math.max(0, (Number(where.name) || 1) - 1);
  if (table !== state.table) Object.assign(state, { table, cell: null });
  try { if (!state.data) { state.data = await get("api/compare"); state.problem = null; refresh(); state.figures = await get("api/compare/figures"); } } catch (error) { state.problem = /** @type {Problem} */ (error); }
  refresh();
}
/** @param {number} row @param {number} column */
function choose(row, column) {
  state.cell = state.cell?.row === row && state.cell?.column === column ? null : { row, column };
  refresh();
}

function grid(table) {
  const cell = (text, row, column) => html`<td class=${state.cell?.row === row && state.cell?.column === column ? "chosen" : ""}><button class="plain" aria-pressed=${state.cell?.row === row && state.cell?.column === column}
    aria-label=${`${table.rows[row][0]}, ${table.head[column]}: ${text}`} @click=${() => choose(row, column)}>${text}</button></td>`;
  return html`<div class="scroll"><table class="plainTable measured"><thead><tr>${table.head.map((name, i) => (i || name ? html`<th scope="col">${name}</th>` : html`<td></td>`))}</tr></thead>
    <tbody>${table.rows.map((row, r) => html`<tr>${row.map((text, c) => (c ? cell(text, r, c) : html`<th scope="row">${text}</th>`))}</tr>`)}</tbody></table></div>`;
}

/** The chosen cell: its curve, and how it was measured. */
function details(table) {
  const figure = state.figures?.find((each) => each.name === table.figure);
  const { cell } = state;
  return html`<section class="details" aria-label="How it was measured" aria-live="polite">
    ${cell ? html`<p class="chosen-cell"><b>${table.rows[cell.row][0]}</b>, ${table.head[cell.column]}: <b>${table.rows[cell.row][cell.column]}</b></p>` : nothing}
    <p>${table.note}</p>
    ${figure ? html`<figure>${drawing(figure, figure.caption)}<figcaption class="quiet">${figure.caption}; the numbers are in the table.</figcaption></figure>` : html`<p class="quiet">${!state.figures && table.figure ? "Drawing the curve …" : "This table has no curve."}</p>`}
  </section>`;
}

/** Paragraphs and list items of the findings; the file writes code in backticks. @param {string} text */
function findings(text) {
  const [first, ...items] = text.split(/\n\n?- /);
  const plain = (line) => line.replaceAll("`", "").trim();
  return { how: plain(first), list: items.length ? html`<details><summary>Findings in sentences</summary><ul>${items.map((item) => html`<li>${plain(item)}</li>`)}</ul></details>` : nothing };
}

export function template() {
  const { data } = state;
  const table = data?.tables[Math.min(state.table, data.tables.length - 1)];
  return html`<div class="room compare"><h1>Compare: Transformer, RNN, LSTM, GRU, CNN and MLP of equal size</h1>
    ${state.problem ? html`<p class="problem" role="alert">${state.problem.message}</p>` : nothing}
    ${!data ? (state.problem ? nothing : html`<p class="quiet">Loading the measurements …</p>`) : !table ? html`<p>There are no measurements here. Measure the architectures on this machine, then start the workbench with the results:</p><pre tabindex="0">glassformer compare --quick -o results
glassformer serve --results results/FILE.json</pre>` : html`
    <p>The same small tasks, the same training, and about as many parameters each. Click a number to see its curve and how it was measured.</p>
    ${findings(data.findings).list}
    <p><label>Table <select @change=${(event) => { go(`#/compare/${Number(event.target.value) + 1}`); }}>${data.tables.map((each, i) => html`<option value=${i} ?selected=${each === table}>${each.title}</option>`)}</select></label></p>
    <h2>${table.title}</h2>${grid(table)}${details(table)}
    <p class="quiet">${findings(data.findings).how} From ${data.file}${data.shipped ? ", which comes with Glassformer; glassformer compare measures on your machine" : ""}.</p>`}</div>`;
}
export const title = () => "Compare";
