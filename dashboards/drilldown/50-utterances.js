// Every measured utterance, the worst first; filters by stage and by what became of it.
"use strict";

const LIST = { table: null, stage: "", only: "" };
const KEPT = {
  "": ["all", () => true],
  stalled: ["with an underrun", (row) => row.underruns > 0],
  unclean: ["not clean", (row) => !row.clean],
  failed: ["failed", (row) => row.end !== "eos"],
};

function drawUtterances() {
  const part = section(
    "utterances",
    "Utterances",
    RUN.utterances.length
      ? "Sorted by headroom: how much later everything could have come. Negative is silence that was heard. Arrow keys walk, Enter opens."
      : null,
  );
  if (!RUN.utterances.length) {
    part.append(
      missing(
        "No utterance was measured.",
        missingWhy("underruns") || missingWhy("ahead") || RUN.data.what_if_why || "",
      ),
    );
    return;
  }
  const stages = RUN.stageNames.filter((name) => RUN.utterances.some((row) => row.stage === name));
  const choose = el(
    "select",
    { id: "filter-stage", onchange: () => filterStage(choose.value) },
    el("option", { value: "" }, `all stages (${digits(RUN.utterances.length, 0)})`),
    stages.map((name) =>
      el(
        "option",
        { value: name },
        `${name} (${digits(RUN.utterances.filter((row) => row.stage === name).length, 0)})`,
      ),
    ),
  );
  const only = el(
    "select",
    {
      id: "filter-only",
      onchange: () => {
        LIST.only = only.value;
        showUtterances();
      },
    },
    Object.entries(KEPT).map(([key, [text, test]]) =>
      el("option", { value: key }, `${text} (${digits(RUN.utterances.filter(test).length, 0)})`),
    ),
  );
  part.append(el("div", { class: "row filters" }, el("label", {}, "stage ", choose), el("label", {}, "show ", only)));
  LIST.table = pagedTable({
    id: "utterances-table",
    label: "Utterances",
    columns: utteranceColumns(stages.length > 0),
    rowId: (row) => row.stream,
    rowClass: (row) => rowState(row),
    open: openUtterance,
    sort: "rank",
  });
  part.append(LIST.table.node);
  showUtterances();
}

const rowState = (row) => (row.end !== "eos" ? "broken" : row.clean ? "clean" : "stalled");

function stateOf(row) {
  if (row.end !== "eos") return pill("fail", row.error_kind ? `${row.end}: ${row.error_kind}` : String(row.end));
  if (row.clean) return pill("pass", "clean");
  return pill("fail", row.short ? "short" : "stalled");
}

function utteranceColumns() {
  const ms = (key, head, extra) => ({
    key,
    head,
    unit: "ms",
    num: true,
    value: (row) => (isNumber(row[key]) ? row[key] : null),
    cell: (row) => msText(row[key]),
    ...extra,
  });
  return [
    {
      key: "rank",
      head: "headroom",
      unit: "ms",
      num: true,
      value: (row) => row.rank,
      cell: (row) =>
        el(
          "b",
          { title: row.headroom_ms === null ? row.headroom_why : null },
          msText(row.headroom_ms, row.headroom_why, true),
        ),
    },
    { key: "state", head: "outcome", value: (row) => rowState(row), cell: stateOf },
    { key: "stage", head: "stage", value: (row) => RUN.stageNames.indexOf(row.stage), cell: (row) => named(row.stage) },
    {
      key: "underruns",
      head: "underruns",
      num: true,
      value: (row) => row.underruns,
      cell: (row) => plainText(row.underruns, 0),
    },
    ms("stall_ms", "stalled"),
    ms("ttfa_ms", "TTFA"),
    ms("playback_ms", "playback"),
    {
      key: "due",
      head: "due",
      unit: "m:ss",
      num: true,
      value: (row) => row.due_s,
      cell: (row) => clockText(row.due_s),
    },
    {
      key: "listener",
      head: "listener",
      num: true,
      value: (row) => row.listener,
      cell: (row) => `${plainText(row.listener, 0)}.${plainText(row.utterance, 0)}`,
    },
    {
      key: "cause",
      head: "cause",
      value: (row) => firstCause(row) || null,
      cell: (row) => el("span", { class: "small clip" }, firstCause(row) || ""),
    },
  ];
}

function firstCause(row) {
  if (row.causes && row.causes.length) return row.causes[0].text;
  return row.error || "";
}

function showUtterances() {
  const test = KEPT[LIST.only][1];
  LIST.table.show(RUN.utterances.filter((row) => (!LIST.stage || row.stage === LIST.stage) && test(row)));
}

/** Shows one stage's utterances only; `jump` moves there. */
function filterStage(name, jump) {
  if (!LIST.table) return;
  LIST.stage = RUN.utterances.some((row) => row.stage === name) ? name : "";
  document.getElementById("filter-stage").value = LIST.stage;
  writeAddress({ stage: LIST.stage || null });
  showUtterances();
  if (!jump) return;
  document.getElementById("utterances").scrollIntoView();
  if (LIST.table.order().length) LIST.table.focusRow(LIST.table.order()[0], { preventScroll: true });
  announce(LIST.stage ? `Utterances of ${LIST.stage}` : "All utterances");
}
