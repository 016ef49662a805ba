"use strict";
// Puts the page together.
function fill(id, name, values) {
  const box = by_id(id);
  box.append(element("option", {value: "", textContent: "all"}), ...values.map(one => element("option", {value: one, textContent: one})));
  known[name] = new Set(values); box.onchange = () => changed({[name]: box.value});
}
// The filters show what is selected, also a value of an address that no log has.
const known = {};
function show_filters() {
  for (const [name, values] of Object.entries(known)) {
    const box = by_id(name); box.querySelector("[data-unknown]")?.remove();
    if (is_unknown(name)) box.append(element("option", {value: view[name], textContent: `${view[name]} (unknown)`, "data-unknown": ""}));
    box.value = view[name];
  }
  by_id("search").value = view.find; by_id("quiet").checked = view.quiet;
  const missing = Object.keys(known).filter(is_unknown).map(name => `No ${name} is named ${view[name]}: choose another one.`);
  if (view.no_log !== "") missing.push(`No log has the number ${view.no_log}: choose another one.`);
  else if (view.seq && shown().row_of(view.seq) < 0) missing.push(`No event${letter(view.log) && ` of log ${letter(view.log)}`} has the number ${view.seq}: choose another one.`);
  by_id("unknown").textContent = missing.join(" ");
}
function is_unknown(name) { return view[name] !== "" && !known[name].has(view[name]); }
function names_by(make) { return [...new Set(logs.flatMap(make))].filter(Boolean).sort(); }
function make_filters() {
  const lanes = logs.flatMap(one => one.lane_data.lanes);
  fill("topic", "topic", [...new Set(lanes.filter(one => one[0] === "partition").map(one => one[1].replace(/-\d+$/, "")))].sort());
  fill("broker", "broker", [...new Set(lanes.filter(one => one[0] === "broker").map(one => one[1]))]);
  fill("rule", "rule", names_by(log => [...new Set(log.decision_table.rule)].map(n => log.decision_table.names[n])));
  fill("kind", "kind", names_by(log => [log.event_table, log.decision_table].flatMap(t => [...new Set(t.kind)].map(n => t.names[n]))));
  by_id("search").oninput = event => changed({find: event.target.value});
  by_id("quiet").onchange = event => changed({quiet: event.target.checked});
  by_id("filters").onsubmit = event => event.preventDefault();
  by_id("in").onclick = () => zoom(0.5); by_id("out").onclick = () => zoom(2); by_id("all").onclick = show_all;
  by_id("switch").hidden = logs.length < 2; by_id("switch").onclick = other_log;
  by_id("table").onclick = lane_table;
  watchers.push(show_filters); show_filters();
}
// The next log, if there are several. If the selected event has a counterpart in a compared log, this event is selected.
function other_log() {
  if (logs.length < 2) return;
  const is_selected = ([log, seq]) => log === view.log && seq === view.seq;
  const other = comparison?.pairs.find(pair => pair.some(is_selected))?.find(one => !is_selected(one));
  const [log, seq] = other ?? [(view.log + 1) % logs.length, 0];
  changed({log, seq, decision: -1});
}
function lane_table() {
  const box = by_id("lane-table"); box.hidden = !box.hidden; if (box.hidden) return;
  const log = shown(), body = element("tbody");
  for (const [group, name, , spans] of log.lane_data.lanes) for (const [begin, end, state, text, seq] of spans.slice(0, 200)) {
    if (end < view.from || begin > view.to) continue;
    body.append(element("tr", {}, ...[group, name, log.texts[state], log.texts[text], log.iso(begin), elapsed(end - begin).slice(1)].map(one => element("td", {textContent: one})), element("td", {}, jump(seq))));
    if (body.children.length >= 2000) break;
  }
  const head = element("tr", {}, ...["lane", "name", "state", "details", "from", "for", "since"].map(one => element("th", {textContent: one})));
  box.replaceChildren(element("table", {}, element("caption", {textContent: "The lanes in the visible window"}), element("thead", {}, head), body));
}
function follow(which) {
  const one = links(shown())[which][0]; if (one === undefined) return;
  select(one); reveal();
}
// Browsers empty a search field when Escape is pressed.
function leave_field(field) {
  if (field.id === "search") { field.value = ""; changed({find: ""}); }
  field.blur();
}
function on_key(event) {
  if (/INPUT|SELECT|TEXTAREA/.test(event.target.tagName)) { if (event.key === "Escape") leave_field(event.target); return; }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const width = view.to - view.from, pan = by => changed({from: view.from + by * width, to: view.to + by * width});
  const scroll = by => { for (const one of timelines) one.top += by; changed(); };
  const keys = {"+": () => zoom(0.7), "=": () => zoom(0.7), "-": () => zoom(1.4), ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15),
    ArrowUp: () => scroll(-3), ArrowDown: () => scroll(3), "0": show_all, j: () => step_row(1), k: () => step_row(-1), c: () => follow("causes"),
    e: () => follow("effects"), "/": () => by_id("search").focus(), t: lane_table, s: other_log, Escape: () => select(0)};
  if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
}
// A canvas keeps the colours in which it was drawn.
function redraw() { for (const one of timelines) one.draw(); for (const [one] of plots) one.redraw(); }
const dark_scheme = matchMedia("(prefers-color-scheme:dark)");
// On paper: light colours, and everything that a screen shows folded or scrolls.
function print_all() {
  const root = document.documentElement; let theme, closed = [];
  addEventListener("beforeprint", () => { on_paper = true; theme = root.dataset.theme || ""; root.dataset.theme = "light";
    closed = [...document.querySelectorAll("details:not([open])")]; for (const one of closed) one.open = true; redraw(); });
  addEventListener("afterprint", () => { on_paper = false; if (theme) root.dataset.theme = theme; else delete root.dataset.theme;
    for (const one of closed) one.open = false; redraw(); });
}
const timelines = [];
function begin() {
  restore(location.hash);
  const about = log => `${log.iso(log.startUs)} to ${log.iso(log.endUs)}, ${((log.endUs - log.startUs) / 1e6).toFixed(3)} s; events ${log.firstSeq} to ${log.lastSeq}; ${log.recordedBy}`;
  by_id("title").textContent = given.title;
  by_id("about").textContent = logs.map((log, index) => (letter(index) && `${letter(index)}: `) + about(log)).join("\n");
  by_id("theme").onclick = () => { const root = document.documentElement, is_dark = root.dataset.theme ? root.dataset.theme === "dark" : dark_scheme.matches;
    root.dataset.theme = is_dark ? "light" : "dark"; redraw(); };
  dark_scheme.addEventListener("change", redraw);
  by_id("help").onclick = event => { by_id("keys").hidden = !by_id("keys").hidden; event.target.setAttribute("aria-expanded", String(!by_id("keys").hidden)); };
  make_comparison(); make_findings();
  logs.forEach((log, index) => timelines.push(new Timeline(log, index)));
  watchers.push(() => timelines.forEach(one => one.draw()), draw_list, draw_detail, () => mark_finding());
  make_plots(); print_all(); changed();
  by_id("list").addEventListener("scroll", draw_rows);
  addEventListener("resize", () => changed()); addEventListener("keydown", on_key);
  // The address of the event: the page may have stored its view in location since.
  addEventListener("hashchange", event => restore(new URL(event.newURL).hash));
  // After the first picture: the filters need all columns.
  if (given.version) follow_log();
  requestAnimationFrame(() => requestAnimationFrame(() => { performance.mark("painted"); setTimeout(make_filters, 0); }));
}
begin();
