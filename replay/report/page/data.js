"use strict";
// The data of the page: unpacks columns, and finds rows by time and by number.
const unpack = text => JSON.parse(fflate.strFromU8(fflate.unzlibSync(Uint8Array.from(atob(text), c => c.charCodeAt(0)))));

class Table {
  // Events or decisions: columns at once, the texts of some thousand rows when they are needed.
  constructor(packed) {
    Object.assign(this, unpack(packed.columns));
    this.parts = packed.texts; this.size = packed.rows; this.unpacked = []; this.length = this.seq.length;
  }
  text(row) {
    const part = Math.floor(row / this.size);
    this.unpacked[part] ??= unpack(this.parts[part]);
    return this.unpacked[part][row % this.size];
  }
  names_of(row) { return this.subjects[row].map(one => this.names[one]); }
}

class Log {
  constructor(data) {
    Object.assign(this, data);
    this.made = {};
  }
  once(name, make) { return this.made[name] ??= make(); }
  get lane_data() { return this.once("lanes", () => unpack(this.lanes)); }
  get was_controller() { return this.failovers.length > 0 || this.counts[0].length > 0; }
  get texts() { return this.lane_data.texts; }
  get event_table() { return this.once("events", () => new Table(this.events)); }
  get decision_table() { return this.once("decisions", () => new Table(this.decisions)); }
  // Both in the order of events: [is a decision, row]; the decisions of an event follow it.
  get order() {
    return this.once("order", () => {
      const found = [], events = this.event_table, decisions = this.decision_table;
      for (let e = 0, d = 0; e < events.length; e++) {
        found.push(e * 2);
        for (; d < decisions.length && decisions.seq[d] <= events.seq[e]; d++) found.push(d * 2 + 1);
      }
      return found;
    });
  }
  row_of(seq) { const at = lower(this.event_table.seq, seq); return this.event_table.seq[at] === seq ? at : -1; }
  at_of(seq) { const row = this.row_of(seq); return row < 0 ? null : this.event_table.at[row]; }
  iso(us) { const all = this.beginUs + us, ms = Math.floor(all / 1000);
    return new Date(ms).toISOString().slice(0, -1) + String(all - ms * 1000).padStart(3, "0") + "Z"; }
}

// The first place in a sorted list whose value is not below `value`.
function lower(list, value, key = one => one) {
  let low = 0, high = list.length;
  while (low < high) { const mid = (low + high) >> 1; if (key(list[mid]) < value) low = mid + 1; else high = mid; }
  return low;
}

function element(tag, fields = {}, ...children) {
  const one = document.createElement(tag);
  for (const [name, value] of Object.entries(fields)) {
    if (name in one && !name.includes("-")) one[name] = value; else one.setAttribute(name, value);
  }
  one.append(...children);
  return one;
}
const by_id = name => document.getElementById(name);
const elapsed = us => us >= 1e6 || us <= -1e6 ? `+${(us / 1e6).toFixed(3)} s` : `+${(us / 1e3).toFixed(1)} ms`;
