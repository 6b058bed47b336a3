"use strict";
// Messages as they come: the newest first, never more than so many.
(() => {
  const list = document.querySelector("[data-tail]");
  const state = document.getElementById("tail-state");
  if (!list || !window.EventSource) return;
  const MOST = 500;
  const source = new EventSource(list.dataset.tail);
  source.addEventListener("part", (event) => {
    const part = JSON.parse(event.data);
    if (part.id === "tail-state") { if (state.textContent !== part.text) state.textContent = part.text; return; }
    if (!part.text) return;
    const rows = document.createElement("template");
    rows.innerHTML = part.text;
    for (const row of [...rows.content.children]) list.prepend(row);
    while (list.children.length > MOST) list.lastElementChild.remove();
  });
  source.addEventListener("error", () => { state.textContent = "The console does not answer. Trying again."; });
  window.addEventListener("pagehide", () => source.close(), { once: true });
})();
