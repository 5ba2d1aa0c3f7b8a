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
  const known = Object.values(loads || {})
    .map((load) => load.tokens_per_s)
    .filter(isNumber);
  return known.length
    ? digits(
        known.reduce((sum, one) => sum + one, 0),
        1,
      )
    : NONE;
}

function drawVerdict() {
  const { console: said, run } = RUN.data;
  const kind = verdictClass(said.verdict_word);
  const main = document.getElementById("main");
  const banner = el(
    "section",
    { id: "verdict", class: "verdict " + kind, "aria-labelledby": "verdict-word" },
    el("div", { class: "mark", "aria-hidden": "true" }, SHAPES[kind]),
    el(
      "div",
      {},
      el("h1", { id: "verdict-word" }, said.verdict_word),
      el("p", { class: "sentence" }, said.verdict_sentence),
      said.first_why && el("p", { class: "first-cause" }, el("span", { class: "label" }, "why "), said.first_why),
    ),
  );
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
  list.append(
    el("dt", {}, label),
    el(
      "dd",
      {},
      el("ul", {}, shown),
      rest.length
        ? el("details", {}, el("summary", {}, countText(rest.length, "more note")), el("ul", {}, rest))
        : null,
    ),
  );
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
    if (more)
      body.append(el("tr", { class: "because " + rowKind(entry) }, el("td", { colspan: used.length + 2 }, more)));
  }
  part.append(
    el(
      "div",
      { class: "scroll", tabindex: "0", role: "group", "aria-label": "Table of stages" },
      el(
        "table",
        { class: "data stages", id: "stages-table" },
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            headCell({ head: "stage" }),
            headCell({ head: "verdict" }),
            used.map((column) => headCell({ ...column, num: true })),
          ),
        ),
        body,
      ),
    ),
  );
  drawGates(part, entries);
}

/** Why a stage was not measured; null for one that was. */
function notMeasured(entry) {
  const why = String(at(entry, "why.verdict") || "");
  return why.startsWith("this stage was not measured") ? why : null;
}

const rowKind = (entry) =>
  entry.validity === "invalid" ? "invalid" : !entry.gates || !entry.gates.length ? "none" : verdictClass(entry.verdict);

function stageRow(entry, used) {
  const bad = new Map();
  for (const gate of entry.gates || []) if (gate.verdict !== "pass") bad.set(gate.metric, gate);
  const name = el(
    "button",
    {
      type: "button",
      class: "link",
      title: "Show this stage's utterances",
      onclick: () => filterStage(entry.name, true),
    },
    named(entry.name),
  );
  const unmeasured = notMeasured(entry);
  const word = !unmeasured && entry.validity === "invalid" ? "invalid" : entry.gates && entry.gates.length ? entry.verdict : "none";
  return el(
    "tr",
    { class: rowKind(entry), "data-stage": entry.name },
    el("th", { scope: "row" }, name, entry.baseline && el("span", { class: "tag" }, "baseline")),
    el("td", {}, pill(word, unmeasured ? "not measured" : entry.gates || word === "invalid" ? null : "repeat")),
    used.map((column) => stageCell(entry, column, bad.get(column.path))),
  );
}

function stageCell(entry, column, gate) {
  const value = at(entry, column.path);
  const why = whyOf(entry, column.path);
  const text = column.text(value, why);
  const title = gate ? gateText(gate) : value === null && why ? why : null;
  return el(
    "td",
    { class: "num" + (gate ? " broke " + verdictClass(gate.verdict) : ""), title },
    gate && el("span", { class: "shape", "aria-hidden": "true" }, SHAPES[verdictClass(gate.verdict)] + " "),
    text,
    gate && el("span", { class: "unseen" }, " " + gate.verdict),
  );
}

/** Under a stage that did not pass: its broken gates, those left open, and its strongest causes, in words. */
function stageReasons(entry) {
  const unmeasured = notMeasured(entry);
  const { broken, open, warned } = unmeasured ? { broken: [], open: [unmeasured], warned: [] } : brokenGates(entry);
  const causes = (entry.causes || []).slice(0, 3);
  const invalid = entry.invalid_because || [];
  if (![broken, open, warned, causes, invalid].some((items) => items.length)) return null;
  const line = (label, items) =>
    items.length > 0 &&
    el(
      "div",
      { class: "line" },
      el("span", { class: "label" }, label),
      el(
        "ul",
        {},
        items.map((text) => el("li", {}, text)),
      ),
    );
  return [
    line("invalid", invalid),
    line("broke", broken),
    line("not decided", open),
    line("warning", warned),
    line(
      "cause",
      causes.map((cause) => cause.text),
    ),
  ];
}
