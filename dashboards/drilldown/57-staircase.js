// Sound received against sound heard: the steps of the arrivals, the line of the playback, what else ran below.
"use strict";

function drillPlot(body, row) {
  if (!row.arrival_ms || !row.arrival_ms.length) {
    body.append(missing("No arrivals are shown.", row.detail_why || "No sound arrived."));
    return;
  }
  body.append(el("h3", {}, "Arrival and playback"));
  const lanes = (row.overlaps || []).length;
  plotCard(body, {
    id: "staircase",
    title: "Sound received and sound heard",
    note: "where the lines meet, the listener hears nothing",
    height: 340 + (lanes ? 40 + 18 * new Set(row.overlaps.map((one) => one.load + one.kind)).size : 0),
    keys: true,
    build: () => staircase(row),
    table: () => drillTables(row),
  });
  if (!lanes) body.append(el("p", { class: "muted small" }, "No other load's request overlapped this utterance."));
}

/** Steps of what arrived, in ms of sound over ms since due. */
function arrived(row) {
  const x = [row.arrival_ms[0]],
    y = [0];
  let sum = 0;
  row.arrival_ms.forEach((arrival, index) => {
    x.push(arrival, arrival);
    y.push(sum, (sum += row.media_ms[index]));
  });
  return { x, y, sum };
}

/** The playhead: straight while it plays, level while it starves. */
function heard(row, total) {
  if (row.play_start_ms === null) return { x: [], y: [] };
  const x = [row.play_start_ms],
    y = [0];
  for (const one of row.events || []) {
    x.push(one.start_ms, one.start_ms + one.duration_ms);
    y.push(one.media_ms, one.media_ms);
  }
  const lost =
    RUN.data.run.player.after_underrun === "drop" && row.events.length
      ? row.events[row.events.length - 1].duration_ms
      : 0;
  const last = row.events && row.events.length ? row.events[row.events.length - 1] : null;
  if (!(last && last.open)) {
    if (lost) {
      x.push(x[x.length - 1]);
      y.push(y[y.length - 1] + lost);
    } // the clock went on: that sound was never heard
    const left = Math.max(0, total - y[y.length - 1]);
    x.push(x[x.length - 1] + left);
    y.push(y[y.length - 1] + left);
  }
  return { x, y };
}

function staircase(row) {
  const steps = arrived(row);
  const play = heard(row, steps.sum);
  const lanes = [...new Set((row.overlaps || []).map((one) => one.load + "\n" + one.kind))];
  const foot = lanes.length ? Math.min(0.4, (18 * lanes.length + 24) / (340 + 40 + 18 * lanes.length)) : 0;
  const top = foot ? foot + 0.08 : 0;
  const ends = [...steps.x, ...play.x, 0];
  const low = Math.min(...ends),
    high = Math.max(...ends);
  const room = (high - low) * 0.02;
  const layout = baseLayout({
    showlegend: true,
    barmode: "overlay",
    ...stallMarks(row, top),
    xaxis: axis("ms since it was due", {
      range: [low - room, high + room],
      anchor: lanes.length ? "y2" : "y",
      zeroline: false,
      showspikes: true,
      spikemode: "across",
      spikethickness: 1,
    }),
    yaxis: axis("ms of sound", { domain: [top, 1], rangemode: "tozero" }),
  });
  const data = soundLines(steps, play);
  if (lanes.length) {
    data.push(overlapBars(row.overlaps, lanes));
    layout.yaxis2 = axis("", {
      domain: [0, foot],
      range: [lanes.length - 0.4, -0.6],
      tickmode: "array",
      tickvals: lanes.map((_, index) => index),
      ticktext: lanes.map((lane) => laneName(lane, lanes)),
      showgrid: false,
      zeroline: false,
      fixedrange: true,
    });
  }
  return { data, layout };
}

function soundLines(steps, play) {
  const c = ink();
  return [
    {
      x: steps.x,
      y: steps.y,
      mode: "lines",
      name: "received",
      line: { color: c.lines[1], width: 2 },
      hovertemplate: "%{x:.0f} ms: %{y:.0f} ms of sound received<extra></extra>",
    },
    {
      x: play.x,
      y: play.y,
      mode: "lines",
      name: "heard",
      line: { color: c.fg, width: 2, dash: "dash" },
      hovertemplate: "%{x:.0f} ms: %{y:.0f} ms heard<extra></extra>",
    },
  ];
}

