"use strict";
// A cursor with values, zoom and a choice of curves for the figures of a page, which are complete without.
(() => {
  const tip = Object.assign(document.createElement("div"), { id: "tip", role: "status", hidden: true });
  document.body.append(tip);

  const add = (parent, name, attributes, text = "") => {
    const child = document.createElementNS("http://www.w3.org/2000/svg", name);
    Object.entries(attributes).forEach(([key, value]) => child.setAttribute(key, value));
    parent.appendChild(child).textContent = text;
  };
  const least = (all, distance) => all.reduce((a, b) => (distance(b) < distance(a) ? b : a));
  const value = (scale, at) => (scale === "log" ? 10 ** at : scale === "nines" ? 100 * (1 - 10 ** -at) : at);

  // "time 12.5 s" for the title "time, s".
  const words = (title, scale, at) => {
    const [name, unit = ""] = scale === "nines" ? [title, "%"] : title.split(/, (?=[^,]*$)/);
    const number = value(scale, at);
    const digits = scale === "nines" || Math.abs(number) >= 10000 ? 6 : 4;
    return `${name} ${Number(number.toPrecision(digits))} ${unit}`.trim();
  };

  // Positions of labels of a horizontal axis, and their texts, as the page has them before a zoom.
  const ticks = (scale, low, high) => {
    const [from, to] = [value(scale, low), value(scale, high)];
    const most = scale === "whole" ? 15 : 6.5;
    const power = 10 ** Math.floor(Math.log10((to - from) / most));
    const fits = [1, 2, 5, 10].map((factor) => factor * power).find((step) => (to - from) / step <= most);
    const step = scale === "whole" ? Math.max(1, fits) : fits;
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    const powers = Array.from({ length: 20 }, (_, n) => 10 ** (Math.floor(low) + n));
    const decades = scale === "log" && high - low > 1;
    const all = decades
      ? powers.flatMap((power) => (high - low > 4 ? [power] : [power, 2 * power, 5 * power]))
      : Array.from({ length: 17 }, (_, n) => (Math.ceil(from / step) + n) * step);
    const inside = all.filter((number) => number >= from && number <= to);
    const text = (number) => (decades ? Number(number.toPrecision(12)) : number.toFixed(digits));
    return inside.map((number) => [scale === "log" ? Math.log10(number) : number, text(number)]);
  };

  // The points of a path of relative lines, or the only one of a symbol. The coordinates of SVG increase downwards.
  const points = (path, sign) => {
    const numbers = path.getAttribute("d").match(/-?\d*\.?\d+/g).map(Number);
    let [x, y] = [0, 0];
    const { text } = path.dataset;
    return Array.from({ length: text ? 1 : numbers.length / 2 }, (_, n) => {
      return { x: (x += numbers[2 * n]), y: sign * (y += numbers[2 * n + 1]), text };
    });
  };

  const panelOf = (svg) => {
    const area = svg.querySelector(".area");
    const labels = svg.querySelector(".labels");
    const keys = svg.parentNode.querySelectorAll("button.key");
    const [left, top, width, height] = area.getAttribute("viewBox").split(" ").map(Number);
    const { x: xScale, y: up, xTitle, yTitle } = svg.dataset;
    const rows = up === "names";
    const sign = rows ? 1 : -1;
    area.querySelectorAll("title").forEach((title) => {
      title.parentNode.dataset.text = title.textContent;
      title.remove(); // The browser would show it beside the tip.
    });
    const curves = Array.from(area.querySelectorAll(".curve"), (group, number) => {
      keys[number]?.addEventListener("click", () => {
        keys[number].setAttribute("aria-pressed", !group.classList.toggle("off"));
      });
      const paths = group.querySelectorAll(group.querySelector(".dot") ? ".dot" : ".line");
      return { group, points: Array.from(paths, (path) => points(path, sign)).flat() };
    });
    const tickY = labels.querySelector(".tick")?.getAttribute("y");
    const position = (note) => left + (parseFloat(note.getAttribute("x")) / 100) * width;
    const notes = Array.from(labels.querySelectorAll(".note"), (note) => [note, position(note)]);
    const clear = () => area.querySelectorAll(".cursor, .hit, .chosen").forEach((mark) => mark.remove());
    const show = ([from, to]) => {
      clear();
      const share = (at) => `${(100 * (at - from)) / (to - from)}%`;
      const marks = ticks(xScale, from, to);
      area.setAttribute("viewBox", [from, top, to - from, height].join(" "));
      area.querySelector(".upright").setAttribute("d", marks.map(([at]) => `M${at} ${top}v${height}`).join(""));
      labels.querySelectorAll(".tick").forEach((tick) => tick.remove());
      for (const [at, text] of tickY ? marks : []) {
        add(labels, "text", { class: "tick", x: share(at), y: tickY, "text-anchor": "middle" }, text);
      }
      notes.forEach(([note, at]) => note.setAttribute("x", at < from || at > to ? "-1000%" : share(at)));
    };
    // Of each curve that reaches a position the nearest point; of rows the nearest one only.
    const near = (at, row) => {
      const distance = rows ? (point) => Math.abs(point.y - row) : (point) => Math.abs(point.x - at);
      const shown = curves.filter(({ group, points }) => points.length && !group.classList.contains("off"));
      const each = shown.map((curve) => ({ curve, ...least(curve.points, distance) }));
      if (rows) return each.length ? [least(each, distance)] : [];
      const reaches = ({ points }) => points[0].x - width / 20 <= at && points.at(-1).x + width / 20 >= at;
      return each.filter((point) => reaches(point.curve));
    };
    // Marks the points beside a position, and the range from `start`. Returns texts with colours.
    const look = (at, share, start = at) => {
      const row = sign * (top + share * height);
      const found = near(at, row);
      const cursor = found.length && !rows ? least(found, (point) => Math.abs(point.x - at)).x : at;
      clear();
      add(area, "rect", { class: "chosen", x: Math.min(at, start), y: top, width: Math.abs(at - start), height });
      add(area, "path", { class: "cursor", d: `M${cursor} ${top}v${height}` });
      found.forEach(({ curve, x, y }) => add(curve.group, "path", { class: "hit", d: `M${x} ${sign * y}h0` }));
      const text = ({ curve, y, text }) => text ?? `${curve.group.dataset.name}: ${words(yTitle, up, y)}`;
      const each = found.map((point) => [text(point), point.curve.group.getAttribute("stroke")]);
      if (rows) return each;
      return [[words(xTitle, xScale, cursor)], ...(curves.length ? each : [[words(yTitle, up, row)]])];
    };
    return { svg, area, full: [left, left + width], show, clear, look };
  };

  const tell = (texts, x, y) => {
    tip.replaceChildren(...texts.map(([text]) => Object.assign(document.createElement("div"), { textContent: text })));
    texts.forEach(([, colour], number) => (tip.children[number].style.borderColor = colour ?? "transparent"));
    tip.hidden = !texts.length;
    tip.style.left = `${x + 16 + tip.offsetWidth < innerWidth ? x + 16 : Math.max(0, x - 16 - tip.offsetWidth)}px`;
    tip.style.top = `${Math.min(y + 16, innerHeight - tip.offsetHeight)}px`;
  };

  // Panels with one horizontal axis have one cursor and one zoom.
  const connect = (panels) => {
    let [range, at, start] = [panels[0].full]; // `start`: of the range that is chosen.
    const zoom = (ends) => panels.forEach((panel) => panel.show((range = ends)));
    for (const panel of panels) {
      const place = (event) => {
        const box = panel.svg.getBoundingClientRect();
        const share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
        const down = (event.clientY - box.top - panel.area.getAttribute("y")) / panel.area.getAttribute("height");
        at = range[0] + share * (range[1] - range[0]);
        return down;
      };
      panel.svg.addEventListener("pointerdown", (event) => { place(event); start = at; });
      panel.svg.addEventListener("pointermove", (event) => {
        const down = place(event);
        const texts = panels.map((other) => other.look(at, down, start));
        const cell = event.target.matches(".shade") ? [[event.target.dataset.text]] : [];
        tell([...texts[panels.indexOf(panel)], ...cell], event.clientX, event.clientY);
      });
      panel.svg.addEventListener("pointerleave", () => {
        panels.forEach((other) => other.clear());
        tip.hidden = true;
      });
      panel.svg.addEventListener("dblclick", () => zoom(panel.full));
    }
    addEventListener("pointerup", () => {
      if (Math.abs(at - start) > (range[1] - range[0]) / 100) zoom([Math.min(at, start), Math.max(at, start)]);
      start = undefined;
    });
  };

  for (const figure of document.querySelectorAll("figure.chart")) {
    const panels = Array.from(figure.querySelectorAll(".scene"), panelOf);
    ("shared" in figure.dataset ? [panels] : panels.map((panel) => [panel])).forEach(connect);
  }
})();
