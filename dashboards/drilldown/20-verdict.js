// The verdict, why, what would mend it; the table of stages as the terminal shows it; every gate.
"use strict";

const STAGE_COLUMNS = [
  { head: "TTFA p95", unit: "ms", path: "speech.ttfa_ms.p95", text: (v, why) => msText(v, why) },
  { head: "playback p95", unit: "ms", path: "speech.time_to_playback_ms.p95", text: (v, why) => msText(v, why) },
  { head: "gap p99", unit: "ms", path: "speech.chunk_gap_ms.p99", text: (v, why) => msText(v, why) },
  { head: "underruns", path: "speech.underruns", text: (v) => plainText(v, 0) },
  { head: "stalled", unit: "%", path: "speech.stall_ratio", text: (v) => shareText(v, 1) },
  { head: "clean", unit: "%", path: "speech.clean_share", text: (v) => shareText(v) },
  { head: "headroom p5", unit: "ms", path: "speech.headroom_ms.p5", text: (v, why) => msText(v, why, true) },
  { head: "fps p5", path: "face.fps_p5", text: (v) => plainText(v, 0) },
  { head: "LLM", unit: "tok/s", path: "llm", text: (v) => tokensText(v) },
];

/** The tokens a second of all the stage's LLM loads, as the terminal adds them. */
function tokensText(loads) {
  const known = Object.values(loads || {}).map((load) => load.tokens_per_s).filter(isNumber);
  return known.length ? digits(known.reduce((sum, one) => sum + one, 0), 1) : NONE;
}

function drawVerdict() {
  const { console: said, run } = RUN.data;
  const kind = verdictClass(said.verdict_word);
  const main = document.getElementById("main");
  const banner = el("section", { id: "verdict", class: "verdict " + kind, "aria-labelledby": "verdict-word" },
    el("div", { class: "mark", "aria-hidden": "true" }, SHAPES[kind]),
    el("div", {},
      el("h1", { id: "verdict-word" }, said.verdict_word),
      el("p", { class: "sentence" }, said.verdict_sentence)));
  main.append(banner);
  main.append(el("p", { class: "heading" }, said.heading), run.about && el("p", { class: "muted about" }, run.about));
  const reasons = el("dl", { class: "reasons", id: "reasons" });
  reason(reasons, "why", said.why);
  reason(reasons, "mend", said.mend);
  reason(reasons, "notes", said.notes, 4);
  if (reasons.childElementCount) main.append(reasons);
}

function reason(list, label, texts, most) {
  if (!texts || !texts.length) return;
  const items = texts.map((text) => el("li", {}, text));
  const shown = most && items.length > most ? items.slice(0, most) : items;
  const rest = items.slice(shown.length);
  list.append(el("dt", {}, label), el("dd", {}, el("ul", {}, shown),
    rest.length ? el("details", {}, el("summary", {}, countText(rest.length, "more note")), el("ul", {}, rest)) : null));
}

function drawStages() {
  const part = section("stages", "Stages");
  const entries = [...(RUN.data.summary.stages || [])];
  if (!entries.length) {
    part.append(missing("No stage was finished.", "What was recorded is shown below."));
    return;
  }
  const again = at(RUN.data.summary, "a_a.stage");
  if (again && again.name) entries.push(again);
  const used = STAGE_COLUMNS.filter((column) => entries.some((entry) => at(entry, column.path) !== null));
  const body = el("tbody", {});
  for (const entry of entries) {
    body.append(stageRow(entry, used));
    const more = stageReasons(entry);
    if (more) body.append(el("tr", { class: "because " + rowKind(entry) }, el("td", { colspan: used.length + 2 }, more)));
  }
  part.append(el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Table of stages" }, el("table", { class: "data stages", id: "stages-table" },
    el("thead", {}, el("tr", {}, headCell({ head: "stage" }), headCell({ head: "verdict" }), used.map((column) => headCell({ ...column, num: true })))), body)));
  drawGates(part, entries);
}

const rowKind = (entry) => (entry.validity === "invalid" ? "invalid" : !entry.gates || !entry.gates.length ? "none" : verdictClass(entry.verdict));

function stageRow(entry, used) {
  const bad = new Map();
  for (const gate of entry.gates || []) if (gate.verdict !== "pass") bad.set(gate.metric, gate);
  const name = el("button", { type: "button", class: "link", title: "Show this stage's utterances", onclick: () => filterStage(entry.name, true) }, named(entry.name));
  const word = entry.gates && entry.gates.length ? entry.verdict : "none";
  return el("tr", { class: rowKind(entry), "data-stage": entry.name },
    el("th", { scope: "row" }, name, entry.baseline && el("span", { class: "tag" }, "baseline")),
    el("td", {}, pill(word, entry.gates ? null : "repeat"), entry.validity === "invalid" && pill("invalid")),
    used.map((column) => stageCell(entry, column, bad.get(column.path))));
}

function stageCell(entry, column, gate) {
  const value = at(entry, column.path);
  const why = whyOf(entry, column.path);
  const text = column.text(value, why);
  const title = gate ? gateText(gate) : value === null && why ? why : null;
  return el("td", { class: "num" + (gate ? " broke " + verdictClass(gate.verdict) : ""), title },
    gate && el("span", { class: "shape", "aria-hidden": "true" }, SHAPES[verdictClass(gate.verdict)] + " "), text,
    gate && el("span", { class: "unseen" }, " " + gate.verdict));
}

