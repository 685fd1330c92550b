/* Before anything is painted: the scheme that was chosen last, so that nothing flashes. */
(function () {
  "use strict";
  try {
    var chosen = localStorage.getItem("stratagraph-theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch (error) { /* storage may be forbidden; the system's scheme serves */ }
})();
