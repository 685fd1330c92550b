/* Documents: a page at a time, in and out, with how far each change is. */
import * as api from "./api.js";
import { button, count, debounced, h, prose, seconds } from "./dom.js";
import * as reader from "./reader.js";

const PAGE = 50, OFTEN = 500; // milliseconds
let root, context, list, more, total, filter, jobs, offset = 0, watching = false, generation = null, drop = null;

export function start(section, page) {
  root = section;
  context = page;
  filter = h("input", { type: "search", placeholder: "Find documents by id or metadata", "aria-label": "Find documents", dir: "auto",
    on: { input: debounced(200, () => load(true)) } });
  const files = h("input", { type: "file", multiple: true, hidden: true, on: { change: async () => { await add([...files.files]); files.value = ""; } } });
  drop = h("div", { class: "drop" }, h("p", {}, "Drop files here, or ", button("choose files", () => files.click(), { class: "link" }), files),
    h("p", { class: "soft" }, "A file with the name of one that is here replaces it."));
  for (const name of ["dragover", "dragleave", "drop"]) drop.addEventListener(name, (event) => {
    event.preventDefault();
    drop.classList.toggle("over", name === "dragover");
    if (name === "drop") add([...event.dataTransfer.files]);
  });
  jobs = h("div", { class: "jobs", "aria-live": "polite" });
  list = h("ul", { class: "documents" });
  total = h("p", { class: "soft" });
  more = button("Show more", () => load(false), { class: "quiet" });
  root.replaceChildren(h("h1", {}, "Documents"), drop, jobs, filter, total, list, more);
  if (context.index()) changed(context.index());
  watch();
}

export function changed(index) {
  if (!root) return;
  drop.hidden = index.read_only;
  root.classList.toggle("read-only", index.read_only);
  if (generation !== index.generation) { generation = index.generation; load(true); }
}

export function find() { filter.focus(); filter.select(); }

async function load(fresh) {
  if (fresh) offset = 0;
  try {
    const page = await api.get("api/browse", { table: "documents", text: filter.value, offset, limit: PAGE });
    if (fresh) list.replaceChildren();
    list.append(...page.items.map(row));
    offset += page.items.length;
    total.textContent = filter.value ? `${count(page.total, "document")} with these words` : count(page.total, "document");
    more.hidden = offset >= page.total;
  } catch (error) {
    total.textContent = error.message;
  }
}

function row(item) {
  const facts = Object.entries(item.metadata).filter(([key]) => !["title", "source"].includes(key)).slice(0, 5)
    .map(([key, value]) => `${key}: ${typeof value === "string" ? value : JSON.stringify(value)}`).join(" · ");
  return h("li", {}, h("div", {}, button(item.title, () => reader.openDocument(item.id), { class: "link", dir: "auto" }),
    item.title === item.id ? null : prose("span", item.id, { class: "soft id" }), facts ? prose("p", facts, { class: "soft" }) : null),
  h("span", { class: "soft" }, count(item.members, "passage")),
  button("Delete", () => remove(item), { class: "quiet danger", "aria-label": `Delete ${item.id}` }));
}

async function remove(item) {
  if (!confirm(`Delete ${item.id} and all that came from it alone?`)) return;
  await started(api.post("api/documents/delete", { ids: [item.id] }));
}

async function add(files) {
  for (const file of files) await started(api.upload(file, file.webkitRelativePath || file.name), file.name);
}

async function started(job, name = "") {
  try {
    await job;
  } catch (error) {
    jobs.prepend(h("p", { class: "error", dir: "auto" }, name ? `${name}: ${error.message}` : error.message));
  }
  watch();
}

async function watch() {
  if (watching) return;
  watching = true;
  for (;;) {
    let known = [];
    try { known = await api.get("api/jobs"); } catch (error) { break; }
    const failed = [...jobs.querySelectorAll(":scope > .error")];
    jobs.replaceChildren(...failed, ...known.slice(0, 8).map(shown));
    if (!known.some((job) => job.state === "running" || job.state === "waiting")) break;
    await new Promise((resolve) => setTimeout(resolve, OFTEN));
  }
  watching = false;
  await context.refresh();
}

function shown(job) {
  const verb = job.kind === "add" ? "Adding" : "Deleting";
  const notes = Object.entries({ ...job.skipped, ...job.warnings }).map(([name, why]) => prose("p", `${name}: ${why}`, { class: "soft" }));
  const state = job.state === "running" ? `${job.stage || "starting"}${job.total ? ` ${job.done.toLocaleString("en")} of ${job.total.toLocaleString("en")}` : ""}`
    : job.state === "done" ? `done in ${seconds(job.seconds)}: ${summary(job.report)}` : job.state === "failed" ? job.error : "waiting";
  const bar = h("progress", { max: job.total || 1, "aria-label": verb });
  if (job.state === "running" && job.total) bar.value = job.done;
  return h("div", { class: `job ${job.state}` }, prose("b", `${verb} ${job.title}`),
    prose("span", state, { class: job.state === "failed" ? "error" : "soft" }), job.state === "running" ? bar : null, ...notes);
}

function summary(report) {
  const parts = ["added", "updated", "deleted", "unchanged", "skipped"].filter((name) => report[name].length)
    .map((name) => `${report[name].length} ${name}`);
  return parts.join(", ") || "nothing changed";
}
