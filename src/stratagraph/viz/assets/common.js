/* What all pages share: elements whose content is always text, and the panel that shows one item. */
(function () {
  "use strict";

  function element(tag, className, text) {
    var made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined && text !== null) made.textContent = String(text);
    return made;
  }

  function add(parent, tag, className, text) {
    return parent.appendChild(element(tag, className, text));
  }

  function count(number, one, many) {
    return number.toLocaleString("en") + " " + (number === 1 ? one : many || one + "s");
  }

  function passages(parent, list, total) {
    if (!list.length) return;
    var heading = total > list.length ? "Sources (" + list.length + " of " + total.toLocaleString("en") + ")" : "Sources";
    add(parent, "h3", "", heading);
    list.forEach(function (passage) {
      var block = add(parent, "blockquote");
      block.dir = "auto";
      add(block, "cite", "", passage.document);
      add(block, "p", "", passage.text);
    });
  }

  window.strata = {
    data: JSON.parse(document.getElementById("data").textContent),
    element: element,
    add: add,
    count: count,
    passages: passages,
  };
})();
