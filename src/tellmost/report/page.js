"use strict";
(() => {
  const found = JSON.parse(document.getElementById("payload").textContent);
  const PAGE_ROWS = innerWidth < 640 ? 10 : 25; // a phone shows a pick below the other
  const LONG = 32; // characters; a column of longer texts is given room
  const HOVER_COLUMNS = 48;
  const CONFIG = {
    responsive: true, displaylogo: false, displayModeBar: false, scrollZoom: false,
  };
  const isNarrow = () => innerWidth < 640;
  const numbered = () => (isNarrow() ? 20 : 60); // more ranks on the map would hide each other
  const isTouch = matchMedia("(pointer: coarse)").matches;
  const hidden = new Set(); // names of lines and dots that were switched off

  const colour = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const byId = (id) => document.getElementById(id);
  const four = (value) => String(Number(value.toPrecision(4)));
  const whole = (value) => value.toLocaleString("en-GB");

  function make(tag, attributes = {}, text = "") {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.textContent = text;
    return element;
  }

  // Plotly reads some tags and entities in labels: escaped, every text shows as it is.
  const inert = (text) =>
    text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

  function wrap(text) {
    const lines = [];
    let line = "";
    for (const word of text.split(/\s+/)) {
      for (let rest = word; rest; rest = rest.slice(HOVER_COLUMNS)) {
        const part = rest.slice(0, HOVER_COLUMNS);
        if (line && line.length + 1 + part.length > HOVER_COLUMNS) {
          lines.push(line);
          line = part;
        } else line = line ? `${line} ${part}` : part;
      }
    }
    lines.push(line);
    return lines.map(inert).join("<br>");
  }

  // ---------------------------------------------------------------- legends

  const SVG = "http://www.w3.org/2000/svg";

  function swatch(kind, style) {
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", "0 0 26 12");
    svg.setAttribute("aria-hidden", "true");
    const shapes = {
      line: ["path", { d: "M0 6h26", "stroke-width": 3, fill: "none" }],
      bar: ["rect", { width: 26, height: 12 }],
      dot: ["circle", { cx: 13, cy: 6, r: 5 }],
      diamond: ["path", { d: "M13 0l6 6l-6 6l-6 -6z" }],
    };
    const [tag, attributes] = shapes[kind];
    const shape = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) shape.setAttribute(name, value);
    const isStroke = kind === "line";
    shape.style[isStroke ? "stroke" : "fill"] = `var(--${style.colour})`;
    if (style.dash) shape.setAttribute("stroke-dasharray", style.dash);
    svg.append(shape);
    return svg;
  }

  function writeLegend(id, entries, redraw) {
    const legend = byId(id);
    if (!legend) return;
    for (const { name, kind, style, label, fixed } of entries) {
      const entry = fixed ? make("span") : make("button", { type: "button", "aria-pressed": "true" });
      entry.append(swatch(kind, style), label);
      if (!fixed) {
        entry.addEventListener("click", () => {
          const isShown = hidden.has(name);
          hidden[isShown ? "delete" : "add"](name);
          entry.setAttribute("aria-pressed", String(isShown));
          redraw();
        });
      }
      legend.append(entry);
    }
  }

  // ---------------------------------------------------------------- charts

  const METHODS = {
    own: { colour: "own", dash: "solid", swatch: "", width: 3, label: `this selection (${found.rule})` },
    examples: { colour: "own", dash: "dot", swatch: "2 3", width: 1.5, label: "this selection, under the targets' distribution" },
    random: { colour: "random", dash: "dot", swatch: "3 3", width: 2, label: "random" },
    "top-k": { colour: "top-k", dash: "dash", swatch: "7 4", width: 2, label: "top-k" },
    mmr: { colour: "mmr", dash: "dashdot", swatch: "8 3 2 3", width: 2, label: "MMR" },
  };

  const LEVELS = {
    "whole pool": { colour: "whole", dash: "longdash", swatch: "10 4" },
    floor: { colour: "faint", dash: "dot", swatch: "2 4" },
  };

  const NAMES = { before: "before", after: "after", whole: "whole pool" };

  function axis(more) {
    const ink = colour("faint");
    return {
      color: ink, gridcolor: colour("rule"), zerolinecolor: colour("rule"), fixedrange: true,
      automargin: true, tickfont: { size: 12 }, exponentformat: "e", ...more,
    };
  }

  function layout(more) {
    return {
      autosize: true, showlegend: false, dragmode: false,
      margin: { l: 36, r: 24, t: 10, b: 44 },
      paper_bgcolor: colour("card"), plot_bgcolor: colour("card"),
      font: { family: "system-ui, sans-serif", size: 12, color: colour("ink") },
      hoverlabel: {
        bgcolor: colour("card"), bordercolor: colour("faint"), align: "left",
        font: { color: colour("ink"), size: 13 },
      },
      ...more,
    };
  }

  function drawCurve(id, lines, levels) {
    if (!byId(id) || !lines.own) return;
    const last = lines.own.x.at(-1);
    const traces = [];
    for (const [name, style] of Object.entries(METHODS)) {
      const line = lines[name];
      if (!line || hidden.has(name)) continue;
      if (line.low) traces.push(band(line, style));
      traces.push({
        x: line.x, y: line.y, name: inert(style.label), mode: line.x.length > 1 ? "lines" : "markers",
        line: { color: colour(style.colour), dash: style.dash, width: style.width },
        hovertemplate: "%{y:.4g}", zorder: name === "own" ? 2 : 1,
      });
    }
    const shapes = [];
    for (const level of levels) {
      const style = LEVELS[level.name];
      shapes.push({
        type: "line", xref: "paper", x0: 0, x1: 1, y0: level.value, y1: level.value,
        line: { color: colour(style.colour), dash: style.dash, width: 2 },
      });
    }
    Plotly.react(id, traces, layout({
      hovermode: "x unified", shapes,
      xaxis: axis({ title: { text: "picks" }, range: [0, Math.max(last, 1)], dtick: last < 6 ? 1 : undefined, unifiedhovertitle: { text: "after %{x:,d} picks" } }),
      yaxis: axis({ rangemode: "tozero", nticks: 6 }),
    }), CONFIG);
  }

  function band(line, style) {
    const x = [...line.x, ...line.x.slice().reverse()];
    return {
      x, y: [...line.high, ...line.low.slice().reverse()], fill: "toself", mode: "lines",
      fillcolor: `${colour(style.colour)}33`, line: { width: 0 }, hoverinfo: "skip",
    };
  }

  function drawCurves() {
    drawCurve("curve-mean", found.curves.mean, found.levels);
    drawCurve("curve-worst", found.curves.worst, []);
  }

  function drawMap() {
    if (!found.map) return;
    const { pool, examples, targets, picks, explained } = found.map;
    const traces = [];
    if (!hidden.has("pool")) {
      traces.push(dots(pool, (i) => `row ${whole(pool.numbers[i])}`, {
        color: colour("cloud"), size: 5, opacity: 0.55,
      }));
    }
    if (examples && !hidden.has("examples")) {
      traces.push(dots(examples, (i) => `row ${whole(examples.numbers[i])}, stands for the targets`, {
        color: colour("aim"), size: 5, opacity: 0.45,
      }));
    }
    const label = (i) => `pick ${whole(i + 1)}, row ${whole(picks.numbers[i])}`;
    const ring = { color: colour("card"), width: 1 };
    const [first, later] = cut(picks, numbered());
    if (!hidden.has("picks")) {
      traces.push(dots(later, (i) => label(i + numbered()), {
        color: colour("own"), size: 5.5, opacity: 0.75,
      }));
    }
    if (targets && !hidden.has("targets")) {
      traces.push(dots(targets, (i) => `target ${whole(targets.numbers[i])}`, {
        color: colour("aim"), size: 9, symbol: "diamond", line: ring,
      }));
    }
    if (!hidden.has("picks")) {
      const trace = dots(first, label, {
        color: colour("own"), size: isNarrow() ? 14 : 17, opacity: 0.92, line: ring,
      });
      trace.text = first.numbers.map((_, i) => String(i + 1));
      for (const name of ["x", "y", "hovertext", "text"]) trace[name].reverse(); // the first on top
      traces.push({
        ...trace, mode: "markers+text", textposition: "middle center",
        textfont: { size: isNarrow() ? 8 : 9, color: colour("pick-text") },
      });
    }
    const share = (part) => `${(100 * part).toFixed(1)}%`;
    Plotly.react("map-chart", traces, layout({
      hovermode: "closest", dragmode: isTouch ? false : "zoom",
      margin: { l: 58, r: 24, t: 10, b: 44 }, // fixed: margins and equal scales chase each other
      xaxis: axis({ title: { text: `first direction, ${share(explained[0])}` }, zeroline: false, fixedrange: isTouch, automargin: false }),
      yaxis: axis({ title: { text: `second, ${share(explained[1])}` }, zeroline: false, scaleanchor: "x", fixedrange: isTouch, automargin: false }),
    }), { ...CONFIG, displayModeBar: isTouch ? false : "hover", modeBarButtons: [["zoomIn2d", "zoomOut2d", "resetScale2d", "toImage"]] });
  }

  function dots(group, label, marker) {
    const labels = group.numbers.map((_, i) => {
      const text = group.texts ? group.texts[i] : "";
      return text ? `${inert(label(i))}<br>${wrap(text)}` : inert(label(i));
    });
    return {
      x: group.x, y: group.y, mode: "markers", marker, hovertext: labels, hoverinfo: "text",
    };
  }

  // The first few of a group, and the rest; copies, since the drawing turns some around.
  function cut(group, count) {
    const part = (from, to) => ({
      x: group.x.slice(from, to), y: group.y.slice(from, to),
      numbers: group.numbers.slice(from, to), texts: group.texts && group.texts.slice(from, to),
    });
    return [part(0, count), part(count)];
  }

  function drawTargets() {
    const targets = found.targets;
    if (!targets) return;
    const x = targets.numbers.map((number) => `target ${number}`);
    const few = byId("targets-variance").clientWidth / x.length > 24; // room for each number
    const bars = (name, tone, width) => ({
      x, y: targets[name], width, name: NAMES[name], type: "bar", marker: { color: colour(tone) },
      hovertemplate: "%{y:.4g}",
    });
    const texts = targets.texts && targets.texts.map(wrap);
    const traces = [bars("before", "before", 0.76), bars("after", "own", 0.76)];
    if (targets.whole) traces.push(bars("whole", "whole", 0.38));
    if (texts) Object.assign(traces[0], { customdata: texts, hovertemplate: "%{y:.4g}<br>%{customdata}" });
    const ticks = axis({
      type: "category", tickmode: "array", tickvals: few ? x : [],
      ticktext: few ? targets.numbers.map(String) : [], tickangle: 0,
      showgrid: false, range: [-0.6, x.length - 0.4], unifiedhovertitle: { text: "%{x}" },
      title: { text: few ? "target" : "targets, the most uncertain first" },
    });
    Plotly.react("targets-variance", traces, layout({
      hovermode: "x unified", xaxis: ticks, barmode: "overlay", yaxis: axis({ rangemode: "tozero", nticks: 6 }),
    }), CONFIG);
    if (!targets.closeness) return;
    const closeness = [{
      x, y: targets.closeness, mode: "markers",
      marker: { color: colour("aim"), size: few ? 9 : 5, symbol: "diamond" },
      customdata: texts || x.map(() => ""), hovertemplate: "%{x}: %{y:.3f}<br>%{customdata}<extra></extra>",
    }];
    const lowest = Math.min(...targets.closeness, 0);
    Plotly.react("targets-closeness", closeness, layout({
      hovermode: "closest", xaxis: ticks, yaxis: axis({ range: [lowest, 1.05], nticks: 4 }),
    }), CONFIG);
  }

  // ---------------------------------------------------------------- the table of picks

  const SHOW = {
    whole, number: four, text: (value) => value, list: (values) => values.join(", "),
    cosine: (value) => value.toFixed(3), image: (value) => value,
  };

  function setUpTable() {
    const table = byId("picks-table");
    if (!table) return;
    const columns = found.picks.columns;
    const count = columns[0].cells.length;
    const texts = Array.from({ length: count }, (_, i) => columns.map(
      (column) => SHOW[column.kind](column.cells[i]),
    ));
    const isText = (_, j) => columns[j].kind !== "image";
    const searched = texts.map((row) => row.filter(isText).join("\n").toLowerCase());
    const state = { order: [...searched.keys()], page: 0, column: 0, isDown: false, query: "" };

    function find() {
      const words = state.query.toLowerCase().split(/\s+/).filter(Boolean);
      const rows = [...searched.keys()].filter((i) => words.every((w) => searched[i].includes(w)));
      const { kind, cells } = columns[state.column];
      const key = (i) => (kind === "list" ? cells[i][0] ?? Infinity : cells[i]);
      const sign = state.isDown ? -1 : 1;
      const compare = kind === "text"
        ? (a, b) => key(a).localeCompare(key(b), "en", { numeric: true })
        : (a, b) => key(a) - key(b);
      state.order = rows.sort((a, b) => sign * compare(a, b) || a - b);
      state.page = 0;
      show();
    }

    function show() {
      const first = state.page * PAGE_ROWS;
      const rows = state.order.slice(first, first + PAGE_ROWS);
      table.tBodies[0].replaceChildren(...rows.map((i) => writeRow(texts[i])));
      const total = state.order.length;
      byId("picks-count").textContent = state.query
        ? `${whole(total)} of ${whole(count)} picks match`
        : `${whole(count)} picks`;
      byId("picks-place").textContent = total
        ? `${whole(first + 1)} to ${whole(first + rows.length)} of ${whole(total)}` : "no match";
      byId("picks-back").disabled = first === 0;
      byId("picks-on").disabled = first + PAGE_ROWS >= total;
      byId("picks-pager").hidden = count <= PAGE_ROWS;
    }

    const classes = columns.map(({ kind, cells }, j) => {
      if (j === 0) return "number name";
      if (kind === "image") return "image";
      if (kind !== "text") return "number";
      return cells.some((text) => text.length > LONG) ? "text long" : "text";
    });

    function writeRow(cells) {
      const row = make("tr");
      cells.forEach((text, j) => {
        const attributes = { class: classes[j], "data-name": columns[j].name };
        if (j === 0) attributes.scope = "row";
        const isImage = classes[j] === "image";
        const cell = make(j === 0 ? "th" : "td", attributes, isImage ? "" : text);
        if (isImage && text) cell.append(make("img", { src: text, alt: "" }));
        row.append(cell);
      });
      return row;
    }

    [...table.tHead.rows[0].cells].forEach((cell, j) => {
      if (columns[j].kind === "image") return;
      const button = make("button", { type: "button" }, columns[j].name);
      cell.replaceChildren(button);
      if (j === 0) cell.setAttribute("aria-sort", "ascending");
      button.addEventListener("click", () => {
        const isFresh = state.column !== j;
        const isBest = columns[j].kind === "number" || columns[j].kind === "cosine";
        state.isDown = isFresh ? isBest : !state.isDown; // the largest first
        state.column = j;
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        cell.setAttribute("aria-sort", state.isDown ? "descending" : "ascending");
        find();
      });
    });
    byId("picks-search").addEventListener("input", (event) => {
      state.query = event.target.value;
      find();
    });
    byId("picks-back").addEventListener("click", () => { state.page -= 1; show(); });
    byId("picks-on").addEventListener("click", () => { state.page += 1; show(); });
    byId("picks-tools").hidden = false;
    show();
  }

  // ---------------------------------------------------------------- all of it

  function setUpLegends() {
    const lines = Object.entries(METHODS)
      .filter(([name]) => found.curves.mean[name])
      .map(([name, style]) => ({
        name, kind: "line", style: { colour: style.colour, dash: style.swatch }, label: style.label,
      }));
    const levels = found.levels.map((level) => ({
      kind: "line", fixed: true, label: `${level.name}: ${level.text}`,
      style: { colour: LEVELS[level.name].colour, dash: LEVELS[level.name].swatch },
    }));
    writeLegend("curve-legend", [...lines, ...levels], drawCurves);
    const groups = [
      { name: "pool", kind: "dot", style: { colour: "cloud" }, label: "pool" },
      { name: "examples", kind: "dot", style: { colour: "aim" }, label: "rows that stand for the targets" },
      { name: "targets", kind: "diamond", style: { colour: "aim" }, label: "targets" },
      { name: "picks", kind: "dot", style: { colour: "own" }, label: "picks, numbered in their order" },
    ];
    const isThere = ({ name }) => found.map && found.map[name];
    writeLegend("map-legend", groups.filter(isThere), drawMap);
    const bars = [
      { kind: "bar", style: { colour: "before" }, label: "before", fixed: true },
      { kind: "bar", style: { colour: "own" }, label: "after", fixed: true },
    ];
    if (found.targets && found.targets.whole) {
      bars.push({ kind: "bar", style: { colour: "whole" }, label: "whole pool", fixed: true });
    }
    writeLegend("targets-legend", bars);
  }

  function drawAll() {
    drawCurves();
    drawMap();
    drawTargets();
  }

  function setPrinting(isPrinting) {
    document.documentElement.classList.toggle("printing", isPrinting);
    drawAll();
    for (const chart of document.querySelectorAll(".chart")) Plotly.Plots.resize(chart);
  }

  setUpLegends();
  setUpTable();
  drawAll();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  matchMedia("(max-width: 639px)").addEventListener("change", drawAll);
  addEventListener("beforeprint", () => setPrinting(true));
  addEventListener("afterprint", () => setPrinting(false));
})();
