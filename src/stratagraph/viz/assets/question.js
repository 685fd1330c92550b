/* The graph around a question, laid out by forces before it is drawn, so that nothing moves by itself. */
(function () {
  "use strict";
  var strata = window.strata, nodes = strata.data.nodes, links = strata.data.links;
  var svg = d3.select("#graph"), stage = document.getElementById("graph"), detail = document.getElementById("detail");
  var width = stage.clientWidth || 640, height = stage.clientHeight || 420;
  var TICKS = 300;

  nodes.forEach(function (node, place) {
    node.place = place;
    node.radius = node.kind === "question" ? 15 : node.rank ? 10 + 8 * Math.sqrt(node.share || 0) : 6;
  });
  nodes[0].fx = 0;
  nodes[0].fy = 0;

  var length = { named: 80, relation: 110, mentions: 95, path: 110, similar: 150 };
  d3.forceSimulation(nodes)
    .force("link", d3.forceLink(links).distance(function (link) { return length[link.kind]; }).strength(0.5))
    .force("charge", d3.forceManyBody().strength(-520).distanceMax(600))
    .force("apart", d3.forceCollide(function (node) { return node.radius + 16; }))
    .force("x", d3.forceX().strength(0.03))
    .force("y", d3.forceY().strength(0.06 * Math.max(1, width / height)))
    .stop()
    .tick(TICKS);

  var view = svg.append("g");
  var lines = view.append("g").selectAll("line").data(links).join("line")
    .attr("class", function (link) { return link.kind; })
    .attr("x1", function (link) { return link.source.x; }).attr("y1", function (link) { return link.source.y; })
    .attr("x2", function (link) { return link.target.x; }).attr("y2", function (link) { return link.target.y; });
  lines.filter(function (link) { return link.text; }).append("title").text(function (link) { return link.text; });

  var marks = view.append("g").selectAll("g").data(nodes).join("g")
    .attr("class", function (node) { return "node " + node.kind; })
    .attr("transform", function (node) { return "translate(" + node.x + "," + node.y + ")"; })
    .attr("tabindex", 0).attr("role", "button")
    .on("click", function (event, node) { event.stopPropagation(); choose(node); })
    .on("keydown", function (event, node) { if (event.key === "Enter") choose(node); });
  marks.append("circle").attr("r", function (node) { return node.radius; });
  marks.filter(function (node) { return node.rank || node === nodes[0]; }).append("text")
    .attr("class", "rank").attr("dy", "0.35em").text(function (node) { return node.rank || "?"; });
  var labels = marks.filter(function (node) { return node !== nodes[0]; }).append("text").attr("class", "label")
    .attr("x", function (node) { return node.radius + 4; }).attr("dy", "0.35em")
    .text(function (node) { return node.label; });
  thinOut();
  marks.append("title").text(function (node) { return node.label; });

  var zoom = d3.zoom().scaleExtent([0.2, 5]).on("zoom", function (event) { view.attr("transform", event.transform); });
  svg.call(zoom).on("click", overview);

  /* Labels that would cover an earlier one wait until their node is pointed at; hits and entries come first. */
  function thinOut() {
    var order = { hit: 0, summary: 0, entry: 1, entity: 2 }, taken = nodes.map(function (node) {
      return { x0: node.x - node.radius, x1: node.x + node.radius, y0: node.y - node.radius, y1: node.y + node.radius };
    });
    labels.nodes().map(function (label) { return { label: label, node: d3.select(label).datum() }; })
      .sort(function (a, b) { return order[a.node.kind] - order[b.node.kind] || a.node.place - b.node.place; })
      .forEach(function (item) {
        var left = item.node.x + item.node.radius + 4;
        var box = { x0: left, x1: left + item.label.getComputedTextLength(), y0: item.node.y - 8, y1: item.node.y + 8 };
        var crowded = taken.some(function (other) {
          return box.x0 < other.x1 && other.x0 < box.x1 && box.y0 < other.y1 && other.y0 < box.y1;
        });
        item.label.classList.toggle("crowded", crowded);
        if (!crowded) taken.push(box);
      });
  }

  function fit() {
    width = stage.clientWidth || width;
    height = stage.clientHeight || height;
    var bounds = view.node().getBBox();
    var scale = Math.min(1.4, 0.92 * Math.min(width / bounds.width, (height - 30) / bounds.height));
    var x = width / 2 - scale * (bounds.x + bounds.width / 2);
    var y = (height - 20) / 2 - scale * (bounds.y + bounds.height / 2);
    svg.call(zoom.transform, d3.zoomIdentity.translate(x, y).scale(scale));
  }

  function choose(node) {
    var near = new Set([node]);
    links.forEach(function (link) {
      if (link.source === node) near.add(link.target);
      if (link.target === node) near.add(link.source);
    });
    marks.classed("chosen", function (each) { return each === node; });
    marks.classed("faded", function (each) { return !near.has(each); }).classed("near", function (each) { return near.has(each); });
    lines.classed("faded", function (link) { return link.source !== node && link.target !== node; });
    describe(node);
  }

  function describe(node) {
    detail.replaceChildren();
    detail.scrollTop = 0;
    var back = strata.add(detail, "button", "back", "All hits");
    back.type = "button";
    back.addEventListener("click", overview);
    strata.add(detail, "h2", "", (node.rank ? node.rank + ". " : "") + node.label).dir = "auto";
    var why = strata.add(detail, "dl");
    node.why.forEach(function (pair) {
      strata.add(why, "dt", "", pair[0]);
      strata.add(why, "dd", "", pair[1]);
    });
    strata.add(detail, "p", "text", node.text).dir = "auto";
    related(node);
    if (node.documents.length) {
      strata.add(detail, "h3", "", "From " + strata.count(node.sources, "passage") + " of");
      node.documents.forEach(function (name) { strata.add(detail, "p", "facts", name); });
    }
  }

  function related(node) {
    var said = links.filter(function (link) {
      return link.kind === "relation" && link.text && (link.source === node || link.target === node);
    });
    if (!said.length) return;
    strata.add(detail, "h3", "", "Relations");
    said.slice(0, 12).forEach(function (link) { strata.add(detail, "blockquote", "", link.text).dir = "auto"; });
  }

  function overview() {
    marks.classed("chosen", false).classed("faded", false).classed("near", false);
    lines.classed("faded", false);
    detail.replaceChildren();
    strata.add(detail, "h2", "", "What was found");
    var list = strata.add(detail, "ol", "hits");
    nodes.filter(function (node) { return node.rank; })
      .sort(function (a, b) { return a.rank - b.rank; })
      .forEach(function (node) {
        var button = strata.add(strata.add(list, "li"), "button");
        button.type = "button";
        button.dir = "auto";
        strata.add(button, "b", "", node.rank);
        strata.add(button, "span", "", node.text.length > 150 ? node.text.slice(0, 150) + "…" : node.text);
        button.addEventListener("click", function () { choose(node); });
      });
    if (!list.children.length) strata.add(detail, "p", "", "Nothing was found.");
  }

  window.addEventListener("resize", fit);
  fit();
  overview();
})();
