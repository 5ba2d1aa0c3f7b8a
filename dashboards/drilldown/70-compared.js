// Stages compared as distributions, the closing baseline beside the first; and what the run was.
"use strict";

const METRICS = {
  headroom_ms: ["Headroom", "below zero: silence was heard"],
  playback_ms: ["Time to playback", "lookahead included"],
  ttfa_ms: ["Time to first audio", ""],
  chunk_gap_max_ms: ["Longest gap of an utterance", ""],
  stall_ms: ["Silence in an utterance", ""],
};

function drawCompared() {
  const all = RUN.data.distributions || {};
  const names = [
    ...Object.keys(METRICS).filter((name) => name in all),
    ...Object.keys(all).filter((name) => !(name in METRICS)),
  ].filter((name) => Object.keys(all[name]).length);
  const part = section(
    "compared",
    "Stages compared",
    names.length ? "The share of the utterances that lie at or under each value." : null,
  );
  if (!names.length) {
    part.append(
      missing(
        "There is nothing to compare.",
        RUN.data.what_if_why || missingWhy("ahead") || "No utterance was measured.",
      ),
    );
    return;
  }
  const plots = el("div", { class: "two" });
  part.append(stageKeys(RUN.stageNames.filter((stage) => names.some((name) => stage in all[name]))), plots);
  for (const name of names) {
    const [title, note] = METRICS[name] || [name, ""];
    if (
      name === "stall_ms" &&
      Object.values(all[name]).every((one) => one.values.every((value) => value === 0) && !at(one, "infinite.plus"))
    ) {
      part.append(el("p", { class: "muted" }, "No utterance of any stage had a silence."));
      continue;
    }
    plotCard(plots, {
      id: "compared-" + names.indexOf(name),
      title,
      note,
      height: 280,
      build: () => sharePlot(all[name], name),
      table: () => shareTable(all[name]),
    });
  }
  const ratio = at(RUN.data.summary, "a_a.ttfa_p95_ratio");
  if (isNumber(ratio))
    part.append(
      el("p", { class: "muted" }, `The baseline once more at the end: TTFA p95 ${digits(ratio, 2)} times the first.`),
    );
}

function sharePlot(stages, name) {
  const data = [];
  for (const [stage, one] of Object.entries(stages)) {
    const infinite = one.infinite || { plus: 0, minus: 0 };
    const total = one.values.length;
    if (!total) continue;
    const finite = one.n - infinite.plus - infinite.minus;
    const share = (index) => (100 * (infinite.minus + ((index + 1) / total) * finite)) / (one.n || 1);
    data.push({
      x: [one.values[0], ...one.values],
      y: [(100 * infinite.minus) / (one.n || 1), ...one.values.map((_, index) => share(index))],
      mode: "lines",
      name: `${shortName(stage, 22)} (${one.n})`,
      line: { ...stageStyle(stage), width: 1.8, shape: "hv" },
      hovertemplate: "%{y:.0f} % up to %{x:.0f} ms<extra></extra>",
    });
  }
  const c = ink();
  const shapes =
    name === "headroom_ms"
      ? [{ type: "line", x0: 0, x1: 0, yref: "paper", y0: 0, y1: 1, line: { color: c.fail, width: 1, dash: "dash" } }]
      : [];
  return {
    data,
    layout: baseLayout({
      showlegend: RUN.data.kind === "compare",
      xaxis: axis("ms", { zeroline: false, range: roomy(data) }),
      yaxis: axis("% of the utterances", { range: [-2, 103] }),
      shapes,
    }),
  };
}

function shareTable(stages) {
  const wanted = [5, 25, 50, 75, 95];
  const read = (values, p) =>
    values.length ? values[Math.min(values.length - 1, Math.max(0, Math.ceil((p / 100) * values.length) - 1))] : null;
  return plainTable(
    [
      { head: "stage" },
      ...wanted.map((p) => ({ head: "p" + p, unit: "ms", num: true })),
      { head: "infinite", num: true },
      { head: "n", num: true },
    ],
    Object.entries(stages).map(([name, one]) => [
      named(name),
      ...wanted.map((p) => msText(read(one.values, p), null)),
      plainText(at(one, "infinite.plus") + at(one, "infinite.minus"), 0),
      plainText(one.n, 0),
    ]),
  );
}

function drawAbout() {
  const { run, summary } = RUN.data;
  const part = section("about", "The run");
  const after = `after an underrun ${at(run, "player.after_underrun")}`;
  const facts = [
    ["run", run.id],
    ["status", run.status],
    ["error", run.error],
    ["started", run.started],
    ["device", run.device],
    ["decided by", summary.decision === "interval" ? "intervals" : "point estimates"],
    ["player", `lookahead ${msUnit(run.lookahead_ms)}, start ${at(run, "player.start")}, ${after}`],
  ].filter(([, value]) => value);
  const pair = ([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, named(value)));
  part.append(el("dl", { class: "pairs" }, facts.map(pair)));
  const outside = (text) => el("span", { class: "outside" }, text || "");
  const tenants = Object.entries(run.tenants || {});
  const loads = Object.entries(run.loads || {});
  aboutTable(
    part,
    ["tenant", "kind", "engine", "what"],
    tenants.map(([name, one]) => [named(name), one.kind, one.engine, outside(one.label)]),
  );
  aboutTable(
    part,
    ["load", "kind", "tenant", "what"],
    loads.map(([name, one]) => [named(name), one.kind, named(one.tenant), outside(one.label)]),
  );
  const fold = el("details", { class: "astable" }, el("summary", {}, "Versions"));
  aboutTable(
    fold,
    ["package", "version"],
    Object.entries(run.versions || {}).map(([name, version]) => [name, String(version)]),
  );
  if (fold.childElementCount > 1) part.append(fold);
}

function aboutTable(parent, heads, rows) {
  if (!rows.length) return;
  parent.append(
    el(
      "div",
      { class: "scroll", tabindex: "0" },
      plainTable(
        heads.map((head) => ({ head })),
        rows,
      ),
    ),
  );
}
