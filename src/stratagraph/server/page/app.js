/* The page: its views, keys, scheme, and what the index is. */
import * as api from "./api.js";
import { button, bytes, count, h } from "./dom.js";
import * as ask from "./ask.js";
import * as browse from "./browse.js";
import * as costs from "./costs.js";
import * as documents from "./documents.js";
import * as reader from "./reader.js";

const VIEWS = { ask, browse, documents, costs };
const KEYS = [
  ["/", "ask, or look for words in the view"],
  ["1 2 3 4", "ask, browse, documents, costs"],
  ["j k", "next and previous hit or thing"],
  ["Enter", "open it"],
  ["← →", "back to what contains it, into its members (browse)"],
  ["g", "to the graph, and back to the hits"],
  ["Esc", "close what is open"],
  ["t", "light or dark"],
  ["?", "this list"],
];
const started = {};
let current = "ask";
let index = null;

function show() {
  const asked = location.hash.slice(1).split("/")[0];
  current = Object.hasOwn(VIEWS, asked) ? asked : "ask";
  for (const name of Object.keys(VIEWS)) {
    document.getElementById(`view-${name}`).hidden = name !== current;
    const link = document.querySelector(`nav a[data-view=${name}]`);
    if (name === current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (!started[current]) {
    started[current] = true;
    VIEWS[current].start(document.getElementById(`view-${current}`), { index: () => index, refresh });
  }
  VIEWS[current].shown?.();
}

async function refresh() {
  try {
    index = await api.get("api/index");
  } catch (error) {
    tell(error.message);
    return;
  }
  tell(index.problem);
  const name = index.name;
  document.title = `${name} · stratagraph`;
  const facts = document.getElementById("facts");
  facts.replaceChildren(
    h("b", { dir: "auto" }, name), ` · ${count(index.documents, "document")} · ${count(index.passages, "passage")}`,
    h("span", { class: "wide" }, ` · ${bytes(index.bytes)} · generation ${index.generation}`));
  facts.title = `${index.name}\nmethods: ${index.methods.join(", ")}\nembedder: ${index.embedder}`;
  for (const view of Object.values(VIEWS)) view.changed?.(index);
}

function tell(problem) {
  const line = document.getElementById("problem");
  line.hidden = !problem;
  line.textContent = problem || "";
}

function switchTheme() {
  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const next = (root.dataset.theme || (dark ? "dark" : "light")) === "dark" ? "light" : "dark";
  root.dataset.theme = next;
  try { localStorage.setItem("stratagraph-theme", next); } catch (error) { /* for this page only */ }
}

function showKeys() {
  const dialog = document.getElementById("keys");
  const rows = KEYS.map(([keys, what]) => [h("dt", {}, keys.split(" ").map((key) => h("kbd", {}, key))), h("dd", {}, what)]);
  dialog.replaceChildren(h("h2", {}, "Keys"), h("dl", {}, ...rows), button("Close", () => dialog.close(), { autofocus: true }));
  dialog.showModal();
}

function askForToken() {
  const dialog = document.getElementById("login");
  if (dialog.open) return;
  const field = h("input", { type: "password", autocomplete: "off", "aria-label": "Token", required: true });
  const form = h("form", { on: { submit: (event) => {
    event.preventDefault();
    api.useToken(field.value.trim());
    dialog.close();
    refresh().then(show);
  } } }, h("h2", {}, "This server asks for its token"), h("p", {}, "It was printed where the server was started."),
    field, h("button", { class: "primary" }, "Go on"));
  dialog.replaceChildren(form);
  dialog.showModal();
}

function onKey(event) {
  if (event.key === "Escape" && reader.close()) return;
  const typing = event.target.closest("input, textarea, select, dialog");
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const views = Object.keys(VIEWS);
  if (event.key === "/") VIEWS[current].find?.();
  else if (views[Number(event.key) - 1]) location.hash = views[Number(event.key) - 1];
  else if (event.key === "t") switchTheme();
  else if (event.key === "?") showKeys();
  else if (!VIEWS[current].key?.(event)) return;
  event.preventDefault();
}

api.start(askForToken);
document.getElementById("theme").addEventListener("click", switchTheme);
document.getElementById("help").addEventListener("click", showKeys);
window.addEventListener("hashchange", show);
window.addEventListener("keydown", onKey);
show();
refresh();
