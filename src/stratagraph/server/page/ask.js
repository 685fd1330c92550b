/* Ask: an answer as it is written, what it rests on and why, and the graph around it. */
import * as api from "./api.js";
import { button, count, h, money, prose, seconds } from "./dom.js";
import { draw } from "./graph.js";
import { markdown, markWords, wordsOf } from "./markdown.js";
import * as reader from "./reader.js";

const SHOWN = 420; // characters of a hit before it is opened
const NAMES = 10; // to begin with
const TURNS = 20, LONGEST = 20000; // of a conversation that the server is told
let root, field, output, settings, running = null, hits = [], selected = -1, kinds = null, names = null, generation = null;
let turns = [], thread = null; // the conversation, and where its earlier turns are shown

export function start(section, context) {
  root = section;
  field = h("input", { type: "search", id: "question", placeholder: "Ask a question", autocomplete: "off",
    dir: "auto", maxlength: 20000, "aria-label": "Question" });
  settings = { method: select("Search by", []),
    k: h("input", { type: "number", min: 1, max: 200, placeholder: "auto", "aria-label": "Number of hits" }),
    where: h("input", { type: "text", placeholder: '{"year": {"$gte": 1990}}', "aria-label": "Filter", dir: "ltr" }) };
  const more = h("details", { class: "settings" }, h("summary", {}, "Options"),
    h("div", {}, label("Search by", settings.method), label("Hits", settings.k), label("Filter", settings.where)));
  const form = h("form", { class: "question", on: { submit: (event) => { event.preventDefault(); ask(field.value); } } },
    h("div", { class: "line" }, field, h("button", { class: "primary" }, "Ask")), more);
  output = h("div", { class: "result" });
  names = h("div", { class: "names" });
  settings.where.addEventListener("input", () => { names.hidden = Boolean(settings.where.value.trim()); }); // they are of all documents
  thread = h("div", { class: "thread" });
  root.replaceChildren(h("div", { class: "hero" }, h("h1", {}, "What do you want to know?"), form, names), thread, output);
  const index = context.index();
  if (index) changed(index);
  field.focus();
}

export function changed(index) {
  if (!settings) return;
  const chosen = settings.method.value;
  settings.method.replaceChildren(...[...index.methods, "walk"].map((name) => h("option", { value: name, selected: name === chosen }, name)));
  suggest(index);
}

/* Names to begin with, for those who do not know yet what there is. */
async function suggest(index) {
  if (generation === index.generation) return;
  generation = index.generation;
  const found = await api.get("api/browse", { table: "entities", limit: NAMES }).catch(() => ({ items: [] }));
  names.replaceChildren(...(found.items.length ? [h("p", { class: "soft" }, "Often mentioned here")] : []),
    ...found.items.map((item) => button(item.title, () => { field.value = item.title; ask(item.title); }, { class: "chip", dir: "auto" })));
}

export function find() { field.focus(); field.select(); }

function select(name, options) {
  return h("select", { "aria-label": name }, ...options.map(([value, text]) => h("option", { value }, text)));
}

const label = (text, control) => h("label", {}, h("span", {}, text), control);

function asked(question) {
  const body = { question, history: turns.slice(-TURNS) };
  if (settings.method.value) body.method = settings.method.value;
  if (settings.k.value) body.k = Number(settings.k.value);
  if (settings.where.value.trim()) {
    try {
      body.where = JSON.parse(settings.where.value);
    } catch (error) {
      throw new Error(`The filter is not JSON: ${error.message}`);
    }
  }
  return body;
}

export async function ask(question) {
  if (!question.trim()) { field.focus(); return; }
  running?.abort();
  const mine = running = new AbortController();
  root.classList.add("asked");
  showThread();
  const parts = skeleton();
  const began = performance.now();
  let text = "", note = "";
  try {
    await api.events("api/ask", asked(question), (event, data) => {
      if (mine.signal.aborted) return;
      if (event === "hits") { note = data.note; showHits(parts, data, (performance.now() - began) / 1000); }
      else if (event === "piece") { text += data.text; showAnswer(parts, text, null); }
      else if (event === "answer") {
        showAnswer(parts, data.text, data, note);
        if (!data.extractive && note) parts.told.append(prose("p", note)); // which an extractive answer has in its text
        turns.push({ role: "user", text: question.slice(0, LONGEST) }, { role: "assistant", text: data.text.slice(0, LONGEST) });
      }
      else if (event === "error") parts.answer.replaceChildren(h("p", { class: "error" }, data.message));
      else if (event === "graph") showGraph(parts, data);
    }, mine.signal);
  } catch (error) {
    if (error.name !== "AbortError") parts.answer.replaceChildren(h("p", { class: "error" }, error.message));
  }
  parts.answer.removeAttribute("aria-busy");
}

/* The turns before, and a way to begin anew. */
function showThread() {
  const told = turns.filter((turn) => turn.role === "user").map((turn, at) =>
    h("details", { class: "turn" }, prose("summary", turn.text), prose("p", turns[2 * at + 1].text, { class: "text soft" })));
  thread.replaceChildren(...told, ...(told.length ? [button("New conversation", begin, { class: "quiet" })] : []));
}

