// Inks, dashes and the bare layout that all plots share: Okabe-Ito colours, each with a dash or a shape.
"use strict";

const LINE_INKS = ["fg", "line-1", "line-2", "line-3", "line-4"];
const SPAN_INK = { voice: "line-1", face: "line-3", decode: "line-4", prefill: "fg" };
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

/** The same where plotly looks for %{...} too. */
function hoverName(text) {
  return shortName(text).replace(/%\{/g, "% {");
}

function ink() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue("--" + name).trim();
  return {
    fg: read("fg"),
    muted: read("muted"),
    grid: read("grid"),
    bg: read("bg"),
    raised: read("raised"),
    fail: read("mark-fail"),
    pass: read("mark-pass"),
    warn: read("mark-warn"),
    lines: LINE_INKS.map(read),
    spans: Object.fromEntries(Object.entries(SPAN_INK).map(([kind, name]) => [kind, read(name)])),
  };
}

/** The same ink and dash for a stage in every plot; the closing baseline is the baseline, dotted. */
function stageInk(name) {
  const base = baselineName();
  if (base !== null && name === base + "/again") return { slot: 0, dash: "dot" };
  const index = Math.max(0, RUN.stageNames.filter((one) => one !== base + "/again").indexOf(name));
  return {
    slot: index % LINE_INKS.length,
    dash: DASHES[Math.floor(index / LINE_INKS.length + (index ? index - 1 : 0)) % DASHES.length],
  };
}

function stageStyle(name) {
  const { slot, dash } = stageInk(name);
  return { color: ink().lines[slot], dash };
}

/** What the lines of a group of plots are: a piece of each line beside its stage's name. */
function stageKeys(names, words) {
  return el(
    "p",
    { class: "keys stage-keys" },
    names.map((name) => {
      const { slot, dash } = stageInk(name);
      const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
      for (const [key, value] of Object.entries({ width: 34, height: 8, "aria-hidden": "true" }))
        svg.setAttribute(key, value);
      for (const [key, value] of Object.entries({
        x1: 0,
        x2: 34,
        y1: 4,
        y2: 4,
        "stroke-width": 2.4,
        "stroke-dasharray": DASH_STEPS[dash],
        style: `stroke:var(--${LINE_INKS[slot]})`,
      }))
        line.setAttribute(key, value);
      svg.append(line);
      return el("span", { class: "key" }, svg, named(words ? words(name) : name));
    }),
  );
}

function axis(title, more) {
  const c = ink();
  return {
    title: { text: title, font: { size: 12, color: c.muted }, standoff: 6 },
    gridcolor: c.grid,
    zerolinecolor: c.grid,
    linecolor: c.grid,
    tickfont: { size: 11, color: c.muted },
    automargin: true,
    fixedrange: false,
    ...more,
  };
}

function baseLayout(more) {
  const c = ink();
  return {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 12, color: c.fg },
    margin: { l: 56, r: 12, t: 12, b: 44 },
    hovermode: "closest",
    dragmode: "zoom",
    showlegend: false,
    hoverlabel: {
      bgcolor: c.raised,
      bordercolor: c.muted,
      font: { color: c.fg, size: 12, family: "system-ui, sans-serif" },
      align: "left",
    },
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { size: 12 }, bgcolor: "rgba(0,0,0,0)" },
    ...more,
  };
}

/** A range with a little room at both ends, so that no line runs along the edge. */
function roomy(data, fromZero) {
  const all = data.flatMap((trace) => trace.x.filter(isNumber));
  if (!all.length) return undefined;
  const low = all.reduce((a, b) => Math.min(a, b), fromZero ? 0 : Infinity),
    high = all.reduce((a, b) => Math.max(a, b), -Infinity);
  const room = (high - low || 1) * 0.03;
  return [fromZero ? low : low - room, high + room];
}

/** A colour as a light fill of itself. */
function tint(color) {
  const hex = /^#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})$/i.exec(color);
  return hex
    ? `rgba(${hex
        .slice(1)
        .map((part) => parseInt(part, 16))
        .join(",")},0.08)`
    : "rgba(128,128,128,0.08)";
}
