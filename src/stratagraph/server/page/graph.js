/* The graph around a question, laid out before it is drawn: nothing moves by itself, and colours tell kinds. */
import { h, prose } from "./dom.js";

const d3 = window.d3;
const TICKS = 260, LENGTH = { named: 80, relation: 105, mentions: 90, path: 105, similar: 150 };
const LEGEND = [["entry", "named in the question"], ["hit", "passage"], ["summary", "summary or node"], ["entity", "entity"], ["path", "path"]];

export function draw(place, data, { onHit }) {
  const nodes = data.nodes.map((node) => ({ ...node })), links = data.links.map((link) => ({ ...link }));
  place.replaceChildren();
  if (nodes.length < 2) { place.append(h("p", { class: "soft" }, "There is nothing around this question.")); return; }
  for (const node of nodes) node.radius = node.kind === "question" ? 14 : node.rank ? 9 + 8 * Math.sqrt(node.share || 0) : 6;
  nodes[0].fx = nodes[0].fy = 0;
  const stage = place.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "svg"));
  stage.setAttribute("role", "group");
  stage.setAttribute("aria-label", "The graph around the question");
  const size = () => ({ width: stage.clientWidth || 480, height: stage.clientHeight || 420 });
  const shape = size();
  d3.forceSimulation(nodes)
    .force("link", d3.forceLink(links).distance((link) => LENGTH[link.kind] || 100).strength(0.5))
    .force("charge", d3.forceManyBody().strength(-480).distanceMax(600))
    .force("apart", d3.forceCollide((node) => node.radius + 15))
    .force("x", d3.forceX().strength(0.03 * Math.max(1, shape.height / shape.width)))
    .force("y", d3.forceY().strength(0.03 * Math.max(1, shape.width / shape.height)))
    .stop().tick(TICKS);

  const svg = d3.select(stage), view = svg.append("g");
  const lines = view.append("g").selectAll("line").data(links).join("line").attr("class", (link) => link.kind)
    .attr("x1", (link) => link.source.x).attr("y1", (link) => link.source.y)
    .attr("x2", (link) => link.target.x).attr("y2", (link) => link.target.y);
  lines.filter((link) => link.text).append("title").text((link) => link.text);
  const marks = view.append("g").selectAll("g").data(nodes).join("g").attr("class", (node) => `node ${node.kind}`)
    .attr("transform", (node) => `translate(${node.x},${node.y})`).attr("tabindex", 0).attr("role", "button")
    .attr("aria-label", (node) => (node.rank ? `Hit ${node.rank}: ` : "") + node.label)
    .on("click", (event, node) => { event.stopPropagation(); choose(node); })
    .on("keydown", (event, node) => { if (event.key === "Enter") choose(node); });
  marks.append("circle").attr("r", (node) => node.radius);
  marks.filter((node) => node.rank || node === nodes[0]).append("text").attr("class", "rank").attr("dy", "0.35em")
    .text((node) => node.rank || "?");
  const labels = marks.filter((node) => node !== nodes[0]).append("text").attr("class", "label")
    .attr("x", (node) => node.radius + 4).attr("dy", "0.35em").text((node) => node.label);
  const detail = place.appendChild(h("div", { class: "detail", "aria-live": "polite", hidden: true }));
  place.append(h("div", { class: "legend" }, ...LEGEND.filter(([kind]) => present(kind))
    .map(([kind, words]) => h("span", {}, h("i", { class: `key-${kind}` }), words))));

  function present(kind) {
    return kind === "path" ? links.some((link) => link.kind === "path") : nodes.some((node) => node.kind === kind);
  }

  /* Labels that would cover an earlier one wait until their node is pointed at. */
  function thinOut() {
    const order = { hit: 0, summary: 0, entry: 1, entity: 2 };
    const taken = nodes.map((node) => ({ x0: node.x - node.radius, x1: node.x + node.radius, y0: node.y - node.radius, y1: node.y + node.radius }));
    labels.nodes().map((made) => ({ made, node: d3.select(made).datum() }))
      .sort((a, b) => order[a.node.kind] - order[b.node.kind])
      .forEach(({ made, node }) => {
        const left = node.x + node.radius + 4;
        const box = { x0: left, x1: left + made.getComputedTextLength(), y0: node.y - 8, y1: node.y + 8 };
        const crowded = taken.some((other) => box.x0 < other.x1 && other.x0 < box.x1 && box.y0 < other.y1 && other.y0 < box.y1);
        made.classList.toggle("crowded", crowded);
        if (!crowded) taken.push(box);
      });
  }

  const extent = () => [[0, 0], [size().width, size().height]]; // the default measures the picture, which may be gone
  const zoom = d3.zoom().extent(extent).scaleExtent([0.2, 5]).on("zoom", (event) => view.attr("transform", event.transform));
  svg.call(zoom).on("click", () => choose(null));

  function fit() {
    const { width, height } = size(), bounds = view.node().getBBox();
    const scale = Math.min(1.5, 0.94 * Math.min(width / bounds.width, (height - 34) / bounds.height));
    svg.call(zoom.transform, d3.zoomIdentity
      .translate(width / 2 - scale * (bounds.x + bounds.width / 2), (height - 24) / 2 - scale * (bounds.y + bounds.height / 2)).scale(scale));
  }

  function choose(node) {
    const near = new Set([node]);
    for (const link of links) {
      if (link.source === node) near.add(link.target);
      if (link.target === node) near.add(link.source);
    }
    marks.classed("chosen", (each) => each === node).classed("faded", (each) => node && !near.has(each)).classed("near", (each) => node && near.has(each));
    lines.classed("faded", (link) => node && link.source !== node && link.target !== node);
    detail.hidden = !node;
    if (!node) return;
    const said = links.filter((link) => link.kind === "relation" && link.text && (link.source === node || link.target === node)).slice(0, 6);
    detail.replaceChildren(prose("h3", node.label),
      ...node.why.filter(([, value]) => !value).map(([reason]) => h("p", { class: "soft" }, reason)),
      prose("p", node.text, { class: "text" }), ...said.map((link) => prose("blockquote", link.text)));
    if (node.rank) onHit(node.rank);
  }

  thinOut();
  fit();
  new ResizeObserver(fit).observe(stage);
}
