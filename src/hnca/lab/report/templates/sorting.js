"use strict";
// A table sorts by the column whose heading is pressed; pressed again, the other way round.
for (const table of document.querySelectorAll("table.sortable")) {
  const headings = [...table.querySelectorAll("th")];
  headings.forEach((heading, column) => {
    heading.querySelector("button").addEventListener("click", () => {
      const up = heading.getAttribute("aria-sort") !== "ascending";
      for (const each of headings) each.setAttribute("aria-sort", "none");
      heading.setAttribute("aria-sort", up ? "ascending" : "descending");
      const body = table.tBodies[0];
      const key = (row) => row.cells[column].dataset.key;
      body.append(...[...body.rows].sort((a, b) => order(key(a), key(b), up)));
    });
  });
}

// Numbers by size, before words; what is missing comes last, either way round.
function order(a, b, up) {
  if (a === "" || b === "") return (a === "") - (b === "");
  const [x, y] = [Number(a), Number(b)];
  const found = isNaN(x) || isNaN(y) ? isNaN(x) - isNaN(y) || a.localeCompare(b) : x - y;
  return up ? found : -found;
}