function begin() {
  running?.abort();
  turns = [];
  showThread();
  output.replaceChildren();
  root.classList.remove("asked");
  field.value = "";
  field.focus();
}

function skeleton() {
  const parts = {
    answer: h("div", { class: "answer", "aria-live": "polite", "aria-busy": "true" }, h("p", { class: "soft waiting" }, "Searching…")),
    kinds: h("div", { class: "kinds", role: "group", "aria-label": "Kinds of hits" }),
    told: h("div", { class: "told soft" }),
    hits: h("ol", { class: "hits" }),
    graph: h("div", { class: "graph", "aria-label": "The graph around the question" }, h("p", { class: "soft waiting" }, "Drawing…")),
    cost: h("p", { class: "soft cost" }),
  };
  output.replaceChildren(
    h("div", { class: "found" }, parts.answer, parts.cost, parts.told, parts.kinds, parts.hits),
    h("div", { class: "around" }, parts.graph));
  hits = [];
  selected = -1;
  kinds = null;
  return parts;
}

/* Excerpts as quotes, each under the source that it opens, with the words of the question marked. */
function showQuotes(parts, answer, note) {
  const quotes = answer.text.replace(note, "").split(/^\[(\d+)\] /mu).slice(1), made = [];
  for (let at = 0; at < quotes.length; at += 2) {
    const hit = hits[Number(quotes[at]) - 1], source = hit.source;
    const text = source && quotes[at + 1].startsWith(`${source}\n`) ? quotes[at + 1].slice(source.length + 1) : quotes[at + 1];
    const quote = h("blockquote", { class: "text", dir: "auto" }, ...markdown(text.trim()));
    const pattern = wordsOf(answer.marked), found = (part) => new Set(part.toLowerCase().match(pattern)).size;
    const best = text.split(/(?<=[.!?\u3002\uff01\uff1f])\s+|\s*\u2026\s*|\n\n/u).reduce((one, other) => (found(other) > found(one) ? other : one));
    markWords(quote, pattern);
    made.push(h("figure", { class: "quote" },
      h("figcaption", {}, button(quotes[at], () => openHit(hit, best), { class: "cite", title: name(hit), "aria-label": `Source ${quotes[at]}: ${name(hit)}` }),
        prose("span", source || name(hit))), quote));
  }
  const noted = note ? [prose("p", note, { class: "soft" })] : [], first = note && answer.text.startsWith(note);
  parts.answer.replaceChildren(...(first ? noted : []), ...made, ...(first ? [] : noted), h("p", { class: "soft" }, "Excerpts of the sources; no model wrote an answer."));
}

/* The answer's text, in which each [2] that is a hit opens its passage. */
function showAnswer(parts, text, answer, note = "") {
  if (answer?.extractive && answer.citations.length) { showQuotes(parts, answer, note); return; }
  const body = h("p", { class: "text", dir: "auto" });
  let at = 0, quoted = "";
  for (const match of text.matchAll(/\[(\d{1,3})\]/g)) {
    const hit = hits[Number(match[1]) - 1];
    if (!hit) continue;
    const before = text.slice(at, match.index);
    quoted = before.trim() || quoted;
    const sentence = quoted;
    body.append(before.replace(/ $/, "\u00a0"));
    body.append(button(match[1], () => openHit(hit, sentence), { class: "cite", title: name(hit), "aria-label": `Source ${match[1]}: ${name(hit)}`,
      }));
    at = match.index + match[0].length;
  }
  body.append(text.slice(at));
  parts.answer.replaceChildren(body);
  if (!answer) { body.classList.add("writing"); return; }
  const used = answer.usage, told = [];
  if (used.calls) told.push(count(used.calls, "model call"), `${(used.input_tokens + used.output_tokens).toLocaleString("en")} tokens`, `cost ${money(answer.cost)}`);
  if (answer.finish) told.push(`finish: ${answer.finish}`);
  if (told.length) parts.cost.append(` · answer: ${told.join(", ")}`);
}

function showHits(parts, found, waited) {
  hits = found.hits;
  parts.cost.replaceChildren(`${count(hits.length, "hit")} by ${found.method} in ${seconds(found.seconds)}`,
    h("span", { title: "from the question to the hits on this page" }, ` (here after ${seconds(waited)})`));
  parts.told.replaceChildren(...searchedFor(found), ...decided(found.guidance));
  const groups = new Map();
  for (const hit of hits) groups.set(kind(hit), (groups.get(kind(hit)) || 0) + 1);
  const chips = [["all", hits.length], ...groups].map(([name, number]) =>
    button(`${name} ${number}`, (event) => choose(event.currentTarget, name), { class: "chip", "aria-pressed": name === "all" }));
  function choose(chip, name) {
    kinds = name === "all" ? null : name;
    for (const each of chips) each.setAttribute("aria-pressed", String(each === chip));
    for (const [at, item] of [...parts.hits.children].entries()) item.hidden = kinds !== null && kind(hits[at]) !== kinds;
  }
  parts.kinds.replaceChildren(...(groups.size > 1 ? chips : []));
  parts.hits.replaceChildren(...hits.map(card));
  if (!hits.length) parts.hits.append(h("li", { class: "soft" }, "Nothing was found."));
}

