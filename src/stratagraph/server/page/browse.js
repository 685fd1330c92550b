/* The hierarchy in columns: what a thing is made of stands to its right. Only pages of it are ever asked for. */
import * as api from "./api.js";
import { button, count, debounced, h, prose } from "./dom.js";
import * as reader from "./reader.js";

const PAGE = 50;
const TABLES = [["entities", "entities"], ["passages", "passages"], ["documents", "documents"]];
let root, context, columns, detail, tabs, filter, method = null, generation = null, chosen = { table: null };

export function start(section, page) {
  root = section;
  context = page;
  tabs = h("div", { class: "levels", role: "group", "aria-label": "What is listed first" });
  filter = h("input", { type: "search", placeholder: "Find words in this list", "aria-label": "Find words", dir: "auto",
    on: { input: debounced(200, () => open(chosen)) } });
  columns = h("div", { class: "columns" });
  detail = h("aside", { class: "detail", "aria-live": "polite" });
  root.replaceChildren(h("div", { class: "controls" }, tabs, filter), h("div", { class: "split" }, columns, detail));
  if (context.index()) changed(context.index());
}

export function find() { filter.focus(); filter.select(); }

export async function changed(index) {
  if (!root || generation === index.generation) return;
  generation = index.generation;
  const picker = h("select", { "aria-label": "Method", on: { change: () => { method = picker.value; levels(picker); } } },
    ...index.methods.map((name) => h("option", { value: name }, name)));
  if (index.methods.includes(method)) picker.value = method;
  method = picker.value;
  picker.hidden = !method;
  await levels(picker);
}

async function levels(picker) {
  const known = method ? await api.get("api/levels", { method }) : [];
  const chips = [...known.map((each) => [`level ${each.level}: ${count(each.count, kind(each.kind), plural(each.kind))}`, { table: method, level: each.level, kind: each.kind }]),
    ...TABLES.map(([table, name]) => [name, { table }])].map(([name, list]) => {
    const chip = button(name, () => { for (const each of chips) each.setAttribute("aria-pressed", String(each === chip)); filter.value = ""; open(list); }, { class: "chip", "aria-pressed": "false" });
    return chip;
  });
  tabs.replaceChildren(picker, ...chips);
  chips[0].click();
}

const kind = (name) => name.replaceAll("_", " ");
const plural = (name) => kind(name).replace(/y$/, "ie") + "s";

function open(list) {
  chosen = list;
  columns.replaceChildren();
  detail.replaceChildren(h("p", { class: "soft" }, "Choose a thing to read it. What it was made of opens to its right."));
  column({ ...list, text: filter.value }, filter.value ? `with “${filter.value}”` : list.kind ? `level ${list.level}` : list.table);
}

async function column(list, title) {
  const items = h("ul", { role: "listbox", "aria-label": title });
  const head = h("p", { class: "soft" }, "…");
  const more = button("Show more", load, { class: "quiet", hidden: true });
  const made = h("div", { class: "column" }, head, items, more);
  let offset = 0;
  columns.append(made);
  async function load() {
    try {
      const page = await api.get("api/browse", { ...list, offset, limit: PAGE });
      items.append(...page.items.map((item) => row(made, list, item)));
      offset += page.items.length;
      head.textContent = `${title}: ${page.total.toLocaleString("en")}`;
      more.hidden = offset >= page.total;
    } catch (error) {
      head.replaceChildren(h("span", { class: "error" }, error.message));
    }
  }
  await load();
  columns.scrollTo({ left: columns.scrollWidth });
}

function row(place, list, item) {
  const leads = item.members > 0 && list.table !== "entities";
  const facts = [kind(item.kind), item.sources > 1 && count(item.sources, "passage")].filter(Boolean).join(" · ");
  const made = h("li", { role: "option", tabindex: 0, "aria-selected": "false", class: leads ? "leads" : "", on: {
    click: () => choose(place, list, item, made),
    keydown: (event) => { if (event.key === "Enter") choose(place, list, item, made); },
  } }, prose("span", item.title), h("small", {}, facts));
  return made;
}

function choose(place, list, item, made) {
  for (const each of place.querySelectorAll("[aria-selected=true]")) each.setAttribute("aria-selected", "false");
  made.setAttribute("aria-selected", "true");
  made.focus();
  while (place.nextSibling) place.nextSibling.remove();
  describe(list, item);
  if (list.table === "documents") column({ table: "passages", within: item.id }, "passages");
  else if (item.members > 0 && item.kind !== "passage" && item.kind !== "entity") column({ table: list.table, within: item.id }, "made of");
}

async function describe(list, item) {
  detail.replaceChildren(prose("h2", item.title), h("p", { class: "soft" },
    [kind(item.kind), `level ${item.level}`, item.members && count(item.members, "member"), count(item.sources, "passage")].filter(Boolean).join(" · ")));
  const text = prose("p", item.text, { class: "text" });
  detail.append(text);
  if (item.text.endsWith("…")) detail.append(button("all of it", (event) => whole(event.currentTarget, list, item, text), { class: "quiet" }));
  detail.append(h("div", { class: "sources" }, ...item.passages.map((id, place) =>
    button(item.kind === "passage" ? "Read in its document" : `source ${place + 1}`, () => reader.openPassage(id), { class: "quiet" }))));
  detail.append(...item.documents.map((id) => prose("p", id, { class: "soft" })));
}

/* Lists have the beginnings of texts; the whole one is asked for by itself. */
async function whole(asker, list, item, text) {
  asker.remove();
  const place = [...columns.querySelectorAll("[aria-selected=true]")].pop();
  const at = place ? [...place.parentNode.children].indexOf(place) : 0;
  const page = await api.get("api/browse", { ...list, offset: at, limit: 1, whole: true });
  if (page.items[0]?.id === item.id) text.textContent = page.items[0].text;
}

export function key(event) {
  const rows = [...columns.querySelectorAll("li")];
  const here = document.activeElement?.closest?.(".columns li");
  const go = (target) => { target?.focus(); target?.scrollIntoView({ block: "nearest" }); return true; };
  if (!rows.length) return false;
  if (!here) return ["j", "k", "ArrowDown", "ArrowUp"].includes(event.key) && go(rows[0]);
  if (event.key === "j" || event.key === "ArrowDown") return go(here.nextElementSibling);
  if (event.key === "k" || event.key === "ArrowUp") return go(here.previousElementSibling);
  const place = here.closest(".column");
  if (event.key === "ArrowRight") {
    if (here.getAttribute("aria-selected") !== "true") { here.click(); return true; }
    return go(place.nextElementSibling?.querySelector("li"));
  }
  if (event.key === "ArrowLeft") return go(place.previousElementSibling?.querySelector("[aria-selected=true]"));
  return false;
}
