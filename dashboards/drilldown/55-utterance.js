// One utterance, down to its chunks: when its sound came, when it was heard, what else ran then, how it sounds.
"use strict";

const DRILL = { row: null, from: null };

function openUtterance(row, quiet) {
  const dialog = document.getElementById("drill");
  if (!dialog.open) DRILL.from = document.activeElement;
  DRILL.row = row;
  dropPlots(dialog);
  dialog.replaceChildren(...drillParts(row));
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
  dialog.querySelector("h2").focus();
  if (!quiet) writeAddress({ stream: String(row.stream) });
}

function closeUtterance() {
  const dialog = document.getElementById("drill");
  if (dialog.open) dialog.close();
}

/** After Escape, the button or a click outside. */
function drillClosed() {
  dropPlots(document.getElementById("drill"));
  document.getElementById("drill").replaceChildren();
  const row = DRILL.row;
  DRILL.row = null;
  writeAddress({ stream: null });
  if (row && LIST.table && LIST.table.order().includes(row) && DRILL.from && DRILL.from.closest && DRILL.from.closest("#utterances-table")) LIST.table.focusRow(row);
  else if (DRILL.from && DRILL.from.isConnected) DRILL.from.focus();
}

function stepUtterance(step) {
  const order = LIST.table.order();
  const place = order.indexOf(DRILL.row);
  const next = place < 0 ? null : order[place + step];
  if (next) openUtterance(next);
}

function drillKeys(event) {
  if (event.target.closest(".plot, audio, input, select") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
    stepUtterance(event.key === "ArrowRight" ? 1 : -1);
    event.preventDefault();
  }
}

function drillParts(row) {
  const order = LIST.table.order();
  const place = order.indexOf(row);
  const go = (text, step, key) => el("button", { type: "button", class: "quiet", disabled: place < 0 || !order[place + step], title: key, "aria-keyshortcuts": key, onclick: () => stepUtterance(step) }, text);
  const head = el("header", { class: "drill-head" },
    el("div", {}, el("h2", { id: "drill-title", tabindex: "-1" }, named(row.stage), ` · listener ${plainText(row.listener, 0)}, utterance ${plainText(row.utterance, 0)}`),
      el("p", { class: "muted" }, `stream ${row.stream}, due ${clockText(row.due_s)}`, row.round ? `, round ${row.round + 1}` : "")),
    el("div", { class: "row" }, go("← Previous", -1, "ArrowLeft"), go("Next →", 1, "ArrowRight"), el("button", { type: "button", class: "quiet", onclick: closeUtterance, "aria-keyshortcuts": "Escape" }, "Close")));
  const parts = [head, el("p", { class: "says" }, stateOf(row), " ", drillSentence(row)), drillCauses(row), drillFacts(row)];
  const body = el("div", { class: "drill-body" }, parts);
  drillPlot(body, row);
  body.append(drillSound(row));
  body.append(el("p", {}, el("button", { type: "button", class: "quiet", onclick: () => showOnTimeline(row) }, "Show on the timeline")));
  return [body];
}

function drillSentence(row) {
  if (row.error) return el("span", { class: "outside" }, row.error);
  if (row.play_start_ms === null) return "It was never heard.";
  if (!row.underruns) return `Heard without a break from ${msUnit(row.play_start_ms)} after it was due.`;
  return `${countText(row.underruns, "underrun")}, ${msUnit(row.stall_ms)} of silence in all${isNumber(row.stall_longest_ms) && row.underruns > 1 ? `, the longest ${msUnit(row.stall_longest_ms)}` : ""}.`;
}

function drillCauses(row) {
  if (row.causes && row.causes.length) return el("div", {}, el("h3", {}, "What goes with it"), el("ul", { class: "causes" }, row.causes.map((cause) => el("li", {}, cause.text))));
  if (!row.underruns) return null;
  return missing("No cause is named.", "What else ran at that time is below.");
}

