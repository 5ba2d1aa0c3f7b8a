// What every other script of the page stands on: elements from text, numbers as text, words with shapes.
"use strict";

/** An element. Strings among the children become text nodes: nothing from outside is ever read as markup. */
function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "text") node.textContent = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  put(node, children);
  return node;
}

function put(node, children) {
  for (const child of [children].flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

/** A name that somebody else chose: its writing direction stays inside it. */
function named(text, extra) {
  const all = String(text);
  return el("bdi", { class: all.length > 26 ? "name long" : "name", ...(extra || {}) }, all);
}

const NONE = "–";
const MINUS = "−";

function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

/** `value` with so many digits, thousands apart by thin spaces, a real minus. */
function digits(value, count, signed) {
  const [whole, part] = Math.abs(value).toFixed(count).split(".");
  const grouped = whole.length > 4 ? whole.replace(/\B(?=(\d{3})+$)/g, "\u202f") : whole;
  const zero = Number(whole) === 0 && !Number(part || 0);
  const sign = value < 0 && !zero ? MINUS : signed && !zero ? "+" : "";
  return sign + grouped + (part ? "." + part : "");
}

/** Milliseconds without their unit (it stands in the heading); infinities by the word that came with them. */
function msText(value, why, signed) {
  if (isNumber(value)) return digits(value, Math.abs(value) < 10 && value % 1 ? 1 : 0, signed);
  return why === "+inf" ? "+∞" : why === "-inf" ? MINUS + "∞" : NONE;
}

/** Milliseconds with their unit; from 10 s on in seconds. */
function msUnit(value, why, signed) {
  if (!isNumber(value)) return msText(value, why, signed);
  return Math.abs(value) >= 10000 ? digits(value / 1000, 1, signed) + " s" : msText(value, why, signed) + " ms";
}

/** A share in percent, never rounded up to 100 nor down to 0. */
function shareText(value, count) {
  if (!isNumber(value)) return NONE;
  const step = 10 ** -(count || 0);
  const percent = 100 * value;
  if (value > 0 && percent < step / 2) return "<" + digits(step, count || 0);
  const rounded = Number(percent.toFixed(count || 0));
  return digits(value < 1 && rounded >= 100 ? 100 - step : rounded, count || 0);
}

function plainText(value, count) {
  return isNumber(value)
    ? digits(value, count === undefined ? (value % 1 && Math.abs(value) < 100 ? 1 : 0) : count)
    : NONE;
}

/** Seconds since the run's start as `m:ss.s`. */
function clockText(seconds) {
  if (!isNumber(seconds)) return NONE;
  const tenths = Math.round(Math.abs(seconds) * 10);
  const rest = ((tenths % 600) / 10).toFixed(1).padStart(4, "0");
  return (seconds < 0 ? MINUS : "") + Math.floor(tenths / 600) + ":" + rest;
}

function countText(count, one, many) {
  return digits(count, 0) + " " + (count === 1 ? one : many || one + "s");
}

/** A value in a tree by dotted path, null where a step is missing. */
function at(tree, path) {
  let node = tree;
  for (const step of path.split(".")) node = node && typeof node === "object" ? node[step] : undefined;
  return node === undefined ? null : node;
}

/** Why a number of a stage's entry is null: the longest path that has a reason. */
function whyOf(entry, path) {
  const why = (entry && entry.why) || {};
  if (why[path]) return why[path];
  const [head, ...rest] = path.split(".");
  const inner = rest.length && entry && entry[head] && typeof entry[head] === "object" ? entry[head].why : null;
  return (inner && (inner[rest.join(".")] || inner[rest[0]])) || why[head] || null;
}

const SHAPES = { pass: "✓", fail: "✗", inconclusive: "?", invalid: "!", none: "·" };

/** `pass`, `fail`, `inconclusive`, `invalid` or `none` for any way of writing a verdict. */
function verdictClass(word) {
  const lower = String(word || "").toLowerCase();
  return lower in SHAPES ? lower : "none";
}

/** A verdict as shape and word: colour only repeats what these say. */
function pill(word, label) {
  const kind = verdictClass(word);
  const text = label || (kind === "none" ? "no gate" : String(word).toUpperCase());
  return el(
    "span",
    { class: "pill " + kind },
    el("span", { class: "shape", "aria-hidden": "true" }, SHAPES[kind]),
    text,
  );
}

function announce(text) {
  document.getElementById("announce").textContent = text;
}

/** A part of the page with its heading; parts are listed in the bar in the order of their making. */
function section(id, title, lead) {
  const node = el(
    "section",
    { id, "aria-labelledby": id + "-title" },
    el("h2", { id: id + "-title" }, title),
    lead && el("p", { class: "lead" }, lead),
  );
  document.getElementById("main").append(node);
  const link = el("a", { href: "#" + id }, title);
  link.addEventListener("click", (event) => {
    event.preventDefault(); // The address keeps what is open: it is not a place in the page.
    node.scrollIntoView();
    const heading = node.querySelector("h2");
    heading.tabIndex = -1;
    heading.focus({ preventScroll: true });
  });
  document.getElementById("nav").append(link);
  return node;
}

/** What is not there, said as such. */
function missing(what, why) {
  return el(
    "p",
    { class: "missing" },
    el("span", { class: "shape", "aria-hidden": "true" }, "∅"),
    el("span", {}, el("b", {}, what), why ? " " + why : ""),
  );
}
