// The list of routes, from the server's own schema.
import { get, html, nothing, render } from "./lib.js";
const schema = await get("api/openapi.json");
const name = (ref) => ref?.$ref?.split("/").pop();
const codes = (names) => names.map((each, n) => html`${n ? ", " : ""}<code>${each}</code>`);
render(html`${Object.entries(schema.paths).map(([path, methods]) => Object.entries(methods).map(([method, route]) => {
  const body = name(route.requestBody?.content?.["application/json"]?.schema), fields = schema.components.schemas[body]?.properties;
  return html`<section class="step-block"><h2><code>${method.toUpperCase()} ${path}</code></h2><p>${route.description}</p>
    ${route.parameters?.length ? html`<p class="quiet">Parameters: ${codes(route.parameters.map((p) => p.name))}</p>` : nothing}
    ${fields ? html`<p class="quiet">Body: ${codes(Object.keys(fields))}</p>` : nothing}</section>`;
}))}`, /** @type {HTMLElement} */ (document.getElementById("routes")));