function drillFacts(row) {
  const facts = [
    ["headroom", msUnit(row.headroom_ms, row.headroom_why, true)], ["TTFA", msUnit(row.ttfa_ms)], ["playback", msUnit(row.playback_ms)],
    ["needs", msUnit(at(row, "required_lookahead_ms"))], ["sound", msUnit(at(row, "audio_ms"))], ["chunks", row.arrival_ms && row.arrival_ms.length ? plainText(row.arrival_ms.length, 0) : NONE],
  ];
  if (row.delayed_ms) facts.push(["sent late by", msUnit(row.delayed_ms)]);
  return el("div", {}, el("dl", { class: "facts" }, facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))),
    row.text && el("blockquote", {}, row.text), row.request_id && el("p", { class: "muted small" }, "X-Request-Id ", el("code", {}, row.request_id)));
}

function drillSound(row) {
  const command = `cotenant listen RUN ${row.stream}`;
  if (typeof row.audio === "string" && row.audio.startsWith("data:audio/wav;base64,")) {
    return el("div", {}, el("h3", {}, "As it was heard"), el("audio", { controls: true, preload: "metadata", src: row.audio, "aria-label": "The utterance as it was heard, silences included" }));
  }
  return el("div", {}, el("h3", {}, "As it was heard"), missing("The sound is not in this page.", row.audio_why || ""), !String(row.audio_why).includes(command) && el("p", { class: "muted small" }, "To hear it, if the run kept its sound: ", el("code", {}, command)));
}

function showOnTimeline(row) {
  closeUtterance();
  const end = row.due_s + Math.max(row.play_end_ms || 0, row.done_ms || 0, 1000) / 1000;
  showMoment(row.due_s - 1, end + 1);
}

/* ------------------------------------------------------------------ arrival against playback */

function drillPlot(body, row) {
  if (!row.arrival_ms || !row.arrival_ms.length) {
    body.append(missing("No arrivals are shown.", row.detail_why || "No sound arrived."));
    return;
  }
  body.append(el("h3", {}, "Arrival and playback"));
  const lanes = (row.overlaps || []).length;
  plotCard(body, { id: "staircase", title: "Sound received and sound heard", note: "where the lines meet, the listener hears nothing", height: 340 + (lanes ? 40 + 18 * new Set(row.overlaps.map((one) => one.load + one.kind)).size : 0), keys: true, build: () => staircase(row), table: () => drillTables(row) });
  if (!lanes) body.append(el("p", { class: "muted small" }, "No other load's request overlapped this utterance."));
}

/** Steps of what arrived, in ms of sound over ms since due. */
function arrived(row) {
  const x = [row.arrival_ms[0]], y = [0];
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
  const x = [row.play_start_ms], y = [0];
  for (const one of row.events || []) {
    x.push(one.start_ms, one.start_ms + one.duration_ms);
    y.push(one.media_ms, one.media_ms);
  }
  const lost = RUN.data.run.player.after_underrun === "drop" && row.events.length ? row.events[row.events.length - 1].duration_ms : 0;
  const last = row.events && row.events.length ? row.events[row.events.length - 1] : null;
  if (!(last && last.open)) {
    if (lost) { x.push(x[x.length - 1]); y.push(y[y.length - 1] + lost); } // the clock went on: that sound was never heard
    const left = Math.max(0, total - y[y.length - 1]);
    x.push(x[x.length - 1] + left);
    y.push(y[y.length - 1] + left);
  }
  return { x, y };
}

