"use strict";
(() => {
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");

  // Colours of the page, for texts and lines of a chart.
  const themed = (layout, paper) => {
    const style = getComputedStyle(document.documentElement);
    const colour = (name, light) => (paper ? light : style.getPropertyValue(name).trim());
    const text = colour("--text", "#000000");
    const line = colour("--line", "#bbbbbb");
    const changed = {
      ...layout,
      font: { family: "system-ui, sans-serif", size: 13, color: text },
      paper_bgcolor: "rgba(0, 0, 0, 0)",
      plot_bgcolor: "rgba(0, 0, 0, 0)",
    };
    for (const name of Object.keys(layout).filter((name) => /^[xy]axis/.test(name))) {
      changed[name] = { ...layout[name], gridcolor: line, linecolor: line };
    }
    return changed;
  };

  // The smallest numbers have the colour that is next to that of the page. Shades are logarithms: the cursor shows the numbers.
  const shaded = (trace, paper) =>
    trace.type !== "heatmap"
      ? trace
      : {
          ...trace,
          reversescale: paper || !dark.matches,
          customdata: trace.z.map((row) => row.map((shade) => (shade === null ? null : Math.round(10 ** shade)))),
        };

  const settings = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d"] };
  const draw = (paper) =>
    charts.forEach(({ chart }, number) => {
      const data = chart.data.map((trace) => shaded(trace, paper));
      Plotly.react(`chart-${number}`, data, themed(chart.layout, paper), settings);
    });
  draw(false);
  dark.addEventListener("change", () => draw(false));
  addEventListener("beforeprint", () => draw(true));
  addEventListener("afterprint", () => draw(false));

  for (const button of document.querySelectorAll("button.copy")) {
    button.addEventListener("click", async () => {
      const text = button.parentElement.querySelector("template").content.textContent;
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch {
        // The browser forbids it: the text is shown to be copied by hand.
        const field = document.createElement("textarea");
        field.value = text;
        field.readOnly = true;
        field.rows = 8;
        button.after(field);
        field.select();
        button.textContent = "Press Ctrl+C to copy";
      }
      setTimeout(() => (button.textContent = "Copy as Markdown"), 2000);
    });
  }
})();
