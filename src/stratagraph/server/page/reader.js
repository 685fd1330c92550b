/* A passage in its document, with as much before and after it as one asks for. */
import * as api from "./api.js";
import { button, count, h, prose } from "./dom.js";
import { highlight, markdown } from "./markdown.js";

const MORE = 10;
const panel = () => document.getElementById("reader");
let before = null; // what had the focus

export function close() {
  if (panel().hidden) return false;
  panel().hidden = true;
  document.body.classList.remove("reading");
  before?.focus?.();
  return true;
}

export async function openPassage(id, sentence = "") {
  await open(() => api.get("api/passage", { id }), sentence);
}

export async function openDocument(id) {
  await open(() => api.get("api/document", { id }));
}

async function open(read, sentence = "") {
  if (panel().hidden) before = document.activeElement;
  panel().hidden = false;
  document.body.classList.add("reading");
  panel().replaceChildren(h("p", { class: "soft" }, "Reading…"));
  try {
    fill(await read(), sentence);
  } catch (error) {
    panel().replaceChildren(bar("", ""), h("p", { class: "error" }, error.message));
  }
}

function bar(title, soft) {
  return h("div", { class: "bar" }, prose("h2", title), h("span", { class: "soft" }, soft),
    button("×", close, { class: "icon", "aria-label": "Close", title: "Close (Esc)" }));
}

function fill(reading, sentence) {
  const text = h("div", { class: "pages" });
  let first = reading.offset, last = reading.offset + reading.passages.length;
  const earlier = button("", () => load(true), { class: "quiet" });
  const later = button("", () => load(false), { class: "quiet" });

  function draw(passages, atStart) {
    const made = passages.map((each) => h("section", { class: each.cited ? "cited" : "", data: { id: each.id } },
      place(each.metadata), h("div", { class: "text" }, ...markdown(each.text))));
    if (atStart) text.prepend(...made); else text.append(...made);
    earlier.hidden = first <= 0;
    later.hidden = last >= reading.total;
    earlier.textContent = `↑ ${count(first, "passage")} before`;
    later.textContent = `↓ ${count(reading.total - last, "passage")} after`;
  }

  async function load(atStart) {
    const offset = atStart ? Math.max(0, first - MORE) : last;
    const limit = atStart ? first - offset : MORE;
    const more = await api.get("api/document", { id: reading.document, offset, limit });
    if (atStart) first = offset; else last += more.passages.length;
    draw(more.passages, atStart);
  }

  const title = typeof reading.metadata.title === "string" ? reading.metadata.title : reading.document;
  const close = bar(title, count(reading.total, "passage"));
  panel().replaceChildren(close, facts(reading), earlier, text, later);
  draw(reading.passages, false);
  close.querySelector("button").focus();
  const cited = text.querySelector(".cited");
  const marked = cited && sentence ? highlight(cited.querySelector(".text"), sentence) : null;
  cited?.classList.toggle("quoted", Boolean(marked));
  (marked || cited)?.scrollIntoView({ block: "center" });
}

function place(metadata) {
  const heading = Array.isArray(metadata.headings) ? metadata.headings.join(" › ") : "";
  const page = metadata.page ? `page ${metadata.page}` : metadata.slide ? `slide ${metadata.slide}` : "";
  const told = [page, heading].filter(Boolean).join(" · ");
  return told ? prose("p", told, { class: "soft place" }) : null;
}

function facts(reading) {
  const hidden = new Set(["title", "headings", "page", "slide"]);
  const known = Object.entries(reading.metadata).filter(([key]) => !hidden.has(key)).slice(0, 8);
  return h("dl", { class: "metadata" }, h("dt", {}, "id"), prose("dd", reading.document),
    ...known.flatMap(([key, value]) => [h("dt", { dir: "auto" }, key),
      prose("dd", typeof value === "string" ? value : JSON.stringify(value))]));
}