function staircase(row) {
  const c = ink();
  const steps = arrived(row);
  const play = heard(row, steps.sum);
  const lanes = [...new Set((row.overlaps || []).map((one) => one.load + "\n" + one.kind))];
  const foot = lanes.length ? Math.min(0.4, (18 * lanes.length + 24) / (340 + 40 + 18 * lanes.length)) : 0;
  const data = [
    { x: steps.x, y: steps.y, mode: "lines", name: "received", line: { color: c.lines[1], width: 2 }, hovertemplate: "%{x:.0f} ms: %{y:.0f} ms of sound received<extra></extra>" },
    { x: play.x, y: play.y, mode: "lines", name: "heard", line: { color: c.fg, width: 2, dash: "dash" }, hovertemplate: "%{x:.0f} ms: %{y:.0f} ms heard<extra></extra>" },
  ];
  const shapes = [{ type: "line", x0: 0, x1: 0, yref: "paper", y0: 0, y1: 1, line: { color: c.muted, width: 1, dash: "dot" } }];
  const annotations = [{ x: 0, yref: "paper", y: 1, yanchor: "top", xanchor: "left", text: "due", showarrow: false, font: { size: 11, color: c.muted } }];
  for (const one of row.events || []) shapes.push({ type: "rect", layer: "below", x0: one.start_ms, x1: one.start_ms + one.duration_ms, yref: "paper", y0: foot ? foot + 0.08 : 0, y1: 1, fillcolor: c.fail, opacity: 0.22, line: { width: 0 } });
  const worst = [...(row.events || [])].sort((a, b) => b.duration_ms - a.duration_ms).slice(0, 3);
  for (const one of worst) annotations.push({ x: one.start_ms + one.duration_ms / 2, y: one.media_ms, yanchor: "top", yshift: -8, text: `✗ ${msUnit(one.duration_ms)} silent`, showarrow: false, font: { size: 12, color: c.fail } });
  const colors = { voice: c.lines[1], face: c.lines[3], decode: c.lines[4], prefill: c.lines[0] };
  if (lanes.length) {
    const shown = row.overlaps;
    data.push({ type: "bar", orientation: "h", yaxis: "y2", base: shown.map((one) => one.start_ms), x: shown.map((one) => one.end_ms - one.start_ms), y: shown.map((one) => lanes.indexOf(one.load + "\n" + one.kind)), width: 0.6, showlegend: false, marker: { color: shown.map((one) => colors[one.kind] || c.muted) }, hoverinfo: "text", textposition: "none", hovertext: shown.map((one) => `${safeText(one.label)}<br>${msUnit(one.start_ms)} to ${msUnit(one.end_ms)}`) });
  }
  const ends = [...steps.x, ...play.x, 0];
  const low = Math.min(...ends), high = Math.max(...ends);
  return { data, layout: baseLayout({
    showlegend: true,
    barmode: "overlay", shapes, annotations,
    xaxis: axis("ms since it was due", { range: [low - (high - low) * 0.02, high + (high - low) * 0.02], anchor: lanes.length ? "y2" : "y", zeroline: false, showspikes: true, spikemode: "across", spikethickness: 1, spikecolor: c.muted }),
    yaxis: axis("ms of sound", { domain: [foot ? foot + 0.08 : 0, 1], rangemode: "tozero" }),
    ...(lanes.length ? { yaxis2: axis("", { domain: [0, foot], range: [lanes.length - 0.4, -0.6], tickmode: "array", tickvals: lanes.map((_, index) => index), ticktext: lanes.map((lane) => laneName(lane, lanes)), showgrid: false, zeroline: false, fixedrange: true }) } : {}),
  }) };
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
  if (row.events && row.events.length) box.append(plainTable([ms("underrun", ""), ms("began"), ms("lasted"), ms("at sound")], row.events.map((one, index) => [String(index + 1), msText(one.start_ms), msText(one.duration_ms) + (one.open ? " (open)" : ""), msText(one.media_ms)]), "Underruns"));
  if (row.overlaps && row.overlaps.length) box.append(plainTable([{ head: "what ran" }, { head: "kind" }, ms("from"), ms("to"), ms("requests", "")], row.overlaps.map((one) => [one.label, one.kind, msText(one.start_ms), msText(one.end_ms), plainText(at(one, "n"), 0)]), "What else ran"));
  let sum = 0;
  box.append(plainTable([ms("chunk", ""), ms("arrived"), ms("gap before"), ms("its sound"), ms("sound so far")], row.arrival_ms.map((arrival, index) => [String(index + 1), msText(arrival), index ? msText(arrival - row.arrival_ms[index - 1]) : NONE, msText(row.media_ms[index]), msText((sum += row.media_ms[index]))]), "Chunks"));
  return box;
}
