// Draws the columns of table that are chosen. What is chosen is in the address, after
// the #, so that a view can be linked: #x=n&y=bytes_moved,copies&by=schedule&logx=1.
(() => {
  "use strict";
  const root = document.documentElement;
  const $ = (id) => document.getElementById(id);
  const columns = new Map(table.columns.map((c) => [c.name, c]));
  const isNumber = (v) => typeof v === "number";
  const numeric = (c) => c.values.some(isNumber) && c.values.every((v) => v === null || isNumber(v));
  const varied = (c) => c.values.some((v) => v !== c.values[0]);
  const palette = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22"];

  // text writes a number for people; the names of columns say the unit.
  const text = (name, v) => {
    if (v === null || v === undefined) return "";
    if (!isNumber(v)) return String(v);
    if (/_ns$/.test(name)) {
      for (const [n, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "us"]]) if (Math.abs(v) >= n) return +(v / n).toPrecision(6) + " " + unit;
      return v + " ns";
    }
    if (/^bytes|size/.test(name)) {
      for (const [k, unit] of [[40, "TiB"], [30, "GiB"], [20, "MiB"], [10, "KiB"]]) if (Math.abs(v) >= 2 ** k) return +(v / 2 ** k).toPrecision(6) + " " + unit;
      return v + " B";
    }
    return String(+v.toPrecision(9));
  };

  const given = new URLSearchParams(location.hash.slice(1));
  const list = (key, otherwise) => (given.has(key) ? given.get(key).split(",").filter((n) => columns.has(n)) : otherwise);
  const chosen = { x: columns.has(given.get("x")) ? given.get("x") : table.x, y: list("y", table.y), by: list("by", table.by) };

  for (const c of table.columns) {
    if (c.parameter || numeric(c)) $("x").add(new Option(c.name, c.name, false, c.name === chosen.x));
    const box = (into, on) => {
      const label = document.createElement("label");
      const input = Object.assign(document.createElement("input"), { type: "checkbox", value: c.name, checked: on });
      label.append(input, " " + c.name);
      $(into).append(label);
    };
    if (!c.parameter && numeric(c)) box("y", chosen.y.includes(c.name));
    if (c.parameter && varied(c)) box("by", chosen.by.includes(c.name));
  }
  // Parameters that grow by factors are best seen by powers.
  const xs = columns.get(chosen.x).values.filter((v) => isNumber(v) && v > 0);
  const grows = (v) => { const u = [...new Set(v)].sort((a, b) => a - b); return u.length > 2 && u[u.length - 1] / u[0] >= 8 && u[2] - u[1] > 1.2 * (u[1] - u[0]); };
  $("logx").checked = given.has("logx") ? given.get("logx") === "1" : grows(xs);
  $("logy").checked = given.get("logy") === "1";

  const checked = (id) => [...$(id).querySelectorAll("input:checked")].map((b) => b.value);

  // lines are the series to draw: for each figure and each combination of values of the
  // parameters in by, a Map from x to the mean of the rows there.
  const lines = (x, ys, by) => {
    const out = new Map();
    let most = 0;
    for (const y of ys) {
      for (let i = 0; i < columns.get(x).values.length; i++) {
        const v = columns.get(y).values[i], at = columns.get(x).values[i];
        if (v === null || at === null) continue;
        const of = by.filter((b) => b !== x).map((b) => b + "=" + text(b, columns.get(b).values[i]));
        const name = [...(ys.length > 1 || of.length === 0 ? [y] : []), ...of].join(", ");
        if (!out.has(name)) out.set(name, { y, at: new Map() });
        const sums = out.get(name).at;
        const sum = sums.get(at) || { total: 0, n: 0 };
        sum.total += v;
        sum.n++;
        most = Math.max(most, sum.n);
        sums.set(at, sum);
      }
    }
    return { out, most };
  };

  let shown = null;
  const draw = () => {
    const x = $("x").value, ys = checked("y"), by = checked("by");
    const names = columns.get(x).values.some((v) => v !== null && !isNumber(v));
    const all = [...new Set(columns.get(x).values.filter((v) => v !== null))];
    if (!names) all.sort((a, b) => a - b);
    const place = new Map(all.map((v, i) => [v, names ? i : v]));
    const { out, most } = lines(x, ys, by);
    const logx = !names && $("logx").checked && all.every((v) => v > 0);
    const values = [...out.values()].flatMap((l) => [...l.at.values()].map((s) => s.total / s.n));
    const logy = $("logy").checked && values.every((v) => v > 0);
    const data = [all.map((v) => place.get(v))];
    const series = [{ label: x, value: (u, v, si, i) => (i === null || i === undefined ? "" : text(x, all[i])) }];
    let k = 0;
    for (const [name, line] of out) {
      data.push(all.map((v) => (line.at.has(v) ? line.at.get(v).total / line.at.get(v).n : null)));
      const colour = palette[k % palette.length];
      series.push({ label: name, stroke: colour, width: 2, dash: k >= palette.length ? [6, 4] : undefined, spanGaps: true, points: { show: true, size: 6 }, value: (u, v) => text(line.y, v) });
      k++;
    }
    if (shown) shown.destroy();
    $("plot").replaceChildren();
    const pad = names || all.length === 1 ? [-0.5, 0.5] : null;
    const xscale = logx ? { time: false, distr: 3, log: 2 } : { time: false };
    if (pad) xscale.range = (u, lo, hi) => [lo + pad[0], hi + pad[1]];
    const unit = ys[0] || "";
    shown = new uPlot({
      width: Math.max(320, Math.min(1200, root.clientWidth - 40)), height: 460, series,
      scales: { x: xscale, y: logy ? { distr: 3 } : { range: (u, lo, hi) => uPlot.rangeNum(Math.min(0, lo), hi, 0.1, true) } },
      axes: [
        { label: x, values: (u, at) => at.map((v) => (v === null ? "" : names ? (Number.isInteger(v) ? text(x, all[v]) : "") : text(x, v))) },
        { label: ys.join(", "), size: 90, incrs: /^bytes/.test(unit) && !logy ? Array.from({ length: 50 }, (_, i) => 2 ** i) : undefined, values: (u, at) => at.map((v) => (v === null ? "" : text(unit, v))) },
      ],
      cursor: { focus: { prox: 20 } }, legend: { live: true },
    }, data, $("plot"));
    $("note").textContent = most > 1 ? "Where several rows have the same place, their mean is drawn: choose more lines to see each." : "";
    root.dataset.lines = String(k);
    window.shown = shown;
    const link = new URLSearchParams({ x, y: ys.join(","), by: by.join(","), logx: logx ? "1" : "0", logy: logy ? "1" : "0" });
    history.replaceState(null, "", "#" + link);
  };
  try {
    draw();
    $("choice").addEventListener("change", draw);
    addEventListener("resize", draw);
    root.dataset.ready = "true";
  } catch (e) {
    root.dataset.error = String(e);
  }
})();
