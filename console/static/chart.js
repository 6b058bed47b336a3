"use strict";
// The lag of a group: one line for all, one for each queue that the server names. What the page comes
// with is {names, at: [seconds], total, lines: [[...]]}; points come as {at, total, series: {name: messages}}.
(() => {
  const element = document.querySelector("[data-chart]");
  const legend = document.getElementById("legend");
  if (!element || !window.uPlot) return;
  const MOST_POINTS = 900;
  const MOST_LINES = 16;
  const COLOURS = 8;
  const LEAST_S = 30; // else two points are years or milliseconds apart
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const past = JSON.parse(element.dataset.chart);
  const names = past.names;
  const data = [past.at, past.total, ...past.lines];
  let plot = null;

  const clock = (seconds) => new Date(seconds * 1000).toISOString().slice(11, 19); // UTC, as all times here
  const axis = () => ({
    stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") },
  });
  const size = () => ({ width: element.clientWidth, height: element.clientHeight });
  const make = () => {
    if (plot) plot.destroy();
    plot = new uPlot({
      ...size(),
      padding: [12, 16, 0, 0],
      scales: {
        x: { range: (_, first, last) => [Math.min(first, last - LEAST_S), last] },
        y: { range: (_, low, high) => [0, Math.max(10, high * 1.1)] },
      },
      axes: [{ ...axis(), space: 90, values: (_, marks) => marks.map(clock) }, { ...axis(), size: 70 }],
      legend: { show: false },
      cursor: { show: false },
      series: [{}, { label: "all", stroke: colour("--ink"), width: 2 },
        ...names.map((name, at) => ({ label: name, stroke: colour(`--line-${at % COLOURS + 1}`), width: 1.5 }))],
    }, data, element);
    element.chart = plot; // for who looks closer, tests among them
  };
  const add = (point) => {
    if (data[0].length && point.at <= data[0][data[0].length - 1]) return;
    let more = false;
    for (const name of Object.keys(point.series)) {
      if (names.includes(name) || names.length >= MOST_LINES) continue;
      names.push(name);
      data.push(new Array(data[0].length).fill(null));
      const item = document.createElement("li");
      item.textContent = name;
      legend.append(item);
      more = true;
    }
    data[0].push(point.at);
    data[1].push(point.total);
    names.forEach((name, at) => data[at + 2].push(name in point.series ? point.series[name] : null));
    if (data[0].length > MOST_POINTS) for (const line of data) line.shift();
    if (more) make(); else plot.setData(data);
    tell();
  };
  const tell = () => {
    element.dataset.points = String(data[0].length);
    element.dataset.total = String(data[1][data[1].length - 1]);
  };
  make();
  tell();
  element.addEventListener("point", (event) => add(event.detail));
  new ResizeObserver(() => plot.setSize(size())).observe(element);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", make);
})();
