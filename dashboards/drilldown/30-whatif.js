// What another lookahead would have done: 101 of them, each judged by Python; this only picks one to show.
"use strict";

const WHATIF = { index: 0, timer: 0, band: null };

function drawWhatIf() {
  const plan = RUN.data.what_if;
  const part = section(
    "what-if",
    "Lookahead",
    plan
      ? "The same recording played with a smaller or larger buffer. Each position says what cotenant gate says."
      : null,
  );
  if (!plan) {
    part.append(missing("No other lookahead can be tried.", RUN.data.what_if_why || "This run has no voices."));
    return;
  }
  part.append(lookaheadControl(plan), stageKeys(Object.keys(plan.stages)));
  const plots = el("div", { class: "two" });
  part.append(plots);
  for (const [which, title, note] of [
    ["clean", "Clean utterances", bandChoice(plan)],
    ["playback", "Time to playback, p95", "the price of a lookahead"],
  ]) {
    plotCard(plots, {
      id: "whatif-" + which,
      title,
      note,
      height: 300,
      build: () => whatIfPlot(which),
      table: () => whatIfTable(which),
      click: (point) => tryLookahead(point.customdata),
    });
  }
  tryLookahead(plan.own, true);
}

/** Whose bounds the plot shows: one stage's at a time, first that of the worst; all are in the tables. */
function bandChoice(plan) {
  const names = Object.keys(plan.stages);
  const worst = worstStage();
  WHATIF.band = worst && names.includes(worst.name) ? worst.name : names[names.length - 1];
  const choose = el(
    "select",
    { id: "whatif-band", class: "small", onchange: () => showBand(choose.value) },
    names.map((name) => el("option", { value: name, selected: name === WHATIF.band }, name)),
  );
  return el("label", {}, "with the one-sided 95 % bounds of ", choose);
}

function showBand(name) {
  WHATIF.band = name;
  const plot = PLOTS.find((one) => one.id === "whatif-clean");
  if (plot.drawn) drawPlot(plot);
}

function lookaheadControl(plan) {
  const last = plan.lookahead_ms.length - 1;
  const slider = el("input", {
    type: "range",
    id: "lookahead",
    min: 0,
    max: last,
    step: 1,
    value: plan.own,
    "aria-describedby": "lookahead-says",
  });
  slider.addEventListener("input", () => tryLookahead(Number(slider.value)));
  const own = el(
    "button",
    { type: "button", class: "quiet", onclick: () => tryLookahead(plan.own) },
    `The run's own: ${msUnit(plan.lookahead_ms[plan.own])}`,
  );
  return el(
    "div",
    { class: "card control" },
    el(
      "div",
      { class: "row" },
      el("label", { for: "lookahead", class: "label" }, "lookahead"),
      el("output", { for: "lookahead", class: "big", id: "lookahead-ms" }),
      own,
      mendButtons(plan),
    ),
    slider,
    verdictStrips(plan),
    el("p", { id: "lookahead-says", class: "says" }),
    el("div", { class: "scroll", tabindex: "0", id: "lookahead-table" }),
    el("p", { class: "muted small" }, "The same in a terminal: ", el("code", { id: "lookahead-command" })),
  );
}

/** The lookaheads that the verdict names: the stages that pass there, and those that other gates still fail. */
function mendButtons(plan) {
  const found = new Map();
  for (const { stage, index } of plan.mends || []) {
    const passes = at(plan.stages[stage], "verdict")[index] === "pass";
    const key = index + (passes ? "p" : "f");
    if (!found.has(key)) found.set(key, { index, passes, names: [] });
    found.get(key).names.push(stage);
  }
  return [...found.values()]
    .sort((a, b) => a.index - b.index)
    .map(({ index, passes, names }) => {
      const ms = msUnit(plan.lookahead_ms[index]);
      const all = names.join(", ");
      const text = passes ? `${ms} mends ${all}` : `${ms} helps ${all}, other gates still fail`;
      return el("button", { type: "button", class: "quiet", onclick: () => tryLookahead(index) }, text);
    });
}

/** The position nearest to so many milliseconds. */
function nearestLookahead(ms) {
  const all = RUN.data.what_if.lookahead_ms;
  return all.reduce((best, one, index) => (Math.abs(one - ms) < Math.abs(all[best] - ms) ? index : best), 0);
}

