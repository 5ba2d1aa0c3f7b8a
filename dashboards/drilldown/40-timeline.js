// The whole run on one time axis: who worked, what the listener had in hand, what the GPU did.
"use strict";

const TIMELINE = { plot: null, on: null };

/** The rows of the timeline from top to bottom; `off`: shown when asked. */
const PANELS = [
  { id: "activity", title: "who worked", height: 150 },
  { id: "ahead", title: "playable ahead, ms", groups: ["ahead"], height: 120, events: "underruns", what: "underrun" },
  { id: "gap", title: "gap between bursts, ms", groups: ["gap"], height: 80 },
  { id: "fps", title: "frames in the last second", groups: ["fps"], height: 80, events: "freezes", what: "freeze" },
  { id: "canary", title: "canary, ms", groups: ["canary"], height: 80 },
  { id: "use", title: "SM and DRAM, %", groups: ["sm", "dram"], height: 90, range: [0, 105] },
  { id: "clock", title: "clocks, MHz", groups: ["clock"], height: 70 },
  { id: "power", title: "power, W", groups: ["power"], height: 70, off: true },
  { id: "temperature", title: "temperature, °C", groups: ["temperature"], height: 70, off: true },
  { id: "memory", title: "memory, MiB", groups: ["memory"], height: 70, off: true },
  { id: "gpu", title: "other GPU metrics", groups: ["gpu"], height: 90, off: true },
  { id: "engine", title: "the engine's own metrics", groups: ["engine"], height: 90, off: true },
  { id: "host", title: "host: CPU %, lag ms", groups: ["host"], height: 90, off: true },
];

function panelSeries(panel) {
  const all = (RUN.data.timeline.series || []).filter((one) => one.x.length);
  return (panel.groups || []).flatMap((group) => all.filter((one) => one.group === group));
}

function hasPanel(panel) {
  return panel.id === "activity" ? RUN.data.timeline.spans.length > 0 : panelSeries(panel).length > 0 || (panel.events && RUN.data.timeline[panel.events].length > 0);
}

function drawTimeline() {
  const line = RUN.data.timeline;
  const part = section("timeline", "Timeline", "One time axis for everything. Drag to zoom, double click for all; a click on a voice or an underrun opens its utterance.");
  const there = PANELS.filter(hasPanel);
  const usual = there.filter((panel) => !panel.off);
  TIMELINE.on = new Set((usual.length ? usual : there).map((panel) => panel.id));
  if (there.length) {
    part.append(zoomButtons(line), rowToggles(there));
    TIMELINE.plot = plotCard(part, { id: "timeline-figure", title: "The run", note: spanKey(), height: timelineHeight(), keys: true, build: buildTimeline, table: timelineTables, click: openFromPoint });
  } else part.append(missing("Nothing was recorded on the timeline."));
  if (line.spans_why) part.append(el("p", { class: "muted small" }, line.spans_why));
  part.append(missingList(line.missing || []));
}

const GROUP_WORDS = { ahead: "playable ahead", gap: "gaps", fps: "frames", sm: "SM", dram: "DRAM", clock: "clocks", engine: "engine metrics", spans: "who worked" };

/** What is not on the timeline, those with one reason together. */
function missingList(all) {
  const reasons = new Map();
  for (const { what, why } of all) reasons.set(why, [...(reasons.get(why) || []), Object.hasOwn(GROUP_WORDS, what) ? GROUP_WORDS[what] : what]);
  return el("div", { class: "missing-list" }, [...reasons].map(([why, names]) => missing("Not shown: " + names.join(", ") + ".", why)));
}

function zoomButtons(line) {
  const zoom = (range) => whenPlotly(() => TIMELINE.plot.drawn && Plotly.relayout(TIMELINE.plot.box, range ? { "xaxis.range": range } : { "xaxis.autorange": false, "xaxis.range": [0, line.length_s || 1] }));
  return el("div", { class: "row chips", role: "group", "aria-label": "Zoom" }, el("span", { class: "label" }, "zoom"), el("button", { type: "button", class: "quiet", onclick: () => zoom(null) }, "Whole run"),
    line.stages.map((stage, index) => el("button", { type: "button", class: "quiet", onclick: () => zoom([stage.start_s, stage.end_s]) }, `${index + 1} `, named(stage.name))));
}

