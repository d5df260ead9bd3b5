// Live: recognition while audio plays; the spectrogram and the map of one layer grow as the audio comes in.
import { bytes as bytesAt, connect as connectTo, get, html, isAbort, layerName, nothing, Problem } from "./lib.js";
import { microphone, unheard } from "./audio.js";
import { colours } from "./npy.js";

export const state = {
  /** @type {any[]} */ clips: [], clip: "", on: false,
  /** @type {any[]} */ words: [], pending: "", said: "", seconds: 0, path: "",
  /** @type {Problem | null} */ problem: null, done: false,
};
let refresh = () => {};
/** @type {{socket: import("./transport.js").Channel, stop: () => void} | null} */
let session = null;
const map = document.createElement("canvas"), mel = document.createElement("canvas");
map.className = "live-map"; mel.className = "live-mel";
map.setAttribute("role", "img"); mel.setAttribute("role", "img");
map.setAttribute("aria-label", "Attention map, growing row by row"); mel.setAttribute("aria-label", "Spectrogram");
/** @type {Uint8Array[]} */ let rows = [];
/** The spectrogram so far. */
let sound = { bands: 0, frames: 0, shades: new Uint8Array() };

/** @param {any} where @param {() => void} redraw */
export async function enter(where, redraw) {
  refresh = redraw;
  try { if (!state.clips.length) { state.clips = await get("api/clips"); state.clip = state.clips[0]?.name ?? ""; } } catch (error) { if (!isAbort(error)) state.problem = /** @type {Problem} */ (error); }
  refresh();
}
export function leave() { stop(); }
function stop() { session?.stop(); session = null; state.on = false; }

/** @param {number} rate */
function connect(rate) {
  Object.assign(state, { words: [], pending: "", seconds: 0, problem: null, on: true, done: false });
  rows = [];
  for (const canvas of [map, mel]) canvas.getContext("2d")?.clearRect(0, 0, canvas.width, canvas.height);
  const socket = connectTo("api/live");
  socket.binaryType = "arraybuffer";
  const ready = new Promise((resolve, reject) => { socket.onopen = () => { socket.send(JSON.stringify({ rate })); resolve(undefined); }; socket.onerror = () => reject(new Problem("the server is not responding", "try again", 0)); });
  socket.onmessage = (event) => {
    const answer = JSON.parse(event.data);
    if (answer.fact) { state.problem = new Problem(answer.fact, answer.remedy, 422); stop(); return refresh(); }
    state.seconds = answer.seconds;
    state.words.push(...answer.words);
    state.pending = answer.pending ?? "";
    if (answer.rows) grow(answer);
    if (answer.end) { stop(); state.done = true; } // also releases the microphone
    refresh();
  };
  return { socket, ready };
}
const bytes = (text) => Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
function grow(answer) {
  state.path = answer.path;
  const [count, width] = answer.size, data = bytes(answer.rows);
  for (let i = 0; i < count; i++) rows.push(data.subarray(i * width, (i + 1) * width));
  sound = { bands: answer.bands[0], frames: answer.bands[1], shades: bytes(answer.mel) };
  recolour();
}
export function recolour() {
  const table = colours(), n = rows.length, { bands, frames, shades } = sound;
  if (!n) return;
  paint(map, n, n, (y, x) => table[rows[y][x] ?? 0]);
  paint(mel, bands, frames, (y, x) => table[shades[(bands - 1 - y) * frames + x]]);
}
function paint(canvas, height, width, colour) {
  canvas.width = width; canvas.height = height;
  const c = canvas.getContext("2d"), image = c.createImageData(width, height), pixels = new Uint32Array(image.data.buffer);
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) pixels[y * width + x] = colour(y, x);
  c.putImageData(image, 0, 0);
}

