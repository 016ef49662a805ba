"use strict";
// Plots above the lanes: partitions that are not well, and the point of no return.
const plots = [], UNIT = 18;
function plot(box, log, title, unit, series, data, height, range) {
  const options = {width: box.clientWidth || 900, height, title, cursor: {drag: {x: false, y: false}}, legend: {live: true},
    padding: [8, 0, 6, 0], scales: {x: {time: false, range: () => [view.from, view.to]}, y: {range}}, hooks: {setCursor: [fill_legend]},
    axes: [{show: false}, {size: LABEL - UNIT, label: unit, labelSize: UNIT, labelFont: "12px system-ui,sans-serif", stroke: () => css("--dim"), grid: {stroke: () => css("--line")}, ticks: {show: false}}],
    series: [{label: "time", value: (u, v) => v === null ? "" : log.iso(v)}, ...series]};
  plots.push([new uPlot(options, data, box), box]);
}
// Without the mouse, the legend has the values at the end of the window.
function fill_legend(one) {
  const at = lower(one.data[0], view.to) - 1;
  if (one.cursor.idx == null && at >= 0) one.setLegend({idx: at});
}
function make_plots() {
  logs.forEach((log, index) => {
    const name = letter(index) && `${letter(index)}: `;
    const stepped = uPlot.paths.stepped({align: 1});
    if (log.curve) {
      // The likelihood changes at events only.
      const paths = stepped, points = log.curve.points, columns = [0, 1, 2, 3].map(n => points.map(one => one[n]));
      plot(by_id("curve"), log, `How likely: ${log.curve.condition}`, "likelihood", [{label: "likely", stroke: "#d64545", width: 2, paths, points: {show: true}},
        {label: "low", stroke: "#d6454566", paths}, {label: "high", stroke: "#d6454566", paths}], columns, 110, () => [0, 1.05]);
    }
    if (!log.counts[0].length) return;  // The log shows no partitions.
    const [at, offline, under] = log.counts, end = [...at, log.endUs];
    const last = list => [...list, list.at(-1) ?? 0];
    plot(by_id("strips"), log, `${name}Partitions that are not well, over time`, "partitions", [{label: `${name}offline partitions`, stroke: "#d64545", fill: "#d6454544", paths: stepped, points: {show: false}},
      {label: `${name}under-replicated`, stroke: "#e0a030", fill: "#e0a03022", paths: stepped, points: {show: false}}],
      [end, last(offline), last(under)], 84, (u, low, high) => [0, Math.max(1, high)]);
  });
  watchers.push(() => { for (const [one, box] of plots) {
    if (one.width !== box.clientWidth) one.setSize({width: box.clientWidth, height: one.height});
    one.setScale("x", {min: view.from, max: view.to}); fill_legend(one); } });
}