/** The moment it was due, and every silence as a band; the three longest with their length. */
function stallMarks(row, bottom) {
  const c = ink();
  const events = row.events || [];
  const due = {
    type: "line",
    x0: 0,
    x1: 0,
    yref: "paper",
    y0: 0,
    y1: 1,
    line: { color: c.muted, width: 1, dash: "dot" },
  };
  const bands = events.map((one) => ({
    type: "rect",
    layer: "below",
    x0: one.start_ms,
    x1: one.start_ms + one.duration_ms,
    yref: "paper",
    y0: bottom,
    y1: 1,
    fillcolor: c.fail,
    opacity: 0.22,
    line: { width: 0 },
  }));
  const longest = [...events].sort((a, b) => b.duration_ms - a.duration_ms).slice(0, 3);
  const notes = longest.map((one) => ({
    x: one.start_ms + one.duration_ms / 2,
    y: one.media_ms,
    yanchor: "top",
    yshift: -8,
    text: `✗ ${msUnit(one.duration_ms)} silent`,
    showarrow: false,
    font: { size: 12, color: c.fail },
  }));
  const dueNote = {
    x: 0,
    yref: "paper",
    y: 1,
    yanchor: "top",
    xanchor: "left",
    text: "due",
    showarrow: false,
    font: { size: 11, color: c.muted },
  };
  return { shapes: [due, ...bands], annotations: [dueNote, ...notes] };
}

function overlapBars(shown, lanes) {
  const c = ink();
  return {
    type: "bar",
    orientation: "h",
    yaxis: "y2",
    base: shown.map((one) => one.start_ms),
    x: shown.map((one) => one.end_ms - one.start_ms),
    y: shown.map((one) => lanes.indexOf(one.load + "\n" + one.kind)),
    width: 0.6,
    showlegend: false,
    marker: { color: shown.map((one) => c.spans[one.kind] || c.muted) },
    hoverinfo: "text",
    textposition: "none",
    hovertext: shown.map((one) => `${safeText(one.label)}<br>${msUnit(one.start_ms)} to ${msUnit(one.end_ms)}`),
  };
}

/** A load by its name; with what it did where it did two things. */
function laneName(lane, lanes) {
  const [load, kind] = lane.split("\n");
  const alone = lanes.filter((one) => one.startsWith(load + "\n")).length === 1;
  return shortName(load, 14) + (alone ? "" : kind === "decode" ? ": output" : ": " + safeText(kind));
}

function drillTables(row) {
  const ms = (head, unit) => ({ head, unit: unit === undefined ? "ms" : unit, num: true });
  const box = el("div", {});
  if (row.events && row.events.length)
    box.append(
      plainTable(
        [ms("underrun", ""), ms("began"), ms("lasted"), ms("at sound")],
        row.events.map((one, index) => [
          String(index + 1),
          msText(one.start_ms),
          msText(one.duration_ms) + (one.open ? " (open)" : ""),
          msText(one.media_ms),
        ]),
        "Underruns",
      ),
    );
  if (row.overlaps && row.overlaps.length)
    box.append(
      plainTable(
        [{ head: "what ran" }, { head: "kind" }, ms("from"), ms("to"), ms("requests", "")],
        row.overlaps.map((one) => [
          one.label,
          one.kind,
          msText(one.start_ms),
          msText(one.end_ms),
          plainText(at(one, "n"), 0),
        ]),
        "What else ran",
      ),
    );
  let sum = 0;
  box.append(
    plainTable(
      [ms("chunk", ""), ms("arrived"), ms("gap before"), ms("its sound"), ms("sound so far")],
      row.arrival_ms.map((arrival, index) => [
        String(index + 1),
        msText(arrival),
        index ? msText(arrival - row.arrival_ms[index - 1]) : NONE,
        msText(row.media_ms[index]),
        msText((sum += row.media_ms[index])),
      ]),
      "Chunks",
    ),
  );
  return box;
}
