'use strict';
// The map is painted pixel by pixel into an image: cost follows the pixels, so
// that a hundred thousand chunks zoom smoothly. Maps, curves and strips share
// one view: a span of time (x) and of addresses (y, in units of the alignment).
(() => {
  const $ = id => document.getElementById(id);
  const root = document.documentElement;
  const fail = e => {
    root.dataset.error = String((e && e.stack) || e);
    $('error').hidden = false;
    $('error').textContent = 'This report could not be drawn: ' + root.dataset.error;
  };
  addEventListener('error', e => fail(e.error || e.message));
  addEventListener('unhandledrejection', e => fail(e.reason));

  const data = JSON.parse($('data').textContent);
  const margin = { left: 78, right: 86, top: 24, bottom: 24 };
  const stripWidth = 44;
  const ink = '#1b1f24', soft = '#5b6470', line = '#d6dae0', accent = '#c2185b';
  const state = { trace: 0, main: 0, beside: -1, colour: 'size', axis: 'ops', view: null, whole: null, hover: null };
  let maps = [], cache = new Map();

  // ---- data ----

  async function floats(text) {
    if (!text) return null;
    const raw = Uint8Array.from(atob(text), c => c.charCodeAt(0));
    const plain = await new Response(new Blob([raw]).stream().pipeThrough(new DecompressionStream('gzip'))).arrayBuffer();
    const planes = new Uint8Array(plain), n = planes.length / 8, rows = new Uint8Array(planes.length);
    for (let k = 0; k < 8; k++) for (let i = 0; i < n; i++) rows[8 * i + k] = planes[k * n + i];
    return new Float64Array(rows.buffer);
  }

  async function load(i) {
    if (!cache.has(i)) {
      const t = data.traces[i];
      const [sizes, starts, ends, times] = await Promise.all([t.sizes, t.starts, t.ends, t.times].map(floats));
      const addrs = await Promise.all(t.recordings.map(r => floats(r.addrs)));
      cache.set(i, { ...t, sizes, starts, ends, times, addrs, colours: {} });
    }
    return cache.get(i);
  }

  // ---- units ----

  const trim = (v, digits) => String(+v.toPrecision(digits));
  function size(bytes, digits = 4) {
    const t = data.traces[state.trace];
    if (!t.bytes) return count(bytes);
    let k = 0;
    while (bytes >= 1024 && k < 6) { bytes /= 1024; k++; }
    return trim(bytes, digits) + ' ' + ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'][k];
  }
  const count = n => Math.round(n).toLocaleString('en-US');
  function span(us) {
    if (us < 1e3) return trim(us, 4) + ' µs';
    if (us < 1e6) return trim(us / 1e3, 4) + ' ms';
    return trim(us / 1e6, 5) + ' s';
  }
  const atX = v => state.axis === 'time' ? span(v) : count(v);

  // steps between lo and hi, about n of them: 1, 2, 5 x 10^k, or powers of two.
  function ticks(lo, hi, n, binary) {
    const rough = (hi - lo) / n;
    let step;
    if (binary) {
      step = 2 ** Math.ceil(Math.log2(rough));
    } else {
      const p = 10 ** Math.floor(Math.log10(rough));
      step = [1, 2, 5, 10].map(m => m * p).find(s => s >= rough);
    }
    const out = [];
    for (let v = Math.ceil(lo / step) * step; v <= hi; v += step) out.push(v);
    return out;
  }

  // ---- colour: viridis, dark for small ----

  const anchors = [[68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141], [39, 173, 129], [92, 200, 99], [170, 220, 50], [253, 231, 37]];
  function shade(f) {
    const x = Math.min(Math.max(f, 0), 1) * (anchors.length - 1), i = Math.min(Math.floor(x), anchors.length - 2);
    return anchors[i].map((c, k) => Math.round(c + (anchors[i + 1][k] - c) * (x - i)));
  }
  const word = ([r, g, b]) => (0xff000000 | b << 16 | g << 8 | r) >>> 0;
  const palette = Array.from({ length: 256 }, (_, i) => word(shade(i / 255)));
  const edges = Array.from({ length: 256 }, (_, i) => word(shade(i / 255).map(c => Math.round(c * 0.72))));

  function scale(t) {
    if (!t.colours[state.colour]) {
      const n = t.sizes.length, level = new Uint8Array(n), value = new Float64Array(n);
      let lo = Infinity, hi = 0;
      for (let i = 0; i < n; i++) {
        value[i] = state.colour === 'size' ? t.sizes[i] : Math.max(t.ends[i] - t.starts[i], 1);
        lo = Math.min(lo, value[i]); hi = Math.max(hi, value[i]);
      }
      const range = Math.log(hi / lo) || 1;
      for (let i = 0; i < n; i++) level[i] = Math.round(255 * Math.log(value[i] / lo) / range);
      t.colours[state.colour] = { level, lo, hi };
    }
    return t.colours[state.colour];
  }

  // ---- geometry ----

  const xOf = (t, op) => state.axis === 'time' && t.times ? t.times[Math.min(op, t.ops - 1)] : op;
  function opAt(t, x) { // the last operation at or before x
    if (!(state.axis === 'time' && t.times)) return Math.min(Math.max(Math.floor(x), 0), t.ops - 1);
    let lo = 0, hi = t.ops - 1;
    while (lo < hi) { const mid = (lo + hi + 1) >> 1; if (t.times[mid] <= x) lo = mid; else hi = mid - 1; }
    return lo;
  }
  function wholeView(t) {
    const regions = [state.main, state.beside].filter(i => i >= 0).map(i => t.recordings[i].region);
    return { x0: 0, x1: state.axis === 'time' && t.times ? t.times[t.ops - 1] : t.ops, y0: 0, y1: Math.max(...regions) / t.unit * 1.005 };
  }
  function plot(canvas) {
    const dpr = devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight;
    if (canvas.width !== Math.round(w * dpr) || canvas.height !== Math.round(h * dpr)) {
      canvas.width = Math.round(w * dpr); canvas.height = Math.round(h * dpr);
    }
    const ctx = canvas.getContext('2d');
    ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
    ctx.clearRect(0, 0, w, h);
    ctx.font = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif';
    return { ctx, dpr, w, h, left: margin.left, top: margin.top, pw: w - margin.left - margin.right, ph: h - margin.top - margin.bottom };
  }

  // ---- the map ----

  function paint(t, rec, addrs, W, H, v) {
    const img = new ImageData(W, H), px = new Uint32Array(img.data.buffer);
    px.fill(0xffffffff);
    const { level } = scale(t), sx = W / (v.x1 - v.x0), sy = H / (v.y1 - v.y0);
    const top = Math.max(0, Math.floor(H - (rec.region / t.unit - v.y0) * sy));
    for (let y = 0; y < Math.min(top, H); y++) px.fill(0xfff1efed, y * W, (y + 1) * W); // beyond the region
    let painted = 0;
    for (let i = 0; i < addrs.length; i++) {
      const a = addrs[i], b = a + t.sizes[i];
      if (a < 0 || b <= v.y0 || a >= v.y1) continue;
      const xs = xOf(t, t.starts[i]), xe = t.ends[i] >= t.ops ? v.x1 : xOf(t, t.ends[i]);
      if (xe < v.x0 || xs > v.x1) continue;
      const l = Math.max(0, Math.floor((xs - v.x0) * sx)), r = Math.min(W, Math.max(Math.floor((xe - v.x0) * sx), l + 1));
      const lo = Math.min(H, Math.ceil(H - (a - v.y0) * sy)), hi = Math.max(0, Math.min(Math.ceil(H - (b - v.y0) * sy), lo - 1));
      const fill = palette[level[i]], edge = edges[level[i]], framed = r - l > 3 && lo - hi > 3;
      for (let y = hi; y < lo; y++) {
        px.fill(framed && y === hi ? edge : fill, y * W + l, y * W + r);
        if (framed) px[y * W + l] = edge;
      }
      painted++;
    }
    return { img, painted };
  }

  function axes(p, t, v, label) {
    const { ctx, left, top, pw, ph } = p, binary = t.bytes;
    ctx.strokeStyle = ink; ctx.lineWidth = 1; ctx.strokeRect(left - .5, top - .5, pw + 1, ph + 1);
    ctx.fillStyle = soft; ctx.textAlign = 'right'; ctx.textBaseline = 'middle';
    for (const y of ticks(v.y0 * t.unit, v.y1 * t.unit, 6, binary)) {
      const at = top + ph - (y / t.unit - v.y0) / (v.y1 - v.y0) * ph;
      ctx.fillText(y === 0 ? '0' : size(y), left - 8, at);
      ctx.fillRect(left - 5, Math.round(at) - .5, 4, 1);
    }
    xAxis(p, v);
    ctx.save();
    ctx.textAlign = 'left'; ctx.textBaseline = 'alphabetic'; ctx.fillStyle = ink; ctx.font = '600 ' + ctx.font;
    ctx.fillText(label, left, top - 8);
    ctx.restore();
  }
  function xAxis({ ctx, left, top, pw, ph }, v) {
    ctx.fillStyle = soft; ctx.textBaseline = 'top';
    for (const x of ticks(v.x0, v.x1, 9, false)) {
      const at = left + (x - v.x0) / (v.x1 - v.x0) * pw;
      ctx.textAlign = at > left + pw - 30 ? 'right' : at < left + 20 ? 'left' : 'center';
      ctx.fillText(atX(x), at, top + ph + 7);
      ctx.fillRect(Math.round(at) - .5, top + ph + 1, 1, 4);
    }
  }
  function mark(p, v, x, colour, text, dash) {
    if (x < v.x0 || x > v.x1) return;
    const { ctx, left, top, pw, ph } = p, at = Math.round(left + (x - v.x0) / (v.x1 - v.x0) * pw) + .5;
    ctx.save();
    ctx.strokeStyle = '#fff'; ctx.lineWidth = 3; ctx.globalAlpha = .75;
    ctx.beginPath(); ctx.moveTo(at, top); ctx.lineTo(at, top + ph); ctx.stroke();
    ctx.globalAlpha = 1; ctx.strokeStyle = colour; ctx.lineWidth = 1.5; ctx.setLineDash(dash || []);
    ctx.beginPath(); ctx.moveTo(at, top); ctx.lineTo(at, top + ph); ctx.stroke();
    if (text) {
      const right = at > left + pw * .85, x = right ? at - 7 : at + 7;
      ctx.textBaseline = 'top'; ctx.textAlign = right ? 'right' : 'left';
      ctx.strokeStyle = '#fff'; ctx.lineWidth = 4; ctx.lineJoin = 'round'; ctx.setLineDash([]);
      ctx.strokeText(text, x, top + 7);
      ctx.fillStyle = colour; ctx.fillText(text, x, top + 7);
    }
    ctx.restore();
  }

  const titleOf = (t, r) => t.name + ', ' + r.strategy + ': ' + size(r.region) + (r.overhead ? ', ' + r.overhead.toFixed(4) + ' × peak live' : '');

  function drawMap(map, t) {
    const rec = t.recordings[map.rec], addrs = t.addrs[map.rec], p = plot(map.canvas), v = state.view;
    const W = Math.round(p.pw * p.dpr), H = Math.round(p.ph * p.dpr);
    const key = [state.trace, map.rec, state.colour, state.axis, W, H, v.x0, v.x1, v.y0, v.y1].join();
    if (map.key !== key) Object.assign(map, paint(t, rec, addrs, W, H, v), { key });
    p.ctx.putImageData(map.img, Math.round(p.left * p.dpr), Math.round(p.top * p.dpr));
    axes(p, t, v, titleOf(t, rec));
    mark(p, v, xOf(t, rec.worst[0]), accent, rec.holes ? 'worst moment' : 'peak');
    if (state.hover) mark(p, v, state.hover.x, ink, '', [3, 3]);
    strip(p, t, rec, addrs, state.hover ? opAt(t, state.hover.x) : rec.worst[0]);
    return map.painted;
  }

  // strip shows the region at one operation, on the map's scale of addresses.
  function strip(p, t, rec, addrs, op) {
    const { ctx, top, ph } = p, v = state.view, x = p.left + p.pw + 14, { level } = scale(t);
    const y = a => Math.min(Math.max(top + ph - (a - v.y0) / (v.y1 - v.y0) * ph, top), top + ph);
    ctx.fillStyle = '#edeff1'; ctx.fillRect(x, top, stripWidth, ph);
    ctx.fillStyle = '#fff'; ctx.fillRect(x, y(rec.region / t.unit), stripWidth, y(0) - y(rec.region / t.unit));
    for (let i = 0; i < addrs.length && t.starts[i] <= op; i++) {
      if (t.ends[i] <= op || addrs[i] < 0) continue;
      const hi = y(addrs[i] + t.sizes[i]), lo = y(addrs[i]);
      if (lo === hi) continue;
      const [r, g, b] = shade(level[i] / 255);
      ctx.fillStyle = `rgb(${r},${g},${b})`;
      ctx.fillRect(x, hi, stripWidth, Math.max(lo - hi, .5));
    }
    ctx.strokeStyle = state.hover || !rec.holes ? ink : accent; ctx.lineWidth = 1;
    ctx.strokeRect(x - .5, top - .5, stripWidth + 1, ph + 1);
    ctx.fillStyle = state.hover || !rec.holes ? soft : accent; ctx.textAlign = 'center'; ctx.textBaseline = 'top';
    ctx.fillText('#' + count(op), x + stripWidth / 2, top + ph + 7);
  }

  function legend(map, t) {
    const { ctx, left, pw } = plotBox(map.canvas), { lo, hi } = scale(t), w = 110, x = left + pw - w - 100, y = 8;
    const say = f => state.colour === 'size' ? size(f * t.unit, 3) : count(f) + (f === 1 ? ' event' : ' events');
    if (map.rec !== state.main || x < left + 420) return;
    for (let i = 0; i < w; i++) {
      const [r, g, b] = shade(i / (w - 1));
      ctx.fillStyle = `rgb(${r},${g},${b})`; ctx.fillRect(x + i, y, 1.5, 9);
    }
    ctx.fillStyle = soft; ctx.textBaseline = 'middle'; ctx.textAlign = 'right'; ctx.fillText(say(lo), x - 6, y + 5);
    ctx.textAlign = 'left'; ctx.fillText(say(hi), x + w + 6, y + 5);
  }
  function plotBox(canvas) {
    const w = canvas.clientWidth;
    return { ctx: canvas.getContext('2d'), left: margin.left, pw: w - margin.left - margin.right };
  }

  // ---- curves ----

  function drawCurves(t) {
    const rec = t.recordings[state.main], p = plot($('curves')), { ctx, left, top, pw, ph } = p, v = state.view;
    const most = rec.region * 1.04, X = op => left + (xOf(t, op) - v.x0) / (v.x1 - v.x0) * pw, Y = b => top + ph - b / most * ph;
    ctx.save();
    ctx.beginPath(); ctx.rect(left, top, pw, ph); ctx.clip();
    const trace = k => rec.series.forEach((s, i) => i ? ctx.lineTo(X(s[0]), Y(s[k])) : ctx.moveTo(X(s[0]), Y(s[k])));
    ctx.fillStyle = 'rgba(33,144,141,.22)'; ctx.beginPath(); trace(1);
    ctx.lineTo(X(rec.series[rec.series.length - 1][0]), Y(0)); ctx.lineTo(X(0), Y(0)); ctx.fill();
    const curves = [['live', 1, '#1f7f7c'], ['reserved (high water)', 2, ink]];
    if (rec.holes) curves.push(['largest hole', 3, '#d9822b']);
    for (const [, k, colour] of curves) {
      ctx.strokeStyle = colour; ctx.lineWidth = 1.4; ctx.beginPath(); trace(k); ctx.stroke();
    }
    ctx.strokeStyle = soft; ctx.setLineDash([5, 4]); ctx.lineWidth = 1;
    ctx.beginPath(); ctx.moveTo(left, Y(rec.region)); ctx.lineTo(left + pw, Y(rec.region)); ctx.stroke();
    ctx.restore();
    ctx.strokeStyle = ink; ctx.lineWidth = 1; ctx.strokeRect(left - .5, top - .5, pw + 1, ph + 1);
    ctx.fillStyle = soft; ctx.textAlign = 'right'; ctx.textBaseline = 'middle';
    for (const b of ticks(0, most, 4, t.bytes)) ctx.fillText(b ? size(b) : '0', left - 8, Y(b));
    xAxis(p, v);
    let x = left;
    ctx.textBaseline = 'alphabetic'; ctx.textAlign = 'left';
    for (const [name, , colour] of [...curves, ['region', 0, soft]]) {
      ctx.fillStyle = colour; ctx.fillRect(x, top - 13, 16, 3); ctx.fillText(name, x + 21, top - 8);
      x += ctx.measureText(name).width + 44;
    }
    mark(p, v, xOf(t, rec.worst[0]), accent, '');
    if (state.hover) mark(p, v, state.hover.x, ink, '', [3, 3]);
  }

  function caption(t) {
    const r = t.recordings[state.main], [op, live, , hole] = r.worst, free = r.region - live;
    if (!r.holes) {
      $('caption').textContent = 'Packed with all lifetimes known. Live bytes peak at event ' + count(op) + ': ' + size(live) + ' of ' + size(r.region) + '.';
      return;
    }
    const b = document.createElement('b');
    b.textContent = 'Worst moment';
    $('caption').replaceChildren(b, ` (${r.strategy}): event ${count(op)}${t.times ? ', after ' + span(t.times[op]) : ''}: ${size(live)} live, ${size(free)} free, of which the largest hole has ${size(hole)}; `
      + `${size(free - hole)} (${(100 * (free - hole) / r.region).toFixed(1)} % of the region) lie scattered in smaller ones.`);
  }

  // ---- drawing and moving ----

  let asked = 0;
  const redraw = () => { if (!asked) asked = requestAnimationFrame(draw); };
  function draw() {
    asked = 0;
    const t = cache.get(state.trace);
    if (!t || !state.view) return;
    const began = performance.now();
    let painted = 0;
    for (const map of maps) { painted += drawMap(map, t); legend(map, t); }
    drawCurves(t);
    root.dataset.painted = painted;
    root.dataset.drawMs = Math.round(performance.now() - began);
    root.dataset.ready = 'true';
  }

  function clampView(v) {
    const w = state.whole, cut = (lo, hi, a, b, least) => {
      let n = Math.min(Math.max(hi - lo, least), b - a);
      lo = Math.min(Math.max(lo, a), b - n);
      return [lo, lo + n];
    };
    const [x0, x1] = cut(v.x0, v.x1, w.x0, w.x1, (w.x1 - w.x0) / 1e5), [y0, y1] = cut(v.y0, v.y1, w.y0, w.y1, 2);
    state.view = { x0, x1, y0, y1 };
  }
  function place(canvas, e) { // pointer in view coordinates
    const b = canvas.getBoundingClientRect(), v = state.view;
    const fx = (e.clientX - b.left - margin.left) / (b.width - margin.left - margin.right);
    const fy = 1 - (e.clientY - b.top - margin.top) / (b.height - margin.top - margin.bottom);
    return { fx, fy, x: v.x0 + fx * (v.x1 - v.x0), y: v.y0 + fy * (v.y1 - v.y0) };
  }
  function zoom(at, fx, fy) {
    const v = state.view;
    clampView({ x0: at.x - (at.x - v.x0) * fx, x1: at.x + (v.x1 - at.x) * fx, y0: at.y - (at.y - v.y0) * fy, y1: at.y + (v.y1 - at.y) * fy });
    redraw();
  }
  function find(t, addrs, at) {
    const op = opAt(t, at.x);
    for (let i = 0; i < addrs.length && t.starts[i] <= op; i++)
      if (t.ends[i] > op && addrs[i] >= 0 && addrs[i] <= at.y && at.y < addrs[i] + t.sizes[i]) return i;
    return -1;
  }
  function tip(e, map, at) {
    const t = cache.get(state.trace), el = $('tip'), inside = at.fx >= 0 && at.fx <= 1 && at.fy >= 0 && at.fy <= 1;
    el.hidden = true;
    state.hover = inside || (!map && at.fx >= 0 && at.fx <= 1) ? at : null;
    if (map && inside) {
      const addrs = t.addrs[map.rec], i = find(t, addrs, at), when = op => '#' + count(op) + (t.times ? ' (' + span(xTime(t, op)) + ')' : '');
      el.textContent = i < 0 ? `free\n${when(opAt(t, at.x))}\noffset ${size(at.y * t.unit)}` :
        `chunk ${count(i)}: ${size(t.sizes[i] * t.unit)}\noffset ${count(addrs[i] * t.unit)} to ${count((addrs[i] + t.sizes[i]) * t.unit)}\n`
        + `allocated ${when(t.starts[i])}\n${t.ends[i] >= t.ops ? 'never freed' : 'freed ' + when(t.ends[i])}`;
      el.hidden = false;
      el.style.left = Math.min(e.clientX + 14, innerWidth - el.offsetWidth - 8) + 'px';
      el.style.top = Math.min(e.clientY + 14, innerHeight - el.offsetHeight - 8) + 'px';
    }
    redraw();
  }
  const xTime = (t, op) => t.times[Math.min(op, t.ops - 1)];

  function listen(canvas, map) {
    let from = null;
    canvas.addEventListener('wheel', e => {
      e.preventDefault();
      const d = e.deltaY || e.deltaX, f = Math.exp(Math.sign(d) * Math.min(Math.abs(d), 120) / 400), at = place(canvas, e);
      zoom(at, e.altKey ? 1 : f, e.shiftKey || !map ? 1 : f);
    }, { passive: false });
    canvas.addEventListener('pointerdown', e => { from = place(canvas, e); canvas.setPointerCapture(e.pointerId); });
    canvas.addEventListener('pointerup', () => { from = null; });
    canvas.addEventListener('pointermove', e => {
      const at = place(canvas, e);
      if (from) {
        const v = state.view, dx = from.x - at.x, dy = map ? from.y - at.y : 0;
        clampView({ x0: v.x0 + dx, x1: v.x1 + dx, y0: v.y0 + dy, y1: v.y1 + dy });
      }
      tip(e, map, place(canvas, e));
    });
    canvas.addEventListener('pointerleave', () => { state.hover = null; $('tip').hidden = true; redraw(); });
    canvas.addEventListener('dblclick', () => { state.view = { ...state.whole }; redraw(); });
  }

  // ---- controls ----

  function options(select, names, chosen) {
    select.replaceChildren(...names.map(([value, text]) => new Option(text, value, false, value === chosen)));
  }
  async function show(keep) {
    const t = await load(state.trace);
    const names = t.recordings.map((r, i) => [String(i), r.strategy]);
    options($('strategy'), names, String(state.main));
    options($('beside'), [['-1', 'nothing'], ...names], String(state.beside));
    $('axis').parentElement.hidden = !t.times;
    const wanted = [state.main, state.beside].filter(i => i >= 0);
    maps = wanted.map(rec => ({ rec, canvas: document.createElement('canvas') }));
    $('maps').className = maps.length > 1 ? 'two' : '';
    $('maps').replaceChildren(...maps.map(m => m.canvas));
    maps.forEach(m => listen(m.canvas, m));
    const whole = wholeView(t);
    state.whole = whole;
    if (keep && state.view) clampView(state.view); else state.view = { ...whole };
    caption(t);
    redraw();
  }
  const pick = (id, f) => $(id).addEventListener('change', e => f(e.target.value));
  pick('trace', v => { Object.assign(state, { trace: +v, main: 0, beside: -1 }); show(false); });
  pick('strategy', v => { state.main = +v; show(true); });
  pick('beside', v => { state.beside = +v; show(true); });
  pick('colour', v => { state.colour = v; redraw(); });
  pick('axis', v => { state.axis = v; show(false); });
  $('reset').addEventListener('click', () => { state.view = { ...state.whole }; redraw(); });
  $('worst').addEventListener('click', () => {
    const t = cache.get(state.trace), x = xOf(t, t.recordings[state.main].worst[0]), w = (state.whole.x1 - state.whole.x0) / 40;
    clampView({ ...state.whole, x0: x - w, x1: x + w });
    redraw();
  });
  addEventListener('resize', redraw);
  listen($('curves'), null);

  const asWanted = new URLSearchParams(location.hash.slice(1)); // #trace=1&strategy=0&beside=1&axis=time&colour=life
  for (const [key, name] of [['trace', 'trace'], ['strategy', 'main'], ['beside', 'beside']])
    if (asWanted.has(key)) state[name] = +asWanted.get(key);
  for (const key of ['axis', 'colour']) if (asWanted.has(key)) { state[key] = asWanted.get(key); $(key).value = state[key]; }
  options($('trace'), data.traces.map((t, i) => [String(i), t.name]), String(state.trace));
  show(false).then(() => {
    if (!asWanted.has('x0')) return;
    clampView({ x0: +asWanted.get('x0'), x1: +asWanted.get('x1'), y0: state.whole.y0, y1: state.whole.y1 });
    redraw();
  });
})();
