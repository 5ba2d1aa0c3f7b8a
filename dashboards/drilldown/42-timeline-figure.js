// The figure of the timeline: rows that share one time axis, continuous series as lines, every event as a mark.
"use strict";

function buildTimeline() {
  const line = RUN.data.timeline;
  const c = ink();
  const panels = shownPanels();
  const total = panels.reduce((sum, panel) => sum + panelHeight(panel) + 26, 0) || 1;
  const layout = baseLayout({
    showlegend: true,
    barmode: "overlay",
    margin: { l: 64, r: 12, t: 40, b: 44 },
    annotations: [],
    shapes: stageShapes(line, c),
  });
  layout.xaxis = axis("", {
    range: TIMELINE.range || [0, line.length_s || 1],
    anchor: "y" + (panels.length > 1 ? panels.length : ""),
    showspikes: true,
    spikemode: "across",
    spikesnap: "cursor",
    spikethickness: 1,
    spikecolor: c.muted,
    spikedash: "dot",
    ticksuffix: " s",
    zeroline: false,
  });
  let top = 1;
  const data = panels.flatMap((panel, index) => {
    const upper = top - 20 / total;
    const lower = upper - panelHeight(panel) / total;
    top = lower - 6 / total;
    return panelTraces(panel, index ? String(index + 1) : "", [Math.max(0, lower), upper], layout, c);
  });
  layout.annotations.push(...stageNames(line, c));
  return { data, layout };
}

/** One row: its axis, title and legend go into the layout; returns its traces. */
function panelTraces(panel, number, domain, layout, c) {
  const y = axis("", {
    domain,
    nticks: 4,
    fixedrange: true,
    zeroline: panel.id === "ahead",
    zerolinecolor: c.muted,
    range: panel.range,
    rangemode: panel.id === "ahead" ? "normal" : "tozero",
  });
  layout["yaxis" + number] = y;
  layout["legend" + number] = {
    orientation: "h",
    x: 1,
    xanchor: "right",
    y: domain[1],
    yanchor: "bottom",
    font: { size: 11, color: c.fg },
    bgcolor: "rgba(0,0,0,0)",
    itemwidth: 30,
  };
  layout.annotations.push({
    xref: "paper",
    yref: "paper",
    x: 0,
    y: domain[1],
    xanchor: "left",
    yanchor: "bottom",
    text: "<b>" + panel.title + "</b>",
    showarrow: false,
    font: { size: 11, color: c.fg },
  });
  const traces = panel.id === "activity" ? spanTraces("y" + number, y, c) : seriesTraces(panel, "y" + number, c);
  return traces.map((trace) => ({ ...trace, legend: "legend" + number }));
}

function stageShapes(line, c) {
  return line.stages.flatMap((stage) =>
    (stage.measure || []).map(([from, to]) => ({
      type: "rect",
      layer: "below",
      x0: from,
      x1: to,
      yref: "paper",
      y0: 0,
      y1: 1,
      fillcolor: c.pass,
      opacity: 0.08,
      line: { width: 0 },
    })),
  );
}

function stageNames(line, c) {
  const width = TIMELINE.plot.box.clientWidth || 800;
  return line.stages.map((stage, index) => {
    const room = (width * (stage.end_s - stage.start_s)) / (line.length_s || 1);
    const text = room > 7 * stage.name.length + 16 ? shortName(stage.name) : String(index + 1);
    return {
      x: (stage.start_s + stage.end_s) / 2,
      yref: "paper",
      y: 1,
      yanchor: "bottom",
      yshift: 4,
      text,
      showarrow: false,
      font: { size: 11, color: c.muted },
    };
  });
}

const SERIES_NAMES = { sm_percent: "SM", dram_percent: "DRAM", sm_clock_mhz: "SM", memory_clock_mhz: "memory" };
const seriesName = (one) => SERIES_NAMES[one.label] || shortName(one.label);

function seriesTraces(panel, yaxis, c) {
  const all = panelSeries(panel);
  const many = all.length > 4;
  const traces = all.map((one, index) => ({
    type: "scatter",
    mode: panel.id === "gap" ? "markers" : "lines",
    yaxis,
    x: one.x,
    y: one.y,
    name: seriesName(one),
    showlegend: !many && all.length > 1 && !(panel.events && TIMELINE.plot.box.clientWidth < 640),
    marker: { size: 3, color: c.lines[1] },
    connectgaps: false,
    opacity: many ? 0.6 : 1,
    line: {
      width: many ? 1 : 1.4,
      color: many ? c.lines[1] : c.lines[(index + 1) % c.lines.length],
      dash: many ? "solid" : DASHES[index % DASHES.length],
    },
    hovertemplate: `${hoverName(SERIES_NAMES[one.label] || one.label)}<br>%{x:.2f} s: %{y:.4~g} ${safeText(one.unit)}<extra></extra>`,
  }));
  const events = panel.events ? RUN.data.timeline[panel.events] : [];
  if (events.length) traces.push(...eventTraces(panel, events, yaxis, c));
  return traces;
}

/** Events are never left out: as a line along zero, each as long as it was; with a mark each while they can be told apart. */
function eventTraces(panel, events, yaxis, c) {
  const x = [],
    y = [];
  for (const one of events) {
    x.push(one.start_s, one.start_s + one.duration_ms / 1000, null);
    y.push(0, 0, null);
  }
  const lasting = {
    type: "scatter",
    mode: "lines",
    yaxis,
    x,
    y,
    line: { color: c.fail, width: 6 },
    hoverinfo: "skip",
    showlegend: events.length > 2000,
    name: panel.what,
  };
  const marks = {
    type: "scatter",
    mode: "markers",
    yaxis,
    x: events.map((one) => one.start_s),
    y: events.map(() => 0),
    name: panel.what,
    customdata: events.map((one) => one.stream),
    marker: {
      symbol: panel.what === "freeze" ? "square-open" : "x-thin-open",
      size: 9,
      color: c.fail,
      line: { width: 2, color: c.fail },
    },
    hoverinfo: "text",
    hovertext: events.map(
      (one) =>
        `${panel.what} of ${msUnit(one.duration_ms)}<br>${clockText(one.start_s)}, ${shortName(one.stage)}, stream ${one.stream}`,
    ),
  };
  return events.length > 2000 ? [lasting] : [lasting, marks];
}
