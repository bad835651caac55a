// page_logic.js: asks the model of the report's page what the tests of Python cannot.
"use strict";

const Model = require(process.argv[2]);
const assert = (ok, what) => { if (!ok) throw new Error(what); };
let seed = 7;
const random = () => (seed = (seed * 1103515245 + 12345) % 2147483648) / 2147483648;
// Rows of events that do not overlap, many of them narrow.
for (let round = 0; round < 30; round++) {
  const n = 1 + Math.floor(random() * 400);
  const start = new Float64Array(n), duration = new Float64Array(n);
  let t = 0;
  for (let i = 0; i < n; i++) {
    t += random() < 0.5 ? 0 : random() * 3;
    start[i] = t;
    duration[i] = random() < 0.8 ? random() * 0.01 : random() * 20;
    t += duration[i];
  }
  const zeros = new Uint16Array(n);
  const timeline = new Model.Timeline({ start, duration, thread: zeros, depth: zeros }, [{ depth: 1 }]);
  for (const [from, to] of [[0, t], [t * 0.3, t * 0.4], [t * 0.99, t * 2 + 1]]) {
    let counted = 0, last = -1e9;
    const width = 50;
    timeline.spans(0, from, to, width, (i, left, right, merged) => {
      counted += merged;
      assert(left >= last - 1, "spans overlap");
      assert(right > left, "a span without width");
      last = merged === 1 && right - left > 1 ? right : left;
    });
    let expected = 0;
    for (let i = 0; i < n; i++) if (start[i] + duration[i] > from && start[i] < to) expected++;
    // What begins in the last pixel, behind the edge, may be counted with it.
    assert(counted >= expected && counted <= expected + n * 0.5, `${counted} of ${expected}`);
    if (from === 0) assert(counted === n, `${counted} of ${n}`);
  }
  for (let k = 0; k < 50; k++) {
    const i = Math.floor(random() * n);
    if (duration[i] > 0) assert(timeline.at(0, start[i] + duration[i] / 2, 0) === i, "at");
  }
  assert(timeline.at(0, -10, 0) === -1, "before all");
}
// Work depends on the width, not on the events.
{
  const n = 1_000_000;
  const start = new Float64Array(n), duration = new Float64Array(n).fill(0.5);
  for (let i = 0; i < n; i++) start[i] = i;
  const zeros = new Uint16Array(n);
  const timeline = new Model.Timeline({ start, duration, thread: zeros, depth: zeros }, [{ depth: 1 }]);
  let calls = 0;
  timeline.spans(0, 0, n, 1000, () => calls++);
  assert(calls <= 1001, `${calls} marks for 1000 pixels`);
}
// Memory: levels and the highest moment, against a plain walk.
for (const n of [0, 1, 63, 64, 65, 500]) {
  const time = new Float64Array(n), change = new Float64Array(n), category = new Uint8Array(n);
  for (let i = 0; i < n; i++) {
    time[i] = i + 1; change[i] = Math.floor(random() * 2000 - 900); category[i] = Math.floor(random() * 3);
  }
  const memory = new Model.Memory({ name: "cpu", before: [10, 20, 30] }, { time, change, category }, 3);
  const level = [10, 20, 30];
  let peak = 60;
  const totals = [60];
  for (let i = 0; i < n; i++) {
    level[category[i]] += change[i];
    totals.push(level[0] + level[1] + level[2]);
    peak = Math.max(peak, totals[i + 1]);
    assert(String([...memory.levelsAt(i + 1)]) === String(level), "levels");
  }
  assert(memory.total[memory.peak] === peak, "peak");
  for (let k = 0; k < 100; k++) {
    const a = Math.floor(random() * (n + 1)), b = a + Math.floor(random() * (n + 1 - a));
    assert(memory.total[memory.highestIn(a, b)] === Math.max(...totals.slice(a, b + 1)), "highest");
  }
  assert(memory.index(0.5) === 0 && memory.index(n + 1) === n, "index");
}
assert(String(Model.matching(["aten::add", "conv one", "conv two"], "CONV t")) === "false,false,true", "search");
assert(Model.matching(["a"], "  ") === null, "no search");
assert(Model.time(0) === "0.0 µs" && Model.time(1234) === "1.23 ms" && Model.time(2.5e6) === "2.500 s", "time");
assert(Model.bytes(1536) === "1.50 KiB" && Model.rate(2.5e9, "B/s") === "2.50 GB/s", "sizes");
console.log("fine");
