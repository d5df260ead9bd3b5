// The tour: nine actions, each completed by doing it.
import { announce, get, go, html, nothing, toNumber } from "./lib.js";
import * as paper from "./paper.js";
import { selection } from "./select.js";

export const tour = { on: false, at: 0, done: false, guess: "", /** @type {any} */ memory: {} };
let redraw = () => {};
/** Set by the Model room. */
export const seen = { zoomed: false, switched: false };

const heads = () => paper.state.view?.attention?.heads ?? [];
function row() {
  const { view, head, query } = paper.state;
  if (!view?.attention) return null;
  const symbols = view.attention.heads[Math.min(head, view.attention.heads.length - 1)];
  const find = (symbol) => [...view.given, ...view.steps].find((matrix) => matrix.symbol === symbol);
  const A = find(symbols.A), V = find(symbols.V);
  const line = view.attention.rows ? A.value[query] : A.value.map((each) => each[query]);
  return { weights: line.map(toNumber), keys: view.attention.keys, query: view.attention.queries[query], values: JSON.stringify(V.value) };
}
const top = () => { const r = row(); return r ? r.keys[r.weights.indexOf(Math.max(...r.weights))] : ""; };
const masked = () => paper.state.view?.attention?.mask === "causal";
const beta = () => toNumber(paper.state.view?.attention?.beta.value ?? 1);

/** Each step: what to do, how its completion is detected, and what it showed. `at`, then `then`, are scrolled into view. */
const STEPS = [
  {
    say: "Four words, and “it” asks: who am I about? Which word do you think “it” looks at most? Choose one.",
    start: () => { tour.guess = ""; },
    done: () => !!tour.guess,
    right: () => top() === tour.guess,
    after: () => `You chose “${tour.guess}”. ${top() === tour.guess ? "Right" : "Not quite"}: “it” looks most at “${top()}”, because its key points the way the query does.`,
    guess: true,
  },
  {
    say: "Why 61 %? Point at the 61.0 % beside “cat”, tap it, or move to it with Tab.",
    at: ".attend",
    done: () => /^A\d*\.4\.2$/.test(selection.at),
    after: () => "That is the whole secret: e to the score, divided by the sum over all words. The outlined numbers are its operands.",
  },
  {
    say: "Change one number, or drag an arrow, so that “sat” wins.",
    at: ".attend",
    done: () => top() === "sat",
    after: () => "The score q·k of “sat” is now the largest. Nothing else had to change.",
  },
  {
    say: "Move β down to 0, then up to ∞. Watch the cross, the output h.",
    at: ".picture",
    start: () => { tour.memory.low = tour.memory.high = false; },
    done: () => { if (beta() === 0) tour.memory.low = true; if (beta() === Infinity) tour.memory.high = true; return tour.memory.low && tour.memory.high; },
    after: () => "At 0 all words count the same and h is the mean of the values. At ∞ only the largest score counts, and h jumps onto it.",
    finish: () => paper.change({ scale: 1 }),
  },
  {
    say: "A model that writes must not see what comes next. Press “Hide the future”, then choose another word above.",
    at: () => (masked() ? ".ask" : ".tools"), then: ".screen .numbers",
    start: () => { tour.memory.query = paper.state.query; },
    done: () => masked() && paper.state.query !== tour.memory.query,
    after: () => "Words after the chosen one are hidden: their score is −∞ and their weight 0.",
    finish: () => { paper.state.query = 3; paper.change({ mask: "none" }); },
  },
  {
    say: "Drag a value, one of the green discs (or focus it and press an arrow key). Watch which numbers stay.",
    at: ".picture",
    start: () => { const r = row(); tour.memory.values = r?.values; tour.memory.weights = JSON.stringify(r?.weights); },
    done: () => { const r = row(); return !!r && r.values !== tour.memory.values && JSON.stringify(r.weights) === tour.memory.weights; },
    after: () => "The weights stay: they come from queries and keys alone. Only the output moves.",
  },
  {
    say: "So far, one row. Press “All rows” to see who looks at whom.",
    at: ".tools", then: ".screen .numbers",
    done: () => paper.state.rows === "all",
    after: () => "This table is the attention map A: one row for each query, and every row sums to 100 %.",
  },
  {
    say: "One map is one way of looking. Add a second head (Heads, +).",
    at: ".tools", then: ".ask",
    done: () => heads().length > 1,
    after: () => "Each head has its own queries, keys and values; their outputs are put side by side.",
  },
  {
    say: "Now a real model. Press “This row in a real model”. There, further down under “Predicted next token”, press “Switch this head off” and watch the probabilities.",
    at: ".equation",
    done: () => seen.switched,
    after: () => "Same letters, same arithmetic, a trained model. Now do one yourself.",
  },
];

