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

  const settings = { responsive: true, displaylogo: false };
  const draw = (paper) =>
    charts.forEach(({ chart }, number) => {
      Plotly.react(`chart-${number}`, chart.data, themed(chart.layout, paper), settings);
    });
  draw(false);
  dark.addEventListener("change", () => draw(false));
  addEventListener("beforeprint", () => draw(true));
  addEventListener("afterprint", () => draw(false));

  for (const button of document.querySelectorAll("button.copy")) {
    button.addEventListener("click", async () => {
      const text = button.parentElement.querySelector("template").content.textContent;
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy as Markdown"), 2000);
    });
  }
})();
