// One attention map, large: pan, zoom, pick a row. Only what is visible is fetched at full size.
import { colours, npy, toImage } from "./npy.js";

const SIDE = 512;

export class MapElement extends HTMLElement {
  constructor() {
    super();
    this.canvas = document.createElement("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.source = "";
    /** @type {any} */ this.layer = null;
    this.query = 0; this.key = -1;
    this.view = { x: 0, y: 0, span: 1 };
    /** @type {HTMLCanvasElement | null} */ this.image = null;
    /** @type {{image: HTMLCanvasElement, top: number, left: number, height: number, width: number} | null} */ this.sharp = null;
    this.timing = { open: 0, draw: 0 };
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
    }
    this.regionOf = (top, left, height, width) => `${base}/region.npy?${where}&top=${top}&left=${left}&height=${height}&width=${width}`;
    const begun = performance.now();
    this.request?.abort();
    this.request = new AbortController();
    try {
      const { shape, data } = await npy(`${base}/map.npy?${where}&side=${SIDE}`, this.request.signal);
      this.image = toImage(data, shape[0], shape[1], colours());
      this.raw = { shape, data };
      this.sharp = null;
      this.draw();
      this.timing.open = performance.now() - begun;
    } catch (error) { if (!(error instanceof DOMException)) throw error; }
  }
  recolour() { if (this.raw) { this.image = toImage(this.raw.data, this.raw.shape[0], this.raw.shape[1], colours()); this.sharp = null; this.draw(); } }

  get side() { return this.canvas.clientWidth || 400; }
  draw() {
    if (!this.image || !this.layer || !this.isConnected) return;
    const begun = performance.now();
    const ratio = devicePixelRatio || 1, side = this.side, size = Math.round(side * ratio);
    if (this.canvas.width !== size) { this.canvas.width = size; this.canvas.height = size; }
    const c = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
    const { x, y, span } = this.view, { queries, keys } = this.layer, scale = size / span;
    const style = getComputedStyle(this);
    c.imageSmoothingEnabled = false;
    c.fillStyle = style.getPropertyValue("--sunken");
    c.fillRect(0, 0, size, size);
    c.drawImage(this.image, -x * scale, -y * scale, keys * scale, queries * scale);
    if (this.sharp) c.drawImage(this.sharp.image, (this.sharp.left - x) * scale, (this.sharp.top - y) * scale, this.sharp.width * scale, this.sharp.height * scale);
    const line = Math.max(1.5, scale);
    c.strokeStyle = style.getPropertyValue("--q-fill");
    c.lineWidth = 2 * ratio;
    c.strokeRect(Math.max(1, -x * scale), (this.query - y) * scale + (scale < 3 ? 0 : 0), Math.min(keys * scale, size) - 2, line);
    if (this.key >= 0) { c.strokeStyle = style.getPropertyValue("--k-fill"); c.strokeRect((this.key - x) * scale, (this.query - y) * scale, line, line); }
    this.timing.draw = performance.now() - begun;
    this.sharpen();
  }
  /** Where the overview was pooled, the visible part comes at full size once the map stands still. */
  sharpen() {
    const { queries, keys } = this.layer, { x, y, span } = this.view;
    if (Math.max(queries, keys) <= SIDE || span > 700) return;
    const top = Math.max(0, Math.floor(y)), left = Math.max(0, Math.floor(x)), height = Math.min(queries - top, Math.ceil(span) + 1), width = Math.min(keys - left, Math.ceil(span) + 1);
    const p = this.sharp;
    if (height < 1 || width < 1 || (p && p.top <= top && p.left <= left && p.top + p.height >= top + height && p.left + p.width >= left + width)) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(async () => {
      const source = this.source;
      const { shape, data } = await npy(this.regionOf(top, left, height, width));
      if (source !== this.source) return;
      this.sharp = { image: toImage(data, shape[0], shape[1], colours()), top, left, height: shape[0], width: shape[1] };
      this.draw();
    }, 80);
  }
  at(event) {
    const box = this.canvas.getBoundingClientRect(), { x, y, span } = this.view;
    return { key: Math.floor(x + (event.clientX - box.left) / box.width * span), query: Math.floor(y + (event.clientY - box.top) / box.height * span) };
  }
  clamp() {
    const most = Math.max(this.layer.queries, this.layer.keys), v = this.view;
    v.span = Math.min(most, Math.max(4, v.span));
    v.x = Math.max(0, Math.min(most - v.span, v.x));
    v.y = Math.max(0, Math.min(most - v.span, v.y));
  }
  wheel(event) {
    if (!this.layer) return;
    event.preventDefault();
    const box = this.canvas.getBoundingClientRect(), v = this.view;
    const fx = (event.clientX - box.left) / box.width, fy = (event.clientY - box.top) / box.height;
    const span = v.span * (event.deltaY > 0 ? 1.2 : 1 / 1.2);
    v.x += fx * (v.span - span); v.y += fy * (v.span - span); v.span = span;
    this.clamp();
    requestAnimationFrame(() => this.draw());
  }
  down(event) {
    if (!this.layer) return;
    this.canvas.setPointerCapture(event.pointerId);
    const start = { x: event.clientX, y: event.clientY, ...{ vx: this.view.x, vy: this.view.y } };
    let moved = false;
    const move = (e) => {
      if (Math.hypot(e.clientX - start.x, e.clientY - start.y) > 4) moved = true;
      if (!moved) return;
      this.view.x = start.vx - (e.clientX - start.x) / this.side * this.view.span;
      this.view.y = start.vy - (e.clientY - start.y) / this.side * this.view.span;
      this.clamp();
      this.draw();
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
    if (query > this.view.y + this.view.span - 1) this.view.y = query - this.view.span + 1;
    this.pick({ query, key: -1 });
  }
}
customElements.define("attention-map", MapElement);
