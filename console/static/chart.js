"use strict";
// The lag of a group since the page was opened: one line for all, one for each queue that the server
// names. Points come as {at: seconds, total, series: {name: messages}}.
(() => {
  const element = document.querySelector("[data-chart]");
  if (!element || !window.uPlot) return;
  const MOST_POINTS = 900;
  const COLOURS = ["#4c86ad", "#b5652b", "#4d8f5f", "#8f5ba8", "#a8505f", "#76802f", "#3f8a8c", "#7a6f63"];
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const names = [];
  const data = [[], []];
  let plot = null;

  const axis = () => ({
    stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") },
  });
  const make = () => {
    if (plot) plot.destroy();
    const legend = 60;
    plot = new uPlot({
      width: element.clientWidth - 2,
      height: element.clientHeight - legend,
      scales: { y: { range: (_, low, high) => [0, Math.max(10, high * 1.1)] } },
      axes: [axis(), { ...axis(), size: 70 }],
      legend: { live: false },
      series: [{}, { label: "all", stroke: colour("--ink"), width: 2 },
        ...names.map((name, at) => ({ label: name, stroke: COLOURS[at % COLOURS.length], width: 1 }))],
    }, data, element);
  };
  const add = (point) => {
    if (data[0].length && point.at <= data[0][data[0].length - 1]) return;
    let more = false;
    for (const name of Object.keys(point.series)) {
      if (names.includes(name) || names.length >= 16) continue;
      names.push(name);
      data.push(new Array(data[0].length).fill(null));
      more = true;
    }
    data[0].push(point.at);
    data[1].push(point.total);
    names.forEach((name, at) => data[at + 2].push(name in point.series ? point.series[name] : null));
    if (data[0].length > MOST_POINTS) for (const line of data) line.shift();
    if (more || !plot) make(); else plot.setData(data);
    element.dataset.points = String(data[0].length);
    element.dataset.total = String(point.total);
  };
  add(JSON.parse(element.dataset.point));
  element.addEventListener("point", (event) => add(event.detail));
  new ResizeObserver(() => { if (plot) plot.setSize({ width: element.clientWidth - 2, height: element.clientHeight - 60 }); }).observe(element);
})();
