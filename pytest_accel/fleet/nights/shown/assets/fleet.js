"use strict";
(() => {
  const map = JSON.parse(document.getElementById("data").textContent).map;
  const canvas = document.getElementById("heat");
  const told = document.getElementById("heat-told");
  const legend = document.getElementById("heat-legend");
  const form = document.getElementById("map-form");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const MIDDLE = 128, FAR = 100;
  const bytes = (text) => Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
  const names = bytes(map.name), status = bytes(map.status);
  const scores = map.layers.map(() => null);
  const scoresOf = (layer) => (scores[layer] = scores[layer] || bytes(map.layers[layer][2]));

  // -- the place of every node: blocks of one row, in columns

  const first = [];
  let cells = 0, widest = 1;
  for (const node of map.nodes) {
    first.push(cells);
    cells += node[2];
    widest = Math.max(widest, node[2]);
  }
  let size = 4, columns = 1, rows = 1, gap = 2, marked = -1;
  const arrange = () => {
    const width = Math.max(200, canvas.parentElement.clientWidth - 18);
    gap = map.nodes.length > 4000 ? 1 : 3;
    size = 1;
    for (const one of [16, 12, 9, 7, 5, 4, 3, 2, 1]) {
      size = one;
      columns = Math.max(1, Math.floor(width / (widest * one + gap)));
      rows = Math.ceil(map.nodes.length / columns);
      if (rows * (one + 1) <= 900) break;
    }
    canvas.width = columns * (widest * size + gap);
    canvas.height = Math.max(1, rows * (size + 1));
    canvas.style.width = `${canvas.width}px`;
  };
  const placeOf = (node) => [(node % columns) * (widest * size + gap), Math.floor(node / columns) * (size + 1)];

  // -- colours: the ordinary ones quiet, an outlier in the colour of a failure

  const light = { none: [225, 228, 232], calm: [214, 230, 222], warm: [240, 170, 60], hot: [176, 26, 20] };
  const night = { none: [46, 52, 60], calm: [38, 70, 54], warm: [214, 140, 40], hot: [255, 96, 84] };
  const states = () =>
    dark.matches
      ? [[255, 96, 84], [150, 120, 220], [203, 176, 255], [172, 160, 110], [246, 201, 107], [38, 70, 54], [60, 70, 80]]
      : [[176, 26, 20], [130, 90, 190], [95, 58, 155], [150, 138, 88], [240, 170, 60], [200, 226, 212], [205, 212, 220]];
  const mix = (one, other, share) => one.map((each, place) => Math.round(each + (other[place] - each) * share));
  const palette = () => {
    const colours = dark.matches ? night : light;
    const found = [colours.none];
    for (let score = 1; score < 256; score++) {
      const far = (score - MIDDLE) / FAR;
      found.push(far <= 0 ? colours.calm : far <= 1 ? mix(colours.calm, colours.warm, far ** 2) : colours.hot);
    }
    return found;
  };
  const css = (colour) => `rgb(${colour.join(" ")})`;

  const draw = () => {
    const chosen = form.elements.layer.value;
    const byStatus = chosen === "status";
    const values = byStatus ? status : scoresOf(Number(chosen));
    const colours = byStatus ? states() : palette();
    const context = canvas.getContext("2d");
    const image = context.createImageData(canvas.width, canvas.height);
    const pixels = new Uint32Array(image.data.buffer);
    const packed = colours.map(([red, green, blue]) => (255 << 24) | (blue << 16) | (green << 8) | red);
    for (let node = 0; node < map.nodes.length; node++) {
      const [left, top] = placeOf(node);
      for (let cell = 0; cell < map.nodes[node][2]; cell++) {
        const colour = packed[values[first[node] + cell]];
        for (let y = 0; y < size; y++) {
          const start = (top + y) * canvas.width + left + cell * size;
          pixels.fill(colour, start, start + Math.max(1, size - (size > 4 ? 1 : 0)));
        }
      }
    }
    context.putImageData(image, 0, 0);
    if (marked >= 0) {
      const [left, top] = placeOf(marked);
      context.strokeStyle = dark.matches ? "#fff" : "#000";
      context.lineWidth = 2;
      context.strokeRect(left - 3, top - 3, map.nodes[marked][2] * size + 6, size + 6);
    }
    explain(byStatus, colours);
  };
  const explain = (byStatus, colours) => {
    const entries = byStatus
      ? map.statuses.map((name, place) => [colours[place], name])
      : [[colours[0], "no figure"], [colours[MIDDLE], "at the median, or faster"], [colours[MIDDLE + FAR * 0.7], "behind"], [colours[255], "far behind: an outlier"]];
    legend.replaceChildren(
      ...entries.map(([colour, text]) => {
        const entry = document.createElement("span"), box = document.createElement("span");
        box.className = "box";
        box.style.background = css(colour);
        entry.append(box, text);
        return entry;
      }),
    );
  };

  // -- what a cell says

  const share = (layer, node, score) => {
    const far = map.layers[layer][1][map.nodes[node][1]];
    const distance = (score - MIDDLE) / FAR;
    if (far === undefined) return `${distance <= 0 ? "at the median or faster" : `${Math.round(distance * 100)} % of the distance of an outlier`}`;
    const percent = (Math.abs(distance) * far * 100).toFixed(1);
    return `${percent} % ${distance > 0 ? "behind" : "ahead of"} the median (an outlier from ${(far * 100).toFixed(1)} % on)`;
  };
  const tell = (node, cell) => {
    const [name, sku, count, word, link] = map.nodes[node];
    const parts = [`${name}${sku ? `, ${sku}` : ""}: ${word || "no result"}. `];
    const chosen = form.elements.layer.value;
    for (let each = cell < 0 ? 0 : cell; each < (cell < 0 ? count : cell + 1); each++) {
      const place = first[node] + each;
      let text = `${map.names[names[place]]} ${map.statuses[status[place]]}`;
      if (chosen !== "status") {
        const score = scoresOf(Number(chosen))[place];
        text += score ? `, ${map.layers[Number(chosen)][0]}: ${share(Number(chosen), node, score)}` : ", no figure";
      }
      parts.push(`${text}. `);
    }
    told.replaceChildren(parts.join(""));
    if (link) {
      const anchor = document.createElement("a");
      anchor.href = link;
      anchor.textContent = "Report of the node";
      told.append(anchor);
    }
  };
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    const x = ((event.clientX - box.left) * canvas.width) / box.width;
    const y = ((event.clientY - box.top) * canvas.height) / box.height;
    const column = Math.floor(x / (widest * size + gap)), row = Math.floor(y / (size + 1));
    const node = row * columns + column;
    if (column >= columns || node >= map.nodes.length || row < 0) return null;
    const cell = Math.floor((x - column * (widest * size + gap)) / size);
    return cell < map.nodes[node][2] ? [node, cell] : null;
  };
  canvas.addEventListener("pointermove", (event) => {
    const found = at(event);
    if (found) tell(...found);
  });
  canvas.addEventListener("click", (event) => {
    const found = at(event);
    if (!found) return;
    marked = found[0];
    draw();
    tell(...found);
    if (map.nodes[found[0]][4]) location.href = map.nodes[found[0]][4];
  });
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && marked >= 0 && map.nodes[marked][4]) location.href = map.nodes[marked][4];
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns };
    if (!(event.key in steps) || !map.nodes.length) return;
    event.preventDefault();
    marked = Math.min(map.nodes.length - 1, Math.max(0, marked + steps[event.key]));
    draw();
    tell(marked, -1);
  });
  form.addEventListener("input", () => {
    const wanted = form.elements.node.value.trim().toLowerCase();
    if (wanted) {
      marked = map.nodes.findIndex((node) => node[0].toLowerCase() === wanted);
      if (marked < 0) marked = map.nodes.findIndex((node) => node[0].toLowerCase().includes(wanted));
    } else marked = -1;
    draw();
    if (marked >= 0) tell(marked, -1);
    else if (wanted) told.textContent = "No node has this name.";
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  dark.addEventListener("change", draw);
  const fit = () => {
    arrange();
    draw();
  };
  addEventListener("resize", fit);
  fit();
})();