function tryLookahead(index, quiet) {
  const plan = RUN.data.what_if;
  WHATIF.index = index;
  const ms = plan.lookahead_ms[index];
  const slider = document.getElementById("lookahead");
  slider.value = index;
  const stages = Object.entries(plan.stages);
  slider.setAttribute(
    "aria-valuetext",
    `${msUnit(ms)}: ${plan.run_word[index]}. ${stages.map(([name, stage]) => `${name} ${verdictText(name, stage.verdict[index])}`).join(", ")}`,
  );
  document.getElementById("lookahead-ms").textContent = msUnit(ms);
  document
    .getElementById("lookahead-says")
    .replaceChildren(pill(plan.run_word[index]), " ", at(plan, "run_sentence") ? plan.run_sentence[index] : "");
  document.getElementById("lookahead-command").textContent = `cotenant gate ${runArgument()} --lookahead ${ms}ms`;
  document.getElementById("lookahead-table").replaceChildren(lookaheadTable(plan, index));
  const strips = document.getElementById("strips");
  strips.style.setProperty("--at", index / (plan.lookahead_ms.length - 1));
  if (!quiet) writeAddress({ lookahead: index === plan.own ? null : String(ms) });
  clearTimeout(WHATIF.timer); // The plots' cursor follows when the hand rests; the words follow at once.
  WHATIF.timer = setTimeout(() => moveCursor(), 40);
}

/** The run's folder as the command was given it that wrote this page, quoted for a shell. */
function runArgument() {
  return String(at(RUN.data, "run.argument") || "RUN");
}

/** Whether a stage was not measured as planned: no lookahead changes that. */
function isInvalid(name) {
  return at(entryOf(name), "validity") === "invalid";
}

/** What counts as the verdict on a stage: where it is invalid its gates say nothing. */
function verdictText(name, verdict) {
  return isInvalid(name) ? "invalid" : verdict;
}

function moveCursor() {
  for (const id of ["whatif-clean", "whatif-playback"]) {
    const plot = PLOTS.find((one) => one.id === id);
    if (plot && plot.drawn)
      Plotly.relayout(plot.box, { shapes: cursorShapes(id === "whatif-clean" ? "clean" : "playback") });
  }
}

function lookaheadTable(plan, index) {
  const columns = [
    { head: "stage" },
    { head: "verdict" },
    { head: "clean", unit: "%", num: true },
    { head: "95 % bounds", unit: "%", num: true },
    { head: "playback p95", unit: "ms", num: true },
    { head: "underruns", num: true },
    { head: "headroom p5", unit: "ms", num: true },
    { head: "gates not passed" },
  ];
  const rows = Object.entries(plan.stages).map(([name, stage]) => {
    const bounds =
      isNumber(stage.low[index]) || isNumber(stage.high[index])
        ? `${shareText(stage.low[index])} … ${shareText(stage.high[index])}`
        : NONE;
    const broken = [...(stage.failing_gates[index] || []), ...((stage.inconclusive_gates || [])[index] || [])];
    return [
      named(name),
      pill(verdictText(name, stage.verdict[index])),
      shareText(stage.clean_share[index]),
      bounds,
      msText(stage.playback_p95_ms[index]),
      plainText(at(stage, "underruns") ? stage.underruns[index] : null, 0),
      msText(at(stage, "headroom_p5_ms") ? stage.headroom_p5_ms[index] : null, null, true),
      el(
        "span",
        { class: "small broken", title: broken.map((one) => (stage.gates || [])[one]).join("; ") || null },
        broken.map((one) => gateName(name, one)).join(", ") || NONE,
      ),
    ];
  });
  return plainTable(columns, rows);
}

/** The short name of a stage's gate by its place. */
function gateName(stage, index) {
  const gate = (at(entryOf(stage), "gates") || [])[index];
  return gate ? GATE_WORDS[gate.metric] || gate.metric : String(index);
}

/** One row of 101 cells for the run and for each stage: where the verdict changes, at one look and in words. */
function verdictStrips(plan) {
  const rows = [
    ["the run", plan.run_word],
    ...Object.entries(plan.stages).map(([name, stage]) => [name, stage.verdict.map((word) => verdictText(name, word))]),
  ];
  return el(
    "div",
    { class: "strips", id: "strips" },
    rows.map(([name, words]) => {
      const runs = [];
      words.forEach((word, index) => {
        const kind = verdictClass(word);
        const before = runs[runs.length - 1];
        if (before && before.kind === kind) before.to = index;
        else runs.push({ kind, word: String(word).toUpperCase(), from: index, to: index });
      });
      const said = runs
        .map((run) => {
          const from = msUnit(plan.lookahead_ms[run.from]);
          return `${run.word} ${from}${run.to > run.from ? " to " + msUnit(plan.lookahead_ms[run.to]) : ""}`;
        })
        .join(", ");
      return el(
        "div",
        { class: "strip" },
        el("span", { class: "strip-name" }, named(name)),
        el(
          "div",
          { class: "cells", role: "img", "aria-label": said, title: said },
          runs.map((run) => {
            const width = run.to - run.from + 1;
            return el(
              "span",
              { class: run.kind, style: `flex:${width} 0 0` },
              width > 9 ? `${SHAPES[run.kind]} ${run.word}` : width > 1 ? SHAPES[run.kind] : "",
            );
          }),
        ),
      );
    }),
  );
}
