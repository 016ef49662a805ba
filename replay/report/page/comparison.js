"use strict";
// Two logs or runs: what only one of them shows, and how long partitions were offline in each.
const comparison = logs.at(-1).comparison;
const side_of = index => index < comparison.second ? 0 : 1;
// The letters of the logs of a side.
const side_name = side => logs.map((_, index) => index).filter(one => side_of(one) === side).map(letter).join(", ");
function make_comparison() {
  if (!comparison) return;
  const box = by_id("comparison"), grid = element("div", {className: "compared"}); box.hidden = false;
  box.append(element("p", {id: "compared", textContent: comparison.sentence}), grid);
  const table = (head, rows) => grid.append(element("div", {}, element("table", {}, element("thead", {}, element("tr", {}, ...head.map(one => element("th", {textContent: one})))), element("tbody", {}, ...rows))));
  const row = cells => element("tr", {}, ...cells.map(one => element("td", {}, one)));
  const place = (log, seq, at) => { const one = element("button", {className: "link", type: "button", textContent: `event ${seq}`});
    one.onclick = () => { select(seq, -1, log); bring(at, at); }; return one; };
  if (comparison.differences.length) table(["only in", "event", "elapsed", "what"],
    comparison.differences.map(([log, seq, at, subject, text]) => row([letter(log), place(log, seq, at), elapsed(at), `${subject}: ${text}`])));
  if (comparison.offline.length) table(["partition", `offline in ${side_name(0)}`, `offline in ${side_name(1)}`],
    comparison.offline.map(([name, first, second]) => row([name, ...[first, second].map(one => one === null ? "-" : `${one.toFixed(3)} s`)])));
}
