'use strict';
// The map is painted pixel by pixel into an image: cost follows the pixels, so
// that a hundred thousand chunks zoom smoothly. Maps, curves and strips share
// one view: a span of time (x) and of addresses (y, in units of the alignment).
(() => {
  const { $, root, floats, count, ticks, colours, word, rgb, frame, mark, options } = canvas;
  const data = JSON.parse($('data').textContent);
  const margin = { left: 78, right: 86, top: 24, bottom: 24 };
  const stripWidth = 44;
  const state = { trace: 0, main: 0, beside: -1, colour: 'size', axis: 'ops', view: null, whole: null, hover: null };
  let maps = [], cache = new Map();

  // ---- data ----

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

  const size = (bytes, digits = 4) => data.traces[state.trace].bytes ? canvas.bytes(bytes, digits) : count(bytes);
  const span = us => canvas.span(us * 1e3);
  const atX = v => state.axis === 'time' ? span(v) : count(v);

  // ---- colour: viridis, dark for small ----

  const anchors = [[68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141], [39, 173, 129], [92, 200, 99], [170, 220, 50], [253, 231, 37]];
  function shade(f) {
    const x = Math.min(Math.max(f, 0), 1) * (anchors.length - 1), i = Math.min(Math.floor(x), anchors.length - 2);
    return anchors[i].map((c, k) => Math.round(c + (anchors[i + 1][k] - c) * (x - i)));
  }
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

  // ---- the map ----

  function paint(t, rec, addrs, W, H, v) {
    const img = new ImageData(W, H), px = new Uint32Array(img.data.buffer);
    px.fill(word(canvas.parse(colours.paper)));
    const { level } = scale(t), sx = W / (v.x1 - v.x0), sy = H / (v.y1 - v.y0);
    const top = Math.max(0, Math.floor(H - (rec.region / t.unit - v.y0) * sy));
    for (let y = 0; y < Math.min(top, H); y++) px.fill(word(canvas.parse(colours.beyond)), y * W, (y + 1) * W); // beyond the region
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
    const { ctx, left, top, ph } = p;
    frame(p);
    canvas.yAxis(p, ticks(v.y0 * t.unit, v.y1 * t.unit, 6, t.bytes), y => top + ph - (y / t.unit - v.y0) / (v.y1 - v.y0) * ph, size);
    canvas.xAxis(p, v, atX);
    ctx.save();
    ctx.textAlign = 'left'; ctx.textBaseline = 'alphabetic'; ctx.fillStyle = colours.ink; ctx.font = '600 ' + ctx.font;
    ctx.fillText(label, left, top - 8);
    ctx.restore();
  }

  const titleOf = (t, r) => t.name + ', ' + r.strategy + ': ' + size(r.region) + (r.overhead ? ', ' + r.overhead.toFixed(4) + ' × peak live' : '');

  function drawMap(map, t) {
    const rec = t.recordings[map.rec], addrs = t.addrs[map.rec], p = canvas.plot(map.el, margin), v = state.view;
    const W = Math.round(p.pw * p.dpr), H = Math.round(p.ph * p.dpr);
    const key = [state.trace, map.rec, state.colour, state.axis, W, H, v.x0, v.x1, v.y0, v.y1, colours.paper].join();
    if (map.key !== key) Object.assign(map, paint(t, rec, addrs, W, H, v), { key });
    p.ctx.putImageData(map.img, Math.round(p.left * p.dpr), Math.round(p.top * p.dpr));
    axes(p, t, v, titleOf(t, rec));
    mark(p, v, xOf(t, rec.worst[0]), colours.accent, rec.holes ? 'worst moment' : 'peak');
    if (state.hover) mark(p, v, state.hover.x, colours.ink, '', [3, 3]);
    strip(p, t, rec, addrs, state.hover ? opAt(t, state.hover.x) : rec.worst[0]);
    legend(p, map, t);
    return map.painted;
  }

  // strip shows the region at one operation, on the map's scale of addresses.
  function strip(p, t, rec, addrs, op) {
    const { ctx, top, ph } = p, v = state.view, x = p.left + p.pw + 14, { level } = scale(t);
    const y = a => Math.min(Math.max(top + ph - (a - v.y0) / (v.y1 - v.y0) * ph, top), top + ph);
    ctx.fillStyle = colours.beyond; ctx.fillRect(x, top, stripWidth, ph);
    ctx.fillStyle = colours.paper; ctx.fillRect(x, y(rec.region / t.unit), stripWidth, y(0) - y(rec.region / t.unit));
    for (let i = 0; i < addrs.length && t.starts[i] <= op; i++) {
      if (t.ends[i] <= op || addrs[i] < 0) continue;
      const hi = y(addrs[i] + t.sizes[i]), lo = y(addrs[i]);
      if (lo === hi) continue;
      ctx.fillStyle = rgb(shade(level[i] / 255));
      ctx.fillRect(x, hi, stripWidth, Math.max(lo - hi, .5));
    }
    ctx.strokeStyle = state.hover || !rec.holes ? colours.ink : colours.accent; ctx.lineWidth = 1;
    ctx.strokeRect(x - .5, top - .5, stripWidth + 1, ph + 1);
    ctx.fillStyle = state.hover || !rec.holes ? colours.soft : colours.accent; ctx.textAlign = 'center'; ctx.textBaseline = 'top';
    ctx.fillText('#' + count(op), x + stripWidth / 2, top + ph + 7);
  }

  function legend({ ctx, left, pw }, map, t) {
    const { lo, hi } = scale(t), w = 110, x = left + pw - w - 100, y = 8;
    const say = f => state.colour === 'size' ? size(f * t.unit, 3) : count(f) + (f === 1 ? ' event' : ' events');
    if (map.rec !== state.main || x < left + 420) return;
    for (let i = 0; i < w; i++) {
      ctx.fillStyle = rgb(shade(i / (w - 1))); ctx.fillRect(x + i, y, 1.5, 9);
    }
    ctx.fillStyle = colours.soft; ctx.textBaseline = 'middle'; ctx.textAlign = 'right'; ctx.fillText(say(lo), x - 6, y + 5);
    ctx.textAlign = 'left'; ctx.fillText(say(hi), x + w + 6, y + 5);
  }

  // ---- curves ----

  function drawCurves(t) {
    const rec = t.recordings[state.main], p = canvas.plot($('curves'), margin), { ctx, left, top, pw, ph } = p, v = state.view;
    const most = rec.region * 1.04, X = op => left + (xOf(t, op) - v.x0) / (v.x1 - v.x0) * pw, Y = b => top + ph - b / most * ph;
    ctx.save();
    ctx.beginPath(); ctx.rect(left, top, pw, ph); ctx.clip();
    const trace = k => rec.series.forEach((s, i) => i ? ctx.lineTo(X(s[0]), Y(s[k])) : ctx.moveTo(X(s[0]), Y(s[k])));
    ctx.fillStyle = 'rgba(33,144,141,.22)'; ctx.beginPath(); trace(1);
    ctx.lineTo(X(rec.series[rec.series.length - 1][0]), Y(0)); ctx.lineTo(X(0), Y(0)); ctx.fill();
    const curves = [['live', 1, '#1f7f7c'], ['reserved (high water)', 2, colours.ink]];
    if (rec.holes) curves.push(['largest hole', 3, '#d9822b']);
    for (const [, k, colour] of curves) {
      ctx.strokeStyle = colour; ctx.lineWidth = 1.4; ctx.beginPath(); trace(k); ctx.stroke();
    }
    ctx.strokeStyle = colours.soft; ctx.setLineDash([5, 4]); ctx.lineWidth = 1;
    ctx.beginPath(); ctx.moveTo(left, Y(rec.region)); ctx.lineTo(left + pw, Y(rec.region)); ctx.stroke();
    ctx.restore();
    frame(p);
    canvas.yAxis(p, ticks(0, most, 4, t.bytes), Y, size);
    canvas.xAxis(p, v, atX);
    let x = left;
    ctx.textBaseline = 'alphabetic'; ctx.textAlign = 'left';
    for (const [name, , colour] of [...curves, ['region', 0, colours.soft]]) {
      ctx.fillStyle = colour; ctx.fillRect(x, top - 13, 16, 3); ctx.fillText(name, x + 21, top - 8);
      x += ctx.measureText(name).width + 44;
    }
    mark(p, v, xOf(t, rec.worst[0]), colours.accent, '');
    if (state.hover) mark(p, v, state.hover.x, colours.ink, '', [3, 3]);
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

  const redraw = canvas.frames(() => {
    const t = cache.get(state.trace);
    if (!t || !state.view) return false;
    let painted = 0;
    for (const map of maps) painted += drawMap(map, t);
    drawCurves(t);
    root.dataset.painted = painted;
  });

  function show(v) {
    state.view = canvas.clamp(v, state.whole, { x: (state.whole.x1 - state.whole.x0) / 1e5, y: 2 });
    redraw();
  }
  function find(t, addrs, at) {
    const op = opAt(t, at.x);
    for (let i = 0; i < addrs.length && t.starts[i] <= op; i++)
      if (t.ends[i] > op && addrs[i] >= 0 && addrs[i] <= at.y && at.y < addrs[i] + t.sizes[i]) return i;
    return -1;
  }
  function hover(e, map, at) {
    const t = cache.get(state.trace);
    state.hover = at && at.fx >= 0 && at.fx <= 1 && (at.inside || !map) ? at : null;
    let text = '';
    if (map && at && at.inside) {
      const addrs = t.addrs[map.rec], i = find(t, addrs, at), when = op => '#' + count(op) + (t.times ? ' (' + span(xTime(t, op)) + ')' : '');
      text = i < 0 ? `free\n${when(opAt(t, at.x))}\noffset ${size(at.y * t.unit)}` :
        `chunk ${count(i)}: ${size(t.sizes[i] * t.unit)}\noffset ${count(addrs[i] * t.unit)} to ${count((addrs[i] + t.sizes[i]) * t.unit)}\n`
        + `allocated ${when(t.starts[i])}\n${t.ends[i] >= t.ops ? 'never freed' : 'freed ' + when(t.ends[i])}`;
    }
    canvas.tip(e, text);
    redraw();
  }
  const xTime = (t, op) => t.times[Math.min(op, t.ops - 1)];

  const listen = (el, map) => canvas.navigate(el, {
    margin, y: map, view: () => state.view, whole: () => state.whole, set: show, hover: (at, e) => hover(e, map, at),
  });

  // ---- controls ----

  async function choose(keep) {
    const t = await load(state.trace);
    const names = t.recordings.map((r, i) => [String(i), r.strategy]);
    options($('strategy'), names, String(state.main));
    options($('beside'), [['-1', 'nothing'], ...names], String(state.beside));
    $('axis').parentElement.hidden = !t.times;
    const wanted = [state.main, state.beside].filter(i => i >= 0);
    maps = wanted.map(rec => ({ rec, el: document.createElement('canvas') }));
    $('maps').className = maps.length > 1 ? 'two' : '';
    $('maps').replaceChildren(...maps.map(m => m.el));
    maps.forEach(m => listen(m.el, m));
    state.whole = wholeView(t);
    caption(t);
    show(keep && state.view || state.whole);
  }
  const pick = (id, f) => $(id).addEventListener('change', e => f(e.target.value));
  pick('trace', v => { Object.assign(state, { trace: +v, main: 0, beside: -1 }); choose(false); });
  pick('strategy', v => { state.main = +v; choose(true); });
  pick('beside', v => { state.beside = +v; choose(true); });
  pick('colour', v => { state.colour = v; redraw(); });
  pick('axis', v => { state.axis = v; choose(false); });
  $('reset').addEventListener('click', () => show(state.whole));
  $('worst').addEventListener('click', () => {
    const t = cache.get(state.trace), x = xOf(t, t.recordings[state.main].worst[0]), w = (state.whole.x1 - state.whole.x0) / 40;
    show({ ...state.whole, x0: x - w, x1: x + w });
  });
  listen($('curves'), null);

  const asWanted = new URLSearchParams(location.hash.slice(1)); // #trace=1&strategy=0&beside=1&axis=time&colour=life
  for (const [key, name] of [['trace', 'trace'], ['strategy', 'main'], ['beside', 'beside']])
    if (asWanted.has(key)) state[name] = +asWanted.get(key);
  for (const key of ['axis', 'colour']) if (asWanted.has(key)) { state[key] = asWanted.get(key); $(key).value = state[key]; }
  options($('trace'), data.traces.map((t, i) => [String(i), t.name]), String(state.trace));
  choose(false).then(() => {
    if (!asWanted.has('x0')) return;
    show({ x0: +asWanted.get('x0'), x1: +asWanted.get('x1'), y0: state.whole.y0, y1: state.whole.y1 });
  });
})();
