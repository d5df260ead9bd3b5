// The plot: queries and keys as arrows, values as discs sized by their weights, the output as a cross.
import { html, index, nothing, percent, short, svg } from "./lib.js";
import { operands, selection, split } from "./select.js";

const SIZE = 400;
/** @type {{x0: number, y0: number, span: number} | null} what is visible, held while something is dragged */
let held = null;

/** @typedef {{kind: "q" | "k" | "v", index: number, x: number, y: number}} Mark */

/** @param {number[][]} points */
function frame(points) {
  const xs = [0, 1, ...points.map(([x]) => x)], ys = [0, 1, ...points.map(([, y]) => y)];
  const low = [Math.min(...xs), Math.min(...ys)], high = [Math.max(...xs), Math.max(...ys)];
  const span = Math.max(high[0] - low[0], high[1] - low[1]) * 1.42 + 0.3;
  return { x0: (low[0] + high[0] - span) / 2, y0: (low[1] + high[1] - span) / 2, span };
}

/** A number at a grid line. @param {number} value */
const tick = (value) => (Math.abs(value) >= 1e5 ? value.toExponential().replace("e+", "e").replace("-", "−") : short(value));
const nice = (span) => { const raw = span / 5, ten = 10 ** Math.floor(Math.log10(raw)); return [1, 2, 5, 10].map((n) => n * ten).find((n) => n >= raw) ?? raw; };

/**
 * @param {{q: number[], keys: number[][], values: number[][], weights: number[], output: number[], labels: string[], query: string,
 *   hidden: boolean[], rows: boolean, addresses: {q: string, k: string[], v: string[], h: string, a: string[]}, width: number,
 *   move: ((mark: "q" | "k" | "v", index: number, x: number, y: number, done: boolean) => void) | null}} data
 */
