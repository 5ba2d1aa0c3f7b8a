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
  return panel.id === "activity"
    ? RUN.data.timeline.spans.length > 0
    : panelSeries(panel).length > 0 || (panel.events && RUN.data.timeline[panel.events].length > 0);
}

function drawTimeline() {
  const line = RUN.data.timeline;
  const part = section(
    "timeline",
    "Timeline",
    "One time axis for everything. Drag to zoom, double click for all; a click on a voice or an underrun opens its utterance.",
  );
  const there = PANELS.filter(hasPanel);
  const usual = there.filter((panel) => !panel.off);
  TIMELINE.on = new Set((usual.length ? usual : there).map((panel) => panel.id));
  if (there.length) {
    part.append(zoomButtons(line), rowToggles(there));
    TIMELINE.plot = plotCard(part, {
      id: "timeline-figure",
      title: "The run",
      note: spanKey(),
      height: timelineHeight(),
      keys: true,
      build: buildTimeline,
      table: timelineTables,
      click: openFromPoint,
    });
  } else part.append(missing("Nothing was recorded on the timeline."));
  if (line.spans_why) part.append(el("p", { class: "muted small" }, line.spans_why));
  part.append(missingList(line.missing || []));
}

const GROUP_WORDS = {
  ahead: "playable ahead",
  gap: "gaps",
  fps: "frames",
  sm: "SM",
  dram: "DRAM",
  clock: "clocks",
  engine: "engine metrics",
  spans: "who worked",
};

/** What is not on the timeline, those with one reason together. */
function missingList(all) {
  const reasons = new Map();
  for (const { what, why } of all)
    reasons.set(why, [...(reasons.get(why) || []), Object.hasOwn(GROUP_WORDS, what) ? GROUP_WORDS[what] : what]);
  return el(
    "div",
    { class: "missing-list" },
    [...reasons].map(([why, names]) => missing("Not shown: " + names.join(", ") + ".", why)),
  );
}

function zoomButtons(line) {
  const zoom = (range) =>
    whenPlotly(
      () =>
        TIMELINE.plot.drawn &&
        Plotly.relayout(
          TIMELINE.plot.box,
          range ? { "xaxis.range": range } : { "xaxis.autorange": false, "xaxis.range": [0, line.length_s || 1] },
        ),
    );
  return el(
    "div",
    { class: "row chips", role: "group", "aria-label": "Zoom" },
    el("span", { class: "label" }, "zoom"),
    el("button", { type: "button", class: "quiet", onclick: () => zoom(null) }, "Whole run"),
    line.stages.map((stage, index) =>
      el(
        "button",
        { type: "button", class: "quiet", onclick: () => zoom([stage.start_s, stage.end_s]) },
        `${index + 1} `,
        named(stage.name),
      ),
    ),
  );
}

function rowToggles(there) {
  return el(
    "div",
    { class: "row chips", role: "group", "aria-label": "Rows of the timeline" },
    el("span", { class: "label" }, "rows"),
    there.map((panel) => {
      const box = el("input", { type: "checkbox", checked: TIMELINE.on.has(panel.id) });
      box.addEventListener("change", () => {
        if (box.checked) TIMELINE.on.add(panel.id);
        else TIMELINE.on.delete(panel.id);
        TIMELINE.plot.box.style.height = timelineHeight() + "px";
        if (TIMELINE.plot.drawn) {
          keepZoom();
          drawPlot(TIMELINE.plot);
        }
      });
      return el("label", { class: "check" }, box, panel.title.split(",")[0]);
    }),
  );
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

function openFromPoint(point) {
  const stream = point.customdata;
  if (stream !== null && stream !== undefined && RUN.byStream.has(String(stream)))
    openUtterance(RUN.byStream.get(String(stream)));
}

/** Shows these seconds of the timeline. */
function showMoment(from_s, to_s) {
  document.getElementById("timeline").scrollIntoView();
  if (!TIMELINE.plot) return;
  TIMELINE.range = [from_s, to_s];
  whenPlotly(() => {
    drawPlot(TIMELINE.plot);
    Plotly.relayout(TIMELINE.plot.box, { "xaxis.range": [from_s, to_s] });
  });
}

function timelineTables() {
  const line = RUN.data.timeline;
  const events = ["underruns", "freezes"]
    .flatMap((what) => line[what].map((one) => ({ ...one, what: what.slice(0, -1) })))
    .map((one, index) => ({ ...one, index }));
  const box = el("div", {}, extremesTable(line));
  if (!events.length) return put(box, el("p", { class: "muted" }, "No underrun and no freeze was recorded."));
  const table = pagedTable({
    id: "events-table",
    label: "Underruns and freezes",
    rowId: (row) => row.index,
    sort: "start",
    pageSize: 25,
    open: (row) => openFromPoint({ customdata: row.stream }),
    columns: [
      {
        key: "start",
        head: "at",
        unit: "m:ss",
        num: true,
        value: (row) => row.start_s,
        cell: (row) => clockText(row.start_s),
      },
      { key: "what", head: "what", value: (row) => row.what, cell: (row) => row.what },
      { key: "stage", head: "stage", value: (row) => row.stage, cell: (row) => named(row.stage) },
      { key: "stream", head: "stream", num: true, value: (row) => row.stream, cell: (row) => String(row.stream) },
      {
        key: "duration",
        head: "lasted",
        unit: "ms",
        num: true,
        value: (row) => row.duration_ms,
        cell: (row) => msText(row.duration_ms),
      },
    ],
  });
  table.show(events);
  return put(box, table.node);
}

/** Lowest and highest of each series in each stage: decimation keeps both, so they are exact. */
function extremesTable(line) {
  const stages = line.stages;
  const shown = line.series.filter((one) => one.x.length);
  const rows = shown.map((one) => [
    one.label + (one.unit ? ", " + one.unit : ""),
    ...stages.map((stage) => {
      let low = Infinity,
        high = -Infinity;
      one.x.forEach((x, index) => {
        const y = one.y[index];
        if (isNumber(y) && x >= stage.start_s && x <= stage.end_s) {
          low = Math.min(low, y);
          high = Math.max(high, y);
        }
      });
      return low > high ? NONE : `${plainText(low)} … ${plainText(high)}`;
    }),
  ]);
  return plainTable([{ head: "lowest … highest" }, ...stages.map((stage) => ({ head: stage.name, num: true }))], rows);
}