function rowToggles(there) {
  return el("div", { class: "row chips", role: "group", "aria-label": "Rows of the timeline" }, el("span", { class: "label" }, "rows"), there.map((panel) => {
    const box = el("input", { type: "checkbox", checked: TIMELINE.on.has(panel.id) });
    box.addEventListener("change", () => {
      if (box.checked) TIMELINE.on.add(panel.id);
      else TIMELINE.on.delete(panel.id);
      TIMELINE.plot.box.style.height = timelineHeight() + "px";
      if (TIMELINE.plot.drawn) { keepZoom(); drawPlot(TIMELINE.plot); }
    });
    return el("label", { class: "check" }, box, panel.title.split(",")[0]);
  }));
}

const shownPanels = () => PANELS.filter((panel) => TIMELINE.on.has(panel.id));
const panelHeight = (panel) => (panel.id === "activity" ? Math.min(320, 24 + 11 * laneRows().length) : panel.height);

function timelineHeight() {
  return 84 + shownPanels().reduce((sum, panel) => sum + panelHeight(panel) + 26, 0);
}

function keepZoom() {
  const full = TIMELINE.plot.box._fullLayout;
  TIMELINE.range = full ? full.xaxis.range.slice() : null;
}

/** Every lane of every load, top first: voices, faces, then askers as the scenario has them. */
function laneRows() {
  const rows = new Map();
  const order = Object.keys(RUN.data.run.loads || {});
  for (const span of RUN.data.timeline.spans) rows.set(span.load + "\n" + span.lane, [span.load, span.lane]);
  const place = (load) => (order.includes(load) ? order.indexOf(load) : order.length);
  return [...rows.values()].sort(([a, i], [b, j]) => place(a) - place(b) || i - j);
}

function buildTimeline() {
  const line = RUN.data.timeline;
  const c = ink();
  const panels = shownPanels();
  const total = panels.reduce((sum, panel) => sum + panelHeight(panel) + 26, 0) || 1;
  const layout = baseLayout({ showlegend: true, barmode: "overlay", margin: { l: 64, r: 12, t: 40, b: 44 }, annotations: [], shapes: stageShapes(line, c) });
  layout.xaxis = axis("", { range: TIMELINE.range || [0, line.length_s || 1], anchor: "y" + (panels.length > 1 ? panels.length : ""), showspikes: true, spikemode: "across", spikesnap: "cursor", spikethickness: 1, spikecolor: c.muted, spikedash: "dot", ticksuffix: " s", zeroline: false });
  const data = [];
  let top = 1;
  panels.forEach((panel, index) => {
    const name = "y" + (index ? index + 1 : "");
    const upper = top - 20 / total;
    const lower = upper - panelHeight(panel) / total;
    top = lower - 6 / total;
    layout["yaxis" + (index ? index + 1 : "")] = axis("", { domain: [Math.max(0, lower), upper], nticks: 4, fixedrange: true, zeroline: panel.id === "ahead", zerolinecolor: c.muted, range: panel.range, rangemode: panel.id === "ahead" ? "normal" : "tozero" });
    layout.annotations.push({ xref: "paper", yref: "paper", x: 0, y: upper, xanchor: "left", yanchor: "bottom", text: "<b>" + panel.title + "</b>", showarrow: false, font: { size: 11, color: c.fg } });
    const legend = "legend" + (index ? index + 1 : "");
    layout[legend] = { orientation: "h", x: 1, xanchor: "right", y: upper, yanchor: "bottom", font: { size: 11, color: c.fg }, bgcolor: "rgba(0,0,0,0)", itemwidth: 30, tracegroupgap: 0 };
    const traces = (panel.id === "activity" ? spanTraces(name, layout["yaxis" + (index ? index + 1 : "")], c) : seriesTraces(panel, name, c));
    data.push(...traces.map((trace) => ({ ...trace, legend })));
  });
  layout.annotations.push(...stageNames(line, c));
  return { data, layout };
}

function stageShapes(line, c) {
  return line.stages.flatMap((stage) => (stage.measure || []).map(([from, to]) => ({ type: "rect", layer: "below", x0: from, x1: to, yref: "paper", y0: 0, y1: 1, fillcolor: tint(c.pass), opacity: 0.55, line: { width: 0 } })));
}

