// The curves: a panel and a metric are chosen, lines are hidden and shown, values are read off.
(() => {
  const panels = JSON.parse(document.getElementById("curves-data").textContent);
  const find = (id) => document.getElementById(id);
  const [chart, legend, values] = ["chart", "legend", "values"].map(find);
  const [panelMenu, metricMenu, spanMenu, acrossMenu] = ["panel", "metric", "span", "across"].map(find);
  const hidden = new Set(); // labels; they stay hidden in other panels
  const height = 380, top = 12, bottom = 40, left = 56, right = 12;
  let lines = [], width = 0, scale = null, cursor = null, decimals = 0;

  const chosen = () => panels[panelMenu.value].metrics;
  const visible = () => lines.filter((line) => !hidden.has(line.label));

  function options(menu, names, wanted) {
    menu.replaceChildren(...names.map((name, index) => new Option(name, index)));
    menu.value = Math.max(0, names.indexOf(wanted));
  }

  function choosePanel() {
    const before = metricMenu.selectedOptions[0]?.text;
    options(metricMenu, chosen().map((metric) => metric.name), before);
    chooseMetric();
  }

  function chooseMetric() {
    const metric = chosen()[metricMenu.value];
    const all = metric?.lines ?? [];
    decimals = metric?.decimals ?? 0;
    const last = Math.max(...all.map((line) => line.epochs.at(-1)));
    lines = all.map((line) => cut(line, spanMenu.value * last)).filter((line) => line.epochs.length);
    legend.replaceChildren(...lines.map(legendButton));
    draw();
  }

  // Leaves out the first part of training, and gives the line what it is drawn across.
  function cut(line, first) {
    const kept = (list) => list && list.filter((_, i) => line.epochs[i] >= first);
    const parts = ["epochs", "seconds", "mean", "half"].map((name) => [name, kept(line[name])]);
    const left = { ...line, ...Object.fromEntries(parts) };
    return { ...left, band: line.band?.map(kept), each: line.each.map(kept), x: left[acrossMenu.value] };
  }

  function legendButton(line) {
    const button = document.createElement("button");
    button.type = "button";
    button.style.setProperty("--c", line.color);
    const sample = make("svg", { "aria-hidden": "true" });
    sample.append(make("path", { d: "M0 4H26", ...look(line) }));
    const seeds = line.thin ? "" : ` (${line.seeds} seed${line.seeds === 1 ? "" : "s"})`;
    button.append(sample, line.label + seeds);
    button.setAttribute("aria-pressed", !hidden.has(line.label));
    button.addEventListener("click", () => {
      if (!hidden.delete(line.label)) hidden.add(line.label);
      button.setAttribute("aria-pressed", !hidden.has(line.label));
      draw();
    });
    return button;
  }

  function make(name, attributes = {}, text = "") {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.textContent = text;
    return element;
  }

  const look = (line) => ({
    class: line.thin ? "series line thin" : "series line",
    style: `--c: ${line.color}`,
    "stroke-dasharray": line.dashes.join(" ") || "none",
    "data-label": line.label,
  });

  function draw() {
    width = chart.clientWidth;
    cursor = null;
    values.hidden = true;
    chart.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const shown = visible();
    scale = shown.length ? scales(shown) : null;
    if (!scale) {
      const text = lines.length ? "All lines are hidden." : "Nothing was measured yet.";
      return chart.replaceChildren(make("text", { x: left, y: 40 }, text));
    }
    const parts = [band, single, path].flatMap((part) => shown.flatMap(part));
    chart.replaceChildren(...grid(), ...parts);
  }

  // From epochs or seconds, and values, to places on the chart.
  function scales(shown) {
    const across = shown.flatMap((line) => line.x);
    const ends = shown.flatMap((line) => [line.mean, ...(line.band ?? []), ...line.each].flat());
    const range = (numbers) => numbers.reduce(
      ([low, high], n) => [Math.min(low, n), Math.max(high, n)], [Infinity, -Infinity]);
    const [first, last] = range(across);
    let [low, high] = range(ends);
    const margin = (high - low) * 0.04 || Math.abs(high) * 0.04 || 1;
    [low, high] = [low - margin, high + margin];
    const span = last - first || 1;
    return {
      first, last, low, high,
      x: (across) => left + ((across - first) / span) * (width - left - right),
      y: (value) => top + ((high - value) / (high - low)) * (height - top - bottom),
      across: (x) => first + ((x - left) / (width - left - right)) * span,
    };
  }

  function ticks(low, high, count, least = 0) {
    const rough = (high - low) / count || 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = Math.max([1, 2, 5, 10].find((n) => n * power >= rough) * power, least);
    const found = [];
    for (let n = Math.ceil(low / step); n * step <= high; n++) found.push(Number((n * step).toPrecision(8)));
    return found;
  }

  function grid() {
    const parts = [];
    for (const value of ticks(scale.low, scale.high, 6)) {
      const y = scale.y(value);
      parts.push(make("path", { class: "axis", d: `M${left} ${y}H${width - right}` }));
      parts.push(make("text", { x: left - 8, y: y + 4, "text-anchor": "end" }, value));
    }
    const byEpochs = acrossMenu.value === "epochs";
    for (const tick of ticks(scale.first, scale.last, width / 70, byEpochs ? 1 : 0)) {
      const x = scale.x(tick);
      parts.push(make("text", { x, y: height - bottom + 18, "text-anchor": "middle" }, tick));
    }
    const middle = (left + width - right) / 2, name = byEpochs ? "epoch" : "seconds of training";
    parts.push(make("text", { x: middle, y: height - 4, "text-anchor": "middle" }, name));
    return parts;
  }

  const point = (across, value) => `${scale.x(across).toFixed(1)} ${scale.y(value).toFixed(1)}`;
  const points = (line, values) => line.x.map((across, i) => point(across, values[i]));

  function band(line) {
    if (!line.band) return [];
    const [low, high] = line.band.map((edge) => points(line, edge));
    const d = `M${[...high, ...low.reverse()].join("L")}Z`;
    return [make("path", { d, class: "series band", style: `--c: ${line.color}` })];
  }

  // Seeds that are too few for a band.
  const single = (line) => line.each.map((values) => make("path", {
    d: `M${points(line, values).join("L")}`, class: "series single", style: `--c: ${line.color}` }));

  function path(line) {
    const places = points(line, line.mean);
    const parts = [make("path", { d: `M${places.join("L")}`, ...look(line) })];
    if (places.length > 1) return parts;
    const [cx, cy] = places[0].split(" ");
    const dot = { cx, cy, r: 4, class: "series point", style: `--c: ${line.color}` };
    return [...parts, make("circle", dot)];
  }

  const nearest = (line, at) => line.x.reduce(
    (best, x, i) => (Math.abs(x - at) < Math.abs(line.x[best] - at) ? i : best), 0);

  // Shows what every visible line has at the epoch that is nearest to this one; or, by time, at its
  // epoch that is nearest to this second, unless it has ended before.
  function read(at) {
    if (!scale) return;
    const shown = visible(), byEpochs = acrossMenu.value === "epochs";
    const all = shown.map((line) => line.x[nearest(line, at)]);
    cursor = all.reduce((a, b) => (Math.abs(b - at) < Math.abs(a - at) ? b : a));
    const rows = shown
      .map((line) => [line, nearest(line, cursor)])
      .filter(([line, i]) => (byEpochs ? line.x[i] === cursor : line.x.at(-1) >= cursor))
      .sort(([a, i], [b, j]) => b.mean[j] - a.mean[i]);
    const heading = byEpochs ? `epoch ${cursor}` : `about ${cursor} s`;
    values.replaceChildren(heading, ...rows.map(([line, i]) => valueRow(line, i)));
    values.hidden = false;
    const x = scale.x(cursor);
    const room = values.offsetWidth + 12;
    const place = x + room < width ? x + 12 : Math.max(0, x - room);
    values.style.left = `${Math.min(place, width - room + 12)}px`;
    chart.querySelector(".cursor")?.remove();
    chart.append(make("path", { class: "cursor", d: `M${x} ${top}V${height - bottom}` }));
  }

  function valueRow(line, i) {
    const row = document.createElement("div");
    const [swatch, number] = ["i", "b"].map((name) => document.createElement(name));
    swatch.style.setProperty("--c", line.color);
    const [mean, half] = [line.mean, line.half].map((list) => list?.[i].toFixed(decimals));
    number.textContent = half === undefined ? mean : `${mean} ± ${half}`;
    row.append(swatch, line.label, number);
    return row;
  }

  function leave() {
    cursor = null;
    values.hidden = true;
    chart.querySelector(".cursor")?.remove();
  }

  function walk(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1 };
    if (event.key === "Escape") return leave();
    if (!scale || !(event.key in steps)) return;
    event.preventDefault();
    const stops = [...new Set(visible().flatMap((line) => line.x))].sort((a, b) => a - b);
    const at = cursor === null ? stops.length : stops.indexOf(cursor) + steps[event.key];
    read(stops[Math.min(Math.max(at, 0), stops.length - 1)]);
  }

  // What was being read stays: a phone that is turned, or a scroll bar that comes, is not a wish to leave.
  function resized() {
    if (chart.clientWidth === width) return;
    const at = cursor;
    draw();
    if (at !== null) read(at);
  }

  const track = (event) => read(scale?.across(event.clientX - chart.getBoundingClientRect().left));
  chart.addEventListener("pointermove", track);
  chart.addEventListener("pointerdown", track);
  // A finger that is lifted leaves, too, but what it has found should stay.
  chart.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && leave());
  chart.addEventListener("blur", leave);
  chart.addEventListener("keydown", walk);
  panelMenu.addEventListener("change", choosePanel);
  for (const menu of [metricMenu, spanMenu, acrossMenu]) menu.addEventListener("change", chooseMetric);
  find("explorer").hidden = false;
  new ResizeObserver(resized).observe(chart);
  options(panelMenu, panels.map((panel) => panel.title));
  choosePanel();
})();