export function plane(data) {
  const flat = (v) => [v[0], v[1] ?? 0];
  const q = flat(data.q), keys = data.keys.map(flat), values = data.values.map(flat), output = flat(data.output);
  const finite = (p) => p.every(Number.isFinite);
  const { x0, y0, span } = held ?? frame([q, output, ...keys, ...values].filter(finite));
  const scale = SIZE / span;
  const X = (x) => (x - x0) * scale, Y = (y) => SIZE - (y - y0) * scale;
  const used = operands();
  /** Whether the vector of token i at this address is selected, an operand, or what the selected weight belongs to. */
  const chosen = (at, i) => [selection.at, ...used].some((each) => split(each).symbol === split(at).symbol && split(each)[data.rows ? "row" : "column"] === i) || selection.at === data.addresses.a[i];
  const step = nice(span);
  const lines = [];
  for (let n = Math.ceil(x0 / step); n * step <= x0 + span; n++) lines.push(svg`<line class="grid" x1=${X(n * step)} x2=${X(n * step)} y1="0" y2=${SIZE} /><text class="tick" x=${X(n * step) + 3} y=${SIZE - 5}>${tick(n * step)}</text>`);
  for (let n = Math.ceil(y0 / step); n * step <= y0 + span; n++) lines.push(svg`<line class="grid" y1=${Y(n * step)} y2=${Y(n * step)} x1="0" x2=${SIZE} /><text class="tick" y=${Y(n * step) - 3} x="4">${tick(n * step)}</text>`);

  const begin = (kind, index, point) => (event) => {
    const { move } = data;
    if (!move || event.button) return;
    event.preventDefault();
    const target = event.currentTarget, picture = target.ownerSVGElement;
    target.focus({ preventScroll: true });
    target.setPointerCapture(event.pointerId);
    held = { x0, y0, span };
    const read = (e) => {
      const box = picture.getBoundingClientRect();
      const snap = (v) => Math.round(v * 10) / 10;
      return [snap(x0 + (e.clientX - box.left) / box.width * span), snap(y0 + (1 - (e.clientY - box.top) / box.height) * span)];
    };
    let last = point;
    const moved = (e) => {
      const [x, y] = read(e);
      if (x === last[0] && y === last[1]) return;
      last = [x, y];
      move(kind, index, x, y, false);
    };
    const ended = () => {
      target.removeEventListener("pointermove", moved);
      target.removeEventListener("pointerup", ended);
      target.removeEventListener("pointercancel", ended);
      held = null;
      move(kind, index, last[0], last[1], true);
    };
    target.addEventListener("pointermove", moved);
    target.addEventListener("pointerup", ended);
    target.addEventListener("pointercancel", ended);
  };
  const key = (kind, index, point) => (event) => {
    const by = { ArrowUp: [0, 1], ArrowDown: [0, -1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[event.key];
    if (!by || !data.move) return;
    event.preventDefault();
    event.stopPropagation();
    const size = event.shiftKey ? 0.1 : 0.5;
    data.move(kind, index, Math.round((point[0] + by[0] * size) * 10) / 10, Math.round((point[1] + by[1] * size) * 10) / 10, true);
  };
  const handle = (kind, index, point, label) => data.move
    ? { tab: 0, role: "button", label: `${label} at (${short(point[0])}, ${short(point[1])}). Arrow keys move it.`, down: begin(kind, index, point), key: key(kind, index, point) }
    : { tab: -1, role: "img", label: `${label} at (${short(point[0])}, ${short(point[1])})`, down: null, key: null };

  const top = Math.max(...data.weights);
  // A label is placed where it overlaps least: four positions around its point are tried in turn.
  const taken = [[X(output[0]), Y(output[1]), 12], [X(q[0]), Y(q[1]), 14], ...values.map((p) => [X(p[0]), Y(p[1]), 12]), ...keys.map((p) => [X(p[0]), Y(p[1]), 10])];
  for (let n = 0.15; n < 1; n += 0.1) taken.push([X(q[0] * n), Y(q[1] * n), 5]);
  const place = (p, text, far) => {
    const w = text.length * 7.8, cx = X(p[0]), cy = Y(p[1]);
    const tries = [[far, 4, "start"], [-far, 4, "end"], [0, -far - 3, "middle"], [0, far + 13, "middle"], [far, -far, "start"], [far, far + 10, "start"], [-far, -far, "end"], [-far, far + 10, "end"]];
    let best = { x: cx, y: cy, anchor: "start", left: cx, right: cx, mid: cy }, cost = Infinity;
    for (const [dx, dy, anchor] of tries) {
      const left = cx + dx - (anchor === "end" ? w : anchor === "middle" ? w / 2 : 0), right = left + w, y = cy + dy - 4;
      let bad = left < 2 || right > SIZE - 2 || y < 8 || y > SIZE - 4 ? 50 : 0;
      if (Math.abs(y - Y(0)) < 7 || (left < X(0) && right > X(0))) bad += anchor === "middle" ? 0.5 : 1.5;
      for (const [tx, ty, r, cost = 1] of taken) if ((tx !== cx || ty !== cy) && tx + r > left && tx - r < right && Math.abs(ty - y) < r + 5) bad += cost + (r > 12 ? 1 : 0);
      if (bad < cost) { cost = bad; best = { x: cx + dx, y: cy + dy, anchor, left, right, mid: y }; }
    }
    for (let x = best.left + 5; x < best.right; x += 10) taken.push([x, best.mid, 7, 3]); // text under text cannot be read
    return best;
  };
  const shown = (p) => finite(p) ? p : [0, 0];
  const numbered = (letter, label) => (/^\d+$/.test(label) ? letter + index(label) : letter === "k" ? `k ${label}` : label);
  const name = (i) => `${numbered("v", data.labels[i])} ${data.hidden[i] ? "hidden" : percent(data.weights[i]).replace(".0", "")}`;
  const valueLabels = values.map((p, i) => place(shown(p), name(i), 9 + 16 * Math.sqrt(Math.max(0, data.weights[i]))));
  const keyLabels = keys.map((p, i) => place(shown(p), numbered("k", data.labels[i]), 10));
  const qLabel = place(q, data.move ? "q drag me" : "q", 15);
  const hLabel = place(shown(output), "h", 12);

  return html`<svg class="plane" viewBox="0 0 ${SIZE} ${SIZE}" role="group" aria-label=${`The query of ${data.query}, the keys, the values and the output in the plane`}>
    <defs><marker id="tip" viewBox="0 0 10 10" refX="8" refY="5" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path d="M0 0 10 5 0 10z" class="tip" /></marker></defs>
    ${lines}
    <line class="axis" x1=${X(0)} x2=${X(0)} y1="0" y2=${SIZE} /><line class="axis" y1=${Y(0)} y2=${Y(0)} x1="0" x2=${SIZE} />
    ${keys.map((k, i) => svg`<line class="tie" x1=${X(k[0])} y1=${Y(k[1])} x2=${X(values[i][0])} y2=${Y(values[i][1])} />`)}
    ${values.map((v, i) => !data.hidden[i] && data.weights[i] > 0.004 ? svg`<line class="pull ${selection.at === data.addresses.a[i] ? "used" : ""}" stroke-width=${1 + 5 * data.weights[i]} x1=${X(v[0])} y1=${Y(v[1])} x2=${X(output[0])} y2=${Y(output[1])} />` : nothing)}
    <line class="arrow" x1=${X(0)} y1=${Y(0)} x2=${X(q[0])} y2=${Y(q[1])} marker-end="url(#tip)" />
    ${values.map((v, i) => { const h = handle("v", i, v, `value of ${data.labels[i]}, weight ${Math.round(100 * data.weights[i])} percent,`); return svg`
      <g class="mark v ${data.hidden[i] ? "hidden" : ""} ${data.weights[i] === top ? "top" : ""} ${chosen(data.addresses.v[i], i) ? "used" : ""}" tabindex=${h.tab} role=${h.role} aria-label=${h.label}
        data-at=${data.addresses.v[i]} @pointerdown=${h.down} @keydown=${h.key} transform="translate(${X(v[0])} ${Y(v[1])})">
        <circle class="hit" r="20" /><circle class="halo" r=${7 + 16 * Math.sqrt(Math.max(0, data.weights[i]))} /><circle class="dot" r="6" /></g>`; })}
    ${keys.map((k, i) => { const h = handle("k", i, k, `key of ${data.labels[i]}`); return svg`
      <g class="mark k ${data.hidden[i] ? "hidden" : ""} ${chosen(data.addresses.k[i], i) ? "used" : ""}" tabindex=${h.tab} role=${h.role} aria-label=${h.label}
        data-at=${data.addresses.k[i]} @pointerdown=${h.down} @keydown=${h.key} transform="translate(${X(k[0])} ${Y(k[1])})">
        <circle class="hit" r="13" /><path class="dot" d="M-5 -6 7 0 -5 6z" /></g>`; })}
    <g class="mark h" data-at=${data.addresses.h} role="img" aria-label=${`output h at (${short(output[0])}, ${short(output[1])})`} transform="translate(${X(output[0])} ${Y(output[1])})"><circle class="hit" r="12" /></g>
    ${(() => { const h = handle("q", 0, q, `query q of ${data.query}`); return svg`<g class="mark q" tabindex=${h.tab} role=${h.role} aria-label=${h.label} data-at=${data.addresses.q}
      @pointerdown=${h.down} @keydown=${h.key} transform="translate(${X(q[0])} ${Y(q[1])})"><circle class="hit" r="20" /><circle class="ring" r="9" /></g>`; })()}
    <g class="labels" aria-hidden="true">
      ${keyLabels.map((l, i) => svg`<text class="k" x=${l.x} y=${l.y} text-anchor=${l.anchor}>${numbered("k", data.labels[i])}</text>`)}
      ${valueLabels.map((l, i) => svg`<text class="v ${data.weights[i] === top ? "top" : ""}" x=${l.x} y=${l.y} text-anchor=${l.anchor}>${name(i)}</text>`)}
      <text class="q" x=${qLabel.x} y=${qLabel.y} text-anchor=${qLabel.anchor}>${data.move ? "q drag me" : "q"}</text>
      <text class="h" x=${hLabel.x} y=${hLabel.y} text-anchor=${hLabel.anchor}>h</text>
      <g class="h" transform="translate(${X(output[0])} ${Y(output[1])})"><path class="under" d="M-7 -7 7 7M-7 7 7 -7" /><path class="cross" d="M-7 -7 7 7M-7 7 7 -7" /></g>
    </g>
  </svg>
  <p class="legend"><span class="q">● query</span> <span class="k">▸ key</span> <span class="v">● value, as large as its weight</span> <span class="h">✕ output</span>
    ${data.width > 2 ? html`<span class="quiet">coordinates 1 and 2 of ${data.width}</span>` : nothing}</p>`;
}
