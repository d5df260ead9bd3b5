// Lab: claims as cards; the reader guesses first, then the experiment runs.
import { drawing, get, go, html, LongWork, nothing, post, Problem } from "./lib.js";
import * as paper from "./paper.js";

export const state = {
  /** @type {any[]} */ claims: [], number: 1,
  /** @type {Record<number, string>} */ guesses: {},
  /** @type {any} */ outcome: null,
  /** @type {Record<string, number>} */ values: {},
  /** @type {Problem | null} */ problem: null,
};
let refresh = () => {};
const work = new LongWork(() => refresh());

/** @param {{name: string}} where @param {() => void} redraw */
export async function enter(where, redraw) {
  refresh = redraw;
  try { if (!state.claims.length) state.claims = await get("api/lab"); } catch (error) { state.problem = /** @type {Problem} */ (error); }
  const number = Number(where.name) || state.number;
  if (state.claims.length && !state.claims.some((each) => each.number === number)) { choose(1); state.problem = new Problem(`there is no claim ${number}`, `choose 1 to ${state.claims.length}`, 404); return refresh(); }
  if (number !== state.number || !Object.keys(state.values).length) choose(number);
  refresh();
  requestAnimationFrame(() => { const now = document.querySelector(".claims [aria-current]"), list = now?.closest("ol"); if (list) list.scrollTop = /** @type {HTMLElement} */ (now).offsetTop - list.offsetTop; });
}
function choose(number) {
  const claim = state.claims.find((each) => each.number === number);
  if (!claim) return;
  work.cancel();
  Object.assign(state, { number, outcome: null, problem: null, values: Object.fromEntries(claim.parameters.map((p) => [p.name, p.default])) });
}
async function run() {
  const claim = state.claims.find((each) => each.number === state.number);
  state.problem = null;
  const parameters = Object.fromEntries(claim.parameters.filter((p) => state.values[p.name] !== p.default).map((p) => [p.name, state.values[p.name]]));
  const values = { ...state.values };
  try {
    const outcome = await work.run("Measuring", (signal, progress) => post(`api/lab/${claim.number}`, { parameters }, signal, progress));
    if (outcome) state.outcome = { ...outcome, values };
  } catch (error) { state.problem = /** @type {Problem} */ (error); }
  refresh();
}
async function toPaper(exercise) { await paper.start("", exercise, structuredClone(exercise)); go(await paper.hash()); }

const slider = (p) => html`<label class="slider"><span>${p.meaning} <b>${state.values[p.name]}</b></span><input type="range" aria-label=${p.meaning} min=${p.least} max=${p.most} step=${Number.isInteger(p.default) ? 1 : "any"} .value=${String(state.values[p.name])} @input=${(event) => { state.values[p.name] = Number.isInteger(p.default) ? Number(event.target.value) : Math.round(Number(event.target.value) * 1000) / 1000; refresh(); }}></label>`;

/** The reader's choices, by the verdict that they predict. */
const CHOICES = { holds: "It holds", "holds when": "Only under a condition", fails: "It fails" };

function card(claim) {
  const guess = state.guesses[claim.number], outcome = state.outcome?.number === claim.number ? state.outcome : null;
  const earlier = outcome && JSON.stringify(outcome.values) !== JSON.stringify(state.values);
  return html`<article class="claim"><p class="quiet">Claim ${claim.number}</p><h2>${claim.statement}</h2><p class="formula" .innerHTML=${claim.formula}></p>
    <p>What do you think?</p><p class="row">${Object.values(CHOICES).map((text) => html`<button aria-pressed=${guess === text} @click=${() => { state.guesses[claim.number] = text; refresh(); }}>${text}</button>`)}</p>
    ${guess ? html`${claim.parameters.length ? html`<div class="sliders">${claim.parameters.map(slider)}</div>` : nothing}
      ${work.busy ? work.template() : html`<p class="row"><button class="primary" @click=${run}>${outcome ? "Measure again" : "Run the experiment"}</button></p>`}` : html`<p class="quiet">Guess first: the experiment runs afterwards.</p>`}
    ${state.problem ? html`<p class="problem" role="alert">${state.problem.message}</p>` : nothing}
    ${outcome ? html`<section class=${work.busy ? "stale" : ""} aria-label="Verdict" aria-live="polite"><p class="verdict-line"><b>${outcome.verdict}</b></p><p>You thought: “${guess}”. ${CHOICES[outcome.kind] === guess ? html`<span class="right">✓ The experiment agrees.</span>` : `The experiment says: “${CHOICES[outcome.kind]}”.`}${earlier ? html` <span class="quiet">Measured before the sliders were moved.</span>` : nothing}</p>
      <figure>${drawing(outcome, `Figure of claim ${claim.number}: ${outcome.measured}`)}</figure>
      <p class="quiet">Measured: ${outcome.measured} Rule: ${outcome.rule} ${outcome.circumstances}</p>
      ${outcome.counterexample ? html`<p><button @click=${() => toPaper(outcome.counterexample)}>Open the counterexample on Paper ▸</button></p>` : nothing}
      <details><summary>Numbers</summary><div class="scroll"><table class="plainTable">${outcome.numbers.map(([name, text]) => html`<tr><th scope="row">${name}</th><td>${text}</td></tr>`)}</table></div><p class="quiet">${outcome.seconds} s; <code>${outcome.command}</code></p></details></section>` : nothing}</article>`;
}

export function template() {
  const claim = state.claims.find((each) => each.number === state.number);
  return html`<div class="room lab"><h1>Lab: claims about attention, tested by experiment</h1>
    ${!claim ? html`${state.problem ? html`<p class="problem" role="alert">${state.problem.message} <button @click=${() => { state.problem = null; refresh(); enter({ name: String(state.number) }, refresh); }}>Try again</button></p>` : html`<p class="quiet">Loading the claims …</p>`}` : html`<div class="two"><nav aria-label="Claims"><ol class="claims">${state.claims.map((each) => html`<li><button class="plain" aria-current=${each.number === state.number ? "true" : nothing} @click=${() => { choose(each.number); go(`#/lab/${each.number}`); refresh(); }}>${each.number}. ${each.name}</button></li>`)}</ol></nav>${card(claim)}</div>`}</div>`;
}
export const title = () => "Lab";
