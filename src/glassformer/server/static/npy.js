// Arrays from the server: the bytes that np.save writes.
import { bytes as bytesOf } from "./lib.js";

/** @param {string} path @param {AbortSignal} [signal] */
export async function npy(path, signal) {
  const buffer = await bytesOf(path, signal);
  const bytes = new Uint8Array(buffer), view = new DataView(buffer);
  const long = bytes[6] >= 2;
  const size = long ? view.getUint32(8, true) : view.getUint16(8, true), start = (long ? 12 : 10) + size;
  const head = new TextDecoder("latin1").decode(bytes.subarray(long ? 12 : 10, start));
  const shape = (head.match(/'shape': \(([^)]*)\)/)?.[1] ?? "").split(",").map((part) => part.trim()).filter(Boolean).map(Number);
  const type = head.match(/'descr': '([^']*)'/)?.[1];
  if (type !== "|u1") throw new Error(`an array of ${type}`);
  return { shape, data: bytes.subarray(start) };
}

/** 256 colours from the page's background to the colour of A. */
export function colours() {
  const style = getComputedStyle(document.documentElement);
  const from = rgb(style.getPropertyValue("--background")), to = rgb(style.getPropertyValue("--a-deep"));
  return Uint32Array.from({ length: 256 }, (_, i) => {
    const t = i / 255, [r, g, b] = from.map((a, c) => Math.round(a + (to[c] - a) * t));
    return (255 << 24) | (b << 16) | (g << 8) | r;
  });
}
function rgb(text) {
  const hex = text.trim().replace("#", "");
  const full = hex.length === 3 ? [...hex].map((c) => c + c).join("") : hex;
  return [0, 2, 4].map((i) => parseInt(full.slice(i, i + 2), 16));
}

/** An image of a map. @param {Uint8Array} data @param {number} rows @param {number} columns @param {Uint32Array} table */
export function toImage(data, rows, columns, table) {
  const canvas = document.createElement("canvas");
  canvas.width = columns;
  canvas.height = rows;
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const image = context.createImageData(columns, rows), pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < pixels.length; i++) pixels[i] = table[data[i]];
  context.putImageData(image, 0, 0);
  return canvas;
}
