// timeline.js: what ran when: a row per depth of each thread, with an overview on top.
"use strict";

function timelineView(report) {
  const { data, timeline, range } = report;
  const { columns } = timeline;
  const [ROW, TOP, OVERVIEW, TITLE] = [19, 22, 44, 22];
  const kinds = Object.keys(data.kinds);
  let selected = -1;
  let mask = null;  // which names match the search

  // Where each row begins; a thread has a line for its name.
  const tops = [];
  let height = TOP + OVERVIEW + 8;
  const titles = timeline.threads.map((thread, t) => {
    const title = height;
    height += TITLE;
    for (let d = 0; d < thread.depth; d++) { tops.push(height); height += ROW; }
    height += 8;
    return [title, thread.label, t];
  });

  const shade = (i) => (columns.kind[i] < kinds.length ? kinds[columns.kind[i]] : "range");
  const matches = (i) => !mask || mask.names[columns.name[i]] || mask.modules[columns.module[i]]
    || mask.sources[columns.source[i]];

  function drawOverview(context, width) {
    context.fillStyle = View.color("soft");
    context.fillRect(0, TOP, width, OVERVIEW);
    const colors = palette();
    const rows = Math.min(timeline.rows, 12);
    const thick = OVERVIEW / rows;
    for (let row = 0; row < rows; row++) {
      timeline.spans(row, range.least, range.most, width, (i, left, right) => {
        context.fillStyle = colors[shade(i)];
        context.fillRect(left, TOP + row * thick, Math.max(1, right - left), Math.max(1, thick - 1));
      });
    }
    const scale = width / (range.most - range.least);
    const [a, b] = [(range.from - range.least) * scale, (range.to - range.least) * scale];
    context.fillStyle = View.color("page");
    context.globalAlpha = 0.72;
    context.fillRect(0, TOP, a, OVERVIEW);
    context.fillRect(b, TOP, width - b, OVERVIEW);
    context.globalAlpha = 1;
    context.strokeStyle = View.color("accent");
    context.strokeRect(Math.max(0.5, a), TOP + 0.5, Math.max(2, b - a - 1), OVERVIEW - 1);
  }

  const palette = () => Object.fromEntries([...kinds, "range", "dim"].map((k) => [k, View.color(k)]));

  function draw(context, width, full) {
    View.axis(context, range, 0, width, full);
    drawOverview(context, width);
    const colors = palette();
    const ink = View.color("ink");
    for (const [y, label] of titles) {
      context.fillStyle = View.color("quiet");
      context.fillText(label, 4, y + TITLE / 2);
    }
    for (let row = 0; row < timeline.rows; row++) {
      const y = tops[row];
      timeline.spans(row, range.from, range.to, width, (i, left, right, merged) => {
        const lit = merged > 1 ? !mask : matches(i);
        const [from, to] = [Math.max(0, left), Math.min(width, right)];
        context.fillStyle = lit ? colors[shade(i)] : colors.dim;
        const room = to - from;
        context.fillRect(from, y, Math.max(0.8, room - (room > 3 ? 1 : 0)), ROW - 2);
        if (room > 30) {
          context.fillStyle = lit ? View.inkOn(shade(i)) : ink;
          const text = View.fit(context, View.short(data.names[columns.name[i]]), room - 8);
          context.fillText(text, from + 5, y + ROW / 2 - 0.5);
        }
        if (i === selected) {
          context.strokeStyle = ink;
          context.lineWidth = 2;
          context.strokeRect(from + 1, y, Math.max(2, room - 2), ROW - 2);
        }
      });
    }
    if (mask) drawMatches(context, width);
  }

  // Where narrow events match, marks of their own: they would vanish among those merged.
  function drawMatches(context, width) {
    const scale = width / (range.to - range.from);
    const seen = new Set();
    context.fillStyle = View.color("accent");
    for (const i of mask.found) {
      if (timeline.end(i) < range.from || timeline.start[i] > range.to) continue;
      const left = (timeline.start[i] - range.from) * scale;
      if (timeline.duration[i] * scale >= 1) continue;
      const y = tops[timeline.rowOf(i)];
      const key = Math.floor(left) * 4096 + y;
      if (seen.has(key)) continue;
      seen.add(key);
      context.fillRect(left, y, 1.5, ROW - 2);
    }
  }

  const canvas = new View.Canvas(height, "Time line", draw);
  range.attach(canvas);

  function eventAt(event) {
    const row = tops.findIndex((y) => event.offsetY >= y && event.offsetY < y + ROW);
    if (row < 0) return -1;
    const scale = (range.to - range.from) / canvas.node.clientWidth;
    return timeline.at(row, range.from + event.offsetX * scale, 2 * scale);
  }

  function describe(i) {
    const duration = timeline.duration[i];
    const flops = columns.flops[i];
    const moved = columns.bytes[i];
    return [
      ["time", Model.time(duration)],
      ["begins", Model.time(timeline.start[i])],
      ["kind", data.kinds[kinds[columns.kind[i]]] || ""],
      ["module", data.modules[columns.module[i]]],
      ["line", data.sources[columns.source[i]]],
      ["operations", flops ? `${Model.rate(flops, "FLOP")}, ${Model.rate(flops / duration * 1e6, "FLOP/s")}` : ""],
      ["memory", moved ? `${Model.bytes(moved)}, ${Model.rate(moved / duration * 1e6, "B/s")}` : ""],
    ];
  }

  const details = View.element("div", { class: "details quiet" },
    "Wheel or W S zooms, dragging or A D moves, F shows all. Click an event to keep it here; double-click zooms to it.");

  function select(i) {
    selected = i;
    if (i >= 0) {
      const kids = columns.children ? columns.children[i] : 0;
      details.replaceChildren(View.element("h2", {}, data.names[columns.name[i]]),
        View.facts([...describe(i), ["inside", kids ? Model.count(kids) : ""]]));
    }
    canvas.redraw();
  }

  function show(i) {
    const span = Math.max(timeline.duration[i] * 6, 20);
    const middle = timeline.start[i] + timeline.duration[i] / 2;
    range.set(middle - span / 2, middle + span / 2);
    select(i);
  }

  canvas.node.addEventListener("pointermove", (event) => {
    if (event.buttons) return;
    const i = eventAt(event);
    if (i < 0) View.tip.hide();
    else View.tip.show(event, data.names[columns.name[i]], describe(i));
    canvas.node.style.cursor = i < 0 ? "grab" : "pointer";
  });
  canvas.node.addEventListener("pointerleave", View.tip.hide);
  canvas.node.addEventListener("click", (event) => {
    if (canvas.node.dragged) return;
    if (event.offsetY >= TOP && event.offsetY < TOP + OVERVIEW) {
      const middle = range.least + event.offsetX / canvas.node.clientWidth * (range.most - range.least);
      const half = (range.to - range.from) / 2;
      range.set(middle - half, middle + half);
    } else {
      select(eventAt(event));
    }
  });
  canvas.node.addEventListener("dblclick", (event) => {
    const i = eventAt(event);
    if (i >= 0) range.set(timeline.start[i] - timeline.duration[i] * 0.05, timeline.end(i) + timeline.duration[i] * 0.05);
  });

  const summary = View.element("span", { class: "quiet", id: "found" });
  let turn = -1;
  function search(query, next) {
    const names = Model.matching(data.names, query);
    if (!names) {
      mask = null;
      summary.textContent = "";
    } else if (!next || !mask) {
      mask = { names, modules: Model.matching(data.modules, query), sources: Model.matching(data.sources, query), found: [] };
      let total = 0;
      for (let i = 0; i < timeline.count; i++) {
        if (matches(i)) {
          mask.found.push(i);
          if (names[columns.name[i]]) total += timeline.duration[i];
        }
      }
      turn = -1;
      summary.textContent = `${Model.count(mask.found.length)} events match` + (total ? `, ${Model.time(total)} in all` : "");
    }
    if (next && mask && mask.found.length) show(mask.found[++turn % mask.found.length]);
    canvas.redraw();
  }

  const shown = kinds.filter((k) => columns.kind.includes(kinds.indexOf(k)));
  return {
    node: View.element("div", { class: "card" },
      View.element("div", { class: "row" },
        View.legend([...shown.map((k) => [data.kinds[k], k]), ["what holds others together", "range"]]), summary),
      canvas.node, details),
    canvas, search, select, show, redraw: () => canvas.redraw(),
  };
}
