// The LLM loads: first token, gaps between tokens, rate, open requests.
"use strict";

function drawLlm() {
  const loads = Object.entries(RUN.data.llm || {}).filter(([, stages]) => Object.keys(stages).length);
  const part = section("llm", "LLM");
  if (!loads.length) {
    part.append(missing("No LLM load was measured.", "No stage asks an LLM."));
    return;
  }
  for (const [load, stages] of loads) {
    const about = at(RUN.data.run.loads, load) || {};
    part.append(
      el("h3", {}, named(about.label || load)),
      el("div", { class: "scroll", tabindex: "0" }, llmTable(load, Object.keys(stages))),
    );
    const plots = el("div", { class: "four" });
    part.append(stageKeys(Object.keys(stages), stageWord), plots);
    const id = "llm-" + loads.findIndex(([one]) => one === load);
    llmPlot(plots, load, stages, "ttft_ms", {
      id: id + "-ttft",
      title: "Time to first token",
      build: () => quantilePlot(stages, "ttft_ms", "ms"),
      table: () => quantileTable(stages, "ttft_ms"),
    });
    llmPlot(plots, load, stages, "itl_ms", {
      id: id + "-itl",
      title: "Gap between tokens",
      build: () => quantilePlot(stages, "itl_ms", "ms"),
      table: () => quantileTable(stages, "itl_ms"),
    });
    llmPlot(plots, load, stages, "tokens_per_s", {
      id: id + "-rate",
      title: "Tokens a second",
      build: () => overTime(stages, "tokens_per_s", "tokens a second"),
      table: () => seriesTable(stages, "tokens_per_s", "tokens/s"),
    });
    llmPlot(plots, load, stages, "open", {
      id: id + "-open",
      title: "Open requests",
      build: () => overTime(stages, "open", "open requests"),
      table: () => seriesTable(stages, "open", "open"),
    });
  }
}

/** The summary's figures of a load in a stage, or alone. */
function llmEntry(load, stage) {
  const solo = stage.startsWith("solo:") ? RUN.data.summary.solo : null;
  const loads = (solo || at(entryOf(stage), "llm")) ?? {};
  return (Object.hasOwn(loads, load) && loads[load]) || {};
}

/** Why a figure of a load is null. */
function llmWhy(load, stage, path) {
  return at(llmEntry(load, stage), "why")?.[path] || whyOf(entryOf(stage), `llm.${load}.${path}`);
}

const SENT_MEANS =
  "Whether we asked as planned: so many streams in flight, or requests sent on time. It says nothing of how fast the answers came.";

/** Whether the load was asked for as planned; where nothing has ended yet, that its requests were in flight. */
function sentText(one) {
  if (one.delivered === true) return one.finished === 0 && one.open > 0 ? "✓ in flight, none finished" : "✓ as planned";
  if (one.delivered !== false) return NONE;
  return isNumber(one.delivered_share) ? `✗ ${shareText(one.delivered_share)} % of the plan` : "✗ less than planned";
}

/** The stages that have nothing to draw, as [stage, why]. */
function llmLacking(load, stages, key) {
  const path = { ttft_ms: "ttft_ms.p50", itl_ms: "itl_ms.p50" }[key] || key;
  return Object.entries(stages)
    .filter(([, one]) => !(one[key] && (one[key].v || one[key].y).some(isNumber)))
    .map(([name]) => [name, llmWhy(load, name, path)]);
}

/** A plot of a load; where no stage has anything to draw, why; where some have none, which. */
function llmPlot(parent, load, stages, key, plot) {
  const lacking = llmLacking(load, stages, key);
  const reasons = [...new Set(lacking.map(([, why]) => why).filter(Boolean))];
  if (lacking.length < Object.keys(stages).length) {
    const names = lacking.map(([name]) => stageWord(name)).join(", ");
    const note = names && [`no data of ${names}`, reasons.join("; ")].filter(Boolean).join(": ");
    plotCard(parent, { height: 230, note, ...plot });
    return;
  }
  parent.append(
    el(
      "figure",
      { class: "card", id: plot.id },
      el("figcaption", {}, el("b", {}, plot.title)),
      missing("No data.", reasons.length ? reasons.join("; ") + "." : "Nothing of it was recorded in the measured time."),
    ),
  );
}

function llmTable(load, names) {
  const num = (head, unit) => ({ head, unit, num: true });
  const columns = [
    { head: "stage" },
    num("TTFT p50", "ms"),
    num("TTFT p95", "ms"),
    num("ITL p50", "ms"),
    num("ITL p99", "ms"),
    num("output", "tok/s"),
    num("prompts", "tok/s"),
    num("finished"),
    num("open"),
    num("failed"),
    { head: "sent" },
  ];
  return plainTable(
    columns,
    names.map((name) => {
      const one = llmEntry(load, name);
      const ms = (path) => {
        const value = at(one, path),
          why = llmWhy(load, name, path);
        return el("span", { title: value === null ? why : null }, msText(value, why));
      };
      return [
        stageLabel(name),
        ms("ttft_ms.p50"),
        ms("ttft_ms.p95"),
        ms("itl_ms.p50"),
        ms("itl_ms.p99"),
        plainText(at(one, "tokens_per_s"), 1),
        plainText(at(one, "prompt_tokens_per_s"), 0),
        plainText(at(one, "finished"), 0),
        plainText(at(one, "open"), 0),
        plainText(at(one, "failed"), 0),
        el("span", { class: "nowrap", title: SENT_MEANS }, sentText(one)),
      ];
    }),
  );
}

/** Quantile curves lie on their side: the share of the samples under each value. */
function quantilePlot(stages, key, unit) {
  const data = Object.entries(stages)
    .filter(([, one]) => one[key] && one[key].v && one[key].v.length)
    .map(([name, one]) => ({
      x: one[key].v,
      y: one[key].q.map((q) => q * 100),
      mode: one[key].v.length < 12 ? "lines+markers" : "lines",
      marker: { size: 5 },
      name: shortName(stageWord(name)),
      line: { ...stageStyle(name), width: 1.8, shape: "hv" },
      hovertemplate: "%{y:.0f} % up to %{x:.1f} ms<extra></extra>",
    }));
  return {
    data,
    layout: baseLayout({
      xaxis: axis(unit, { range: roomy(data, true) }),
      yaxis: axis("% of them", { range: [-2, 103] }),
    }),
  };
}

function quantileTable(stages, key) {
  const wanted = [0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99];
  const read = (one, q) => {
    const index = one.q.findIndex((have) => have >= q - 1e-9);
    return index < 0 ? null : one.v[index];
  };
  return plainTable(
    [
      { head: "stage" },
      ...wanted.map((q) => ({ head: "p" + Math.round(q * 100), unit: "ms", num: true })),
      { head: "n", num: true },
    ],
    Object.entries(stages)
      .filter(([, one]) => one[key] && one[key].q)
      .map(([name, one]) => [
        stageLabel(name),
        ...wanted.map((q) => msText(read(one[key], q))),
        plainText(one[key].n, 0),
      ]),
  );
}
