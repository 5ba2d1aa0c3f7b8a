// Plots: drawn when they come into view, redrawn when the theme changes, each with its numbers as a table.
"use strict";

const PLOTS = [];
const PLOT_CONFIG = { displaylogo: false, responsive: true, scrollZoom: false, showTips: false, doubleClick: "reset", modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d", "toImage"], locale: "en" };
const LINE_INKS = ["fg", "line-1", "line-2", "line-3", "line-4"];
const DASH_STEPS = { solid: "none", dash: "9 6", dot: "2.5 3", dashdot: "9 4 2.5 4", longdash: "14 5" };
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash"];

/** Plotly reads a little HTML in its texts: here it never sees any. */
function safeText(text) {
  return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

/** A name short enough for a legend. */
function shortName(text, longest) {
  const all = Array.from(String(text));
  return safeText(all.length > (longest || 28) ? all.slice(0, (longest || 28) - 1).join("") + "…" : text);
}

function ink() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue("--" + name).trim();
  return {
    fg: read("fg"), muted: read("muted"), grid: read("grid"), bg: read("bg"), raised: read("raised"),
    fail: read("mark-fail"), pass: read("mark-pass"), warn: read("mark-warn"),
    lines: LINE_INKS.map(read),
  };
}

/** The same ink and dash for a stage in every plot; the closing baseline is the baseline, dotted. */
function stageInk(name) {
  const base = baselineName();
  if (base !== null && name === base + "/again") return { slot: 0, dash: "dot" };
  const index = Math.max(0, RUN.stageNames.filter((one) => one !== base + "/again").indexOf(name));
  return { slot: index % LINE_INKS.length, dash: DASHES[Math.floor(index / LINE_INKS.length + (index ? index - 1 : 0)) % DASHES.length] };
}

function stageStyle(name) {
  const { slot, dash } = stageInk(name);
  return { color: ink().lines[slot], dash };
}

/** What the lines of a group of plots are: a piece of each line beside its stage's name. */
function stageKeys(names, words) {
  return el("p", { class: "keys stage-keys" }, names.map((name) => {
    const { slot, dash } = stageInk(name);
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
    for (const [key, value] of Object.entries({ width: 34, height: 8, "aria-hidden": "true" })) svg.setAttribute(key, value);
    for (const [key, value] of Object.entries({ x1: 0, x2: 34, y1: 4, y2: 4, "stroke-width": 2.4, "stroke-dasharray": DASH_STEPS[dash], style: `stroke:var(--${LINE_INKS[slot]})` })) line.setAttribute(key, value);
    svg.append(line);
    return el("span", { class: "key" }, svg, named(words ? words(name) : name));
  }));
}

function axis(title, more) {
  const c = ink();
  return { title: { text: title, font: { size: 12, color: c.muted }, standoff: 6 }, gridcolor: c.grid, zerolinecolor: c.grid, linecolor: c.grid, tickfont: { size: 11, color: c.muted }, automargin: true, fixedrange: false, ...more };
}

function baseLayout(more) {
  const c = ink();
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { family: "system-ui, sans-serif", size: 12, color: c.fg },
    margin: { l: 56, r: 12, t: 12, b: 44 }, hovermode: "closest", dragmode: "zoom", showlegend: false,
    hoverlabel: { bgcolor: c.raised, bordercolor: c.muted, font: { color: c.fg, size: 12, family: "system-ui, sans-serif" }, align: "left" },
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { size: 12 }, bgcolor: "rgba(0,0,0,0)" },
    ...more,
  };
}

/**
 * A plot with its caption and table. `build()` gives {data, layout}; `table()` gives an element, made when it is opened.
 * `keys`: arrows, + and - move the time axis.
 */
function plotCard(parent, { id, title, note, height, build, table, click, keys }) {
  const box = el("div", { class: "plot", id: id + "-plot", style: `height:${height}px`, role: "group", tabindex: keys ? "0" : null, "aria-label": title + (keys ? ". Arrow keys move, plus and minus zoom, 0 shows all." : "") });
  const card = el("figure", { class: "card", id }, el("figcaption", {}, el("b", {}, title), note && el("span", { class: "muted" }, " ", note)), box);
  const plot = { id, box, build, click, drawn: false };
  if (table) {
    const fold = el("details", { class: "astable" }, el("summary", {}, "As a table"));
    fold.addEventListener("toggle", () => fold.open && fillTable());
    const fillTable = () => { if (fold.childElementCount === 1) fold.append(el("div", { class: "scroll", tabindex: "0" }, table())); };
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

const WATCH = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) {
    WATCH.unobserve(entry.target);
    const plot = PLOTS.find((one) => one.box === entry.target);
    if (plot) whenPlotly(() => drawPlot(plot));
  }
}, { rootMargin: "200px" });

function watchPlot(plot) {
  WATCH.observe(plot.box);
}

function whenPlotly(then) {
  if (window.Plotly || document.readyState === "complete") then();
  else window.addEventListener("load", then, { once: true });
}

function drawPlot(plot) {
  if (!window.Plotly) {
    plot.box.replaceChildren(missing("This plot could not be drawn.", "Its numbers are in the table."));
    plot.box.style.height = "auto";
    if (plot.fold) plot.fold.open = true;
    return;
  }
  const { data, layout } = plot.build();
  Plotly.react(plot.box, data, layout, PLOT_CONFIG);
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
    ArrowLeft: [low - width / 5, high - width / 5], ArrowRight: [low + width / 5, high + width / 5],
    "+": [low + width / 4, high - width / 4], "=": [low + width / 4, high - width / 4], "-": [low - width / 2, high + width / 2],
  };
  if (event.key === "0") Plotly.relayout(box, { "xaxis.autorange": true });
  else if (moves[event.key]) Plotly.relayout(box, { "xaxis.range": moves[event.key] });
  else return;
  event.preventDefault();
}

/** A range with a little room at both ends, so that no line runs along the edge. */
function roomy(data, fromZero) {
  const all = data.flatMap((trace) => trace.x.filter(isNumber));
  if (!all.length) return undefined;
  const low = all.reduce((a, b) => Math.min(a, b), fromZero ? 0 : Infinity), high = all.reduce((a, b) => Math.max(a, b), -Infinity);
  const room = (high - low || 1) * 0.03;
  return [fromZero ? low : low - room, high + room];
}

/** A plain table: columns [{head, unit, num}], rows of cells (text, elements). */
function plainTable(columns, rows, caption) {
  return el("table", { class: "data" }, caption && el("caption", {}, caption),
    el("thead", {}, el("tr", {}, columns.map((column) => headCell(column)))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell, index) => (index === 0 ? el("th", { scope: "row", class: columns[0].num ? "num" : null }, cell) : el("td", { class: columns[index].num ? "num" : null }, cell)))))));
}

function headCell(column) {
  return el("th", { scope: "col", class: column.num ? "num" : null }, column.head, column.unit && el("span", { class: "unit" }, " " + column.unit));
}

/** Before printing: every plot drawn in light ink, every table open; afterwards as it was. */
function preparePrint() {
  document.documentElement.dataset.printing = "yes";
  for (const fold of document.querySelectorAll("details")) { if (!fold.open) fold.dataset.wasShut = "yes"; fold.open = true; }
  for (const plot of PLOTS) { if (plot.fillTable) plot.fillTable(); if (window.Plotly) drawPlot(plot); }
}

function afterPrint() {
  delete document.documentElement.dataset.printing;
  for (const fold of document.querySelectorAll("details[data-was-shut]")) { fold.open = false; delete fold.dataset.wasShut; }
  redrawPlots();
}
