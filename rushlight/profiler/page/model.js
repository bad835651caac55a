// model.js: what a report holds, and the questions that the views ask of it. It draws nothing, and
// runs in node as well, where tests ask it the same questions.
"use strict";

const Model = (() => {
  const ARRAYS = {
    f64: Float64Array, f32: Float32Array, u32: Uint32Array, u16: Uint16Array, u8: Uint8Array,
  };

  function bytesOf(base64) {
    const text = atob(base64.trim());
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return bytes;
  }

  // Columns of numbers: packed by zlib, each at its offset in one buffer.
  async function unpack(base64, layout) {
    const stream = new Blob([bytesOf(base64)]).stream()
      .pipeThrough(new DecompressionStream("deflate"));
    const buffer = await new Response(stream).arrayBuffer();
    const columns = {};
    for (const [name, type, offset, length] of layout) {
      columns[name] = new ARRAYS[type](buffer, offset, length);
    }
    return columns;
  }

  // The first index in [from, to) for which after(i) holds; `to` if there is none.
  function firstIndex(from, to, after) {
    while (from < to) {
      const middle = (from + to) >>> 1;
      if (after(middle)) to = middle; else from = middle + 1;
    }
    return from;
  }

  // The events of the time line, in rows: one per thread and depth.
  class Timeline {
    constructor(columns, threads) {
      this.start = columns.start;
      this.duration = columns.duration;
      this.columns = columns;
      this.threads = threads;
      this.count = this.start.length;
      let rows = 0;
      this.firstRow = threads.map((t) => { const first = rows; rows += t.depth; return first; });
      const counts = new Uint32Array(rows + 1);
      const rowOf = (i) => this.firstRow[columns.thread[i]] + columns.depth[i];
      for (let i = 0; i < this.count; i++) counts[rowOf(i) + 1]++;
      for (let r = 0; r < rows; r++) counts[r + 1] += counts[r];
      this.offsets = counts;
      this.order = new Uint32Array(this.count);
      const next = counts.slice();
      for (let i = 0; i < this.count; i++) this.order[next[rowOf(i)]++] = i;
      this.rows = rows;
      let end = 0;
      for (let i = 0; i < this.count; i++) end = Math.max(end, this.end(i));
      this.last = end;
    }

    end(i) { return this.start[i] + this.duration[i]; }

    // Calls emit(event, left, right, count) for what a row shows between two times, in pixels.
    // Events that begin within one pixel and are narrower are one mark, so that the work depends on
    // the width of the picture and hardly on how many events there are.
    spans(row, from, to, width, emit) {
      const { start, duration, order, offsets } = this;
      const scale = width / (to - from);
      const stop = offsets[row + 1];
      let at = firstIndex(offsets[row], stop, (k) => start[order[k]] + duration[order[k]] > from);
      while (at < stop) {
        const event = order[at];
        if (start[event] >= to) return;
        const left = (start[event] - from) * scale;
        const right = left + duration[event] * scale;
        if (right - left >= 1) {
          emit(event, left, right, 1);
          at++;
          continue;
        }
        const edge = Math.floor(left) + 1;
        const time = from + edge / scale;
        let next = at + 1;
        if (next < stop && start[order[next]] < time) {
          let step = 1;  // gallop, then halve
          while (next + step < stop && start[order[next + step]] < time) step *= 2;
          next = firstIndex(next, Math.min(stop, next + step + 1), (k) => start[order[k]] >= time);
          // The last of them may be wide.
          if (next - 1 > at && duration[order[next - 1]] * scale >= 1) next--;
        }
        emit(event, edge - 1, edge, next - at);
        at = next;
      }
    }

    // The event of a row at a time; or the nearest one within `slack`. -1: none.
    at(row, time, slack) {
      const { start, order, offsets } = this;
      const after = firstIndex(offsets[row], offsets[row + 1], (k) => start[order[k]] > time);
      if (after > offsets[row]) {
        const before = order[after - 1];
        if (time < this.end(before) + slack) return before;
      }
      if (after < offsets[row + 1] && start[order[after]] - time < slack) return order[after];
      return -1;
    }

    rowOf(i) { return this.firstRow[this.columns.thread[i]] + this.columns.depth[i]; }
  }

  // Which of the strings hold all words of a query: a mask by index, or null for no query.
  function matching(strings, query) {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return null;
    return strings.map((s) => {
      const text = s.toLowerCase();
      return words.every((w) => text.includes(w));
    });
  }

  // Memory of one device over time, by category.
  class Memory {
    constructor(device, columns, kinds) {
      this.name = device.name;
      this.kinds = kinds;
      this.before = device.before;  // bytes by category at time 0
      this.time = columns.time;
      this.change = columns.change;
      this.category = columns.category;
      const n = this.time.length;
      this.total = new Float64Array(n + 1);
      this.step = 64;  // levels are kept at every 64th change
      const kept = Math.floor(n / this.step) + 1;
      this.levels = new Float64Array(kept * kinds);
      this.highest = new Uint32Array(kept);  // the index of the largest total of each stretch
      const level = Float64Array.from(device.before);
      this.total[0] = level.reduce((a, b) => a + b, 0);
      for (let i = 0; i < n; i++) {
        if (i % this.step === 0) this.levels.set(level, (i / this.step) * kinds);
        level[this.category[i]] += this.change[i];
        this.total[i + 1] = this.total[i] + this.change[i];
      }
      if (n % this.step === 0) this.levels.set(level, (n / this.step) * kinds);
      for (let k = 0; k < kept; k++) {
        let best = k * this.step;
        const stop = Math.min(n + 1, (k + 1) * this.step);
        for (let i = best; i < stop; i++) if (this.total[i] > this.total[best]) best = i;
        this.highest[k] = best;
      }
      this.peak = 0;
      for (let i = 0; i <= n; i++) if (this.total[i] > this.total[this.peak]) this.peak = i;
    }

    // How many changes have happened by a time.
    index(time) { return firstIndex(0, this.time.length, (i) => this.time[i] > time); }
    timeOf(index) { return index === 0 ? 0 : this.time[index - 1]; }

    // The index of the highest total among the changes from index a to b, both included.
    highestIn(a, b) {
      let best = a;
      const take = (i) => { if (this.total[i] > this.total[best]) best = i; };
      while (a <= b && a % this.step !== 0) take(a++);
      while (a + this.step - 1 <= b) { take(this.highest[a / this.step]); a += this.step; }
      while (a <= b) take(a++);
      return best;
    }

    // Bytes by category after `index` changes.
    levelsAt(index) {
      const kept = Math.floor(index / this.step);
      const level = this.levels.slice(kept * this.kinds, (kept + 1) * this.kinds);
      for (let i = kept * this.step; i < index; i++) level[this.category[i]] += this.change[i];
      return level;
    }
  }

  function time(us) {
    const size = Math.abs(us);
    if (size >= 1e6) return `${(us / 1e6).toFixed(3)} s`;
    if (size >= 1e3) return `${(us / 1e3).toFixed(size >= 1e5 ? 1 : 2)} ms`;
    if (size >= 1 || us === 0) return `${us.toFixed(size >= 100 ? 0 : 1)} µs`;
    return `${(us * 1e3).toFixed(0)} ns`;
  }

  function scaled(value, units, base) {
    let unit = 0;
    while (Math.abs(value) >= base && unit < units.length - 1) { value /= base; unit++; }
    const digits = unit === 0 || Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
    return `${value.toFixed(digits)} ${units[unit]}`;
  }
  const bytes = (n) => scaled(n, ["B", "KiB", "MiB", "GiB", "TiB"], 1024);
  const rate = (n, unit) => scaled(n, ["", "K", "M", "G", "T", "P"].map((p) => p + unit), 1000);
  const count = (n) => n.toLocaleString("en-US");

  return { Timeline, Memory, bytes, bytesOf, count, firstIndex, matching, rate, time, unpack };
})();

if (typeof module !== "undefined") module.exports = Model;
