/* What everything cost since the server was started. */
import * as api from "./api.js";
import { count, h, money, seconds } from "./dom.js";

let root, context;

export function start(section, page) { root = section; context = page; }

export async function shown() {
  let sums, jobs;
  try {
    [sums, jobs] = await Promise.all([api.get("api/costs"), api.get("api/jobs")]);
  } catch (error) {
    root.replaceChildren(h("p", { class: "error" }, error.message));
    return;
  }
  const index = context.index();
  root.replaceChildren(h("h1", {}, "What it cost"),
    h("p", { class: "soft" }, index && !index.answers_by_model
      ? "No chat model is attached: answers are sentences of the sources, and nothing is paid for. Times are what is spent."
      : "Since this server was started. Cached calls cost nothing; a cost is unknown where the price of a model is."),
    sums.length ? table(sums) : h("p", {}, "Nothing was asked or changed yet."), ...jobs.filter((job) => job.report).map(report));
}

const number = (value) => (value ? value.toLocaleString("en") : "–");

function row(name, used, times, cost) {
  return h("tr", {}, h("td", {}, name), ...(times === null ? [] : [h("td", {}, number(times))]),
    ...[used.calls, used.cached_calls, used.input_tokens, used.output_tokens, used.embedded_texts].map((value) => h("td", {}, number(value))),
    h("td", {}, seconds(used.seconds)), ...(cost === undefined ? [] : [h("td", {}, money(cost))]));
}

const HEAD = ["calls", "cached", "tokens in", "tokens out", "texts embedded", "time"];

function table(sums) {
  return h("table", {}, h("thead", {}, h("tr", {}, ["operation", "times", ...HEAD, "cost"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, sums.map((sum) => row(sum.operation, sum.usage, sum.count, sum.cost))));
}

function report(job) {
  const stages = Object.entries(job.report.stages);
  return h("details", { class: "report" }, h("summary", { dir: "auto" }, `${job.report.operation}: ${job.title} · ${seconds(job.seconds)} · ${count(stages.length, "stage")}${job.report.cost === 0 ? "" : ` · cost ${money(job.report.cost)}`}`),
    h("table", {}, h("thead", {}, h("tr", {}, ["stage", ...HEAD].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, stages.map(([name, used]) => row(name, used, null)))));
}
