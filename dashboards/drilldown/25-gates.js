// Gates in words, those that a stage broke, and the table of all of them.
"use strict";

const GATE_WORDS = {
  "speech.clean_share": "clean",
  "speech.ttfa_ms.p95": "TTFA p95",
  "speech.time_to_playback_ms.p95": "playback p95",
  "speech.stall_ratio": "stalled",
  "speech.headroom_ms.p5": "headroom p5",
  "face.fps_p5": "frames a second p5",
  "face.fps_min": "fewest frames a second",
  "face.harmonic_fps": "harmonic fps",
  "face.freezes_per_minute": "freezes a minute",
  "face.dropped_share": "frames dropped",
  "face.first_frame_ms.p95": "first frame p95",
  "face.skew_outside.detect": "time with noticeable skew",
  "face.skew_outside.accept": "time with unacceptable skew",
};

/** A gate's number with its unit, by what its path measures. */
function gateNumber(metric, value, why) {
  if (!isNumber(value)) return msText(value, why);
  if (/_ms(\.|$)/.test(metric)) return msUnit(value, null, metric.includes("headroom"));
  if (/(_share|_ratio|skew_outside\.\w+|continuity\.\w+)$/.test(metric))
    return shareText(value, value > 0 && value < 0.1 ? 1 : 0) + " %";
  return plainText(value);
}

/** What a gate found and what it asked: `clean 33 %, at least 95 % asked (n = 80)`. */
function gateText(gate) {
  const asked = { ">=": "at least", "<=": "at most" }[gate.op] || gate.op;
  const found =
    gate.value === null && !["+inf", "-inf"].includes(at(gate, "why.value"))
      ? "unknown"
      : gateNumber(gate.metric, gate.value, at(gate, "why.value"));
  const reason = gate.verdict === "inconclusive" ? at(gate, "why.verdict") : null;
  const count = gate.n ? ` (n = ${digits(gate.n, 0)})` : "";
  const limit = gateNumber(gate.metric, gate.limit);
  return `${GATE_WORDS[gate.metric] || gate.metric} ${found}, ${asked} ${limit} asked${count}${reason ? ": " + reason : ""}`;
}

/** What of a stage's gates did not pass: the broken ones, those not decided, and what only warns. */
function brokenGates(entry) {
  const fails = (level) =>
    (entry.gates || []).filter((gate) => gate.verdict === "fail" && (gate.level === "warn") === (level === "warn"));
  return {
    broken: fails("fail").map(gateText),
    open: undecidedByReason(entry).map(undecidedText),
    warned: [
      ...fails("warn").map(gateText),
      ...undecidedByReason(entry, "warn").map((group) => "not decided: " + undecidedText(group)),
    ],
  };
}

/** The gates of a stage that were left open, those with the same reason together: [{reason, gates}]. */
function undecidedByReason(entry, level) {
  const found = new Map();
  for (const gate of entry.gates || []) {
    if (gate.verdict !== "inconclusive" || (gate.level === "warn") !== (level === "warn")) continue;
    const reason = at(gate, "why.verdict") || at(gate, "why.value") || "";
    if (!found.has(reason)) found.set(reason, { reason, gates: [] });
    found.get(reason).gates.push(gate);
  }
  return [...found.values()];
}

/** One gate as it is; several as their number, their reason, and what each of them found. */
function undecidedText({ reason, gates }) {
  if (gates.length === 1) return gateText(gates[0]);
  const name = (gate) => GATE_WORDS[gate.metric] || gate.metric;
  const value = (gate) => (isNumber(gate.value) ? " " + gateNumber(gate.metric, gate.value) : "");
  const all = gates.map((gate) => name(gate) + value(gate)).join(", ");
  return `${gates.length} gates: ${reason || "unknown"} (${all})`;
}

function drawGates(part, entries) {
  const rows = entries.flatMap((entry) => (entry.gates || []).map((gate) => [entry, gate]));
  if (!rows.length) {
    part.append(missing("No gate was asked of any stage.", "Nothing here could fail."));
    return;
  }
  const failed = rows.filter(([, gate]) => gate.verdict !== "pass").length;
  const fold = el(
    "details",
    { class: "gates", id: "gates" },
    el(
      "summary",
      {},
      `All ${rows.length} gates`,
      el("span", { class: "muted" }, failed ? `, ${failed} not passed` : ", all passed"),
    ),
  );
  const columns = [
    { head: "stage" },
    { head: "gate" },
    { head: "asked", num: true },
    { head: "value", num: true },
    { head: "95 % bounds", num: true },
    { head: "n", num: true },
    { head: "verdict" },
  ];
  fold.append(
    el(
      "div",
      { class: "scroll", tabindex: "0" },
      plainTable(
        columns,
        rows.map(([entry, gate]) => gateCells(entry, gate)),
      ),
    ),
  );
  part.append(fold);
}

function gateCells(entry, gate) {
  const text = (value, why) =>
    isNumber(value)
      ? digits(value, Math.abs(value) < 10 && value % 1 ? 3 : value % 1 ? 1 : 0)
          .replace(/(\.\d*?)0+$/, "$1")
          .replace(/\.$/, "")
      : why === "+inf"
        ? "+∞"
        : why === "-inf"
          ? MINUS + "∞"
          : NONE;
  const why = gate.why || {};
  const bounds =
    isNumber(gate.low) || isNumber(gate.high) || why.low === "-inf" || why.high === "+inf"
      ? `${text(gate.low, why.low)} … ${text(gate.high, why.high)}`
      : NONE;
  return [
    named(entry.name),
    el(
      "span",
      {},
      el("code", {}, gate.metric),
      gate.profile && el("span", { class: "tag" }, gate.profile),
      gate.level === "warn" && el("span", { class: "tag" }, "warning only"),
    ),
    `${{ ">=": "≥", "<=": "≤" }[gate.op] || gate.op} ${text(gate.limit)}`,
    text(gate.value, why.value),
    el("span", { title: why.low || why.high || null }, bounds),
    gate.n === null ? NONE : plainText(gate.n, 0),
    el(
      "span",
      {},
      pill(gate.verdict),
      gate.verdict === "inconclusive" && why.verdict && el("span", { class: "muted small" }, " " + why.verdict),
    ),
  ];
}
