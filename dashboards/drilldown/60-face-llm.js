// The faces (frames, freezes, lip sync) and the LLM loads (first token, gaps, rate, open requests).
"use strict";

const stageWord = (name) => (name.startsWith("solo:") ? "alone" : name);
const stageLabel = (name) => named(stageWord(name));

function drawFaces() {
  const faces = RUN.data.faces || {};
  const names = Object.keys(faces).sort((a, b) => b.startsWith("solo:") - a.startsWith("solo:"));
  const part = section("faces", "Faces");
  if (!names.length) {
    part.append(missing("No face was measured.", missingWhy("fps") || missingWhy("freezes") || "No stage has a faces load."));
    return;
  }
  part.append(el("div", { class: "scroll", tabindex: "0" }, facesTable(names)));
  const plots = el("div", { class: "two" });
  part.append(stageKeys(names, stageWord), plots);
  plotCard(plots, { id: "faces-fps", title: "Frames a second", note: RUN.data.timeline.freezes.length ? "the lowest of all faces; □ freeze" : "the lowest of all faces", height: 280, build: () => overTime(faces, "fps", "frames a second", freezeTraces), table: () => seriesTable(faces, "fps", "fps") });
  plotCard(plots, { id: "faces-skew", title: "Lip sync", note: "above zero the sound is early; bands of ITU-R BT.1359", height: 280, build: () => skewPlot(faces), table: () => seriesTable(faces, "skew_ms", "skew, ms") });
  const clips = names.flatMap((name) => (faces[name].by_face || []).map((one) => [name, one]));
  if (clips.length) part.append(el("details", { class: "astable" }, el("summary", {}, `Each clip (${clips.length})`), el("div", { class: "scroll", tabindex: "0" }, clipsTable(clips))));
}

function facesTable(names) {
  const num = (head, unit) => ({ head, unit, num: true });
  const columns = [{ head: "stage" }, num("fps p5 / min"), num("harmonic fps"), num("freezes"), num("a minute"), num("first frame p95", "ms"), num("dropped", "%"), num("latency p95", "ms"), num("skew p5 / p50 / p95", "ms"), num("skew noticeable / unacceptable", "% of time")];
  return plainTable(columns, names.map((name) => {
    const entry = entryOf(name);
    const face = (entry && entry.face) || at(RUN.data.summary, "solo." + name.replace("solo:", "")) || {};
    const read = (path) => at(face, path);
    return [stageLabel(name), `${plainText(read("fps_p5"), 0)} / ${plainText(read("fps_min"), 0)}`, plainText(read("harmonic_fps"), 1), plainText(read("freezes"), 0), plainText(read("freezes_per_minute"), 1), msText(read("first_frame_ms.p95")), shareText(read("dropped_share"), 1), msText(read("frame_latency_ms.p95")),
      ["p5", "p50", "p95"].map((q) => msText(read("skew_ms." + q), null, true)).join(" / "), `${shareText(read("skew_outside.detect"))} / ${shareText(read("skew_outside.accept"))}`];
  }));
}

function clipsTable(clips) {
  const num = (head, unit) => ({ head, unit, num: true });
  return plainTable([{ head: "stage" }, num("due", "m:ss"), num("listener"), num("mean fps"), num("freezes"), num("longest gap", "ms"), num("first frame", "ms"), num("dropped"), num("skew p50", "ms"), num("skew p95", "ms")],
    clips.map(([name, one]) => [named(name), clockText(one.due_s), plainText(one.listener, 0), plainText(one.fps_mean, 1), plainText(one.freezes, 0), msText(at(one, "longest_ms")), msText(one.first_frame_ms), plainText(one.dropped, 0), msText(one.skew_p50_ms, null, true), msText(one.skew_p95_ms, null, true)]));
}

/** One line a stage over the run's time. */
function overTime(byStage, key, unit, more) {
  const data = Object.entries(byStage).filter(([, one]) => one[key] && one[key].x.length).map(([name, one]) => ({ x: one[key].x, y: one[key].y, mode: "lines", name: shortName(stageWord(name)), line: { ...stageStyle(name), width: 1.6 }, hovertemplate: `%{x:.1f} s: %{y:.1f} ${unit}<extra></extra>` }));
  if (more) data.push(...more());
  return { data, layout: baseLayout({ xaxis: axis("seconds since the start", { zeroline: false }), yaxis: axis(unit, { rangemode: "tozero" }) }) };
}

