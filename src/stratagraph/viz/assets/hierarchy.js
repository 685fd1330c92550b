/* An icicle: the root on the left, a column per level, heights by the number of leaves. */
(function () {
  "use strict";
  var strata = window.strata, nodes = strata.data.nodes;
  var stage = document.getElementById("icicle"), detail = document.getElementById("detail");
  var LABEL = 14, LINE = 17, LEAST = 0.3, SEAM = 4, NARROW = 0.6; // pixels; the first column's share of another's

  nodes.forEach(function (node) { node.children = []; });
  nodes.forEach(function (node) { if (node.parent >= 0) nodes[node.parent].children.push(node); });
  nodes.forEach(function (node) {
    if (!node.hidden || !node.children.length) return;
    var rest = node.children.reduce(function (left, child) { return left - child.size; }, node.size);
    node.children.push({ title: "+ " + strata.count(node.hidden, "smaller one"), rest: true, of: node,
                         size: Math.max(rest, 0.5), children: [] });
  });

  var root = d3.hierarchy(nodes[0]).sum(function (node) { return node.children.length ? 0 : node.size; });
  d3.partition()(root);
  var columns = root.height + NARROW, focus = root, cells = [];

  root.each(function (place) {
    var node = place.data, cell = strata.add(stage, "button", "cell");
    cell.type = "button";
    cell.dir = "auto";
    cell.classList.add(node.rest ? "rest" : "depth-" + Math.min(place.depth, 6));
    var label = strata.add(cell, "span", "", node.title);
    cell.title = node.title;
    cell.style.left = (100 * (place.depth && place.depth - 1 + NARROW)) / columns + "%";
    cell.style.width = (100 * (place.depth ? 1 : NARROW)) / columns + "%";
    cell.addEventListener("click", function () { choose(place); });
    cells.push({ place: place, cell: cell, label: label });
  });

  function layOut() {
    var height = stage.clientHeight, span = focus.x1 - focus.x0 || 1;
    cells.forEach(function (item) {
      var top = Math.max(0, (item.place.x0 - focus.x0) / span) * height;
      var bottom = Math.min(1, (item.place.x1 - focus.x0) / span) * height;
      var seen = bottom - top >= LEAST;
      item.cell.hidden = !seen;
      if (!seen) return;
      item.cell.style.top = top + "px";
      item.cell.style.height = bottom - top + "px";
      item.cell.classList.toggle("thin", bottom - top < LABEL);
      item.cell.classList.toggle("seamless", bottom - top < SEAM);
      item.label.style.webkitLineClamp = Math.min(6, Math.max(1, Math.floor((bottom - top) / LINE)));
    });
  }

  function choose(place) {
    var opened = place.data.rest ? place.parent : place;
    focus = opened.children ? opened : opened.parent || opened;
    cells.forEach(function (item) { item.cell.classList.toggle("chosen", item.place === opened); });
    layOut();
    describe(opened.data, place.data.rest);
  }

  function describe(node, rest) {
    detail.replaceChildren();
    detail.scrollTop = 0;
    if (node === nodes[0]) return introduce();
    var heading = strata.add(detail, "h2", "", node.title);
    heading.dir = "auto";
    var facts = [node.kind];
    if (node.level !== null) facts.push("level " + node.level);
    if (node.members) facts.push(strata.count(node.members, "member"));
    if (node.sourceCount) {
      facts.push(strata.count(node.sourceCount, "passage") + " of " + strata.count(node.documentCount, "document"));
    }
    strata.add(detail, "p", "facts", facts.join(" · "));
    if (node.also) strata.add(detail, "p", "note", "Also a member of " + strata.count(node.also, "other node") + ".");
    if (rest) strata.add(detail, "p", "note", strata.count(node.hidden, "smaller member") + " of this node not shown.");
    if (node.text) strata.add(detail, "p", "text", node.text).dir = "auto";
    var isPassage = node.kind === "chunk";
    var cited = node.sources.map(function (place) { return strata.data.passages[place]; });
    if (isPassage) strata.add(detail, "p", "facts", cited.length ? cited[0].document : "");
    else strata.passages(detail, cited, node.sourceCount);
  }

  function introduce() {
    strata.add(detail, "h2", "", nodes[0].title);
    strata.add(detail, "p", "facts", strata.count(nodes[0].members, "branch", "branches") + " · " +
      strata.count(nodes[0].size, "leaf", "leaves"));
    strata.add(detail, "p", "", "Each cell contains those to its right. A click fills the height with a cell " +
      "and shows its text here, with the passages it came from; a click further left leads back.");
  }

  window.addEventListener("resize", layOut);
  choose(root);
})();
