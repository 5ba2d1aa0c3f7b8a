// One utterance, down to its chunks: when its sound came, when it was heard, what else ran then, how it sounds.
"use strict";

const DRILL = { row: null, from: null };

function openUtterance(row, quiet) {
  const dialog = document.getElementById("drill");
  if (!dialog.open) DRILL.from = document.activeElement;
  DRILL.row = row;
  dropPlots(dialog);
  dialog.replaceChildren(...drillParts(row));
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
  dialog.querySelector("h2").focus();
  if (!quiet) writeAddress({ stream: String(row.stream) });
}

function closeUtterance() {
  const dialog = document.getElementById("drill");
  if (dialog.open) dialog.close();
}

/** After Escape, the button or a click outside. */
function drillClosed() {
  dropPlots(document.getElementById("drill"));
  document.getElementById("drill").replaceChildren();
  const row = DRILL.row;
  DRILL.row = null;
  writeAddress({ stream: null });
  if (
    row &&
    LIST.table &&
    LIST.table.order().includes(row) &&
    DRILL.from &&
    DRILL.from.closest &&
    DRILL.from.closest("#utterances-table")
  )
    LIST.table.focusRow(row);
  else if (DRILL.from && DRILL.from.isConnected) DRILL.from.focus();
}

function stepUtterance(step) {
  const order = LIST.table.order();
  const place = order.indexOf(DRILL.row);
  const next = place < 0 ? null : order[place + step];
  if (next) openUtterance(next);
}

function drillKeys(event) {
  if (event.target.closest(".plot, audio, input, select") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
    stepUtterance(event.key === "ArrowRight" ? 1 : -1);
    event.preventDefault();
  }
}

function drillParts(row) {
  const body = el(
    "div",
    { class: "drill-body" },
    drillHead(row),
    el("p", { class: "says" }, stateOf(row), " ", drillSentence(row)),
    drillCauses(row),
    drillFacts(row),
  );
  drillPlot(body, row);
  body.append(drillSound(row));
  body.append(
    el(
      "p",
      {},
      el("button", { type: "button", class: "quiet", onclick: () => showOnTimeline(row) }, "Show on the timeline"),
    ),
  );
  return [body];
}

function drillHead(row) {
  const order = LIST.table.order();
  const place = order.indexOf(row);
  const go = (text, step, key) =>
    el(
      "button",
      {
        type: "button",
        class: "quiet",
        disabled: place < 0 || !order[place + step],
        title: key,
        "aria-keyshortcuts": key,
        onclick: () => stepUtterance(step),
      },
      text,
    );
  return el(
    "header",
    { class: "drill-head" },
    el(
      "div",
      {},
      el(
        "h2",
        { id: "drill-title", tabindex: "-1" },
        named(row.stage),
        ` · listener ${plainText(row.listener, 0)}, utterance ${plainText(row.utterance, 0)}`,
      ),
      el(
        "p",
        { class: "muted" },
        `stream ${row.stream}, due ${clockText(row.due_s)}`,
        row.round ? `, round ${row.round + 1}` : "",
      ),
    ),
    el(
      "div",
      { class: "row" },
      go("← Previous", -1, "ArrowLeft"),
      go("Next →", 1, "ArrowRight"),
      el("button", { type: "button", class: "quiet", onclick: closeUtterance, "aria-keyshortcuts": "Escape" }, "Close"),
    ),
  );
}

function drillSentence(row) {
  if (row.error) return el("span", { class: "outside" }, row.error);
  if (row.play_start_ms === null) return "It was never heard.";
  if (!row.underruns) return `Heard without a break from ${msUnit(row.play_start_ms)} after it was due.`;
  const longest =
    row.underruns > 1 && isNumber(row.stall_longest_ms) ? `, the longest ${msUnit(row.stall_longest_ms)}` : "";
  return `${countText(row.underruns, "underrun")}, ${msUnit(row.stall_ms)} of silence in all${longest}.`;
}

/** Why: the longest stall at once, the others in a fold below it. */
function drillCauses(row) {
  const causes = row.causes || [];
  if (!causes.length)
    return row.underruns ? missing("No cause is named.", "What else ran at that time is below.") : null;
  const item = (cause) =>
    el(
      "li",
      {},
      isNumber(cause.start_ms) &&
        el("span", { class: "muted" }, `${msUnit(cause.duration_ms)} silent at ${msUnit(cause.start_ms)}: `),
      cause.text,
    );
  return el(
    "div",
    {},
    el("h3", {}, causes.length > 1 ? "Why, the longest first" : "Why"),
    el("ul", { class: "causes" }, item(causes[0])),
    causes.length > 1 &&
      el(
        "details",
        { class: "astable" },
        el("summary", {}, countText(causes.length - 1, "more stall")),
        el("ul", { class: "causes" }, causes.slice(1).map(item)),
      ),
  );
}

function drillFacts(row) {
  const facts = [
    ["headroom", msUnit(row.headroom_ms, row.headroom_why, true)],
    ["TTFA", msUnit(row.ttfa_ms)],
    ["playback", msUnit(row.playback_ms)],
    ["lookahead for no stall at all", msUnit(at(row, "required_lookahead_ms"))],
    ["sound", msUnit(at(row, "audio_ms"))],
    ["chunks", row.arrival_ms && row.arrival_ms.length ? plainText(row.arrival_ms.length, 0) : NONE],
  ];
  if (row.delayed_ms) facts.push(["waited for the one before", msUnit(row.delayed_ms)]);
  return el(
    "div",
    {},
    el(
      "dl",
      { class: "facts" },
      facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))),
    ),
    row.text && el("blockquote", {}, row.text),
    row.request_id && el("p", { class: "muted small" }, "X-Request-Id ", el("code", {}, row.request_id)),
  );
}

function drillSound(row) {
  const command = `cotenant listen ${runArgument()} ${row.stream}`;
  if (typeof row.audio === "string" && row.audio.startsWith("data:audio/wav;base64,")) {
    return el(
      "div",
      {},
      el("h3", {}, "As it was heard"),
      el("audio", {
        controls: true,
        preload: "metadata",
        src: row.audio,
        "aria-label": "The utterance as it was heard, silences included",
      }),
    );
  }
  return el(
    "div",
    {},
    el("h3", {}, "As it was heard"),
    missing("The sound is not in this page.", row.audio_why || ""),
    !String(row.audio_why).includes(command) &&
      el("p", { class: "muted small" }, "To hear it, if the run kept its sound: ", el("code", {}, command)),
  );
}

function showOnTimeline(row) {
  closeUtterance();
  const end = row.due_s + Math.max(row.play_end_ms || 0, row.done_ms || 0, 1000) / 1000;
  showMoment(row.due_s - 1, end + 1);
}