/* The question that stands for one of a conversation. */
function searchedFor(found) {
  const alone = found.standalone;
  if (!alone) return [];
  const failed = alone.failed ? ` (the model could not rewrite it: ${alone.failed})` : "";
  return alone.question === alone.asked && !failed ? [] : [prose("p", `Searched for: ${alone.question}${failed}`)];
}

/* What a model decided about the search. */
function decided(guidance) {
  if (!guidance) return [];
  const numbers = Array.from({ length: guidance.chosen }, (_, at) => `[${at + 1}]`).join(" ");
  const first = { choice: `Chosen as needed together: ${numbers}`, overview: "An overview: hits of several searches in turn",
    none: "Not guided: the hits are those of the question" }[guidance.kind];
  const queries = guidance.steps.flatMap((step) => step.queries);
  return [h("p", {}, guidance.failed ? `${first} (${guidance.failed})` : first),
    ...(queries.length ? [h("ul", { class: "queries", "aria-label": "Searched for as well" }, ...queries.map((query) => prose("li", query)))] : [])];
}

const KINDS = { chunk: "passage", summary_entity: "summary entity" };
const kind = (hit) => KINDS[hit.kind] || hit.kind;
const name = (hit) => hit.title || hit.documents[0] || kind(hit);

function card(hit, at) {
  const text = prose("div", "", { class: "text" }), body = untitled(hit);
  const long = body.length > SHOWN + 80;
  const more = button("more", () => fold(false), { class: "quiet" });
  function fold(short) {
    text.replaceChildren(...markdown(short ? body.slice(0, SHOWN).replace(/\s+\S*$/u, "") + " …" : body));
    more.hidden = !short;
  }
  fold(long);
  const where = [hit.date, hit.before && `newer (before: ${hit.before})`, hit.metadata.page && `page ${hit.metadata.page}`, hit.level > 0 && `level ${hit.level}`,
    hit.source_count > 1 && count(hit.source_count, "passage")].filter(Boolean);
  return h("li", { tabindex: 0, class: `hit kind-${family(hit)}`, data: { at }, on: {
    focus: () => { selected = at; },
    keydown: (event) => { if (event.key === "Enter" && event.target === event.currentTarget) openHit(hit); },
  } },
  h("div", { class: "head" }, h("span", { class: "number" }, hit.number), prose("h3", name(hit)),
    h("span", { class: "tag" }, kind(hit)), where.length ? h("span", { class: "soft" }, where.join(" · ")) : null),
  text, long ? more : null,
  h("ul", { class: "why", "aria-label": "Why it is here" }, ...hit.why.map((reason) => prose("li", reason))),
  h("div", { class: "sources" }, ...hit.sources.slice(0, 6).map((source, place) =>
    button(hit.kind === "chunk" ? `Read in ${hit.documents[0]}` : `source ${place + 1}`, () => reader.openPassage(source), { class: "quiet", dir: "auto" })),
  hit.source_count > 6 ? h("span", { class: "soft" }, `and ${count(hit.source_count - 6, "more", "more")}`) : null));
}

/* Many texts begin with their title, which stands above already. */
function untitled(hit) {
  const named = name(hit);
  return hit.text.startsWith(named) && hit.text.length > named.length ? hit.text.slice(named.length).trimStart() : hit.text;
}

const family = (hit) => (hit.kind === "chunk" ? "passage" : ["entity", "relation", "unit", "attribute"].includes(hit.kind) ? "entity" : "summary");

/* Open the first passage of a hit; an answer gives the sentence that it quotes from there. */
function openHit(hit, sentence = "") {
  mark(hit.number - 1);
  if (hit.sources.length) reader.openPassage(hit.sources[0], sentence);
}

function mark(at) {
  const item = output.querySelector(`.hit[data-at="${at}"]`);
  if (!item) return;
  item.hidden = false;
  item.focus({ preventScroll: true });
  item.scrollIntoView({ block: "nearest" });
}

function showGraph(parts, data) {
  draw(parts.graph, data, { onHit: (rank) => mark(rank - 1) });
}

export function key(event) {
  const items = [...output.querySelectorAll(".hit:not([hidden])")];
  if ((event.key === "j" || event.key === "k") && items.length) {
    const here = items.findIndex((item) => Number(item.dataset.at) === selected);
    const next = items[Math.max(0, Math.min(items.length - 1, here + (event.key === "j" ? 1 : -1)))];
    next.focus();
    next.scrollIntoView({ block: "nearest" });
    return true;
  }
  if (event.key === "g") {
    const node = output.querySelector(".graph .node");
    const inGraph = document.activeElement?.closest?.(".graph");
    if (inGraph) mark(Math.max(0, selected)); else node?.focus();
    return true;
  }
  return false;
}
