"use strict";
// The view: the window, the filters and the selection. It is stored in the fragment of the address.
const view = {from: 0, to: 1, log: 0, seq: 0, decision: -1, topic: "", broker: "", rule: "", kind: "", find: "", quiet: false, top: 0, no_log: ""};
const given = JSON.parse(by_id("data").textContent), logs = given.logs.map(one => new Log(one));
// A letter for each log, if there are several.
const letter = index => logs.length > 1 ? String.fromCharCode(65 + index) : "";
const watchers = [];
let pending = false;
// Elapsed times count from the first event of the first log; another log may begin before that.
const begin_of_all = () => Math.min(...logs.map(one => one.startUs));
const span_of_all = () => Math.max(1, ...logs.map(one => one.endUs - begin_of_all()));

function changed(what = {}) {
  Object.assign(view, what);
  if ("log" in what) view.no_log = "";
  const all = span_of_all(), begin = begin_of_all(), least = 50;
  if (view.to - view.from < least) view.to = view.from + least;
  const width = Math.min(view.to - view.from, all * 1.2);
  view.from = Math.min(Math.max(view.from, begin - 0.1 * all), begin + 1.1 * all - Math.min(width, all));
  view.to = view.from + width;
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => { pending = false; for (const one of watchers) one(); });
}
function show_all() { const all = span_of_all(), begin = begin_of_all(); changed({from: begin - 0.02 * all, to: begin + 1.02 * all}); }
function zoom(factor, at = (view.from + view.to) / 2) {
  changed({from: at - (at - view.from) * factor, to: at + (view.to - at) * factor});
}
function bring(from, to) {
  const room = Math.max((to - from) * 0.6, 20000);
  changed({from: from - room, to: to + room});
}
const kept = {w: "", log: 0, seq: 0, d: -1, topic: "", broker: "", rule: "", kind: "", q: "", all: ""};
let storing = 0;
function store() {
  clearTimeout(storing);
  storing = setTimeout(() => {
    const now = {w: `${Math.round(view.from)},${Math.round(view.to)}`, log: view.log, seq: view.seq, d: view.decision,
      topic: view.topic, broker: view.broker, rule: view.rule, kind: view.kind, q: view.find, all: view.quiet ? "1" : ""};
    const pairs = Object.entries(now).filter(([name, value]) => String(value) !== String(kept[name]));
    history.replaceState(null, "", "#" + new URLSearchParams(pairs).toString());
  }, 150);
}
function restore(fragment) {
  const asked = new URLSearchParams(fragment.slice(1)), [from, to] = (asked.get("w") || "").split(",").map(Number);
  const number = (name, other) => Number.isFinite(Number(asked.get(name) ?? NaN)) ? Number(asked.get(name)) : other;
  const log = asked.get("log") || "0", has_log = logs[log] instanceof Log;
  // The page names a log or an event that does not exist, so it keeps what is not a number.
  Object.assign(view, {log: has_log ? Number(log) : 0, no_log: has_log ? "" : log, seq: number("seq", asked.get("seq") || 0), decision: number("d", -1),
    topic: asked.get("topic") || "", broker: asked.get("broker") || "", rule: asked.get("rule") || "", kind: asked.get("kind") || "",
    find: asked.get("q") || "", quiet: asked.get("all") === "1"});
  if (to > from) changed({from, to}); else show_all();
}
watchers.push(store);
const shown = () => logs[view.log];