const GATE_WORDS = {
  "speech.clean_share": "clean", "speech.ttfa_ms.p95": "TTFA p95", "speech.time_to_playback_ms.p95": "playback p95", "speech.stall_ratio": "stalled", "speech.headroom_ms.p5": "headroom p5",
  "face.fps_p5": "frames a second p5", "face.fps_min": "fewest frames a second", "face.harmonic_fps": "harmonic fps", "face.freezes_per_minute": "freezes a minute", "face.dropped_share": "frames dropped",
  "face.first_frame_ms.p95": "first frame p95", "face.skew_outside.detect": "time with noticeable skew", "face.skew_outside.accept": "time with unacceptable skew",
};

/** A gate's number with its unit, by what its path measures. */
function gateNumber(metric, value, why) {
  if (!isNumber(value)) return msText(value, why);
  if (/_ms(\.|$)/.test(metric)) return msUnit(value, null, metric.includes("headroom"));
  if (/(_share|_ratio|skew_outside\.\w+|continuity\.\w+)$/.test(metric)) return shareText(value, value > 0 && value < 0.1 ? 1 : 0) + " %";
  return plainText(value);
}

/** What a gate found and what it asked: `clean 33 %, at least 95 % asked (n = 80)`. */
function gateText(gate) {
  const asked = { ">=": "at least", "<=": "at most" }[gate.op] || gate.op;
  const found = gate.value === null && !["+inf", "-inf"].includes(at(gate, "why.value")) ? "unknown" : gateNumber(gate.metric, gate.value, at(gate, "why.value"));
  const reason = gate.verdict === "inconclusive" ? at(gate, "why.verdict") : null;
  return `${GATE_WORDS[gate.metric] || gate.metric} ${found}, ${asked} ${gateNumber(gate.metric, gate.limit)} asked${gate.n ? ` (n = ${digits(gate.n, 0)})` : ""}${reason ? ": " + reason : ""}`;
}

/** Under a stage that did not pass: its broken gates and its strongest causes, in words. */
function stageReasons(entry) {
  const broken = brokenGates(entry);
  const causes = (entry.causes || []).slice(0, 3);
  const invalid = entry.invalid_because || [];
  if (!broken.length && !causes.length && !invalid.length) return null;
  const line = (label, items) => items.length > 0 && el("div", { class: "line" }, el("span", { class: "label" }, label), el("ul", {}, items.map((text) => el("li", {}, text))));
  return [line("invalid", invalid), line("broke", broken), line("cause", causes.map((cause) => cause.text))];
}

/** Failing gates first, then undecided ones, then warnings. */
function brokenGates(entry) {
  const weight = (gate) => (gate.level === "warn" ? 2 : 0) + (gate.verdict === "fail" ? 0 : 1);
  return (entry.gates || []).filter((gate) => gate.verdict !== "pass").sort((a, b) => weight(a) - weight(b))
    .map((gate) => (gate.level === "warn" ? "warning: " : "") + (gate.verdict === "inconclusive" ? "not decided: " : "") + gateText(gate));
}

/* ------------------------------------------------------------------ gates */

function drawGates(part, entries) {
  const rows = entries.flatMap((entry) => (entry.gates || []).map((gate) => [entry, gate]));
  if (!rows.length) {
    part.append(missing("No gate was asked of any stage.", "Nothing here could fail."));
    return;
  }
  const failed = rows.filter(([, gate]) => gate.verdict !== "pass").length;
  const fold = el("details", { class: "gates", id: "gates" }, el("summary", {}, `All ${rows.length} gates`, el("span", { class: "muted" }, failed ? `, ${failed} not passed` : ", all passed")));
  const columns = [{ head: "stage" }, { head: "gate" }, { head: "asked", num: true }, { head: "value", num: true }, { head: "95 % bounds", num: true }, { head: "n", num: true }, { head: "verdict" }];
  fold.append(el("div", { class: "scroll", tabindex: "0" }, plainTable(columns, rows.map(([entry, gate]) => gateCells(entry, gate)))));
  part.append(fold);
}

function gateCells(entry, gate) {
  const text = (value, why) => (isNumber(value) ? digits(value, Math.abs(value) < 10 && value % 1 ? 3 : value % 1 ? 1 : 0).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "") : why === "+inf" ? "+∞" : why === "-inf" ? MINUS + "∞" : NONE);
  const why = gate.why || {};
  const bounds = isNumber(gate.low) || isNumber(gate.high) || why.low === "-inf" || why.high === "+inf" ? `${text(gate.low, why.low)} … ${text(gate.high, why.high)}` : NONE;
  return [
    named(entry.name), el("span", {}, el("code", {}, gate.metric), gate.profile && el("span", { class: "tag" }, gate.profile), gate.level === "warn" && el("span", { class: "tag" }, "warning only")),
    `${{ ">=": "≥", "<=": "≤" }[gate.op] || gate.op} ${text(gate.limit)}`, text(gate.value, why.value),
    el("span", { title: why.low || why.high || null }, bounds), gate.n === null ? NONE : plainText(gate.n, 0),
    el("span", {}, pill(gate.verdict), gate.verdict === "inconclusive" && why.verdict && el("span", { class: "muted small" }, " " + why.verdict)),
  ];
}