function freezeTraces() {
  const freezes = RUN.data.timeline.freezes || [];
  if (!freezes.length) return [];
  const c = ink();
  return [{ x: freezes.map((one) => one.start_s), y: freezes.map(() => 0), mode: "markers", name: "freeze", marker: { symbol: "square-open", size: 8, color: c.fail, line: { width: 2 } }, hoverinfo: "text", hovertext: freezes.map((one) => `freeze of ${msUnit(one.duration_ms)}, ${shortName(one.stage)}`) }];
}

function skewPlot(faces) {
  const c = ink();
  const limits = RUN.data.limits || {};
  const plot = overTime(faces, "skew_ms", "skew, ms");
  const shapes = [], annotations = [];
  const band = (range, color, dash, text) => {
    if (!range) return;
    for (const y of range) shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, y0: y, y1: y, line: { color, width: 1, dash } });
    annotations.push({ xref: "paper", x: 1, xanchor: "right", y: range[1], yanchor: "bottom", text: `${text} +${range[1]}`, showarrow: false, font: { size: 10, color } }, { xref: "paper", x: 1, xanchor: "right", y: range[0], yanchor: "top", text: `${text} ${MINUS}${-range[0]}`, showarrow: false, font: { size: 10, color } });
  };
  band(limits.skew_detect_ms, c.muted, "dash", "noticeable");
  band(limits.skew_accept_ms, c.fail, "dot", "unacceptable");
  if (limits.skew_detect_ms) shapes.push({ type: "rect", layer: "below", xref: "paper", x0: 0, x1: 1, y0: limits.skew_detect_ms[0], y1: limits.skew_detect_ms[1], fillcolor: tint(c.pass), line: { width: 0 } });
  const all = plot.data.flatMap((trace) => trace.y.filter(isNumber));
  const low = Math.max(-600, Math.min(-220, ...all)), high = Math.min(600, Math.max(140, ...all));
  // Minutes of skew would flatten the bands: what is further out stands at the edge, as a triangle with its value.
  for (const trace of plot.data.slice()) {
    const far = trace.x.map((x, index) => [x, trace.y[index]]).filter(([, y]) => isNumber(y) && (y > high || y < low));
    if (far.length) plot.data.push({ x: far.map(([x]) => x), y: far.map(([, y]) => (y > high ? high : low)), mode: "markers", showlegend: false, marker: { size: 7, color: trace.line.color, symbol: far.map(([, y]) => (y > high ? "triangle-up" : "triangle-down")) }, hoverinfo: "text", hovertext: far.map(([x, y]) => `${clockText(x)}: ${msUnit(y, null, true)}`) });
  }
  Object.assign(plot.layout, { shapes, annotations });
  if (all.some((y) => y > high || y < low)) annotations.push({ xref: "paper", x: 0, xanchor: "left", y: high, yanchor: "bottom", text: `▲ further out, up to ${msUnit(Math.max(...all), null, true)}`, showarrow: false, font: { size: 11, color: c.fail } });
  plot.layout.yaxis = axis("skew, ms", { range: [low * 1.08, high * 1.15] });
  return plot;
}

function seriesTable(byStage, key, head) {
  const rows = Object.entries(byStage).flatMap(([name, one]) => (one[key] ? one[key].x.map((x, index) => [clockText(x), named(name), plainText(one[key].y[index], 1)]) : []));
  return plainTable([{ head: "at", unit: "m:ss", num: true }, { head: "stage" }, { head, num: true }], rows);
}

/* ------------------------------------------------------------------ LLM */

