// The run's data: unpacked once, then looked up. Nothing here computes a number that Python has not.
"use strict";

const RUN = { data: null, byStream: new Map(), stageNames: [] };

async function unpack() {
  const box = JSON.parse(document.getElementById("data").textContent);
  if (box.encoding !== "gzip+base64") throw new Error("unknown encoding of the data: " + box.encoding);
  const text = atob(box.data);
  const bytes = new Uint8Array(text.length);
  for (let index = 0; index < text.length; index++) bytes[index] = text.charCodeAt(index);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

function take(data) {
  if (data.version !== 1) throw new Error("this page was written for data of version 1, not " + data.version);
  RUN.data = data;
  RUN.utterances = data.utterances || [];
  RUN.utterances.forEach((row, index) => {
    row.rank = index; // by headroom, worst first: Python's order
    RUN.byStream.set(String(row.stream), row);
  });
  RUN.stageNames = [];
  for (const stage of data.summary.stages || []) addStage(stage.name);
  const again = at(data.summary, "a_a.stage.name");
  if (again) addStage(again);
  for (const row of RUN.utterances) addStage(row.stage);
}

function addStage(name) {
  if (!RUN.stageNames.includes(name)) RUN.stageNames.push(name);
}

/** The entry of a stage in the summary; the closing baseline's too. */
function entryOf(name) {
  const { stages, a_a: again } = RUN.data.summary;
  return (stages || []).find((stage) => stage.name === name) || (at(again, "stage.name") === name ? again.stage : null);
}

function baselineName() {
  const entry = (RUN.data.summary.stages || []).find((stage) => stage.baseline);
  return entry ? entry.name : null;
}

/** The stage that the verdict comes from: a baseline that fails, else the last one that fails; null where all pass. */
function worstStage() {
  const stages = RUN.data.summary.stages || [];
  const bad = stages.filter((stage) => stage.verdict === RUN.data.summary.verdict && stage.verdict !== "pass");
  const valid = bad.filter((stage) => stage.validity === "valid");
  const counted = valid.length ? valid : bad;
  return counted.find((stage) => stage.baseline) || counted[counted.length - 1] || null;
}

function missingWhy(what) {
  const found = (at(RUN.data, "timeline.missing") || []).find((one) => one.what === what);
  return found ? found.why : null;
}

/* What the address keeps: which stage is filtered, which utterance is open, which lookahead is tried. */
const ADDRESS = { stage: null, stream: null, lookahead: null };

function readAddress() {
  const query = new URLSearchParams(location.hash.slice(1));
  for (const key of Object.keys(ADDRESS)) ADDRESS[key] = query.get(key);
}

function writeAddress(changes) {
  Object.assign(ADDRESS, changes);
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(ADDRESS)) if (value !== null && value !== "") query.set(key, value);
  const hash = query.toString();
  try {
    history.replaceState(null, "", hash ? "#" + hash : location.pathname + location.search);
  } catch {
    // A page in a sandboxed frame may not touch its address; everything else works without.
  }
}
