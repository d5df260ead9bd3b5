// The names of lit-html that the page uses, for `make types-js`: the minified file itself is not checked.
type Template = (strings: TemplateStringsArray, ...values: unknown[]) => object;
export const html: Template;
export const svg: Template;
export const nothing: symbol;
export const noChange: symbol;
export function render(value: unknown, container: HTMLElement | DocumentFragment): unknown;
