// The two plots of the lookahead: clean utterances with their bounds, and when playback starts.
"use strict";

function cursorShapes(which) {
  const plan = RUN.data.what_if;
  const c = ink();
  const line = (x, dash, width) => ({
    type: "line",
    x0: x,
    x1: x,
    yref: "paper",
    y0: 0,
    y1: 1,
    line: { color: c.fg, width, dash },
  });
  const shapes = [line(plan.lookahead_ms[plan.own], "dot", 1), line(plan.lookahead_ms[WHATIF.index], "solid", 1.5)];
  const limit = whatIfLimit(which);
  if (limit !== null)
    shapes.push({
      type: "line",
      xref: "paper",
      x0: 0,
      x1: 1,
      y0: limit,
      y1: limit,
      line: { color: c.fail, width: 1, dash: "dash" },
    });
  return shapes;
}

/** The limit that a gate sets on the plotted number, if all the stages have the same one. */
function whatIfLimit(which) {
  const metric = which === "clean" ? "speech.clean_share" : "speech.time_to_playback_ms.p95";
  const limits = new Set(
    (RUN.data.summary.stages || []).flatMap((stage) =>
      (stage.gates || []).filter((gate) => gate.metric === metric).map((gate) => gate.limit),
    ),
  );
  return limits.size === 1 ? [...limits][0] * (which === "clean" ? 100 : 1) : null;
}

function whatIfPlot(which) {
  const plan = RUN.data.what_if;
  const clean = which === "clean";
  const data = Object.entries(plan.stages).flatMap(([name, stage]) => {
    const style = stageStyle(name);
    const band = clean && name === WHATIF.band ? cleanBand(plan.lookahead_ms, stage, style.color) : [];
    return [
      ...band,
      {
        x: plan.lookahead_ms,
        y: clean ? stage.clean_share.map((v) => (isNumber(v) ? v * 100 : null)) : stage.playback_p95_ms,
        customdata: plan.lookahead_ms.map((_, index) => index),
        mode: "lines",
        name: shortName(name),
        line: { ...style, width: 2 },
        hovertemplate: `${hoverName(name)}, %{x:.0f} ms: ${clean ? "%{y:.1f} % clean" : "starts at %{y:.0f} ms"}<extra></extra>`,
      },
    ];
  });
  return {
    data,
    layout: baseLayout({
      xaxis: axis("lookahead, ms"),
      yaxis: axis(
        clean ? "clean, %" : "time to playback p95, ms",
        clean ? { range: [-2, 103] } : { rangemode: "tozero" },
      ),
      shapes: cursorShapes(which),
      annotations: limitNote(which),
    }),
  };
}

function cleanBand(x, stage, color) {
  const edge = (part, other) =>
    part.map((v, index) => (isNumber(v) ? v * 100 : isNumber(stage.clean_share[index]) ? other : null));
  const line = { x, mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false };
  return [
    { ...line, y: edge(stage.high, 100) },
    { ...line, y: edge(stage.low, 0), fill: "tonexty", fillcolor: tint(color) },
  ];
}

function limitNote(which) {
  const limit = whatIfLimit(which);
  if (limit === null) return [];
  const clean = which === "clean";
  return [
    {
      xref: "paper",
      x: 1,
      xanchor: "right",
      y: limit,
      yanchor: clean ? "top" : "bottom",
      text: clean ? `at least ${limit} % asked` : `at most ${limit} ms asked`,
      showarrow: false,
      font: { size: 11, color: ink().fail },
    },
  ];
}

function whatIfTable(which) {
  const plan = RUN.data.what_if;
  const stages = Object.entries(plan.stages);
  const clean = which === "clean";
  const columns = [
    { head: "lookahead", unit: "ms", num: true },
    { head: "run" },
    ...stages.map(([name]) => ({ head: name, unit: clean ? "%" : "ms", num: true })),
  ];
  const cell = (stage, index) => {
    if (!clean) return msText(stage.playback_p95_ms[index]);
    const bounds =
      isNumber(stage.low[index]) || isNumber(stage.high[index])
        ? ` (${shareText(stage.low[index])} … ${shareText(stage.high[index])})`
        : "";
    return shareText(stage.clean_share[index]) + bounds;
  };
  return plainTable(
    columns,
    plan.lookahead_ms.map((ms, index) => [
      msText(ms),
      plan.run_word[index],
      ...stages.map(([, stage]) => cell(stage, index)),
    ]),
    clean ? "Clean utterances, with one-sided 95 % bounds" : "Time to playback, p95",
  );
}
