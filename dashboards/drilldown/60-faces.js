// The faces: frames, freezes, lip sync; and lines over the time of the run, for all who draw them.
"use strict";

const stageWord = (name) => (name.startsWith("solo:") ? "alone" : name);
const stageLabel = (name) => named(stageWord(name));

function drawFaces() {
  const faces = RUN.data.faces || {};
  const names = Object.keys(faces).sort((a, b) => b.startsWith("solo:") - a.startsWith("solo:"));
  const part = section("faces", "Faces");
  if (!names.length) {
    part.append(
      missing("No face was measured.", missingWhy("fps") || missingWhy("freezes") || "No stage has a faces load."),
    );
    return;
  }
  part.append(el("div", { class: "scroll", tabindex: "0" }, facesTable(names)));
  const plots = el("div", { class: "two" });
  part.append(stageKeys(names, stageWord), plots);
  plotCard(plots, {
    id: "faces-fps",
    title: "Frames a second",
    note: RUN.data.timeline.freezes.length ? "the lowest of all faces; □ freeze" : "the lowest of all faces",
    height: 280,
    build: () => overTime(faces, "fps", "frames a second", freezeTraces),
    table: () => seriesTable(faces, "fps", "fps"),
  });
  plotCard(plots, {
    id: "faces-skew",
    title: "Lip sync",
    note: "above zero the sound is early; bands of ITU-R BT.1359",
    height: 280,
    build: () => skewPlot(faces),
    table: () => seriesTable(faces, "skew_ms", "skew, ms"),
  });
  const clips = names.flatMap((name) => (faces[name].by_face || []).map((one) => [name, one]));
  if (clips.length)
    part.append(
      el(
        "details",
        { class: "astable" },
        el("summary", {}, `Each clip (${clips.length})`),
        el("div", { class: "scroll", tabindex: "0" }, clipsTable(clips)),
      ),
    );
}

function facesTable(names) {
  const num = (head, unit) => ({ head, unit, num: true });
  const columns = [
    { head: "stage" },
    num("fps p5 / min"),
    num("harmonic fps"),
    num("freezes"),
    num("a minute"),
    num("first frame p95", "ms"),
    num("dropped", "%"),
    num("latency p95", "ms"),
    num("skew p5 / p50 / p95", "ms"),
    num("skew noticeable / unacceptable", "% of time"),
  ];
  return plainTable(
    columns,
    names.map((name) => {
      const entry = entryOf(name);
      const face = (entry && entry.face) || at(RUN.data.summary, "solo." + name.replace("solo:", "")) || {};
      const read = (path) => at(face, path);
      return [
        stageLabel(name),
        `${plainText(read("fps_p5"), 0)} / ${plainText(read("fps_min"), 0)}`,
        plainText(read("harmonic_fps"), 1),
        plainText(read("freezes"), 0),
        plainText(read("freezes_per_minute"), 1),
        msText(read("first_frame_ms.p95")),
        shareText(read("dropped_share"), 1),
        msText(read("frame_latency_ms.p95")),
        ["p5", "p50", "p95"].map((q) => msText(read("skew_ms." + q), null, true)).join(" / "),
        `${shareText(read("skew_outside.detect"))} / ${shareText(read("skew_outside.accept"))}`,
      ];
    }),
  );
}

function clipsTable(clips) {
  const num = (head, unit) => ({ head, unit, num: true });
  return plainTable(
    [
      { head: "stage" },
      num("due", "m:ss"),
      num("listener"),
      num("mean fps"),
      num("freezes"),
      num("longest gap", "ms"),
      num("first frame", "ms"),
      num("dropped"),
      num("skew p50", "ms"),
      num("skew p95", "ms"),
    ],
    clips.map(([name, one]) => [
      named(name),
      clockText(one.due_s),
      plainText(one.listener, 0),
      plainText(one.fps_mean, 1),
      plainText(one.freezes, 0),
      msText(at(one, "longest_ms")),
      msText(one.first_frame_ms),
      plainText(one.dropped, 0),
      msText(one.skew_p50_ms, null, true),
      msText(one.skew_p95_ms, null, true),
    ]),
  );
}

