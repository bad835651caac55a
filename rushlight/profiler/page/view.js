// view.js: what the drawn views have in common: canvases, colours, the tooltip, a time axis that is
// zoomed and moved.
"use strict";

const View = (() => {
  const style = () => getComputedStyle(document.documentElement);
  const color = (name) => style().getPropertyValue(`--${name}`).trim();

  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "class") made.className = value;
      else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else made.setAttribute(name, value);
    }
    made.append(...children.filter((c) => c !== null && c !== undefined));
    return made;
  }

  // A canvas as wide as its place, sharp on any screen. draw(context, width, height) fills it.
  class Canvas {
    constructor(height, label, draw) {
      this.height = height;
      this.node = element("canvas", { tabindex: "0", role: "img", "aria-label": label });
      this.draw = draw;
      this.queued = false;
      this.observer = new ResizeObserver(() => this.redraw());
      this.observer.observe(this.node);
    }

    // At most once per frame, however often it is asked.
    redraw() {
      if (this.queued) return;
      this.queued = true;
      requestAnimationFrame(() => {
        this.queued = false;
        this.paint();
      });
    }

    paint() {
      const width = this.node.clientWidth;
      if (!width) return;
      const ratio = window.devicePixelRatio || 1;
      const [w, h] = [Math.round(width * ratio), Math.round(this.height * ratio)];
      if (this.node.width !== w || this.node.height !== h) {
        this.node.width = w;
        this.node.height = h;
        this.node.style.height = `${this.height}px`;
      }
      const context = this.node.getContext("2d");
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.clearRect(0, 0, width, this.height);
      context.font = "12px system-ui, sans-serif";
      context.textBaseline = "middle";
      this.draw(context, width, this.height);
    }
  }

  const tip = {
    show(event, title, facts) {
      const node = document.getElementById("tip");
      node.replaceChildren(element("b", {}, title));
      for (const [name, value] of facts) {
        if (value !== "" && value !== null && value !== undefined) {
          node.append(element("div", {}, element("span", {}, name), element("span", {}, value)));
        }
      }
      node.hidden = false;
      const box = node.getBoundingClientRect();
      node.style.left = `${Math.max(8, Math.min(event.clientX + 14, innerWidth - box.width - 12))}px`;
      const below = event.clientY + 18;
      const top = below + box.height > innerHeight ? event.clientY - box.height - 12 : below;
      node.style.top = `${Math.max(8, top)}px`;
    },
    hide() { document.getElementById("tip").hidden = true; },
  };

  // The stretch of time that is shown. Views that share one move together.
  class Range {
    constructor(begin, end) {
      this.least = begin;
      this.most = Math.max(end, begin + 1e-3);
      this.from = this.least;
      this.to = this.most;
      this.listeners = new Set();
    }

    set(from, to) {
      const span = Math.min(Math.max(to - from, 0.02), this.most - this.least);
      from = Math.max(this.least, Math.min(from, this.most - span));
      this.from = from;
      this.to = from + span;
      for (const listener of this.listeners) listener();
    }

    zoom(factor, center) {
      this.set(center - (center - this.from) * factor, center + (this.to - center) * factor);
    }

    move(share) {
      const by = share * (this.to - this.from);
      this.set(this.from + by, this.to + by);
    }

    all() { this.set(this.least, this.most); }

    // Wheel, drag, pinch-like ctrl-wheel and keys on a canvas whose left `margin` pixels are labels.
    attach(canvas, margin = 0) {
      const node = canvas.node;
      const timeAt = (x) => {
        const share = (x - margin) / Math.max(1, node.clientWidth - margin);
        return this.from + share * (this.to - this.from);
      };
      node.addEventListener("wheel", (event) => {
        event.preventDefault();
        const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
        if (sideways) this.move((event.deltaX || event.deltaY) / node.clientWidth);
        else this.zoom(Math.exp(Math.max(-300, Math.min(300, event.deltaY)) * 0.0022), timeAt(event.offsetX));
      }, { passive: false });
      let held = null;
      node.addEventListener("pointerdown", (event) => {
        held = { x: event.clientX, from: this.from, to: this.to, moved: false };
        node.setPointerCapture(event.pointerId);
      });
      node.addEventListener("pointermove", (event) => {
        if (!held) return;
        const by = event.clientX - held.x;
        if (Math.abs(by) > 3) held.moved = true;
        if (!held.moved) return;
        tip.hide();
        const shift = -by / Math.max(1, node.clientWidth - margin) * (held.to - held.from);
        this.set(held.from + shift, held.to + shift);
      });
      const release = () => {
        node.dragged = held !== null && held.moved;
        held = null;
      };
      node.addEventListener("pointerup", release);
      node.addEventListener("pointercancel", release);
      node.addEventListener("keydown", (event) => {
        const middle = (this.from + this.to) / 2;
        const acts = {
          w: () => this.zoom(0.7, middle), "+": () => this.zoom(0.7, middle), ArrowUp: () => this.zoom(0.7, middle),
          s: () => this.zoom(1 / 0.7, middle), "-": () => this.zoom(1 / 0.7, middle), ArrowDown: () => this.zoom(1 / 0.7, middle),
          a: () => this.move(-0.2), ArrowLeft: () => this.move(-0.2),
          d: () => this.move(0.2), ArrowRight: () => this.move(0.2),
          f: () => this.all(), Home: () => this.all(),
        };
        const act = acts[event.key];
        if (act && !event.ctrlKey && !event.metaKey && !event.altKey) {
          event.preventDefault();
          act();
        }
      });
      this.listeners.add(() => canvas.redraw());
    }
  }

  // Ticks at round times, at most one per `room` pixels.
  function ticks(from, to, width, room = 110) {
    const rough = (to - from) / Math.max(1, width / room);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((m) => m * power >= rough) * power;
    const found = [];
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) found.push(t);
    return found;
  }

  function axis(context, range, left, width, height) {
    context.strokeStyle = color("line");
    context.fillStyle = color("quiet");
    context.lineWidth = 1;
    for (const t of ticks(range.from, range.to, width)) {
      const x = Math.round(left + (t - range.from) / (range.to - range.from) * width) + 0.5;
      context.beginPath();
      context.moveTo(x, 18);
      context.lineTo(x, height);
      context.stroke();
      const text = Model.time(t);
      if (x + 4 + context.measureText(text).width <= left + width) context.fillText(text, x + 4, 9);
    }
  }

  // A name without what all of its kind begin with, for boxes that are narrow.
  function short(name) {
    return name.replace(/^(aten::|nn\.Module: |autograd::engine::evaluate_function: |torch::autograd::)/, "");
  }

  // What can be read on a filled box.
  const inkOn = (shade) => shade === "range" ? color("ink") : "#fff";

  // Text cut to a width; nothing where not even a few letters fit.
  function fit(context, text, width) {
    if (width < 22) return "";
    const most = Math.floor(width / 6.1);
    return text.length <= most ? text : most < 3 ? "" : `${text.slice(0, most - 1)}…`;
  }

  function facts(pairs) {
    const list = element("dl", { class: "facts" });
    for (const [name, value] of pairs) {
      if (value === "" || value === null || value === undefined) continue;
      list.append(element("dt", {}, name), element("dd", {}, value));
    }
    return list;
  }

  function legend(pairs) {
    return element("p", { class: "legend" }, ...pairs.map(([name, shade, value]) =>
      element("span", {}, element("span", { class: "dot", style: `background: var(--${shade})` }), `${name} `,
        value ? element("b", {}, value) : null)));
  }

  return { Canvas, Range, axis, color, element, facts, fit, inkOn, legend, short, tip };
})();
