// One attention map, large: pan, zoom, pick a row. Only what is visible is fetched at full size.
import { readable } from "./lib.js";
import { colours, npy, toImage } from "./npy.js";

const SIDE = 512; // of the overview
const LABELLED = 40; // tokens across, up to which they are named at the edges

export class MapElement extends HTMLElement {
  constructor() {
    super();
    this.canvas = document.createElement("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.source = "";
    /** @type {any} */ this.layer = null;
    this.query = 0; this.key = -1; this.queued = false;
    this.view = { x: 0, y: 0, span: 1 };
    this.ratio = 1; // of height to width
    /** @type {HTMLCanvasElement | null} */ this.image = null;
    /** @type {{image: HTMLCanvasElement, top: number, left: number, height: number, width: number} | null} */ this.sharp = null;
    /** @type {AbortController | null} */ this.request = null;
  }
  connectedCallback() {
    if (this.canvas.isConnected) return;
    this.append(this.canvas);
    this.canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.canvas.addEventListener("pointerdown", (event) => this.down(event));
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("pointerleave", () => { this.key = -1; this.draw(); });
    this.canvas.addEventListener("keydown", (event) => this.keys(event));
    new ResizeObserver(() => this.draw()).observe(this);
  }
  /** @param {string} look @param {any} layer @param {number} head @param {number} query */
  async show(look, layer, head, query) {
    const base = `api/looks/${look}`, where = `path=${encodeURIComponent(layer.path)}&head=${head}`;
    this.query = query;
    this.canvas.setAttribute("aria-label", `Attention map, ${layer.queries} queries and ${layer.keys} keys. Arrow keys choose the row, + and − zoom.`);
    const source = `${base}?${where}`;
    if (source === this.source) return this.draw();
    const fresh = !this.layer || this.layer.queries !== layer.queries || this.layer.keys !== layer.keys;
    this.source = source;
    this.layer = layer;
    if (fresh) {  // at once, for this request may be aborted by the next
      this.view = { x: 0, y: 0, span: Math.max(layer.queries, layer.keys) };
      this.image = this.sharp = null;
      const edge = this.margin / this.side;
      this.ratio = Math.max(0.3, Math.min(1, edge + (1 - edge) * layer.queries / layer.keys)); // of fewer queries than keys
      this.style.aspectRatio = `1 / ${this.ratio}`;
    }
    this.regionOf = (top, left, height, width) => `${base}/region.npy?${where}&top=${top}&left=${left}&height=${height}&width=${width}`;
    this.request?.abort();
    this.request = new AbortController();
    try {
      const { shape, data } = await npy(`${base}/map.npy?${where}&side=${SIDE}`, this.request.signal);
      this.image = toImage(data, shape[0], shape[1], colours());
      this.raw = { shape, data };
      this.sharp = null;
      this.draw();
      performance.mark("map");
    } catch (error) { if (!(error instanceof DOMException)) throw error; }
  }
  recolour() { if (this.raw) { this.image = toImage(this.raw.data, this.raw.shape[0], this.raw.shape[1], colours()); this.sharp = null; this.draw(); } }

  get side() { return this.canvas.clientWidth || 400; }
  /** Space for the token labels at the left and at the top, once they are legible, in CSS pixels. */
  get margin() { return this.layer && this.view.span <= LABELLED ? Math.round(Math.min(64, this.side * 0.15)) : 0; }
  /** How many rows are visible. */
  get rows() { const edge = this.margin / this.side; return this.view.span * (this.ratio - edge) / (1 - edge); }
  /** Draws once in the next frame, however often it is called. */
  later() {
    if (this.queued) return;
    this.queued = true;
    requestAnimationFrame(() => { this.queued = false; this.draw(); });
  }
  draw() {
    if (!this.image || !this.layer || !this.isConnected) return;
    const ratio = devicePixelRatio || 1, side = this.side, size = Math.round(side * ratio), height = Math.round(size * this.ratio), margin = this.margin * ratio;
    if (this.canvas.width !== size || this.canvas.height !== height) { this.canvas.width = size; this.canvas.height = height; }
    const c = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
    const { x, y, span } = this.view, { queries, keys } = this.layer, scale = (size - margin) / span;
    const style = getComputedStyle(this), colour = (name) => style.getPropertyValue(name);
    c.setTransform(1, 0, 0, 1, 0, 0);
    c.imageSmoothingEnabled = false;
    c.fillStyle = colour("--sunken");
    c.fillRect(0, 0, size, height);
    c.save();
    c.translate(margin, margin);
    c.beginPath(); c.rect(0, 0, size - margin, height - margin); c.clip();
    const block = (count) => Math.ceil(count / SIDE); // rows or columns of the map in one of the overview
    c.drawImage(this.image, -x * scale, -y * scale, this.image.width * block(keys) * scale, this.image.height * block(queries) * scale);
    if (this.sharp) c.drawImage(this.sharp.image, (this.sharp.left - x) * scale, (this.sharp.top - y) * scale, this.sharp.width * scale, this.sharp.height * scale);
    if (this.layer.causal) this.hatch(c, scale, size, colour("--muted"));
    const line = Math.max(1.5, scale);
    c.strokeStyle = colour("--q-fill");
    c.lineWidth = 2 * ratio;
    c.strokeRect(Math.max(1, -x * scale), (this.query - y) * scale, Math.min(keys * scale, size - margin) - 2, line);
    if (this.key >= 0) { c.strokeStyle = colour("--k-fill"); c.strokeRect((this.key - x) * scale, (this.query - y) * scale, line, line); }
    c.restore();
    if (margin) this.names(c, margin, scale, ratio, colour);
    this.sharpen();
  }
  /** The keys after a query of a causal layer are masked. */
  hatch(c, scale, size, colour) {
    const { x, y } = this.view, { queries, keys } = this.layer, end = (keys - x) * scale;
    c.beginPath();
    c.moveTo(end, -y * scale);
    for (let i = 0; i < queries; i++) for (const row of [i, i + 1]) c.lineTo((keys - queries + i + 1 - x) * scale, (row - y) * scale);
    c.closePath();
    c.save();
    c.clip();
    c.beginPath();
    for (let at = -size; at < size; at += 8) { c.moveTo(at, size); c.lineTo(at + size, 0); }
    c.strokeStyle = colour; c.globalAlpha = 0.3; c.lineWidth = 1;
    c.stroke();
    c.restore();
  }
  /** The tokens: queries at the left, keys at the top. */
  names(c, margin, scale, ratio, colour) {
    const { x, y, span } = this.view, { query_labels, key_labels } = this.layer;
    c.font = `${Math.min(13, Math.max(9, scale / ratio * 0.8)) * ratio}px system-ui, sans-serif`;
    c.textBaseline = "middle";
    const fit = (label) => { let text = readable(label); while (text.length > 1 && c.measureText(text).width > margin - 6 * ratio) text = `${text.replace(/…$/, "").slice(0, -1)}…`; return text; };
    for (let i = Math.max(0, Math.floor(y)); i < Math.min(query_labels.length, Math.ceil(y + span)); i++) {
      const at = margin + (i + 0.5 - y) * scale;
      if (at < margin) continue;
      c.fillStyle = colour(i === this.query ? "--q" : "--muted");
      c.textAlign = "right";
      c.fillText(fit(query_labels[i]), margin - 4 * ratio, at);
    }
    for (let j = Math.max(0, Math.floor(x)); j < Math.min(key_labels.length, Math.ceil(x + span)); j++) {
      const at = margin + (j + 0.5 - x) * scale;
      if (at < margin) continue;
      c.save();
      c.translate(at, margin - 4 * ratio);
      c.rotate(-Math.PI / 2);
      c.fillStyle = colour(j === this.key ? "--k" : "--muted");
      c.textAlign = "left";
      c.fillText(fit(key_labels[j]), 0, 0);
      c.restore();
    }
  }
  /** If the overview is pooled, the visible part is fetched at full size once the map stops moving. */
  sharpen() {
    const { queries, keys } = this.layer, { x, y, span } = this.view;
    if (Math.max(queries, keys) <= SIDE || span > 700) return;
    const top = Math.max(0, Math.floor(y)), left = Math.max(0, Math.floor(x)), height = Math.min(queries - top, Math.ceil(span) + 1), width = Math.min(keys - left, Math.ceil(span) + 1);
    const p = this.sharp;
    if (height < 1 || width < 1 || (p && p.top <= top && p.left <= left && p.top + p.height >= top + height && p.left + p.width >= left + width)) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(async () => {
      const { source, regionOf } = this;
      if (!regionOf) return;
      const { shape, data } = await npy(regionOf(top, left, height, width));
      if (source !== this.source) return;
      this.sharp = { image: toImage(data, shape[0], shape[1], colours()), top, left, height: shape[0], width: shape[1] };
      this.draw();
    }, 80);
  }
  /** The position of an event as a fraction of the visible columns; cells are square. */
  share(event) {
    const box = this.canvas.getBoundingClientRect(), margin = this.margin, width = box.width - margin;
    return { fx: (event.clientX - box.left - margin) / width, fy: (event.clientY - box.top - margin) / width };
  }
  at(event) {
    const { x, y, span } = this.view, { fx, fy } = this.share(event);
    return { key: fx < 0 ? -1 : Math.floor(x + fx * span), query: fy < 0 ? -1 : Math.floor(y + fy * span) };
  }
  clamp() {
    const { queries, keys } = this.layer, v = this.view;
    v.span = Math.min(Math.max(queries, keys), Math.max(4, v.span));
    v.x = Math.max(0, Math.min(keys - v.span, v.x));
    v.y = Math.max(0, Math.min(queries - this.rows, v.y));
  }
  wheel(event) {
    if (!this.layer) return;
    event.preventDefault();
    const v = this.view, { fx, fy } = this.share(event);
    const span = v.span * (event.deltaY > 0 ? 1.2 : 1 / 1.2);
    v.x += fx * (v.span - span); v.y += fy * (v.span - span); v.span = span;
    this.clamp();
    this.later();
  }
  down(event) {
    if (!this.layer) return;
    this.canvas.setPointerCapture(event.pointerId);
    const start = { x: event.clientX, y: event.clientY, ...{ vx: this.view.x, vy: this.view.y } };
    let moved = false;
    const move = (e) => {
      if (Math.hypot(e.clientX - start.x, e.clientY - start.y) > 4) moved = true;
      if (!moved) return;
      const shown = this.side - this.margin;
      this.view.x = start.vx - (e.clientX - start.x) / shown * this.view.span;
      this.view.y = start.vy - (e.clientY - start.y) / shown * this.view.span;
      this.clamp();
      this.later();
    };
    const up = (e) => {
      this.canvas.removeEventListener("pointermove", move);
      this.canvas.removeEventListener("pointerup", up);
      if (!moved) this.pick(this.at(e));
    };
    this.canvas.addEventListener("pointermove", move);
    this.canvas.addEventListener("pointerup", up);
  }
  hover(event) {
    if (!this.layer || event.buttons) return;
    const { query, key } = this.at(event);
    if (query < 0 || key < 0 || query >= this.layer.queries || key >= this.layer.keys) return;
    this.dispatchEvent(new CustomEvent("cell", { detail: { query, key } }));
  }
  pick({ query, key }) {
    if (query < 0 || query >= this.layer.queries) return;
    this.query = query;
    this.key = key < this.layer.keys ? key : -1;
    this.draw();
    this.dispatchEvent(new CustomEvent("row", { detail: { query } }));
  }
  keys(event) {
    const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (event.key === "+" || event.key === "-") { this.view.span *= event.key === "+" ? 0.8 : 1.25; this.clamp(); this.draw(); }
    if (!by || !this.layer) return;
    event.preventDefault();
    const query = Math.max(0, Math.min(this.layer.queries - 1, this.query + by));
    if (query < this.view.y) this.view.y = query;
    if (query > this.view.y + this.rows - 1) this.view.y = query - this.rows + 1;
    this.pick({ query, key: -1 });
  }
}
customElements.define("attention-map", MapElement);
