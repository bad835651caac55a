// tables.js: rows that are sorted by a click on their column and narrowed by the search.
"use strict";

const FORMATS = {
  text: (v) => v,
  time: (v) => (v ? Model.time(v) : ""),
  count: (v) => (v ? Model.count(v) : ""),
  bytes: (v) => (v ? Model.bytes(v) : ""),
  flops: (v) => (v ? Model.rate(v, "FLOP") : ""),
  flop_rate: (v) => (v ? Model.rate(v, "FLOP/s") : ""),
  byte_rate: (v) => (v ? Model.rate(v, "B/s") : ""),
  share: (v) => `${(100 * v).toFixed(1)}%`,
};

// table: {columns: [[title, format], ...], rows: [[...], ...], sort: column}
function tableView(table, note) {
  const MOST = 400;
  let [by, down] = [table.sort, true];
  let mask = null;
  const body = View.element("tbody");
  const className = (k) => (table.columns[k][1] === "text" ? "left" : "");
  const heads = table.columns.map(([title], k) => {
    const button = View.element("button", { onclick: () => sort(k) }, title);
    return View.element("th", { class: className(k) }, button);
  });
  const more = View.element("p", { class: "quiet" });

  function sort(k) {
    down = k === by ? !down : table.columns[k][1] !== "text";
    by = k;
    fill();
  }

  function cell(value, format) {
    if (format !== "share") return View.element("td", {}, FORMATS[format](value));
    return View.element("td", { class: "share" },
      View.element("i", { style: `width: ${Math.max(0, Math.min(100, 100 * value))}%` }),
      View.element("span", {}, FORMATS.share(value)));
  }

  function fill() {
    heads.forEach((th, k) => {
      if (k === by) th.setAttribute("aria-sort", down ? "descending" : "ascending");
      else th.removeAttribute("aria-sort");
      th.firstChild.textContent = table.columns[k][0] + (k === by ? (down ? " ↓" : " ↑") : "");
    });
    const rows = table.rows.filter((_, i) => !mask || mask[i]);
    const text = table.columns[by][1] === "text";
    rows.sort((a, b) => (text ? String(a[by]).localeCompare(b[by]) : a[by] - b[by]) * (down ? -1 : 1));
    body.replaceChildren(...rows.slice(0, MOST).map((row) =>
      View.element("tr", {}, ...row.map((value, k) => {
        const td = cell(value, table.columns[k][1]);
        if (k === 0) td.title = value;
        if (className(k)) td.className = className(k);
        return td;
      }))));
    more.textContent = rows.length > MOST ? `${Model.count(rows.length - MOST)} more; search narrows them.` : "";
  }
  fill();
  return {
    node: View.element("div", { class: "card" }, note ? View.element("p", { class: "quiet" }, note) : null,
      View.element("div", { class: "scroll" },
        View.element("table", {}, View.element("thead", {}, View.element("tr", {}, ...heads)), body)), more),
    search(query) { mask = Model.matching(table.rows.map((r) => String(r[0])), query); fill(); },
    sort, redraw: () => {},
  };
}
