// Python in a Web Worker: the exercise engine of Glassformer, by Pyodide. Everything comes from this folder.
// @ts-expect-error Pyodide is put beside this file when a site is built
import { loadPyodide } from "./pyodide/pyodide.mjs";

const here = (name) => new URL(name, import.meta.url).href;
// The site holds Pyodide's largest file compressed.
const plainFetch = globalThis.fetch;
globalThis.fetch = async (input, options) => {
  const url = String(input instanceof Request ? input.url : input);
  if (!url.endsWith("pyodide.asm.wasm")) return plainFetch(input, options);
  const packed = await plainFetch(`${url}.packed`, options);
  if (!packed.ok || !packed.body) return packed;
  return new Response(packed.body.pipeThrough(new DecompressionStream("gzip")), { headers: { "content-type": "application/wasm" } });
};

async function start() {
  const pyodide = await loadPyodide({ indexURL: here("./pyodide/") });
  const names = await (await fetch(here("./pyodide/wheels.json"))).json();
  const archives = await Promise.all([...names.map((name) => `./pyodide/${name}`), "./glassformer.zip"].map(async (name) => (await fetch(here(name))).arrayBuffer()));
  archives.forEach((archive) => pyodide.unpackArchive(archive, "wheel"));
  return pyodide.runPython("from glassformer.server.browser import answer\nanswer");
}
const ready = start();
ready.then(() => postMessage({ kind: "ready" }), (error) => postMessage({ kind: "failed", text: String(error) }));

addEventListener("message", async ({ data: { id, method, path, body } }) => {
  const answer = await ready;
  const made = await answer(method, path, body);
  const [status, bytes] = made.toJs();
  made.destroy();
  const copy = Uint8Array.from(bytes).buffer;
  postMessage({ kind: "answer", id, status, body: copy }, { transfer: [copy] });
});
