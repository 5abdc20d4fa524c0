"use strict";
(() => {
  document.documentElement.classList.add("scripted");

  // -- tables: sorting and filtering

  const keyOf = (row, column) => {
    const cell = row.cells[column];
    return "sort" in cell.dataset ? Number(cell.dataset.sort) : cell.textContent.trim();
  };
  const compare = (one, other) => {
    if (one === other) return 0;
    if (one === "") return 1;
    if (other === "") return -1;
    if (typeof one === "number" && typeof other === "number") return one - other;
    return String(one).localeCompare(String(other), "en", { numeric: true });
  };
  const sortBy = (table, head) => {
    const column = head.cellIndex;
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const cell of table.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const body = table.tBodies[0];
    const keyed = [...body.rows].map((row) => [keyOf(row, column), row]);
    keyed.sort(([one], [other]) => (one === "" || other === "" ? compare(one, other) : (down ? -1 : 1) * compare(one, other)));
    body.append(...keyed.map(([, row]) => row));
  };
  for (const head of document.querySelectorAll("th[data-sortable]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.dataset.label = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => sortBy(head.closest("table"), head));
  }

  for (const form of document.querySelectorAll("form[data-filters]")) {
    const rows = [...document.getElementById(form.dataset.filters).tBodies[0].rows];
    const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
    const chosen = (name) => (form.elements[name] ? form.elements[name].value : "");
    const apply = () => {
      const words = chosen("text").toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        const fits =
          (!chosen("status") || row.dataset.status === chosen("status")) &&
          (!chosen("device") || row.dataset.device === chosen("device")) &&
          words.every((word) => texts.get(row).includes(word));
        row.hidden = !fits;
        shown += fits;
      }
      form.querySelector(".shown").textContent = `${shown} of ${rows.length} rows`;
    };
    form.addEventListener("input", apply);
    form.addEventListener("submit", (event) => event.preventDefault());
    apply();
  }

  // A link to a row that a filter hides shows the row again.
  addEventListener("hashchange", () => {
    const row = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (row && row.hidden) {
      for (const form of document.querySelectorAll("form[data-filters]")) {
        form.reset();
        form.dispatchEvent(new Event("input"));
      }
      row.scrollIntoView();
    }
  });
})();