function stageNames(line, c) {
  const width = TIMELINE.plot.box.clientWidth || 800;
  return line.stages.map((stage, index) => {
    const room = (width * (stage.end_s - stage.start_s)) / (line.length_s || 1);
    const text = room > 7 * stage.name.length + 16 ? shortName(stage.name) : String(index + 1);
    return { x: (stage.start_s + stage.end_s) / 2, yref: "paper", y: 1, yanchor: "bottom", yshift: 4, text, showarrow: false, font: { size: 11, color: c.muted } };
  });
}

const SPAN_INK = { voice: "line-1", face: "line-3", decode: "line-4", prefill: "fg" };
const SPAN_WORDS = { voice: "voice", face: "face", decode: "LLM output", prefill: "LLM prefill" };
const spanKinds = () => ["voice", "face", "decode", "prefill", ...RUN.data.timeline.spans.map((span) => span.kind)].filter((kind, index, all) => all.indexOf(kind) === index && RUN.data.timeline.spans.some((span) => span.kind === kind));

/** What the colours of the lanes mean, as words beside them. */
function spanKey() {
  return el("span", { class: "keys" }, spanKinds().map((kind) => el("span", { class: "key" }, el("span", { class: "swatch " + (kind === "decode" ? "thin" : ""), style: `background:var(--${SPAN_INK[kind] || "muted"})`, "aria-hidden": "true" }), SPAN_WORDS[kind] || kind)));
}

function spanTraces(yaxis, layout, c) {
  const rows = laneRows();
  const index = new Map(rows.map(([load, lane], row) => [load + "\n" + lane, row]));
  const loads = [...new Set(rows.map(([load]) => load))];
  const middle = (load) => { const mine = rows.flatMap(([one], row) => (one === load ? [row] : [])); return (mine[0] + mine[mine.length - 1]) / 2; };
  Object.assign(layout, { range: [rows.length - 0.4, -0.6], tickmode: "array", tickvals: loads.map(middle), ticktext: loads.map((load) => shortName(load, 14)), showgrid: false, zeroline: false, rangemode: "normal" });
  const colors = { voice: c.lines[1], face: c.lines[3], decode: c.lines[4], prefill: c.lines[0] };
  const kinds = spanKinds();
  const thick = { voice: 0.7, face: 0.7, decode: 0.35, prefill: 0.9 };
  return kinds.map((kind) => {
    const spans = RUN.data.timeline.spans.filter((span) => span.kind === kind);
    return {
      type: "bar", orientation: "h", yaxis, name: safeText(kind), showlegend: false, base: spans.map((span) => span.start_s), x: spans.map((span) => span.end_s - span.start_s), y: spans.map((span) => index.get(span.load + "\n" + span.lane)), width: thick[kind] || 0.7,
      marker: { color: colors[kind] || c.muted, line: { width: 0 } }, customdata: spans.map((span) => span.stream), hoverinfo: "text", hovertext: spans.map((span) => `${safeText(span.label)}<br>${clockText(span.start_s)}, ${msUnit((span.end_s - span.start_s) * 1000)}`), textposition: "none",
    };
  });
}

const SERIES_NAMES = { sm_percent: "SM", dram_percent: "DRAM", sm_clock_mhz: "SM", memory_clock_mhz: "memory" };
const seriesName = (one) => SERIES_NAMES[one.label] || shortName(one.label);

function seriesTraces(panel, yaxis, c) {
  const all = panelSeries(panel);
  const many = all.length > 4;
  const traces = all.map((one, index) => ({
    type: "scatter", mode: panel.id === "gap" ? "markers" : "lines", yaxis, x: one.x, y: one.y, name: seriesName(one), showlegend: !many && all.length > 1 && !(panel.events && TIMELINE.plot.box.clientWidth < 640), marker: { size: 3, color: c.lines[1] }, connectgaps: false, opacity: many ? 0.6 : 1,
    line: { width: many ? 1 : 1.4, color: many ? c.lines[1] : c.lines[(index + 1) % c.lines.length], dash: many ? "solid" : DASHES[index % DASHES.length] },
    hovertemplate: `${seriesName(one).replace(/%\{/g, "% {")}<br>%{x:.2f} s: %{y:.4~g} ${safeText(one.unit)}<extra></extra>`,
  }));
  const events = panel.events ? RUN.data.timeline[panel.events] : [];
  if (events.length) traces.push(...eventTraces(panel, events, yaxis, c));
  return traces;
}

