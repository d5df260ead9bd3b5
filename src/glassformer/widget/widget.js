// An anywidget that opens the workbench's page in a frame. Its sources come from the kernel; if no kernel responds,
// nothing is opened, and the static page that was displayed beside it stays.

/** @param {{model: any, el: HTMLElement}} options */
function render({ model, el }) {
  const view = Math.random().toString(36).slice(2);
  /** @type {MessagePort | null} */ let port = null;
  /** @type {string[]} */ let urls = [];
  const receive = (message, buffers) => {
    if (message.view !== view) return;
    if (message.kind === "page") open(message.files);
    else port?.postMessage({ ...message, body: buffers?.length ? copy(buffers[0]) : undefined });
  };
  model.on("msg:custom", receive);
  model.send({ kind: "open", view });

  /** @param {Record<string, string>} files */
  function open(files) {
    const link = (text, type) => { const url = URL.createObjectURL(new Blob([text], { type })); urls.push(url); return url; };
    // Relative imports do not work in modules loaded from blobs; bare names with an import map do, even in cycles.
    const named = (source) => source.replaceAll(/(from\s*|import\s*\(?\s*)"\.\/([^"]+)"/g, '$1"glassformer/$2"');
    const scripts = Object.keys(files).filter((name) => name.endsWith(".js"));
    const imports = Object.fromEntries(scripts.map((name) => [`glassformer/${name}`, link(named(files[name]), "text/javascript")]));
    const frame = document.createElement("iframe");
    frame.title = "Glassformer workbench";
    frame.allow = "clipboard-write; microphone";
    frame.style.cssText = "display: block; width: 100%; height: 46rem; max-height: 90vh; border: 1px solid #8886; border-radius: 6px; resize: vertical;";
    frame.srcdoc = `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<script type="importmap">${JSON.stringify({ imports })}<\/script></head><body class="embedded">
<header id="head"></header><main id="main" tabindex="-1"></main><footer id="foot"></footer><div id="dialog"></div><p id="live" class="visually-hidden" role="status" aria-live="polite"></p></body></html>`;
    frame.addEventListener("load", () => {
      const inside = /** @type {Document} */ (frame.contentDocument);
      const style = inside.createElement("style");
      style.textContent = files["style.css"];
      inside.head.append(style);
      const script = inside.createElement("script");
      script.type = "module";
      script.src = imports["glassformer/notebook.js"];
      script.addEventListener("load", () => {
        const channel = new MessageChannel();
        port = channel.port1;
        port.onmessage = ({ data: { body, ...message } }) => (body instanceof ArrayBuffer ? model.send({ ...message, view }, undefined, [body]) : model.send({ ...message, view, body }));
        const assets = { "icon.svg": link(files["icon.svg"], "image/svg+xml"), "recorder.js": link(files["recorder.js"], "text/javascript") };
        frame.contentWindow?.postMessage({ address: model.get("address"), theme: theme(), assets }, "*", [channel.port2]);
        const fixed = document.getElementById(model.get("static"));
        if (fixed) fixed.hidden = true;
      });
      inside.head.append(script);
    }, { once: true });
    el.replaceChildren(frame);
  }

  return () => {
    model.off("msg:custom", receive);
    port?.close();
    urls.forEach((url) => URL.revokeObjectURL(url));
    urls = [];
  };
}

/** @param {DataView | ArrayBuffer} buffer */
const copy = (buffer) => (buffer instanceof ArrayBuffer ? buffer.slice(0) : new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength).slice().buffer);

/** The colour scheme of the notebook if it declares one, otherwise that of the system. */
function theme() {
  const light = document.body.dataset.jpThemeLight;
  if (light) return light === "true" ? "light" : "dark";
  if (document.body.classList.contains("vscode-dark")) return "dark";
  if (document.body.classList.contains("vscode-light")) return "light";
  return "";
}

export default { render };
