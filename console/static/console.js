"use strict";
// Live parts of a page: <main data-stream="..."> gets events {id, text} and puts them into the
// element of that id. The server has escaped what is in them. Pages work without this.
(() => {
  const main = document.querySelector("[data-stream]");
  const banner = document.getElementById("live-problem");
  const say = (text) => { if (banner && banner.textContent !== text) banner.textContent = text; };

  const put = (id, text) => {
    if (id === "live-problem") { say(text); return; }
    const element = document.getElementById(id);
    if (!element) return;
    const focused = element.contains(document.activeElement) ? document.activeElement : null;
    const address = focused && focused.getAttribute("href");
    element.innerHTML = text;
    if (address) { // the link that had the focus keeps it
      for (const link of element.querySelectorAll("a")) {
        if (link.getAttribute("href") === address) { link.focus({ preventScroll: true }); break; }
      }
    }
  };

  const follow = () => {
    const source = new EventSource(main.dataset.stream);
    let failures = 0;
    source.addEventListener("open", () => { failures = 0; say(""); });
    source.addEventListener("part", (event) => {
      const part = JSON.parse(event.data);
      put(part.id, part.text);
    });
    source.addEventListener("chart", (event) => {
      const part = JSON.parse(event.data);
      const element = document.getElementById(part.id);
      if (element) element.dispatchEvent(new CustomEvent("point", { detail: JSON.parse(part.text) }));
    });
    source.addEventListener("error", () => {
      failures += 1;
      say("The console does not answer: what stands here is old. Trying again.");
      if (source.readyState === EventSource.CLOSED) setTimeout(follow, Math.min(1000 * failures, 10000));
    });
    window.addEventListener("pagehide", () => source.close(), { once: true });
  };
  if (main && window.EventSource) follow();

  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName);
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey) return;
    const search = document.querySelector("[data-hotkey='/']");
    if (search) { event.preventDefault(); search.focus(); }
  });

  const all = document.querySelector("[data-check-all]");
  if (all) all.addEventListener("change", () => {
    for (const box of document.querySelectorAll("input[name=id]")) box.checked = all.checked;
  });
})();