/** Plays a recording and sends it as fast as it sounds. @param {ArrayBuffer} file */
async function play(file) {
  stop();
  try {
    const context = new AudioContext();
    const sound = await context.decodeAudioData(file);
    const samples = sound.getChannelData(0), rate = sound.sampleRate;
    const { socket, ready } = connect(rate);
    let over = false;
    session = { socket, stop() { over = true; socket.close(); context.close(); } };
    refresh();
    await ready;
    const source = context.createBufferSource();
    source.buffer = sound; source.connect(context.destination); source.start();
    const piece = Math.round(rate * 0.12), begun = performance.now();
    for (let at = 0; at < samples.length && !over; at += piece) {
      const wait = at / rate * 1000 - (performance.now() - begun);
      if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
      if (socket.readyState === 1) socket.send(samples.slice(at, at + piece));
    }
    if (!over && socket.readyState === 1) socket.send(JSON.stringify({ end: true }));
  } catch (error) { state.problem = error instanceof Problem ? error : new Problem("this recording cannot be played", "give a WAV, FLAC or Ogg file", 0); state.on = false; }
  refresh();
}
async function playClip() { state.said = state.clips.find((clip) => clip.name === state.clip)?.text ?? ""; await play(await bytesAt(`api/clips/${encodeURIComponent(state.clip)}`)); }
async function listen() {
  state.said = "";
  stop();
  try {
    /** @type {any} */ let joined = null;
    /** @type {Float32Array[]} */ const early = [];
    const mic = await microphone((piece, rate) => {
      if (!joined) { joined = connect(rate); session = { socket: joined.socket, stop() { mic.stop(); joined.socket.close(); } }; refresh(); }
      if (joined.socket.readyState === 1) { for (const each of early.splice(0)) joined.socket.send(each); joined.socket.send(piece); } else early.push(piece);
    });
  } catch (error) { state.problem = unheard(error, "play a recording"); }
  refresh();
}
/** The words so far become final. */
function finish() { if (session?.socket.readyState === 1) session.socket.send(JSON.stringify({ end: true })); else stop(); }
export function template() {
  const take = async (file) => { if (file) { state.said = ""; play(await file.arrayBuffer()); } };
  return html`<div class="room live" @dragover=${(event) => event.preventDefault()} @drop=${(event) => { event.preventDefault(); take(event.dataTransfer?.files[0]); }}><h1>Live: transcription in real time</h1>
    <p class="quiet">The listener, a streaming <b>Speech</b> model: chunks of 120 ms, causal attention. A demonstration: it works for one voice only, that of the recordings below, and mishears many words.</p>
    <div class="tools" role="toolbar" aria-label="Sound"><label>Recording <select @change=${(event) => { state.clip = event.target.value; }}>${state.clips.map((clip) => html`<option value=${clip.name} ?selected=${clip.name === state.clip}>${clip.text}</option>`)}</select></label>
      <button class="primary play" ?disabled=${!state.clip && !state.on} @click=${state.on ? finish : playClip}>${state.on ? "Stop" : "Play"}</button><button ?disabled=${state.on} @click=${listen}>Microphone</button>
      <label>File <input type="file" accept="audio/*" aria-label="Recording" @change=${(event) => take(event.target.files[0])}></label></div>
    ${state.problem ? html`<p class="problem" role="alert">${state.problem.message}</p>` : nothing}
    <p class="transcript" aria-live="polite">${state.words.length ? state.words.map((word) => html`<span title=${`${word.start} to ${word.end} s, known at ${word.known} s`}>${word.text} </span>`) : nothing}${state.pending ? html`<span class="pending">${state.pending}</span>` : state.words.length ? nothing : html`<span class="quiet">${state.on ? "Listening …" : state.done ? "No word was recognised." : "Press Play, or drop a recording anywhere on this page. A word is pale while it may change, and solid once it is final."}</span>`}</p>
    <p class="quiet">${state.seconds.toFixed(1)} s received${state.done ? ", complete" : ""}${state.done && state.said ? html`. Reference transcript: “${state.said}”` : nothing}</p>
    <div class="live-grid"><figure>${mel}<figcaption class="quiet">Spectrogram: log-mel energies, from the quietest to the loudest</figcaption></figure>
      <figure>${map}<figcaption class="quiet"><i>A</i>${state.path ? ` of ${layerName(state.path)}` : ""}, mean over its heads: a row for each 40 ms, added as the audio comes in; 0 to 1, square-root scale</figcaption></figure></div></div>`;
}
export const title = () => "Live";
