"use strict";
// The lanes, on a canvas. Only what is visible is drawn; spans narrower than a pixel are drawn once.
const colours = {online: "#4c9f70", "under-replicated": "#e0a030", offline: "#d64545", "not known": "#9aa4af", active: "#4878a8",
  "failing over": "#c77d2e", procedure: "#8a7cc2", registered: "#4c9f70", "not registered": "#d64545", session: "#5b8fb9", moving: "#4878a8",
  "rolling back": "#c77d2e", waiting: "#e0a030"};
const LABEL = 190, ROW = 20, AXIS = 52;
// On paper: so many lanes fit on a landscape page too, and browsers draw no canvas of any size.
const SHEET = {width: 1000, rows: 30, max: 20};
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const bad_marks = new Set(["unclean election", "problem", "failover_failed", "expired", "error", "gone", "differs"]);

let on_paper = false;
class Timeline {
  constructor(log, index) {
    this.log = log; this.index = index; this.top = 0; this.sheets = [];
    this.canvas = element("canvas", {tabIndex: 0, role: "img"});
    this.canvas.setAttribute("aria-label", `Lanes of ${log.path}. The button Table shows them as a table.`);
    const title = `${letter(index)}: ${log.path}`;
    if (logs.length > 1 && !log.was_controller) {
      // There is little to see, so the lanes are folded.
      this.box = element("details", {className: "lanes", ontoggle: () => changed()}, element("summary", {textContent: `${title}, never controller`}), this.canvas);
    } else this.box = element("div", {className: "lanes"}, ...(logs.length > 1 ? [element("h3", {textContent: title})] : []), this.canvas);
    by_id("lines").append(this.box);
    this.listen();
  }
  lanes() {
    const key = `${view.quiet}|${view.topic}|${view.broker}`;
    if (this.key === key) return this.visible;
    this.key = key;
    const is_quiet = lane => lane[0] === "partition" && lane[2] <= 0.002;
    const all = this.log.lane_data.lanes;
    const of_topic = lane => !view.topic || !["partition", "reassignment"].includes(lane[0]) ||
      lane[1].split(":")[0].replace(/-\d+$/, "") === view.topic;
    const of_broker = lane => !view.broker || lane[0] !== "broker" || lane[1] === view.broker;
    this.visible = all.filter(one => (view.quiet || !is_quiet(one) || view.topic) && of_topic(one) && of_broker(one));
    this.hidden = all.filter(one => is_quiet(one)).length * (view.quiet || view.topic ? 0 : 1);
    return this.visible;
  }
  x(us) { return LABEL + (us - view.from) / (view.to - view.from) * (this.width - LABEL); }
  us(x) { return view.from + (x - LABEL) / (this.width - LABEL) * (view.to - view.from); }
  // The lanes, and a row that counts the hidden ones.
  row_count() { return this.lanes().length + (this.hidden ? 1 : 0); }
  draw() {
    for (const one of this.sheets.splice(0)) one.remove();
    if (on_paper) { this.draw_sheets(); return; }
    const count = this.row_count(), rows = Math.min(count, logs.length > 1 ? 12 : 22);
    this.top = Math.max(0, Math.min(this.top, count - rows));
    this.draw_on(this.canvas, this.box.clientWidth, rows);
  }
  // Paper does not scroll: the lanes that have no room on the canvas of the screen are on more canvases.
  draw_sheets() {
    const count = this.row_count(), printed = Math.min(count, SHEET.rows * SHEET.max), top = this.top;
    for (this.top = 0; this.top < printed; this.top += SHEET.rows) {
      const canvas = this.top ? this.add_sheet(element("canvas")) : this.canvas;
      this.draw_on(canvas, SHEET.width, Math.min(SHEET.rows, printed - this.top));
    }
    if (count > printed) this.add_sheet(element("p", {textContent: `${count - printed} more lanes are not printed: choose a topic or a broker before you print.`}));
    this.top = top;
  }
  add_sheet(one) { this.sheets.push(one); this.box.append(one); return one; }
  draw_on(canvas, width, rows) {
    const lanes = this.lanes(), height = AXIS + rows * ROW + 4, scale = devicePixelRatio || 1, size = [width, height].map(one => Math.round(one * scale));
    Object.assign(this, {width, height, rows});
    if (canvas.width !== size[0] || canvas.height !== size[1]) { [canvas.width, canvas.height] = size; canvas.style.height = `${height}px`; }
    const g = this.g = canvas.getContext("2d");
    g.setTransform(scale, 0, 0, scale, 0, 0); g.font = "12px system-ui,sans-serif"; g.textBaseline = "middle";
    this.c = {fg: css("--fg"), dim: css("--dim"), line: css("--line"), bg: css("--bg"), panel: css("--panel"), sel: css("--accent")};
    g.fillStyle = this.c.bg; g.fillRect(0, 0, width, height);
    this.axis();
    g.save(); g.beginPath(); g.rect(0, AXIS, width, height); g.clip();
    for (let row = 0; row < rows; row++) {
      const lane = lanes[this.top + row], y = AXIS + row * ROW;
      if (!lane) { g.fillStyle = this.c.dim; g.fillText(`${this.hidden === 1 ? "1 partition without changes is" : `${this.hidden} partitions without changes are`} hidden: "all partitions"`, 8, y + 10); break; }
      this.lane(lane, y, row, lanes[this.top + row - 1]);
    }
    g.restore();
    this.branch();
    this.first_difference();
    this.selection(lanes);
  }
  // Before it continues the other log, a run only sets up its cluster.
  branch() {
    if (!comparison || !comparison.branch) return;
    const [side, at] = comparison.branch, g = this.g, x = this.x(at), begun = Math.max(LABEL, this.x(this.log.startUs));
    if (x < LABEL || this.log.startUs > at) return;
    const is_run = side === side_of(this.index);
    if (is_run) { g.globalAlpha = 0.6; g.fillStyle = this.c.bg; g.fillRect(begun, AXIS, Math.min(x, this.width) - begun, this.height); g.globalAlpha = 1; }
    if (x > this.width) return;
    g.fillStyle = this.c.sel; g.fillRect(x, AXIS - 8, 1.5, this.height); g.fillText(is_run ? "continues" : "continued", Math.max(x + 3, begun + 34), AXIS - 8);
  }
  first_difference() {
    const first = comparison && comparison.differences[0]; if (!first) return;
    const x = this.x(first[2]), g = this.g; if (x < LABEL || x > this.width) return;
    g.save(); g.strokeStyle = g.fillStyle = this.c.fg; g.setLineDash([4, 3]); g.beginPath(); g.moveTo(x, AXIS - 8); g.lineTo(x, this.height); g.stroke(); g.restore();
  }
  axis() {
    const g = this.g, {from, to} = view, per = (to - from) / Math.max(1, (this.width - LABEL) / 110);
    const power = 10 ** Math.floor(Math.log10(per)), step = [1, 2, 5, 10].map(n => n * power).find(n => n >= per);
    g.fillStyle = this.c.panel; g.fillRect(0, 0, this.width, AXIS); g.fillStyle = this.c.dim;
    g.fillText("wall clock (UTC)", 8, 11); g.fillText("elapsed", 8, 28);
    let free = LABEL;
    for (let at = Math.ceil(from / step) * step; at < to; at += step) {
      const x = this.x(at); if (x < LABEL) continue;
      g.fillStyle = this.c.line; g.fillRect(x, 0, 1, this.height); g.fillStyle = this.c.dim;
      // The last label moves to the left if it would be cut off, unless it would cover the one before.
      const texts = [this.log.iso(Math.round(at)).slice(11, step < 1000 ? 26 : step < 1e6 ? 23 : 19), elapsed(at)];
      const width = Math.max(...texts.map(one => g.measureText(one).width)), left = Math.min(x + 3, this.width - width - 4);
      if (left < free) continue;
      free = left + width + 6; g.fillText(texts[0], left, 11); g.fillText(texts[1], left, 28);
    }
    this.ends();
  }
  // The words of a short log are outside of it.
  ends() {
    const g = this.g, xs = [this.log.startUs, this.log.endUs].map(at => this.x(at)), is_short = xs[1] - xs[0] < 64;
    for (const [n, text] of ["start", "end"].entries()) {
      const x = xs[n], width = g.measureText(text).width; if (x < LABEL || x > this.width) continue;
      g.fillStyle = this.c.fg; g.fillRect(x, 0, 1.5, this.height);
      g.fillText(text, Math.min((n === 0) === is_short ? x - width - 3 : x + 4, this.width - width - 4), AXIS - 8);
    }
  }
  lane(lane, y, row, above) {
    const g = this.g, [, name, , spans, marks] = lane, texts = this.log.texts;
    if (row % 2) { g.fillStyle = this.c.panel; g.fillRect(0, y, this.width, ROW); }
    if (!above || above[0] !== lane[0]) { g.fillStyle = this.c.line; g.fillRect(0, y, this.width, 1); }
    g.save(); g.beginPath(); g.rect(LABEL, y, this.width - LABEL, ROW); g.clip();
    const wide = []; let last = -1;
    for (let n = Math.max(0, lower(spans, view.from, one => one[0]) - 200); n < spans.length; n++) {
      const [begin, end, state, text] = spans[n];
      if (begin > view.to) break;
      if (end < view.from) continue;
      const x = Math.max(this.x(begin), LABEL - 1), w = Math.max(1, Math.min(this.x(end), this.width + 1) - x);
      const is_bad = texts[state] === "offline" || texts[state] === "not registered";
      if (w <= 1 && Math.floor(x) === last && !is_bad) continue;
      last = Math.floor(x);
      g.globalAlpha = texts[state] === "not known" ? 0.25 : 0.85; g.fillStyle = colours[texts[state]] || "#888";
      g.fillRect(x, y + 3, is_bad ? Math.max(w, 2) : w, ROW - 6); g.globalAlpha = 1;
      if (w > 40) wide.push([texts[text], x, x + w]);
    }
    const marked = []; last = -9; g.lineWidth = 1; g.strokeStyle = this.c.bg;
    for (let n = lower(marks, view.from, one => one[0]); n < marks.length && marks[n][0] <= view.to; n++) {
      const x = this.x(marks[n][0]), is_bad = bad_marks.has(texts[marks[n][1]]);
      if (x - last < 2 && !is_bad) continue;
      last = x; g.fillStyle = is_bad ? "#d64545" : this.c.fg; g.beginPath(); g.moveTo(x, y + 2); g.lineTo(x + 4, y + 10); g.lineTo(x, y + 18); g.lineTo(x - 4, y + 10); g.closePath(); g.fill(); g.stroke();
      marked.push(x);
    }
    g.fillStyle = "#fff";
    for (const [text, from, to] of wide) this.label(text, from, to, y + ROW / 2, marked);
    g.restore();
    g.save(); g.beginPath(); g.rect(0, y, LABEL - 6, ROW); g.clip(); g.fillStyle = this.c.fg; g.fillText(name, 8, y + ROW / 2); g.restore();
  }
  // The text of a span, where no mark covers it: in the first place that is wide enough, or in the widest one.
  label(text, from, to, y, marked) {
    const g = this.g, needed = g.measureText(text).width;
    let left = from + 4, best = [0, 0];
    for (let n = lower(marked, from - 6); best[1] < needed; n++) {
      const mark = n < marked.length && marked[n] < to + 6 ? marked[n] : Infinity, room = Math.min(mark - 6, to - 1) - left;
      if (room > best[1]) best = [left, room];
      if (mark === Infinity) break;
      left = Math.max(left, mark + 6);
    }
    if (best[1] >= 30) g.fillText(this.shortened(text, best[1]), best[0], y);
  }
  // What is cut off is marked: "replicas 1,2" might be the beginning of "replicas 1,2,3".
  shortened(text, room) {
    const g = this.g, width = g.measureText(text).width; if (width <= room) return text;
    let length = Math.floor(text.length * room / width);
    while (length > 0 && g.measureText(`${text.slice(0, length)}\u2026`).width > room) length--;
    return `${text.slice(0, length)}\u2026`;
  }
  // The selected event, with arrows from its cause and to its effects.
  selection(lanes) {
    if (!view.seq || view.log !== this.index) return;
    const at = this.log.at_of(view.seq); if (at === null) return;
    const g = this.g, {causes, effects} = links(this.log), x = this.x(at);
    if (x >= LABEL) { g.fillStyle = this.c.sel; g.fillRect(x - 0.75, AXIS, 1.5, this.height); }
    const point = seq => { const us = this.log.at_of(seq); return us === null ? null : [this.x(us), this.y_of(seq, lanes)]; };
    const here = point(view.seq);
    for (const one of causes) this.arrow(point(one), here, "#c77d2e");
    for (const one of effects.slice(0, 40)) this.arrow(here, point(one), this.c.sel);
  }
  y_of(seq, lanes) {
    const names = new Set(this.log.event_table.names_of(this.log.row_of(seq)));
    let row = lanes.findIndex(one => names.has(one[1]) && one[0] === "partition");
    if (row < 0) row = lanes.findIndex(one => names.has(one[1]));
    if (row < 0) row = lanes.findIndex(one => one[1] === "controller events");
    return AXIS + Math.max(0, Math.min(this.rows, row - this.top + 0.5)) * ROW;
  }
  arrow(a, b, colour) {
    if (!a || !b) return;
    const g = this.g, [x0, y0] = a, [x1, y1] = b, bend = Math.max(20, Math.abs(x1 - x0) / 3);
    if (x1 < LABEL && x0 < LABEL) return;
    g.strokeStyle = g.fillStyle = colour; g.lineWidth = 1.5; g.beginPath(); g.moveTo(x0, y0);
    g.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1 - 5, y1); g.stroke();
    g.beginPath(); g.moveTo(x1, y1); g.lineTo(x1 - 7, y1 - 4); g.lineTo(x1 - 7, y1 + 4); g.fill();
  }
  hit(event) {
    const box = this.canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const lane = this.lanes()[this.top + Math.floor((y - AXIS) / ROW)];
    if (!lane || y < AXIS) return null;
    const us = this.us(x), near = (view.to - view.from) / this.width * 5;
    const mark = lane[4].find(one => Math.abs(one[0] - us) <= near);
    if (mark) return {lane: lane[1], text: this.log.texts[mark[2]], seq: mark[3], at: mark[0]};
    const span = lane[3].findLast(one => one[0] <= us && us <= one[1]) || lane[3].find(one => Math.abs(one[0] - us) <= near);
    return span ? {lane: lane[1], text: `${this.log.texts[span[2]]}: ${this.log.texts[span[3]]}, ${elapsed(span[1] - span[0]).slice(1)}`, seq: span[4], at: span[0]} : {lane: lane[1], text: ""};
  }
  listen() {
    const canvas = this.canvas; let from = null;
    canvas.addEventListener("pointerdown", event => { from = {x: event.clientX, y: event.clientY, begin: view.from, end: view.to, moved: false, is_window: event.shiftKey}; canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener("pointermove", event => {
      if (!from) { const hit = this.hit(event); by_id("tip").textContent = hit ? `${hit.lane}: ${hit.text}${hit.seq ? ` (event ${hit.seq})` : ""}` : ""; return; }
      if (Math.abs(event.clientX - from.x) > 3) from.moved = true;
      if (!from.moved || from.is_window) return;
      const move = (event.clientX - from.x) / (this.width - LABEL) * (from.end - from.begin);
      changed({from: from.begin - move, to: from.end - move});
    });
    canvas.addEventListener("pointerup", event => {
      const begun = from; from = null; if (!begun) return;
      if (!begun.moved) { const hit = this.hit(event); if (hit && hit.seq) select(hit.seq, -1, this.index); return; }
      if (begun.is_window) { const box = canvas.getBoundingClientRect(), ends = [begun.x, event.clientX].map(x => this.us(x - box.left)).sort((a, b) => a - b); changed({from: ends[0], to: ends[1]}); }
    });
    canvas.addEventListener("wheel", event => {
      event.preventDefault();
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) { const move = (event.deltaX || event.deltaY) / this.width * (view.to - view.from); changed({from: view.from + move, to: view.to + move}); }
      else if (event.altKey) { this.top += Math.sign(event.deltaY) * 2; changed(); }
      else zoom(1.0015 ** event.deltaY, this.us(event.clientX - canvas.getBoundingClientRect().left));
    }, {passive: false});
  }
}
