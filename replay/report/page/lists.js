"use strict";
// The findings, the list of events and decisions in the window, and the details of the selection.
const HEIGHT = 24, BRIEF = 90;
// The finding that was chosen last is marked while its event is selected.
let marked = null;
function mark_finding(chosen = marked) {
  if (marked) marked.button.removeAttribute("aria-current");
  marked = chosen && chosen.seq === view.seq && chosen.index === view.log ? chosen : null;
  if (marked) marked.button.setAttribute("aria-current", "true");
}
function make_findings() {
  logs.forEach((log, index) => {
    for (const [kind, severity, text, seq, begin, end] of log.findings) {
      const label = element("span", {className: severity, textContent: `${letter(index)} ${kind}`.trim()});
      const button = element("button", {type: "button"}, label, element("span", {textContent: text}));
      button.onclick = () => { select(seq, -1, index); bring(begin, end); mark_finding({button, seq, index}); };
      by_id("findings").append(element("li", {}, button));
    }
    if (!log.findings.length) by_id("findings").append(element("li", {textContent: `${letter(index) && `${letter(index)}: `}Nothing unusual happened.`}));
    for (const one of log.notes) by_id("notes").append(element("li", {textContent: one}));
    for (const [name, seq, begin, end, epoch, steps] of log.failovers) {
      const total = Math.max(1, end - begin), body = element("tbody");
      for (const [text, rule, at, from, to, count] of steps) {
        const bar = element("span", {className: "bar"}); bar.style.width = `${Math.max(1, (to - from) / total * 100)}%`; bar.style.marginLeft = `${(from - begin) / total * 100}%`; bar.style.maxWidth = "100%";
        body.append(element("tr", {}, element("td", {}, jump(at, index)), element("td", {textContent: rule}), element("td", {textContent: count > 1 ? `${text} and ${count - 1} more` : text}),
          element("td", {className: "n", textContent: elapsed(to - from).slice(1)}), element("td", {width: "25%"}, bar)));
      }
      const head = element("tr", {}, ...["event", "rule", "step", "took", ""].map(one => element("th", {textContent: one})));
      by_id("failovers").append(element("details", {}, element("summary", {textContent: `${letter(index)} ${log.iso(begin)}: ${name}, epoch ${epoch}, ${elapsed(total).slice(1)}, ${steps.length} steps`.trim()}), element("table", {}, element("thead", {}, head), body)));
    }
  });
}
function jump(seq, index = view.log) {
  const one = element("button", {className: "link", type: "button", textContent: `event ${seq}`});
  one.onclick = () => { select(seq, -1, index); reveal(); };
  return one;
}
function select(seq, decision = -1, index = view.log) { changed({seq, decision, log: index}); }
function reveal() {
  const at = shown().at_of(view.seq); if (at === null) return;
  if (at < view.from || at > view.to) { const half = (view.to - view.from) / 2; changed({from: at - half, to: at + half}); }
}
// The causes and effects of the selected event, by numbers.
function links(log) {
  if (log.linked === view.seq + "/" + view.decision) return log.links;
  const causes = new Set(), effects = new Set();
  if (!view.seq) return {causes: [], effects: []};
  const {event_table: events, decision_table: decisions} = log, row = log.row_of(view.seq);
  if (row >= 0) events.causes[row].forEach(one => causes.add(one));
  if (view.decision < 0) events.causes.forEach((of, e) => { if (of.includes(view.seq)) effects.add(events.seq[e]); });
  for (let d = 0; d < decisions.length; d++) {
    if (decisions.seq[d] === view.seq && (view.decision < 0 || view.decision === d)) {
      if (decisions.cause[d] && decisions.cause[d] !== view.seq) causes.add(decisions.cause[d]);
      decisions.outcomes[d].forEach(one => effects.add(one));
    } else if (decisions.cause[d] === view.seq && view.decision < 0 && decisions.rule[d]) effects.add(decisions.seq[d]);
  }
  causes.delete(view.seq); effects.delete(view.seq);
  log.linked = view.seq + "/" + view.decision;
  return log.links = {causes: [...causes].sort((a, b) => a - b), effects: [...effects].sort((a, b) => a - b)};
}
function fitting() {
  const log = shown(), key = [view.log, view.from, view.to, view.topic, view.broker, view.rule, view.kind, view.find].join("|");
  if (log.fit_key === key) return log.fit;
  log.fit_key = key;
  const {event_table: events, decision_table: decisions, order} = log, find = view.find.toLowerCase();
  const at_of = code => code & 1 ? decisions.at[code >> 1] : events.at[code >> 1];
  log.fit = [];
  for (let n = lower(order, view.from, at_of); n < order.length && at_of(order[n]) <= view.to; n++) {
    const code = order[n], row = code >> 1, table = code & 1 ? decisions : events;
    if (view.kind && table.names[table.kind[row]] !== view.kind) continue;
    if (view.rule && (!(code & 1) || table.names[table.rule[row]] !== view.rule)) continue;
    if (view.topic && !table.names_of(row).includes(view.topic)) continue;
    if (view.broker && !table.names_of(row).includes(view.broker)) continue;
    if (find && !table.text(row).toLowerCase().includes(find) && !table.names_of(row).some(one => one.toLowerCase().includes(find))) continue;
    log.fit.push(code);
  }
  return log.fit;
}
function seq_of(code) { const log = shown(); return code & 1 ? log.decision_table.seq[code >> 1] : log.event_table.seq[code >> 1]; }
function is_selected(code) { return seq_of(code) === view.seq && (view.decision < 0 ? !(code & 1) : code === view.decision * 2 + 1); }
let settling = 0, last_list = "";
function draw_list() {
  clearTimeout(settling);
  // Filtering all rows in each frame of a movement is slow: the list follows when it ends.
  settling = setTimeout(() => { const found = fitting();
    by_id("list-title").textContent = `Events and decisions: ${found.length.toLocaleString("en")} in the window`;
    by_id("rows").style.height = `${found.length * HEIGHT}px`;
    const key = view.log + "/" + view.seq + "/" + view.decision;
    if (key !== last_list) { last_list = key; const place = found.findIndex(is_selected), list = by_id("list");
      if (place >= 0 && (place * HEIGHT < list.scrollTop || place * HEIGHT > list.scrollTop + list.clientHeight - HEIGHT)) list.scrollTop = place * HEIGHT - 100; }
    draw_rows(); }, 60);
}
function draw_rows() {
  const list = by_id("list"), found = fitting(), log = shown(), index = view.log, first = Math.max(0, Math.floor(list.scrollTop / HEIGHT) - 5);
  by_id("rows").replaceChildren(...found.slice(first, first + Math.ceil(list.clientHeight / HEIGHT) + 10).map((code, n) => {
    const is_decision = code & 1, table = is_decision ? log.decision_table : log.event_table, row = code >> 1;
    const one = element("div", {className: `row ${is_decision ? "decision" : "event"}`, role: "option", title: table.text(row)},
      element("i", {textContent: `${table.seq[row]}  ${elapsed(table.at[row])}`}), `${is_decision ? "decided: " : ""}${table.text(row)}`);
    one.setAttribute("aria-selected", String(is_selected(code))); one.style.top = `${(first + n) * HEIGHT}px`;
    one.onclick = () => select(table.seq[row], is_decision ? row : -1, index);
    return one;
  }));
}
function step_row(by) {
  const found = fitting(), place = found.findIndex(is_selected), code = found[Math.max(0, Math.min(found.length - 1, place < 0 ? 0 : place + by))];
  if (code !== undefined) select(seq_of(code), code & 1 ? code >> 1 : -1);
}
// A text without its end if it is long; the mouse shows all of it.
function brief(text) {
  if (text.length <= BRIEF) return text;
  const space = text.lastIndexOf(" ", BRIEF), begin = text.slice(0, space > BRIEF / 2 ? space : BRIEF);
  return element("span", {textContent: `${begin} \u2026`, title: text});
}
function draw_detail() {
  const log = shown(), box = by_id("detail"), row = log.row_of(view.seq), key = `${view.log}/${view.seq}/${view.decision}`;
  if (box.dataset.key === key) return;
  box.dataset.key = key; box.replaceChildren();
  if (row < 0) { box.textContent = "Select a finding, an event or a decision to see its cause and its effects."; return; }
  const events = log.event_table, decisions = log.decision_table, list = element("dl");
  const add = (name, ...what) => list.append(element("dt", {textContent: name}), element("dd", {}, ...what));
  const buttons = seqs => seqs.slice(0, 20).flatMap(one => [jump(one), " ", brief(log.row_of(one) < 0 ? "" : events.text(log.row_of(one))), element("br")]);
  add("event", `${view.seq}: ${events.text(row)}`);
  add("time", `${log.iso(events.at[row])} (${elapsed(events.at[row])}), term ${events.term[row]}`);
  const {causes, effects} = links(log);
  let shown_count = 0;
  for (let d = lower(decisions.seq, view.seq); d < decisions.length && decisions.seq[d] === view.seq; d++) {
    if (view.decision >= 0 && view.decision !== d) continue;
    if (shown_count++ >= 12) { add("", "and more decisions: see the list"); break; }
    add(decisions.command[d] ? `decision ${decisions.command[d]}` : "decision", decisions.text(d));
    const name = n => decisions.names[n];
    if (name(decisions.rule[d])) add("rule", name(decisions.rule[d]) + (["", "agreed"].includes(name(decisions.verdict[d])) ? "" : ` (${name(decisions.verdict[d])})`));
    if (name(decisions.why[d])) add("because", name(decisions.why[d]));
    for (const [partition, chosen, why, passed] of decisions.choices[d].slice(0, 8))
      add("", `${partition}: ${chosen < 0 ? "no leader" : `leader ${chosen}`}, ${why}` + (passed.length ? `; passed over: ${passed.map(([broker, text]) => `${broker} is ${text}`).join(", ")}` : ""));
  }
  for (const [, what, lines] of log.differing.filter(one => one[0] === view.seq).slice(0, 12))
    add("refold diff", what, ...lines.flatMap(one => [element("br"), one]));
  if (causes.length) add("caused by", ...buttons(causes));
  if (effects.length) add("effects", ...buttons(effects));
  const looks = log.findings.filter(one => one[3] === view.seq && one[7]);
  for (const one of looks) add("look at", element("code", {textContent: one[7]}));
  box.append(list);
}
