// roofline.js: what ops reach, against what the machine can do: bandwidth on the slope, arithmetic
// on the flat part. The larger a dot, the more time the op takes.
"use strict";

function rooflineView(report) {
  const { data } = report;
  const { points, peaks } = data.roofline;
  const [LEFT, BOTTOM, HEIGHT] = [86, 40, 460];
  const most = points.reduce((m, p) => Math.max(m, p.time), 0) || 1;
  const xs = points.map((p) => p.flops / p.bytes);
  const ys = points.map((p) => p.flops / p.time * 1e6);
  const ridge = peaks.flops / peaks.bytes;
  const lowest = (list, other) => 10 ** Math.floor(Math.log10(Math.min(...list, other)));
  const highest = (list, other) => 10 ** Math.ceil(Math.log10(Math.max(...list, other)));
  const [x0, x1] = [lowest(xs, ridge / 50), highest(xs, ridge * 10)];
  const [y0, y1] = [lowest(ys, peaks.flops / 1e3), highest(ys, peaks.flops * 1.5)];
  let placed = [];
  let mask = null;

  function draw(context, width, height) {
    const xOf = (v) => LEFT + Math.log10(v / x0) / Math.log10(x1 / x0) * (width - LEFT - 20);
    const yOf = (v) => height - BOTTOM - Math.log10(v / y0) / Math.log10(y1 / y0) * (height - BOTTOM - 16);
    context.strokeStyle = View.color("line");
    context.fillStyle = View.color("quiet");
    context.lineWidth = 1;
    for (let v = x0; v <= x1 * 1.001; v *= 10) {
      const x = Math.round(xOf(v)) + 0.5;
      context.beginPath(); context.moveTo(x, 10); context.lineTo(x, height - BOTTOM); context.stroke();
      context.textAlign = "center";
      context.fillText(String(Number(v.toPrecision(2))), x, height - BOTTOM + 14);
    }
    context.fillText("operations per byte", (LEFT + width) / 2, height - 8);
    context.textAlign = "right";
    for (let v = y0; v <= y1 * 1.001; v *= 10) {
      const y = Math.round(yOf(v)) + 0.5;
      context.beginPath(); context.moveTo(LEFT, y); context.lineTo(width - 20, y); context.stroke();
      context.fillText(Model.rate(v, "FLOP/s"), LEFT - 8, y);
    }
    context.textAlign = "left";
    context.strokeStyle = View.color("ink");
    context.lineWidth = 2;
    context.beginPath();
    context.moveTo(xOf(x0), yOf(Math.max(y0, x0 * peaks.bytes)));
    context.lineTo(xOf(ridge), yOf(peaks.flops));
    context.lineTo(xOf(x1), yOf(peaks.flops));
    context.stroke();
    context.fillStyle = View.color("ink");
    context.textAlign = "left";
    context.fillText(`${Model.rate(peaks.flops, "FLOP/s")} measured`, xOf(ridge), yOf(peaks.flops) - 12);
    const low = Math.max(x0 * 1.3, y0 * 1.3 / peaks.bytes);
    context.fillText(`${Model.rate(peaks.bytes, "B/s")} measured`, xOf(low), yOf(low * peaks.bytes) - 26);
    placed = points.map((p, i) => [xOf(xs[i]), yOf(ys[i]), 4 + 20 * Math.sqrt(p.time / most), p]);
    const order = [...placed].sort((a, b) => b[2] - a[2]);
    for (const [x, y, r, p] of order) {
      const lit = !mask || mask[points.indexOf(p)];
      context.globalAlpha = lit ? 0.75 : 0.15;
      context.fillStyle = View.color(p.flops / p.bytes >= ridge ? "compute" : "memory");
      context.beginPath(); context.arc(x, y, r, 0, 7); context.fill();
      context.globalAlpha = 1;
    }
    // Names beside the largest dots, each op once, where they do not run into each other.
    context.fillStyle = View.color("ink");
    const taken = [];
    for (const [x, y, r, p] of order) {
      const wide = context.measureText(p.name).width;
      const left = x + r + 5 + wide > width ? x - r - 5 - wide : x + r + 5;
      const free = taken.every(([name, a, b, row]) => name !== p.name && (Math.abs(row - y) > 13 || left > b || left + wide < a));
      if (!free || taken.length >= 12) continue;
      context.fillText(p.name, left, y);
      taken.push([p.name, left, left + wide, y]);
    }
  }

  const canvas = new View.Canvas(HEIGHT, "Roofline", draw);
  canvas.node.addEventListener("pointermove", (event) => {
    const near = placed.filter(([x, y, r]) => Math.hypot(event.offsetX - x, event.offsetY - y) <= r + 2)
      .sort((a, b) => a[2] - b[2])[0];
    if (!near) return View.tip.hide();
    const p = near[3];
    const [flops, moved] = [p.flops / p.time * 1e6, p.bytes / p.time * 1e6];
    const roof = Math.min(peaks.flops, p.flops / p.bytes * peaks.bytes);
    View.tip.show(event, p.name, [
      ["shapes", p.shapes],
      ["time", `${Model.time(p.time)} in ${Model.count(p.count)} calls`],
      ["reached", `${Model.rate(flops, "FLOP/s")}, ${Model.rate(moved, "B/s")}`],
      ["of what is possible", `${(100 * flops / roof).toFixed(0)}%`],
    ]);
  });
  canvas.node.addEventListener("pointerleave", View.tip.hide);
  return {
    node: View.element("div", { class: "card" },
      View.element("p", { class: "quiet" },
        `Peaks of this machine with ${peaks.threads} threads: float32 products and copies of memory. `
        + "Dots under the slope are bound by memory, dots under the flat part by arithmetic; far below, by neither. "
        + "Dots above the slope find their data in the cache."),
      canvas.node),
    search(query) { mask = Model.matching(points.map((p) => p.name), query); canvas.redraw(); },
    redraw: () => canvas.redraw(),
  };
}
