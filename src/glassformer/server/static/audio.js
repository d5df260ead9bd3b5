// The microphone as a WAV file, or as pieces of samples.
import { asset, Problem } from "./lib.js";

/** Samples of the microphone, piece by piece. @param {(piece: Float32Array, rate: number) => void} receive */
export async function microphone(receive) {
  const stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1, echoCancellation: false, noiseSuppression: false } });
  const context = new AudioContext();
  await context.audioWorklet.addModule(asset("recorder.js"));
  const source = context.createMediaStreamSource(stream), node = new AudioWorkletNode(context, "recorder");
  node.port.onmessage = (event) => receive(event.data, context.sampleRate);
  source.connect(node);
  return { stop() { stream.getTracks().forEach((track) => track.stop()); context.close(); } };
}

/** Why the microphone cannot be heard. @param {any} error @param {string} instead what to do without it */
export const unheard = (error, instead) => error?.name === "NotFoundError" ? new Problem("no microphone was found", `connect one, or ${instead}`, 0)
  : new Problem("this page may not use the microphone", `allow it in the browser, or ${instead}`, 0);

/** @param {number} seconds @param {(wav: Blob) => void} done */
export async function recordWav(seconds, done) {
  /** @type {Float32Array[]} */ const pieces = [];
  let rate = 48000, length = 0, over = false;
  const mic = await microphone((piece, now) => { rate = now; pieces.push(piece); length += piece.length; if (length > seconds * rate) stop(); });
  function stop() { if (over) return; over = true; mic.stop(); done(toWav(pieces, rate)); }
  return { stop };
}

/** @param {Float32Array[]} pieces @param {number} rate */
export function toWav(pieces, rate) {
  const count = pieces.reduce((sum, piece) => sum + piece.length, 0);
  const view = new DataView(new ArrayBuffer(44 + 2 * count));
  const text = (at, word) => [...word].forEach((c, i) => view.setUint8(at + i, c.charCodeAt(0)));
  text(0, "RIFF"); view.setUint32(4, 36 + 2 * count, true); text(8, "WAVEfmt "); view.setUint32(16, 16, true); view.setUint16(20, 1, true); view.setUint16(22, 1, true);
  view.setUint32(24, rate, true); view.setUint32(28, 2 * rate, true); view.setUint16(32, 2, true); view.setUint16(34, 16, true); text(36, "data"); view.setUint32(40, 2 * count, true);
  let at = 44;
  for (const piece of pieces) for (const x of piece) { view.setInt16(at, Math.max(-1, Math.min(1, x)) * 32767, true); at += 2; }
  return new Blob([view.buffer], { type: "audio/wav" });
}
