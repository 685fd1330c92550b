/* Elements whose content is always text: nothing from documents is ever read as markup. */
export function h(tag, options = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || value === null || (value === false && !name.startsWith("aria-"))) continue;
    if (name === "on") for (const [event, handler] of Object.entries(value)) made.addEventListener(event, handler);
    else if (name === "data") Object.assign(made.dataset, value);
    else if (name === "class") made.className = value;
    else if (value === true) made.setAttribute(name, name.startsWith("aria-") ? "true" : "");
    else made.setAttribute(name, String(value));
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) made.append(child);
  }
  return made;
}

export const count = (number, one, many) => `${number.toLocaleString("en")} ${number === 1 ? one : many || one + "s"}`;

export const button = (label, onClick, options = {}) =>
  h("button", { type: "button", ...options, on: { click: onClick } }, label);

/* Text from documents, in whatever direction it runs. */
export const prose = (tag, text, options = {}) => h(tag, { dir: "auto", ...options }, text);

export function bytes(number) {
  const units = ["bytes", "KB", "MB", "GB", "TB"];
  let at = 0;
  while (number >= 1000 && at < units.length - 1) { number /= 1000; at += 1; }
  return `${at ? number.toFixed(number < 10 ? 1 : 0) : number} ${units[at]}`;
}

/* In the currency of the prices: dollars, where they come from the table of genai-prices. */
export const money = (cost) => (cost === null ? "unknown" : cost === 0 ? "–" : cost.toFixed(cost >= 1 ? 2 : 4));

export function seconds(value) {
  return value < 1 ? `${Math.round(1000 * value)} ms` : value < 90 ? `${value.toFixed(1)} s` : `${Math.round(value / 60)} min`;
}

export function debounced(wait, action) {
  let timer = 0;
  return (...args) => { clearTimeout(timer); timer = setTimeout(() => action(...args), wait); };
}
