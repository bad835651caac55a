// memory.js: live memory over time by what it is for, and the blocks behind it.
"use strict";

function memoryView(report) {
  const { data, range } = report;
  const node = View.element("div");
  const views = report.memory.map((memory, number) => deviceView(report, memory, data.memory.devices[number], range));
  node.append(...views.map((v) => v.node));
  return { node, redraw: () => views.forEach((v) => v.canvas.redraw()), search: () => {}, views };
}

function deviceView(report, memory, device, range) {
  const { data } = report;
  const categories = data.memory.categories;
  const [HEIGHT, TOP, LEFT] = [330, 22, 74];
  let marked = memory.timeOf(memory.peak);

  // What a column of pixels shows: the moment with the most memory in it.
  function columnIndex(x, width) {
    const scale = (range.to - range.from) / width;
    const a = memory.index(range.from + x * scale);
    const b = memory.index(range.from + (x + 1) * scale);
    return memory.highestIn(a, b);
  }

  function draw(context, full, height) {
    const width = full - LEFT;
    const inner = height - TOP - 6;
    const top = memory.total[memory.peak] * 1.06 || 1;
    const yOf = (value) => height - 6 - value / top * inner;
    context.save();
    context.translate(LEFT, 0);
    View.axis(context, range, 0, width, height);
    context.restore();
    context.fillStyle = View.color("quiet");
    context.textAlign = "right";
    for (const share of [0.25, 0.5, 0.75, 1]) {
      context.fillText(Model.bytes(memory.total[memory.peak] * share), LEFT - 8, yOf(memory.total[memory.peak] * share));
    }
    context.textAlign = "left";
    const colors = categories.map((_, k) => View.color(`c${k}`));
    for (let x = 0; x < width; x++) {
      const levels = memory.levelsAt(columnIndex(x, width));
      let base = 0;
      for (let k = 0; k < categories.length; k++) {
        if (levels[k] <= 0) continue;
        const [y1, y0] = [yOf(base + levels[k]), yOf(base)];
        context.fillStyle = colors[k];
        context.fillRect(LEFT + x, y1, 1, y0 - y1);
        base += levels[k];
      }
    }
    const at = LEFT + (marked - range.from) / (range.to - range.from) * width;
    if (at >= LEFT && at <= full) {
      context.fillStyle = View.color("ink");
      context.fillRect(at - 0.75, TOP - 4, 1.5, height);
    }
  }

  const canvas = new View.Canvas(HEIGHT, `Memory of ${memory.name} over time`, draw);
  range.attach(canvas, LEFT);
  const timeAt = (event) => {
    const width = canvas.node.clientWidth - LEFT;
    return range.from + Math.max(0, event.offsetX - LEFT) / width * (range.to - range.from);
  };
  canvas.node.addEventListener("pointermove", (event) => {
    if (event.buttons) return;
    const width = canvas.node.clientWidth - LEFT;
    const index = columnIndex(Math.max(0, Math.min(width - 1, event.offsetX - LEFT)), width);
    const levels = memory.levelsAt(index);
    View.tip.show(event, `${Model.bytes(memory.total[index])} at ${Model.time(memory.timeOf(index))}`,
      categories.map((name, k) => [name, levels[k] > 0 ? Model.bytes(levels[k]) : ""]));
  });
  canvas.node.addEventListener("pointerleave", View.tip.hide);

  const blocks = View.element("div", { class: "scroll details" });
  function showBlocks(time, title) {
    marked = time;
    const { begin, end, size, category, source, name } = device.columns;
    const live = [];
    for (let i = 0; i < begin.length; i++) if (begin[i] <= time && time < end[i]) live.push(i);
    live.sort((a, b) => size[b] - size[a]);
    const rows = live.slice(0, 200).map((i) => View.element("tr", {},
      View.element("td", {}, data.sources[source[i]] || "before the recording"),
      View.element("td", { class: "left" },
        View.element("span", { class: "dot", style: `background: var(--c${category[i]})` }), categories[category[i]]),
      View.element("td", { class: "left" }, data.names[name[i]] || ""),
      View.element("td", {}, Model.bytes(size[i])),
      View.element("td", {}, begin[i] < 0 ? "" : Model.time(begin[i])),
      View.element("td", {}, end[i] === Infinity ? "" : Model.time(end[i]))));
    const head = ["line that made it", "what it is", "op", "size", "from", "to"].map((text, k) =>
      View.element("th", k === 1 || k === 2 ? { class: "left" } : {}, text));
    blocks.replaceChildren(
      View.element("h2", {}, `${title}: ${Model.count(live.length)} blocks`),
      View.element("table", {}, View.element("thead", {}, View.element("tr", {}, ...head)), View.element("tbody", {}, ...rows)));
    canvas.redraw();
  }
  canvas.node.addEventListener("click", (event) => {
    if (!canvas.node.dragged) showBlocks(timeAt(event), `Live at ${Model.time(timeAt(event))}`);
  });

  const peak = memory.levelsAt(memory.peak);
  showBlocks(memory.timeOf(memory.peak), `At the peak, ${Model.time(memory.timeOf(memory.peak))}`);
  return {
    canvas, memory, showBlocks,
    node: View.element("div", { class: "card", style: "margin-bottom: 16px" },
      View.element("div", { class: "row" },
        View.element("h2", {}, `${memory.name}: ${Model.bytes(memory.total[memory.peak])} at the peak`),
        View.legend(categories.map((name, k) => [name, `c${k}`, Model.bytes(peak[k])]).filter((_, k) => peak[k] > 0))),
      canvas.node,
      View.element("p", { class: "quiet" }, "Click at a moment to list what was live then."), blocks),
  };
}
