// Who worked when: the lanes of requests at the top of the timeline.
"use strict";

/** Every lane of every load, top first: voices, faces, then askers as the scenario has them. */
function laneRows() {
  const rows = new Map();
  const order = Object.keys(RUN.data.run.loads || {});
  for (const span of RUN.data.timeline.spans) rows.set(span.load + "\n" + span.lane, [span.load, span.lane]);
  const place = (load) => (order.includes(load) ? order.indexOf(load) : order.length);
  return [...rows.values()].sort(([a, i], [b, j]) => place(a) - place(b) || i - j);
}

const SPAN_WORDS = { voice: "voice", face: "face", decode: "LLM output", prefill: "LLM prefill" };
const spanKinds = () =>
  ["voice", "face", "decode", "prefill", ...RUN.data.timeline.spans.map((span) => span.kind)].filter(
    (kind, index, all) => all.indexOf(kind) === index && RUN.data.timeline.spans.some((span) => span.kind === kind),
  );

/** What the colours of the lanes mean, as words beside them. */
function spanKey() {
  return el(
    "span",
    { class: "keys" },
    spanKinds().map((kind) =>
      el(
        "span",
        { class: "key" },
        el("span", {
          class: "swatch " + (kind === "decode" ? "thin" : ""),
          style: `background:var(--${SPAN_INK[kind] || "muted"})`,
          "aria-hidden": "true",
        }),
        SPAN_WORDS[kind] || kind,
      ),
    ),
  );
}

function spanTraces(yaxis, layout, c) {
  const rows = laneRows();
  const index = new Map(rows.map(([load, lane], row) => [load + "\n" + lane, row]));
  const loads = [...new Set(rows.map(([load]) => load))];
  const middle = (load) => {
    const mine = rows.flatMap(([one], row) => (one === load ? [row] : []));
    return (mine[0] + mine[mine.length - 1]) / 2;
  };
  Object.assign(layout, {
    range: [rows.length - 0.4, -0.6],
    tickmode: "array",
    tickvals: loads.map(middle),
    ticktext: loads.map((load) => shortName(load, 14)),
    showgrid: false,
    zeroline: false,
    rangemode: "normal",
  });
  const kinds = spanKinds();
  const thick = { voice: 0.7, face: 0.7, decode: 0.35, prefill: 0.9 };
  return kinds.map((kind) => {
    const spans = RUN.data.timeline.spans.filter((span) => span.kind === kind);
    return {
      type: "bar",
      orientation: "h",
      yaxis,
      name: safeText(kind),
      showlegend: false,
      base: spans.map((span) => span.start_s),
      x: spans.map((span) => span.end_s - span.start_s),
      y: spans.map((span) => index.get(span.load + "\n" + span.lane)),
      width: thick[kind] || 0.7,
      marker: { color: c.spans[kind] || c.muted, line: { width: 0 } },
      customdata: spans.map((span) => span.stream),
      hoverinfo: "text",
      hovertext: spans.map(
        (span) =>
          `${safeText(span.label)}<br>${clockText(span.start_s)}, ${msUnit((span.end_s - span.start_s) * 1000)}`,
      ),
      textposition: "none",
    };
  });
}
