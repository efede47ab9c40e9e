// Draws the table of runs by status as stacked bars. Without script, the table is there.
"use strict";

(() => {
  const COLOURS = {
    ok: "--good", failed: "--bad", invalid: "--bad", error: "--bad", lost: "--bad", denied: "--refused",
    timeout: "--warn", memory_limit: "--warn", output_limit: "--warn", process_limit: "--warn", cancelled: "--dim",
  };
  let chart = null;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // Times in UTC, as everywhere on the pages: as short as the distance of the marks allows.
  const marks = (_, seconds, axis, space, distance) =>
    seconds.map((at) => {
      const text = new Date(at * 1000).toISOString();
      return distance >= 86400 ? text.slice(5, 10) : distance >= 60 ? text.slice(11, 16) : text.slice(11, 19);
    });

  function draw() {
    const place = document.getElementById("histogram");
    if (chart !== null) chart.destroy();
    chart = null;
    if (place === null) return;
    const table = document.getElementById(place.dataset.table);
    const rows = [...table.tBodies[0].rows];
    const times = rows.map((row) => Number(row.cells[0].dataset.at));
    const names = [...table.tHead.rows[0].cells].slice(1).map((cell) => cell.dataset.status);
    const counts = names.map((_, at) => rows.map((row) => Number(row.cells[at + 1].textContent)));
    // Stacked: each series is drawn from zero to its sum with those below it, the largest first.
    const sums = counts.map((_, at) => rows.map((_, row) => counts.slice(0, at + 1).reduce((sum, c) => sum + c[row], 0)));
    const order = names.map((_, at) => at).reverse();
    const step = Number(place.dataset.slotMs) / 1000;
    const axis = { stroke: colour("--dim"), font: "12px system-ui", grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
    place.hidden = false;
    const { paddingLeft, paddingRight } = getComputedStyle(place);
    chart = new uPlot(
      {
        width: place.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight),
        height: 190,
        tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
        cursor: { drag: { x: false, y: false } },
        scales: { x: { range: (_, low, high) => [low - step / 2, high + step / 2] }, y: { range: (_, low, high) => [0, Math.max(1, high)] } },
        axes: [{ ...axis, values: marks, space: 80 }, { ...axis, size: 44, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 1e5] }],
        series: [
          { value: (_, at) => (at === null ? "" : new Date(at * 1000).toISOString().slice(0, 16).replace("T", " ")) , label: "from (UTC)" },
          ...order.map((at, place) => ({
            label: names[at],
            stroke: colour("--card"), // a line between two bars of the same colour
            fill: colour(COLOURS[names[at]] ?? "--info"),
            width: 1,
            points: { show: false },
            paths: uPlot.paths.bars({ size: [0.8, 60] }),
            value: (_, sum, series, row) => (row === null ? "" : counts[at][row]),
          })),
        ],
      },
      [times, ...order.map((at) => sums[at])],
      place,
    );
  }

  draw();
  document.addEventListener("htmx:afterSettle", (event) => {
    if (event.target.id === "found" || event.detail.target?.id === "found") draw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  let waits = 0;
  addEventListener("resize", () => {
    clearTimeout(waits);
    waits = setTimeout(draw, 150);
  });
})();
