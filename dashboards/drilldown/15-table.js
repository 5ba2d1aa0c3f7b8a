// A long table a page at a time: sorted by its headings, walked with the arrow keys, opened with Enter or a click.
"use strict";

/**
 * columns: [{key, head, unit, num, value(row) for sorting, cell(row)}]; `open(row)` is called on Enter, Space and click.
 * Returns {node, show(rows), focusRow(row), order()}.
 */
function pagedTable({ id, label, columns, rowId, rowClass, open, pageSize, sort }) {
  const state = { rows: [], sorted: [], page: 0, key: sort, down: false, size: pageSize || 50, current: null };
  const body = el("tbody", {});
  const heads = columns.map((column) => {
    const button = el("button", { type: "button", class: "sort" }, column.head, column.unit && el("span", { class: "unit" }, " " + column.unit), el("span", { class: "dir", "aria-hidden": "true" }));
    button.addEventListener("click", () => sortBy(column.key));
    return el("th", { scope: "col", class: column.num ? "num" : null }, button);
  });
  const table = el("table", { class: "data rows", id, "aria-label": label }, el("thead", {}, el("tr", {}, heads)), body);
  const where = el("span", { class: "muted", role: "status" });
  const pages = ["first", "previous", "next", "last"].map((what) => el("button", { type: "button", class: "quiet", onclick: () => turn(what) }, what[0].toUpperCase() + what.slice(1)));
  const foot = el("div", { class: "pager" }, where, pages);
  const node = el("div", {}, el("div", { class: "scroll" }, table), foot);

  const last = () => Math.max(0, Math.ceil(state.sorted.length / state.size) - 1);

  function sortBy(key) {
    state.down = state.key === key ? !state.down : false;
    state.key = key;
    state.page = 0;
    arrange();
    draw();
    const column = columns.find((one) => one.key === key);
    announce("Sorted by " + column.head + (state.down ? ", descending" : ", ascending"));
  }

  function arrange() {
    const { value } = columns.find((column) => column.key === state.key);
    const sign = state.down ? -1 : 1;
    const keyed = state.rows.map((row, index) => [value(row), index, row]);
    keyed.sort(([a, i], [b, j]) => {
      if (a === null || b === null) return (a === null) - (b === null) || i - j; // unknown last, either way
      return (a < b ? -sign : a > b ? sign : 0) || i - j;
    });
    state.sorted = keyed.map((item) => item[2]);
  }

  function turn(what) {
    state.page = { first: 0, previous: Math.max(0, state.page - 1), next: Math.min(last(), state.page + 1), last: last() }[what];
    draw();
  }

  function draw() {
    const from = state.page * state.size;
    const shown = state.sorted.slice(from, from + state.size);
    body.replaceChildren(...shown.map((row, index) => {
      const line = el("tr", { tabindex: index ? "-1" : "0", "data-id": rowId(row), class: rowClass ? rowClass(row) : null }, columns.map((column) => el("td", { class: column.num ? "num" : null }, column.cell(row))));
      return line;
    }));
    heads.forEach((head, index) => {
      const on = columns[index].key === state.key;
      if (on) head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
      head.querySelector(".dir").textContent = on ? (state.down ? " ▼" : " ▲") : "";
    });
    where.textContent = shown.length ? `${digits(from + 1, 0)}–${digits(from + shown.length, 0)} of ${digits(state.sorted.length, 0)}` : "none";
    pages[0].disabled = pages[1].disabled = state.page === 0;
    pages[2].disabled = pages[3].disabled = state.page >= last();
  }

  function focusIndex(index) {
    const bounded = Math.min(Math.max(index, 0), state.sorted.length - 1);
    if (bounded < 0) return;
    const page = Math.floor(bounded / state.size);
    if (page !== state.page) {
      state.page = page;
      draw();
    }
    for (const line of body.children) line.tabIndex = -1;
    const line = body.children[bounded - page * state.size];
    line.tabIndex = 0;
    line.focus();
  }

  const rowOf = (line) => state.sorted[state.page * state.size + Array.prototype.indexOf.call(body.children, line)];

  body.addEventListener("click", (event) => {
    const line = event.target.closest("tr");
    if (line && !String(getSelection())) open(rowOf(line));
  });
  body.addEventListener("keydown", (event) => {
    const line = event.target.closest("tr");
    if (!line || event.ctrlKey || event.metaKey || event.altKey) return;
    const index = state.page * state.size + Array.prototype.indexOf.call(body.children, line);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: state.size, PageUp: -state.size };
    if (event.key === "Enter" || event.key === " ") open(rowOf(line));
    else if (event.key in steps) focusIndex(index + steps[event.key]);
    else if (event.key === "Home") focusIndex(0);
    else if (event.key === "End") focusIndex(state.sorted.length - 1);
    else return;
    event.preventDefault();
  });

  return {
    node,
    show(rows) { state.rows = rows; state.page = 0; arrange(); draw(); },
    focusRow(row) { focusIndex(state.sorted.indexOf(row)); },
    order() { return state.sorted; },
  };
}
