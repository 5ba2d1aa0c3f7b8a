// Two runs: how the utterances of A and B are spread, stage by stage. Everything else is in the page without scripts.
"use strict";

function drawSpread(stage, index) {
  const all = RUN.data.distributions;
  const plots = el("div", { class: "two" });
  for (const name of Object.keys(METRICS)) {
    const runs = (all[name] || {})[stage] || {};
    const there = Object.fromEntries(Object.entries(runs).filter(([, one]) => one && one.values.length));
    const still = name === "stall_ms" && Object.values(there).every((one) => one.values.every((value) => value === 0));
    if (!Object.keys(there).length || still) continue;
    const [title, note] = METRICS[name];
    plotCard(plots, { id: `spread-${index}-${name}`, title, note, height: 260, build: () => sharePlot(there, name), table: () => shareTable(there) });
  }
  return plots.childElementCount ? plots : null;
}

async function startCompare() {
  try {
    const data = await unpack();
    if (data.version !== 1 || data.kind !== "compare") throw new Error("this is no data of two runs");
    RUN.data = { ...data, summary: { stages: [] } };
    RUN.stageNames = ["A", "B"];
    const stages = [...new Set(Object.values(data.distributions).flatMap((found) => Object.keys(found)))];
    const part = section("spread", "A and B, stage by stage", "The share of the utterances that lie at or under each value.");
    stages.forEach((stage, index) => {
      const plots = drawSpread(stage, index);
      if (plots) part.append(el("h3", {}, named(stage)), plots);
    });
    if (!part.querySelector("figure")) part.append(missing("There is nothing to compare.", "No utterance was measured."));
    window.addEventListener("beforeprint", preparePrint);
    window.addEventListener("afterprint", afterPrint);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawPlots);
    document.documentElement.dataset.ready = String(Math.round(performance.now()));
  } catch (error) {
    console.error(error);
    document.getElementById("main").append(el("p", { class: "notice" }, `The plots could not be drawn (${error.message}).`));
  }
}

startCompare();
