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
    plotCard(plots, {
      id: id + "-ttft",
      title: "Time to first token",
      height: 230,
      build: () => quantilePlot(stages, "ttft_ms", "ms"),
      table: () => quantileTable(stages, "ttft_ms"),
    });
    plotCard(plots, {
      id: id + "-itl",
      title: "Gap between tokens",
      height: 230,
      build: () => quantilePlot(stages, "itl_ms", "ms"),
      table: () => quantileTable(stages, "itl_ms"),
    });
    plotCard(plots, {
      id: id + "-rate",
      title: "Tokens a second",
      height: 230,
      build: () => overTime(stages, "tokens_per_s", "tokens a second"),
      table: () => seriesTable(stages, "tokens_per_s", "tokens/s"),
    });
    plotCard(plots, {
      id: id + "-open",
      title: "Open requests",
      height: 230,
      build: () => overTime(stages, "open", "open requests"),
      table: () => seriesTable(stages, "open", "open"),
    });
  }
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
    { head: "load" },
  ];
  return plainTable(
    columns,
    names.map((name) => {
      const entry = entryOf(name);
      const solo = name.startsWith("solo:") ? at(RUN.data.summary, "solo") : null;
      const one = (solo ? solo[load] : entry && entry.llm && entry.llm[load]) || {};
      const ms = (path) => {
        const value = at(one, path),
          why = at(one, "why") || {};
        return el("span", { title: value === null ? why[path] || null : null }, msText(value, why[path]));
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
        el(
          "span",
          { class: "nowrap" },
          one.delivered === true ? "✓ delivered" : one.delivered === false ? "✗ not delivered" : NONE,
        ),
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
