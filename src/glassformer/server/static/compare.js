// Compare: the measured tables of a comparison of architectures, with their curves and circumstances.
import { get, html, nothing, Problem } from "./lib.js";

export const state = { /** @type {any} */ data: null, table: 0, /** @type {Problem | null} */ problem: null };
let refresh = () => {};
/** @param {any} where @param {() => void} redraw */
export async function enter(where, redraw) {
  refresh = redraw;
  try { if (!state.data) state.data = await get("api/compare"); } catch (error) { state.problem = /** @type {Problem} */ (error); }
  state.table = Math.max(0, (Number(where.name) || 1) - 1);
  refresh();
}
export function template() {
  const { data } = state;
  return html`<div class="room compare"><h1>Compare: Transformer, RNN, LSTM, GRU, CNN and MLP side by side</h1>
    ${state.problem ? html`<p class="problem" role="alert">${state.problem.message}</p>` : nothing}
    ${!data ? html`<p class="quiet">Loading …</p>` : !data.tables.length ? html`<p>No measurements were given to this server. Measure the architectures on this machine, then start it with the results:</p><pre tabindex="0">glassformer compare --quick -o results
glassformer serve --results results/FILE.json</pre>` : html`
    <p class="row" role="group" aria-label="Table">${data.tables.map((table, i) => html`<button aria-pressed=${i === state.table} @click=${() => { state.table = i; refresh(); }}>${table.title}</button>`)}</p>
    ${(() => { const table = data.tables[Math.min(state.table, data.tables.length - 1)]; return html`<h2>${table.title}</h2><div class="scroll"><table class="plainTable"><thead><tr>${table.head.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead><tbody>${table.rows.map((row) => html`<tr>${row.map((cell, i) => (i ? html`<td>${cell}</td>` : html`<th scope="row">${cell}</th>`))}</tr>`)}</tbody></table></div><p class="quiet">${table.note}</p>`; })()}
    <h2>Curves</h2>${data.figures.map((figure) => html`<figure><img alt=${figure.caption} src=${`data:image/svg+xml;charset=utf-8,${encodeURIComponent(figure.svg)}`}><figcaption class="quiet">${figure.caption}</figcaption></figure>`)}
    <p class="quiet">From ${data.file}.</p>`}</div>`;
}
export const title = () => "Compare";
