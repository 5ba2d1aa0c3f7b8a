// Plots: drawn when they come into view, redrawn when the theme changes, each with its numbers as a table.
"use strict";

const PLOTS = [];
const PLOT_CONFIG = {
  displaylogo: false,
  responsive: true,
  scrollZoom: false,
  showTips: false,
  doubleClick: "reset",
  modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d", "toImage"],
  locale: "en",
};

/**
 * A plot with its caption and table. `build()` gives {data, layout}; `table()` gives an element, made when it is opened.
 * `keys`: arrows, + and - move the time axis.
 */
function plotCard(parent, { id, title, note, height, build, table, click, keys }) {
  const box = el("div", {
    class: "plot",
    id: id + "-plot",
    style: `height:${height}px`,
    role: "group",
    tabindex: keys ? "0" : null,
    "aria-label": title + (keys ? ". Arrow keys move, plus and minus zoom, 0 shows all." : ""),
  });
  box.append(el("p", { class: "drawing muted" }, "drawing the chart …"));
  const card = el(
    "figure",
    { class: "card", id },
    el("figcaption", {}, el("b", {}, title), note && el("span", { class: "muted" }, " ", note)),
    box,
  );
  const plot = { id, box, build, click, drawn: false };
  if (table) {
    const fold = el("details", { class: "astable" }, el("summary", {}, "As a table"));
    fold.addEventListener("toggle", () => fold.open && fillTable());
    const fillTable = () => {
      if (fold.childElementCount === 1) fold.append(el("div", { class: "scroll", tabindex: "0" }, table()));
    };
    plot.fold = fold;
    plot.fillTable = fillTable;
    card.append(fold);
  }
  parent.append(card);
  PLOTS.push(plot);
  if (keys) box.addEventListener("keydown", (event) => axisKeys(event, box));
  watchPlot(plot);
  return plot;
}

const WATCH = new IntersectionObserver(
  (entries) => {
    for (const entry of entries)
      if (entry.isIntersecting) {
        WATCH.unobserve(entry.target);
        const plot = PLOTS.find((one) => one.box === entry.target);
        if (plot) whenPlotly(() => drawPlot(plot));
      }
  },
  { rootMargin: "200px" },
);

function watchPlot(plot) {
  WATCH.observe(plot.box);
}

function whenPlotly(then) {
  if (window.Plotly || document.readyState === "complete") then();
  else window.addEventListener("load", then, { once: true });
}

function drawPlot(plot) {
  try {
    if (!window.Plotly) throw new Error("plotly is not there");
    const { data, layout } = plot.build();
    Plotly.react(plot.box, data, layout, PLOT_CONFIG);
  } catch (error) {
    console.error(error);
    plot.box.replaceChildren(missing("This plot could not be drawn.", "Its numbers are in the table."));
    plot.box.style.height = "auto";
    if (plot.fold) plot.fold.open = true;
    return;
  }
  const waiting = plot.box.querySelector(".drawing");
  if (waiting) waiting.remove();
  if (!plot.drawn && plot.click) plot.box.on("plotly_click", (event) => plot.click(event.points[0]));
  plot.drawn = true;
}

function redrawPlots() {
  for (const plot of PLOTS) if (plot.drawn && plot.box.isConnected) drawPlot(plot);
}

/** A plot that is gone (a closed drill-down) is no longer drawn. */
function dropPlots(parent) {
  for (const plot of PLOTS.filter((one) => parent.contains(one.box))) {
    WATCH.unobserve(plot.box);
    if (plot.drawn) Plotly.purge(plot.box);
    PLOTS.splice(PLOTS.indexOf(plot), 1);
  }
}

function axisKeys(event, box) {
  const full = box._fullLayout;
  if (!full || event.ctrlKey || event.metaKey || event.altKey) return;
  const [low, high] = full.xaxis.range;
  const width = high - low;
  const moves = {
    ArrowLeft: [low - width / 5, high - width / 5],
    ArrowRight: [low + width / 5, high + width / 5],
    "+": [low + width / 4, high - width / 4],
    "=": [low + width / 4, high - width / 4],
    "-": [low - width / 2, high + width / 2],
  };
  if (event.key === "0") Plotly.relayout(box, { "xaxis.autorange": true });
  else if (moves[event.key]) Plotly.relayout(box, { "xaxis.range": moves[event.key] });
  else return;
  event.preventDefault();
}

/** A plain table: columns [{head, unit, num}], rows of cells (text, elements). */
function plainTable(columns, rows, caption) {
  return el(
    "table",
    { class: "data" },
    caption && el("caption", {}, caption),
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        columns.map((column) => headCell(column)),
      ),
    ),
    el(
      "tbody",
      {},
      rows.map((row) =>
        el(
          "tr",
          {},
          row.map((cell, index) =>
            index === 0
              ? el("th", { scope: "row", class: columns[0].num ? "num" : null }, cell)
              : el("td", { class: columns[index].num ? "num" : null }, cell),
          ),
        ),
      ),
    ),
  );
}

function headCell(column) {
  return el(
    "th",
    { scope: "col", class: column.num ? "num" : null },
    column.head,
    column.unit && el("span", { class: "unit" }, " " + column.unit),
  );
}

/** Before printing: every plot drawn in light ink, every table open; afterwards as it was. */
function preparePrint() {
  document.documentElement.dataset.printing = "yes";
  for (const fold of document.querySelectorAll("details")) {
    if (!fold.open) fold.dataset.wasShut = "yes";
    fold.open = true;
  }
  for (const plot of PLOTS) {
    if (plot.fillTable) plot.fillTable();
    if (window.Plotly) drawPlot(plot);
  }
}

function afterPrint() {
  delete document.documentElement.dataset.printing;
  for (const fold of document.querySelectorAll("details[data-was-shut]")) {
    fold.open = false;
    delete fold.dataset.wasShut;
  }
  redrawPlots();
}
