// page.js: puts the page together: the verdict, one tab per view, keys, light and dark.
"use strict";

function verdictNodes(data) {
  const { verdict, kinds } = data;
  const shares = Object.entries(verdict.shares).filter(([, s]) => s > 0.002).sort((a, b) => b[1] - a[1]);
  const percent = (s) => `${(100 * s).toFixed(s < 0.1 ? 1 : 0)}%`;
  const bar = View.element("div", { class: "bar", role: "img", "aria-label": "Where the time went" },
    ...shares.map(([kind, s]) => View.element("span",
      { style: `background: var(--${kind}); flex: ${s} 0 0`, title: `${kinds[kind]}: ${percent(s)}` })));
  const findings = verdict.findings.map((f) => View.element("article", { class: "finding" },
    View.element("h3", {}, f.title,
      f.gain >= 1.01 ? View.element("span", { class: "gain", title: "how many times faster, at best" }, `up to ×${f.gain.toFixed(f.gain < 10 ? 2 : 0)}`) : null),
    View.element("p", { class: "quiet" }, f.evidence),
    View.element("p", { class: "advice" }, f.advice),
    f.line ? View.element("code", {}, f.line) : null));
  return [View.element("div", { class: "card" },
    View.element("p", { class: "headline" }, verdict.headline), bar,
    View.legend(shares.map(([kind, s]) => [kinds[kind], kind, percent(s)])),
    findings.length ? View.element("div", { class: "findings" }, ...findings)
      : View.element("p", { class: "quiet" }, "Nothing stands out that a setting or a line would change."))];
}

const KEYS = [
  ["/", "search; Enter goes to the next match"], ["1 … 7", "views"], ["t", "light or dark"],
  ["w s  or wheel", "zoom"], ["a d  or drag", "move"], ["f", "show all"], ["Escape", "leave the search, or zoom out"],
];

async function start() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const columns = await Model.unpack(document.getElementById("columns").textContent, data.layout);
  const report = { data, timeline: new Model.Timeline(columns, data.threads) };
  report.range = new View.Range(0, Math.max(data.end, report.timeline.last));
  if (data.memory) {
    report.memory = data.memory.devices.map((device) => {
      const own = (name) => columns[`${device.name}.${name}`];
      device.columns = Object.fromEntries(
        ["begin", "end", "size", "category", "source", "name"].map((n) => [n, own(`block_${n}`)]));
      const changes = { time: own("time"), change: own("change"), category: own("category") };
      return new Model.Memory(device, changes, data.memory.categories.length);
    });
  }
  document.getElementById("about").textContent = data.about;
  document.getElementById("verdict").append(...verdictNodes(data));

  const makers = [["Timeline", () => timelineView(report)], ["Flame graph", () => flameView(report)]];
  if (data.memory) makers.push(["Memory", () => memoryView(report)]);
  for (const table of data.tables) makers.push([table.title, () => tableView(table, table.note)]);
  if (data.roofline.points.length) makers.push(["Roofline", () => rooflineView(report)]);

  const [tabs, place, search] = ["tabs", "view", "search"].map((id) => document.getElementById(id));
  const made = new Map();
  let current = null;
  function open(number) {
    if (number >= makers.length) return;
    const [title, make] = makers[number];
    if (!made.has(title)) made.set(title, make());
    current = made.get(title);
    report.view = current;
    View.tip.hide();
    place.replaceChildren(current.node);
    [...tabs.children].forEach((tab, k) => tab.setAttribute("aria-selected", String(k === number)));
    current.search(search.value);
    current.redraw();
  }
  makers.forEach(([title], k) => tabs.append(View.element("button", { role: "tab", onclick: () => open(k) }, title)));

  search.addEventListener("input", () => current.search(search.value));
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") current.search(search.value, true);
    if (event.key === "Escape") { search.value = ""; current.search(""); search.blur(); }
  });

  const root = document.documentElement;
  const setTheme = (theme) => { root.dataset.theme = theme; if (current) current.redraw(); };
  const asked = new URLSearchParams(location.hash.slice(1)).get("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  setTheme(asked || (dark.matches ? "dark" : "light"));
  dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
  const toggle = () => setTheme(root.dataset.theme === "dark" ? "light" : "dark");
  document.getElementById("theme").addEventListener("click", toggle);

  const keys = document.getElementById("keys");
  keys.append(View.element("h2", {}, "Keys"), View.facts(KEYS.map(([key, does]) => [View.element("kbd", {}, key), does])),
    View.element("form", { method: "dialog", style: "margin-top: 14px" }, View.element("button", {}, "Close")));
  const help = () => keys.showModal();
  document.getElementById("help").addEventListener("click", help);
  document.addEventListener("keydown", (event) => {
    if (event.target.matches("input") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") { event.preventDefault(); search.focus(); search.select(); }
    else if (event.key === "t") toggle();
    else if (event.key === "?") help();
    else if (/^[1-9]$/.test(event.key)) open(Number(event.key) - 1);
  });
  open(0);
  window.report = report;
}

start();