/** Events are never left out: as a line along zero, each as long as it was; with a mark each while they can be told apart. */
function eventTraces(panel, events, yaxis, c) {
  const x = [], y = [];
  for (const one of events) { x.push(one.start_s, one.start_s + one.duration_ms / 1000, null); y.push(0, 0, null); }
  const lasting = { type: "scatter", mode: "lines", yaxis, x, y, line: { color: c.fail, width: 6 }, hoverinfo: "skip", showlegend: events.length > 2000, name: panel.what };
  const marks = {
    type: "scatter", mode: "markers", yaxis, x: events.map((one) => one.start_s), y: events.map(() => 0), name: panel.what, customdata: events.map((one) => one.stream), marker: { symbol: panel.what === "freeze" ? "square-open" : "x-thin-open", size: 9, color: c.fail, line: { width: 2, color: c.fail } },
    hoverinfo: "text", hovertext: events.map((one) => `${panel.what} of ${msUnit(one.duration_ms)}<br>${clockText(one.start_s)}, ${shortName(one.stage)}, stream ${one.stream}`),
  };
  return events.length > 2000 ? [lasting] : [lasting, marks];
}

function openFromPoint(point) {
  const stream = point.customdata;
  if (stream !== null && stream !== undefined && RUN.byStream.has(String(stream))) openUtterance(RUN.byStream.get(String(stream)));
}

/** Shows these seconds of the timeline. */
function showMoment(from_s, to_s) {
  document.getElementById("timeline").scrollIntoView();
  if (!TIMELINE.plot) return;
  TIMELINE.range = [from_s, to_s];
  whenPlotly(() => { drawPlot(TIMELINE.plot); Plotly.relayout(TIMELINE.plot.box, { "xaxis.range": [from_s, to_s] }); });
}

/* ------------------------------------------------------------------ tables */

function timelineTables() {
  const line = RUN.data.timeline;
  const events = ["underruns", "freezes"].flatMap((what) => line[what].map((one) => ({ ...one, what: what.slice(0, -1) }))).map((one, index) => ({ ...one, index }));
  const box = el("div", {}, extremesTable(line));
  if (!events.length) return put(box, el("p", { class: "muted" }, "No underrun and no freeze was recorded."));
  const table = pagedTable({
    id: "events-table", label: "Underruns and freezes", rowId: (row) => row.index, sort: "start", pageSize: 25,
    open: (row) => openFromPoint({ customdata: row.stream }),
    columns: [
      { key: "start", head: "at", unit: "m:ss", num: true, value: (row) => row.start_s, cell: (row) => clockText(row.start_s) },
      { key: "what", head: "what", value: (row) => row.what, cell: (row) => row.what.replace("freeze", "freeze") },
      { key: "stage", head: "stage", value: (row) => row.stage, cell: (row) => named(row.stage) },
      { key: "stream", head: "stream", num: true, value: (row) => row.stream, cell: (row) => String(row.stream) },
      { key: "duration", head: "lasted", unit: "ms", num: true, value: (row) => row.duration_ms, cell: (row) => msText(row.duration_ms) },
    ],
  });
  table.show(events);
  return put(box, table.node);
}

/** Lowest and highest of each series in each stage: decimation keeps both, so they are exact. */
function extremesTable(line) {
  const stages = line.stages;
  const shown = line.series.filter((one) => one.x.length);
  const rows = shown.map((one) => [one.label + (one.unit ? ", " + one.unit : ""), ...stages.map((stage) => {
    let low = Infinity, high = -Infinity;
    one.x.forEach((x, index) => { const y = one.y[index]; if (isNumber(y) && x >= stage.start_s && x <= stage.end_s) { low = Math.min(low, y); high = Math.max(high, y); } });
    return low > high ? NONE : `${plainText(low)} … ${plainText(high)}`;
  })]);
  return plainTable([{ head: "lowest … highest" }, ...stages.map((stage) => ({ head: stage.name, num: true }))], rows);
}