function drawLlm() {
  const loads = Object.entries(RUN.data.llm || {}).filter(([, stages]) => Object.keys(stages).length);
  const part = section("llm", "LLM");
  if (!loads.length) {
    part.append(missing("No LLM load was measured.", "No stage asks an LLM."));
    return;
  }
  for (const [load, stages] of loads) {
    const about = at(RUN.data.run.loads, load) || {};
    part.append(el("h3", {}, named(about.label || load)), el("div", { class: "scroll", tabindex: "0" }, llmTable(load, Object.keys(stages))));
    const plots = el("div", { class: "four" });
    part.append(stageKeys(Object.keys(stages), stageWord), plots);
    const id = "llm-" + loads.findIndex(([one]) => one === load);
    plotCard(plots, { id: id + "-ttft", title: "Time to first token", height: 230, build: () => quantilePlot(stages, "ttft_ms", "ms"), table: () => quantileTable(stages, "ttft_ms") });
    plotCard(plots, { id: id + "-itl", title: "Gap between tokens", height: 230, build: () => quantilePlot(stages, "itl_ms", "ms"), table: () => quantileTable(stages, "itl_ms") });
    plotCard(plots, { id: id + "-rate", title: "Tokens a second", height: 230, build: () => overTime(stages, "tokens_per_s", "tokens a second"), table: () => seriesTable(stages, "tokens_per_s", "tokens/s") });
    plotCard(plots, { id: id + "-open", title: "Open requests", height: 230, build: () => overTime(stages, "open", "open requests"), table: () => seriesTable(stages, "open", "open") });
  }
}

function llmTable(load, names) {
  const num = (head, unit) => ({ head, unit, num: true });
  const columns = [{ head: "stage" }, num("TTFT p50", "ms"), num("TTFT p95", "ms"), num("ITL p50", "ms"), num("ITL p99", "ms"), num("output", "tok/s"), num("prompts", "tok/s"), num("finished"), num("open"), num("failed"), { head: "load" }];
  return plainTable(columns, names.map((name) => {
    const entry = entryOf(name);
    const solo = name.startsWith("solo:") ? at(RUN.data.summary, "solo") : null;
    const one = (solo ? solo[load] : entry && entry.llm && entry.llm[load]) || {};
    const ms = (path) => { const value = at(one, path), why = at(one, "why") || {}; return el("span", { title: value === null ? why[path] || null : null }, msText(value, why[path])); };
    return [stageLabel(name), ms("ttft_ms.p50"), ms("ttft_ms.p95"), ms("itl_ms.p50"), ms("itl_ms.p99"), plainText(at(one, "tokens_per_s"), 1), plainText(at(one, "prompt_tokens_per_s"), 0), plainText(at(one, "finished"), 0), plainText(at(one, "open"), 0), plainText(at(one, "failed"), 0),
      el("span", { class: "nowrap" }, one.delivered === true ? "✓ delivered" : one.delivered === false ? "✗ not delivered" : NONE)];
  }));
}

/** Quantile curves lie on their side: the share of the samples under each value. */
function quantilePlot(stages, key, unit) {
  const data = Object.entries(stages).filter(([, one]) => one[key] && one[key].v && one[key].v.length).map(([name, one]) => ({ x: one[key].v, y: one[key].q.map((q) => q * 100), mode: one[key].v.length < 12 ? "lines+markers" : "lines", marker: { size: 5 }, name: shortName(stageWord(name)), line: { ...stageStyle(name), width: 1.8, shape: "hv" }, hovertemplate: "%{y:.0f} % up to %{x:.1f} ms<extra></extra>" }));
  return { data, layout: baseLayout({ xaxis: axis(unit, { range: roomy(data, true) }), yaxis: axis("% of them", { range: [-2, 103] }) }) };
}

function quantileTable(stages, key) {
  const wanted = [0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99];
  const read = (one, q) => { const index = one.q.findIndex((have) => have >= q - 1e-9); return index < 0 ? null : one.v[index]; };
  return plainTable([{ head: "stage" }, ...wanted.map((q) => ({ head: "p" + Math.round(q * 100), unit: "ms", num: true })), { head: "n", num: true }],
    Object.entries(stages).filter(([, one]) => one[key] && one[key].q).map(([name, one]) => [stageLabel(name), ...wanted.map((q) => msText(read(one[key], q))), plainText(one[key].n, 0)]));
}
