// Puts the parts in order, keeps theme and address, and says what went wrong if something does.
"use strict";

const THEMES = ["auto", "light", "dark"];

function setTheme(theme, quiet) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  const button = document.getElementById("theme");
  button.textContent = `Theme: ${theme}`;
  button.dataset.theme = theme;
  try {
    if (!quiet) localStorage.setItem("cotenant-theme", theme);
  } catch {
    // A file opened without storage starts with the system's theme each time.
  }
  redrawPlots();
}

function storedTheme() {
  try {
    const theme = localStorage.getItem("cotenant-theme");
    return THEMES.includes(theme) ? theme : "auto";
  } catch {
    return "auto";
  }
}

function watchTheme() {
  const button = document.getElementById("theme");
  button.hidden = false;
  button.addEventListener("click", () => setTheme(THEMES[(THEMES.indexOf(button.dataset.theme) + 1) % THEMES.length]));
  setTheme(storedTheme(), true);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawPlots);
  window.addEventListener("beforeprint", preparePrint);
  window.addEventListener("afterprint", afterPrint);
}

/** Opens what the address asks for; unknown names are left alone. */
function followAddress() {
  readAddress();
  const wanted = { ...ADDRESS };
  if (RUN.data.what_if) {
    const ms = Number(wanted.lookahead);
    tryLookahead(wanted.lookahead !== null && Number.isFinite(ms) ? nearestLookahead(ms) : RUN.data.what_if.own, true);
  }
  if (LIST.table) filterStage(wanted.stage || "");
  writeAddress(wanted);
  const row = wanted.stream === null ? null : RUN.byStream.get(wanted.stream);
  if (row) {
    document.getElementById("utterances").scrollIntoView();
    openUtterance(row);
  } else closeUtterance();
}

/** A part that fails says so and leaves the others alone. */
function part(draw) {
  try {
    draw();
  } catch (error) {
    console.error(error);
    document
      .getElementById("main")
      .append(missing("A part of this page could not be drawn.", String(error && error.message)));
  }
}

async function start() {
  watchTheme();
  const loading = document.getElementById("loading");
  loading.hidden = false;
  try {
    take(await unpack());
  } catch (error) {
    console.error(error);
    loading.textContent = `The run's data could not be unpacked (${error.message}). The table above says what was judged.`;
    return;
  }
  document.getElementById("fallback").remove();
  loading.remove();
  for (const draw of [
    drawVerdict,
    drawStages,
    drawWhatIf,
    drawTimeline,
    drawUtterances,
    drawFaces,
    drawLlm,
    drawCompared,
    drawAbout,
  ])
    part(draw);
  const dialog = document.getElementById("drill");
  dialog.addEventListener("close", drillClosed);
  dialog.addEventListener("keydown", drillKeys);
  dialog.addEventListener("click", (event) => event.target === dialog && closeUtterance());
  part(followAddress);
  window.addEventListener("hashchange", () => part(followAddress));
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}

start();