/** @param {() => void} refresh */
export function setup(refresh) {
  redraw = refresh;
  paper.watchers.add(check);
}
export function check() {
  if (!tour.on || tour.done) return;
  const { done, after, at, then } = STEPS[tour.at];
  if (!done()) return reveal(typeof at === "function" ? at() : at);
  tour.done = true;
  document.documentElement.classList.remove("predict");
  announce(`Done. ${after()}`);
  redraw();
  reveal(then);
}
let revealed = "";
/** Brings a part of the page into view, once: to the top where the card lies over the page. @param {string} [selector] */
function reveal(selector = "") {
  if (selector === revealed) return;
  revealed = selector;
  if (selector) requestAnimationFrame(() => document.querySelector(selector)?.scrollIntoView({ block: matchMedia("(max-width: 1259px)").matches ? "start" : "nearest" }));
}
function begin(at) {
  tour.at = at;
  tour.done = false;
  revealed = "";
  document.documentElement.classList.toggle("predict", !!STEPS[at].guess);
  STEPS[at].start?.();
  announce(`Step ${at + 1} of 9. ${STEPS[at].say}`);
  redraw();
  requestAnimationFrame(() => { check(); document.getElementById("tour-card")?.focus({ preventScroll: true }); });
}
export async function toggle() {
  tour.on = !tour.on;
  if (!tour.on) { document.documentElement.classList.remove("predict"); return redraw(); }
  seen.switched = seen.zoomed = false;
  const exercise = await get("api/exercises/first-look");
  await paper.start("first-look", exercise, structuredClone(exercise));
  go("#/paper/first-look");
  begin(0);
}
function next() {
  STEPS[tour.at].finish?.();
  if (tour.at + 1 < STEPS.length) begin(tour.at + 1);
  else { tour.on = false; go("#/check/one-query"); redraw(); }
}

export const button = () => html`<button aria-pressed=${tour.on} @click=${toggle}>Tour ${tour.on ? html`${tour.at + 1}/9` : "1/9 ▸"}</button>`;

export function card() {
  if (!tour.on) return nothing;
  const step = STEPS[tour.at];
  return html`<section class="tour" id="tour-card" tabindex="-1" aria-label="Tour">
    <div class="dots" aria-hidden="true">${STEPS.map((_, i) => html`<span class=${i < tour.at || (i === tour.at && tour.done) ? "full" : i === tour.at ? "now" : ""}></span>`)}</div>
    <p><b>${tour.at + 1}</b> ${step.say}</p>
    ${step.guess ? html`<p class="row">${(row()?.keys ?? []).map((word) => html`<button aria-pressed=${tour.guess === word} ?disabled=${tour.done} @click=${() => { tour.guess = word; check(); }}>${word}</button>`)}</p>` : nothing}
    ${tour.done ? html`<p class="after">${step.right?.() ?? true ? "✓ " : ""}${step.after()}</p>` : nothing}
    <p class="row"><button class=${tour.done ? "primary" : ""} @click=${next}>${!tour.done ? "Skip" : tour.at + 1 === STEPS.length ? "Do one yourself ▸" : "Next ▸"}</button><span class="spacer"></span><button @click=${toggle}>End the tour</button></p>
  </section>`;
}
