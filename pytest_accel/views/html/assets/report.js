"use strict";
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");

  // -- tooltips

  const tip = document.getElementById("tip");
  let told = null;
  const hide = () => {
    tip.hidden = true;
    if (told) told.removeAttribute("aria-describedby");
    told = null;
  };
  const show = (target) => {
    hide();
    told = target;
    tip.textContent = target.dataset.tip;
    tip.hidden = false;
    target.setAttribute("aria-describedby", "tip");
    const at = target.getBoundingClientRect();
    const size = tip.getBoundingClientRect();
    const below = at.bottom + 6 + size.height < innerHeight || at.top < size.height + 6;
    const left = Math.max(6, Math.min(at.left, document.documentElement.clientWidth - size.width - 6));
    tip.style.left = `${left + scrollX}px`;
    tip.style.top = `${(below ? at.bottom + 6 : at.top - size.height - 6) + scrollY}px`;
  };
  const source = (event) => (event.target.closest ? event.target.closest("[data-tip]") : null);
  document.addEventListener("mouseover", (event) => (source(event) ? show(source(event)) : hide()));
  document.addEventListener("focusin", (event) => (source(event) ? show(source(event)) : hide()));
  document.addEventListener("focusout", hide);
  document.addEventListener("keydown", (event) => event.key === "Escape" && hide());

  // -- plots

  const COLOURS = {
    light: ["#0b57a4", "#c4470f", "#17803f", "#8a3fb0", "#9a6a00", "#0e8a92", "#b3206b", "#4a4f57"],
    dark: ["#7db8ff", "#ff9c66", "#79d99b", "#d3a6f5", "#f0cc62", "#6fdbe2", "#ff8fc2", "#c3c9d1"],
  };
  const DASHES = [[], [7, 3], [2, 2], [9, 3, 2, 3]];
  const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 100000, 1000000];
  const plots = JSON.parse(document.getElementById("data").textContent);
  const drawn = new Map();

  const across = (plot, red) => (chart) => {
    const { ctx, bbox } = chart;
    ctx.save();
    if (plot.band) {
      const [low, high] = plot.band.map((value) => chart.valToPos(value, "y", true));
      ctx.fillStyle = "rgba(40, 150, 90, 0.13)";
      ctx.fillRect(bbox.left, Math.min(low, high), bbox.width, Math.max(2, Math.abs(low - high)));
    }
    ctx.restore();
    ctx.save();
    ctx.textAlign = "left";
    ctx.textBaseline = "alphabetic";
    ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
    for (const mark of plot.marks) {
      const y = chart.valToPos(mark.value, "y", true);
      ctx.strokeStyle = ctx.fillStyle = red;
      ctx.lineWidth = 2 * devicePixelRatio;
      ctx.setLineDash([8 * devicePixelRatio, 5 * devicePixelRatio]);
      ctx.beginPath();
      ctx.moveTo(bbox.left, y);
      ctx.lineTo(bbox.left + bbox.width, y);
      ctx.stroke();
      ctx.fillText(`${mark.label} ${mark.value}`, bbox.left + 6 * devicePixelRatio, y - 5 * devicePixelRatio);
    }
    ctx.restore();
  };

  const range = (plot) => (chart, low, high) => {
    const values = [low, high, ...plot.marks.map((mark) => mark.value), ...(plot.band || [])].filter(Number.isFinite);
    if (!values.length) return [0, 1];
    const [least, most] = [Math.min(...values), Math.max(...values)];
    const room = (most - least || Math.abs(most) || 1) * 0.08;
    return [least >= 0 ? Math.max(0, least - room) : least - room, most + room];
  };

  // The sensor reads every second or more often, and readings of long runs are thinned: only a longer gap is one.
  const GAP_SECONDS = 5;
  const GAP_SHARE = 0.02;
  const long = (chart, hours, [from, to]) => {
    const all = chart.data[0];
    const least = Math.max(GAP_SECONDS / (hours ? 3600 : 1), GAP_SHARE * (all[all.length - 1] - all[0]));
    return chart.posToVal(to, "x", true) - chart.posToVal(from, "x", true) > least;
  };

  const sizeOf = (element) => ({ width: Math.max(240, element.clientWidth), height: 230 });

  const draw = (element, theme, size) => {
    const name = element.dataset.plot;
    const plot = plots[name];
    if (!plot) return;
    const before = drawn.get(element);
    if (before) before.destroy();
    const ink = theme === "dark" ? "#c3c9d1" : "#3c434c";
    const red = theme === "dark" ? "#ff9d94" : "#b3201a";
    const grid = { stroke: theme === "dark" ? "#2c323a" : "#e3e6ea", width: 1 };
    const axis = { stroke: ink, grid, ticks: grid, font: "12px system-ui, sans-serif" };
    const counted = plot.axis === "block" || plot.axis === "round";
    const options = {
      ...(size || sizeOf(element)),
      cursor: { sync: { key: counted ? name : "traces" }, focus: { prox: 24 } },
      focus: { alpha: 0.35 },
      scales: { x: { time: false }, y: { range: range(plot) } },
      axes: [{ ...axis, size: 34, ...(counted ? { incrs: WHOLE } : {}), values: (chart, ticks) => ticks.map((tick) => (counted ? tick : `${tick} ${plot.axis}`)) }, { ...axis, size: 62 }],
      series: [
        { label: plot.axis },
        ...plot.series.map((series, index) => ({
          label: series.name,
          stroke: COLOURS[theme][index % COLOURS[theme].length],
          dash: DASHES[Math.floor(index / 2) % DASHES.length],
          width: 1.5,
          gaps: (chart, which, first, last, gaps) => (counted ? gaps : gaps.filter((gap) => long(chart, plot.axis === "h", gap))),
          points: { show: plot.x.length < 60, size: 4 },
          value: (chart, value) => (value === null || value === undefined ? "--" : String(value)),
        })),
      ],
      hooks: { drawAxes: [across(plot, red)] },
    };
    const chart = new uPlot(options, [plot.x, ...plot.series.map((series) => series.values)], element);
    drawn.set(element, chart);
  };
  const drawAll = (theme, size) => {
    for (const element of document.querySelectorAll("[data-plot]")) draw(element, theme, size);
  };
  const theme = () => (dark.matches ? "dark" : "light");
  drawAll(theme());
  dark.addEventListener("change", () => drawAll(theme()));
  let wide = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === wide) return;
    wide = innerWidth;
    for (const [element, chart] of drawn) chart.setSize(sizeOf(element));
  });

  // -- print: everything is shown, in the colours of paper, with three plots beside each other

  const ON_PAPER = { width: 320, height: 170 };
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const section of closed) section.open = true;
    drawAll("light", ON_PAPER);
  });
  addEventListener("afterprint", () => {
    for (const section of closed) section.open = false;
    drawAll(theme());
  });
})();
