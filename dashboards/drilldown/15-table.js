// A long table a page at a time: sorted by its headings, walked with the arrow keys, opened with Enter or a click.
"use strict";

/**
 * columns: [{key, head, unit, num, value(row) for sorting, cell(row)}]; `open(row)` is called on Enter, Space and click.
 * Returns {node, show(rows), focusRow(row), order()}.
 */
function pagedTable({ id, label, columns, rowId, rowClass, open, pageSize, sort }) {
  const view = {
    columns,
    rowId,
    rowClass,
    open,
    size: pageSize || 50,
    key: sort,
    down: false,
    page: 0,
    rows: [],
    sorted: [],
  };
  view.body = el("tbody", {});
  view.heads = columns.map((column) => sortHead(view, column));
  view.where = el("span", { class: "muted", role: "status" });
  view.pages = ["first", "previous", "next", "last"].map((what) => turnButton(view, what));
  view.body.addEventListener("click", (event) => {
    const line = event.target.closest("tr");
    if (line && !String(getSelection())) open(view.sorted[placeOf(view, line)]);
  });
  view.body.addEventListener("keydown", (event) => rowKeys(view, event));
  const head = el("thead", {}, el("tr", {}, view.heads));
  const table = el("table", { class: "data rows", id, "aria-label": label }, head, view.body);
  return {
    node: el("div", {}, el("div", { class: "scroll" }, table), el("div", { class: "pager" }, view.where, view.pages)),
    show(rows) {
      view.rows = rows;
      arrangeRows(view);
    },
    focusRow: (row, how) => focusPlace(view, view.sorted.indexOf(row), how),
    order: () => view.sorted,
  };
}

function sortHead(view, column) {
  const unit = column.unit && el("span", { class: "unit" }, " " + column.unit);
  const direction = el("span", { class: "dir", "aria-hidden": "true" });
  const button = el("button", { type: "button", class: "sort" }, column.head, unit, direction);
  button.addEventListener("click", () => {
    view.down = view.key === column.key ? !view.down : false;
    view.key = column.key;
    arrangeRows(view);
    announce("Sorted by " + column.head + (view.down ? ", descending" : ", ascending"));
  });
  return el("th", { scope: "col", class: column.num ? "num" : null }, button);
}

function turnButton(view, what) {
  const turn = () => {
    const last = lastPage(view);
    const to = { first: 0, previous: Math.max(0, view.page - 1), next: Math.min(last, view.page + 1), last };
    view.page = to[what];
    drawRows(view);
  };
  return el("button", { type: "button", class: "quiet", onclick: turn }, what[0].toUpperCase() + what.slice(1));
}

const lastPage = (view) => Math.max(0, Math.ceil(view.sorted.length / view.size) - 1);
const placeOf = (view, line) => view.page * view.size + Array.prototype.indexOf.call(view.body.children, line);

/** Sorts by the chosen column, equal rows as they came, unknown values last either way; shows the first page. */
function arrangeRows(view) {
  const { value } = view.columns.find((column) => column.key === view.key);
  const sign = view.down ? -1 : 1;
  const keyed = view.rows.map((row, index) => [value(row), index, row]);
  keyed.sort(([a, i], [b, j]) => {
    if (a === null || b === null) return (a === null) - (b === null) || i - j;
    return (a < b ? -sign : a > b ? sign : 0) || i - j;
  });
  view.sorted = keyed.map((item) => item[2]);
  view.page = 0;
  drawRows(view);
}

function drawRows(view) {
  const from = view.page * view.size;
  const shown = view.sorted.slice(from, from + view.size);
  view.body.replaceChildren(...shown.map((row, index) => rowLine(view, row, index)));
  view.heads.forEach((head, index) => {
    const on = view.columns[index].key === view.key;
    if (on) head.setAttribute("aria-sort", view.down ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
    head.querySelector(".dir").textContent = on ? (view.down ? " ▼" : " ▲") : "";
  });
  const range = `${digits(from + 1, 0)}–${digits(from + shown.length, 0)} of ${digits(view.sorted.length, 0)}`;
  view.where.textContent = shown.length ? range : "none";
  view.pages[0].disabled = view.pages[1].disabled = view.page === 0;
  view.pages[2].disabled = view.pages[3].disabled = view.page >= lastPage(view);
}

function rowLine(view, row, index) {
  const cells = view.columns.map((column) => el("td", { class: column.num ? "num" : null }, column.cell(row)));
  const kind = view.rowClass ? view.rowClass(row) : null;
  return el("tr", { tabindex: index ? "-1" : "0", "data-id": view.rowId(row), class: kind }, cells);
}

/** Focus on the row at a place of the whole order; turns to its page. `how`: as `focus` takes it. */
function focusPlace(view, place, how) {
  const bounded = Math.min(Math.max(place, 0), view.sorted.length - 1);
  if (bounded < 0) return;
  const page = Math.floor(bounded / view.size);
  if (page !== view.page) {
    view.page = page;
    drawRows(view);
  }
  for (const line of view.body.children) line.tabIndex = -1;
  const line = view.body.children[bounded - page * view.size];
  line.tabIndex = 0;
  line.focus(how);
}

function rowKeys(view, event) {
  const line = event.target.closest("tr");
  if (!line || event.ctrlKey || event.metaKey || event.altKey) return;
  const place = placeOf(view, line);
  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: view.size, PageUp: -view.size };
  if (event.key === "Enter" || event.key === " ") view.open(view.sorted[place]);
  else if (event.key in steps) focusPlace(view, place + steps[event.key]);
  else if (event.key === "Home") focusPlace(view, 0);
  else if (event.key === "End") focusPlace(view, view.sorted.length - 1);
  else return;
  event.preventDefault();
}