/** One line a stage over the run's time. */
function overTime(byStage, key, unit, more) {
  const data = Object.entries(byStage)
    .filter(([, one]) => one[key] && one[key].x.length)
    .map(([name, one]) => ({
      x: one[key].x,
      y: one[key].y,
      mode: "lines",
      name: shortName(stageWord(name)),
      line: { ...stageStyle(name), width: 1.6 },
      hovertemplate: `%{x:.1f} s: %{y:.1f} ${unit}<extra></extra>`,
    }));
  if (more) data.push(...more());
  return {
    data,
    layout: baseLayout({
      xaxis: axis("seconds since the start", { zeroline: false }),
      yaxis: axis(unit, { rangemode: "tozero" }),
    }),
  };
}

function freezeTraces() {
  const freezes = RUN.data.timeline.freezes || [];
  if (!freezes.length) return [];
  const c = ink();
  return [
    {
      x: freezes.map((one) => one.start_s),
      y: freezes.map(() => 0),
      mode: "markers",
      name: "freeze",
      marker: { symbol: "square-open", size: 8, color: c.fail, line: { width: 2 } },
      hoverinfo: "text",
      hovertext: freezes.map((one) => `freeze of ${msUnit(one.duration_ms)}, ${shortName(one.stage)}`),
    },
  ];
}

function skewPlot(faces) {
  const limits = RUN.data.limits || {};
  const c = ink();
  const plot = overTime(faces, "skew_ms", "skew, ms");
  const all = plot.data.flatMap((trace) => trace.y.filter(isNumber));
  const low = Math.max(-600, Math.min(-220, ...all)),
    high = Math.min(600, Math.max(140, ...all));
  const marks = [
    skewBand(limits.skew_detect_ms, c.muted, "dash", "noticeable"),
    skewBand(limits.skew_accept_ms, c.fail, "dot", "unacceptable"),
  ];
  const annotations = marks.flatMap((mark) => mark.annotations);
  if (all.some((y) => y > high))
    annotations.push({
      xref: "paper",
      x: 0,
      xanchor: "left",
      y: high,
      yanchor: "bottom",
      text: `▲ further out, up to ${msUnit(Math.max(...all), null, true)}`,
      showarrow: false,
      font: { size: 11, color: c.fail },
    });
  plot.data.push(...plot.data.flatMap((trace) => farMarks(trace, low, high)));
  Object.assign(plot.layout, {
    annotations,
    shapes: marks.flatMap((mark) => mark.shapes),
    yaxis: axis("skew, ms", { range: [low * 1.08, high * 1.15] }),
  });
  return plot;
}

function skewBand(range, color, dash, text) {
  if (!range) return { shapes: [], annotations: [] };
  const note = (y, yanchor, sign) => ({
    xref: "paper",
    x: 1,
    xanchor: "right",
    y,
    yanchor,
    text: `${text} ${sign}${Math.abs(y)}`,
    showarrow: false,
    font: { size: 10, color },
  });
  const inside = {
    type: "rect",
    layer: "below",
    xref: "paper",
    x0: 0,
    x1: 1,
    y0: range[0],
    y1: range[1],
    fillcolor: tint(ink().pass),
    line: { width: 0 },
  };
  const lines = range.map((y) => ({
    type: "line",
    xref: "paper",
    x0: 0,
    x1: 1,
    y0: y,
    y1: y,
    line: { color, width: 1, dash },
  }));
  return { shapes: [inside, ...lines], annotations: [note(range[1], "bottom", "+"), note(range[0], "top", MINUS)] };
}

/** Minutes of skew would flatten the bands: what is further out stands at the edge, as a triangle with its value. */
function farMarks(trace, low, high) {
  const far = trace.x.map((x, index) => [x, trace.y[index]]).filter(([, y]) => isNumber(y) && (y > high || y < low));
  if (!far.length) return [];
  return [
    {
      x: far.map(([x]) => x),
      y: far.map(([, y]) => (y > high ? high : low)),
      mode: "markers",
      showlegend: false,
      marker: {
        size: 7,
        color: trace.line.color,
        symbol: far.map(([, y]) => (y > high ? "triangle-up" : "triangle-down")),
      },
      hoverinfo: "text",
      hovertext: far.map(([x, y]) => `${clockText(x)}: ${msUnit(y, null, true)}`),
    },
  ];
}

function seriesTable(byStage, key, head) {
  const rows = Object.entries(byStage).flatMap(([name, one]) =>
    one[key] ? one[key].x.map((x, index) => [clockText(x), named(name), plainText(one[key].y[index], 1)]) : [],
  );
  return plainTable([{ head: "at", unit: "m:ss", num: true }, { head: "stage" }, { head, num: true }], rows);
}
