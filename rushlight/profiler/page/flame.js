// flame.js: the calls of all steps laid over each other: the wider, the more time.
"use strict";

function flameView(report) {
  const { data } = report;
  const ROW = 20;
  // A node: [name, time, own time, calls, kind, children]. Time is the sum over all its calls.
  const [NAME, TIME, OWN, CALLS, KIND, CHILDREN] = [0, 1, 2, 3, 4, 5];
  const kinds = Object.keys(data.kinds);
  let path = [data.flame];  // from the root to the node that fills the width
  let boxes = [];
  let mask = null;

  const depthOf = (node) => 1 + node[CHILDREN].reduce((most, child) => Math.max(most, depthOf(child)), 0);
  const label = (node) => (node[NAME] < 0 ? "all" : data.names[node[NAME]]);

  function draw(context, width) {
    boxes = [];
    const colors = Object.fromEntries([...kinds, "range", "dim", "ink"].map((k) => [k, View.color(k)]));
    const place = (node, left, room, depth) => {
      const y = depth * ROW;
      const lit = !mask || (node[NAME] >= 0 && mask[node[NAME]]);
      const shade = node[KIND] < kinds.length ? kinds[node[KIND]] : "range";
      context.fillStyle = lit ? colors[shade] : colors.dim;
      context.fillRect(left, y, Math.max(0.7, room - 1), ROW - 1);
      if (room > 30) {
        context.fillStyle = lit ? View.inkOn(shade) : colors.ink;
        context.fillText(View.fit(context, View.short(label(node)), room - 8), left + 5, y + ROW / 2);
      }
      boxes.push([left, y, room, node]);
    };
    path.forEach((node, depth) => place(node, 0, width, depth));
    const below = (node, left, room, depth) => {
      let x = left;
      for (const child of node[CHILDREN]) {
        const share = room * child[TIME] / Math.max(node[TIME], 1e-9);
        if (share >= 0.6) {
          place(child, x, share, depth);
          below(child, x, share, depth + 1);
        }
        x += share;
      }
    };
    below(path[path.length - 1], 0, width, path.length);
  }

  const canvas = new View.Canvas((depthOf(data.flame) + 1) * ROW, "Flame graph", draw);
  const boxAt = (event) => boxes.find(([x, y, w]) =>
    event.offsetX >= x && event.offsetX < x + w && event.offsetY >= y && event.offsetY < y + ROW);

  canvas.node.addEventListener("pointermove", (event) => {
    const box = boxAt(event);
    if (!box) return View.tip.hide();
    const node = box[3];
    View.tip.show(event, label(node), [
      ["time", Model.time(node[TIME])],
      ["of all", `${(100 * node[TIME] / data.flame[TIME]).toFixed(1)}%`],
      ["itself", Model.time(node[OWN])],
      ["calls", Model.count(node[CALLS])],
    ]);
  });
  canvas.node.addEventListener("pointerleave", View.tip.hide);

  const find = (node, goal, trail) => {
    if (node === goal) return [...trail, node];
    for (const child of node[CHILDREN]) {
      const found = find(child, goal, [...trail, node]);
      if (found) return found;
    }
    return null;
  };
  function focus(node) {
    path = find(data.flame, node, []) || [data.flame];
    canvas.redraw();
  }
  canvas.node.addEventListener("click", (event) => {
    const box = boxAt(event);
    focus(box ? box[3] : data.flame);
  });
  canvas.node.addEventListener("keydown", (event) => {
    if (event.key === "Escape" || event.key === "f") focus(data.flame);
    if (event.key === "ArrowUp" && path.length > 1) focus(path[path.length - 2]);
    if (event.key === "ArrowDown" && path[path.length - 1][CHILDREN].length) focus(path[path.length - 1][CHILDREN][0]);
  });

  return {
    node: View.element("div", { class: "card" },
      View.element("p", { class: "quiet" }, "Click a box to let it fill the width, F or Escape to see all again."),
      canvas.node),
    search(query) { mask = Model.matching(data.names, query); canvas.redraw(); },
    redraw: () => canvas.redraw(),
    depth: () => path.length,
  };
}
