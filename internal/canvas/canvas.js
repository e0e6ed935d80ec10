'use strict';
// What pages that draw share. A view is a span of x and one of y; plots of a page may have
// one in common. Colours come from the style, so that they follow light and dark.
const canvas = (() => {
  const $ = id => document.getElementById(id);
  const root = document.documentElement;
  function fail(e) {
    root.dataset.error = String((e && e.stack) || e);
    $('error').hidden = false;
    $('error').textContent = 'This page could not be drawn: ' + root.dataset.error;
  }
  addEventListener('error', e => fail(e.error || e.message));
  addEventListener('unhandledrejection', e => fail(e.reason));

  // ---- data ----

  async function unpack(text) {
    const raw = Uint8Array.from(atob(text), c => c.charCodeAt(0));
    return new Response(new Blob([raw]).stream().pipeThrough(new DecompressionStream('gzip')));
  }
  async function floats(text) {
    if (!text) return null;
    const planes = new Uint8Array(await (await unpack(text)).arrayBuffer()), n = planes.length / 8, rows = new Uint8Array(planes.length);
    for (let k = 0; k < 8; k++) for (let i = 0, at = k * n; i < n; i++) rows[8 * i + k] = planes[at + i];
    return new Float64Array(rows.buffer);
  }
  const json = async text => (await unpack(text)).json();

  // ---- units ----

  const trim = (v, digits) => String(+v.toPrecision(digits));
  const count = n => Math.round(n).toLocaleString('en-US');
  function bytes(b, digits = 4) {
    let k = 0;
    while (Math.abs(b) >= 1024 && k < 6) { b /= 1024; k++; }
    return trim(b, digits) + ' ' + ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'][k];
  }
  function span(ns, digits = 4) {
    const a = Math.abs(ns);
    if (a < 1e3) return trim(ns, digits) + ' ns';
    if (a < 1e6) return trim(ns / 1e3, digits) + ' µs';
    if (a < 1e9) return trim(ns / 1e6, digits) + ' ms';
    return trim(ns / 1e9, digits + 1) + ' s';
  }
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

  // ---- colour ----

  let colours = {};
  function theme() {
    const style = getComputedStyle(root);
    for (const name of ['ink', 'soft', 'line', 'accent', 'paper', 'shade', 'beyond', 'bad']) colours[name] = style.getPropertyValue('--' + name).trim();
  }
  theme();
  const word = ([r, g, b]) => (0xff000000 | b << 16 | g << 8 | r) >>> 0;
  const rgb = ([r, g, b]) => `rgb(${r},${g},${b})`;
  const parse = text => { // #rgb or #rrggbb
    const t = text.length === 4 ? [...text.slice(1)].map(c => c + c).join('') : text.slice(1);
    return [0, 2, 4].map(i => parseInt(t.slice(i, i + 2), 16));
  };

  // ---- plots ----

  function plot(el, margin) {
    const dpr = devicePixelRatio || 1, w = el.clientWidth, h = el.clientHeight;
    if (el.width !== Math.round(w * dpr) || el.height !== Math.round(h * dpr)) {
      el.width = Math.round(w * dpr); el.height = Math.round(h * dpr);
    }
    const ctx = el.getContext('2d');
    ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
    ctx.clearRect(0, 0, w, h);
    ctx.font = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif';
    return { ctx, dpr, w, h, left: margin.left, top: margin.top, pw: Math.max(w - margin.left - margin.right, 1), ph: Math.max(h - margin.top - margin.bottom, 1) };
  }
  function frame({ ctx, left, top, pw, ph }) {
    ctx.strokeStyle = colours.ink; ctx.lineWidth = 1; ctx.strokeRect(left - .5, top - .5, pw + 1, ph + 1);
  }
  function xAxis({ ctx, left, top, pw, ph }, v, text) {
    ctx.fillStyle = colours.soft; ctx.textBaseline = 'top';
    let free = -Infinity;
    for (const x of ticks(v.x0, v.x1, Math.max(Math.min(pw / 95, 9), 3), false)) {
      const at = left + (x - v.x0) / (v.x1 - v.x0) * pw, say = text(x), w = ctx.measureText(say).width;
      const from = Math.min(Math.max(at - w / 2, left - 10), left + pw - w + 4);
      if (from < free) continue;
      free = from + w + 12;
      ctx.textAlign = 'left'; ctx.fillText(say, from, top + ph + 7);
      ctx.fillRect(Math.round(at) - .5, top + ph + 1, 1, 4);
    }
  }
  // yAxis puts ticks at values; y says where a value is.
  function yAxis({ ctx, left }, values, y, text) {
    ctx.fillStyle = colours.soft; ctx.textAlign = 'right'; ctx.textBaseline = 'middle';
    for (const value of values) {
      ctx.fillText(value === 0 ? '0' : text(value), left - 8, y(value));
      ctx.fillRect(left - 5, Math.round(y(value)) - .5, 4, 1);
    }
  }
  // mark is a line at x, with a text beside it.
  function mark(p, v, x, colour, text, dash) {
    if (x < v.x0 || x > v.x1) return;
    const { ctx, left, top, pw, ph } = p, at = Math.round(left + (x - v.x0) / (v.x1 - v.x0) * pw) + .5;
    ctx.save();
    ctx.strokeStyle = colours.paper; ctx.lineWidth = 3; ctx.globalAlpha = .75;
    ctx.beginPath(); ctx.moveTo(at, top); ctx.lineTo(at, top + ph); ctx.stroke();
    ctx.globalAlpha = 1; ctx.strokeStyle = colour; ctx.lineWidth = 1.5; ctx.setLineDash(dash || []);
    ctx.beginPath(); ctx.moveTo(at, top); ctx.lineTo(at, top + ph); ctx.stroke();
    if (text) {
      const right = at > left + pw * .85, x = right ? at - 7 : at + 7;
      ctx.textBaseline = 'top'; ctx.textAlign = right ? 'right' : 'left';
      ctx.strokeStyle = colours.paper; ctx.lineWidth = 4; ctx.lineJoin = 'round'; ctx.setLineDash([]);
      ctx.strokeText(text, x, top + 7);
      ctx.fillStyle = colour; ctx.fillText(text, x, top + 7);
    }
    ctx.restore();
  }

  // ---- frames ----

  // frames calls draw at most once a frame, however often it is asked to; it leaves on the root element how long that took.
  function frames(draw) {
    let asked = 0;
    const again = () => { if (!asked) asked = requestAnimationFrame(run); };
    function run() {
      asked = 0;
      const began = performance.now();
      if (draw() === false) return;
      root.dataset.drawMs = Math.round(performance.now() - began);
      root.dataset.ready = 'true';
    }
    addEventListener('resize', again);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { theme(); again(); });
    return again;
  }

  // ---- moving ----

  const cut = (lo, hi, a, b, least) => {
    const n = Math.min(Math.max(hi - lo, least), b - a), at = Math.min(Math.max(lo, a), b - n);
    return [at, at + n];
  };
  // clamp keeps a view within the whole, and no smaller than least.
  function clamp(v, w, least) {
    const [x0, x1] = cut(v.x0, v.x1, w.x0, w.x1, least.x), [y0, y1] = cut(v.y0, v.y1, w.y0, w.y1, least.y);
    return { x0, x1, y0, y1 };
  }
  // zoomed is a view by factors about a point.
  const zoomed = (v, at, fx, fy) => ({ x0: at.x - (at.x - v.x0) * fx, x1: at.x + (v.x1 - at.x) * fx, y0: at.y - (at.y - v.y0) * fy, y1: at.y + (v.y1 - at.y) * fy });

  // navigate has pointers and keys move a view over a plot. on has: margin; view(); set(view), which clamps; whole(); and,
  // where wanted, y (it moves up and down, too), hover(at, event; null where the pointer has left), click(at), scroll(pixels).
  function navigate(el, on) {
    const down = new Map(); // pointers
    let from = null, moved = false;
    const place = e => { // in view coordinates
      const b = el.getBoundingClientRect(), v = on.view(), m = on.margin;
      const px = e.clientX - b.left, py = e.clientY - b.top;
      const fx = (px - m.left) / (b.width - m.left - m.right), fy = 1 - (py - m.top) / (b.height - m.top - m.bottom);
      return { px, py, fx, fy, x: v.x0 + fx * (v.x1 - v.x0), y: v.y0 + fy * (v.y1 - v.y0), inside: fx >= 0 && fx <= 1 && fy >= 0 && fy <= 1 };
    };
    el.addEventListener('wheel', e => {
      if (on.scroll && !e.ctrlKey && !e.shiftKey && Math.abs(e.deltaY) > Math.abs(e.deltaX) && on.scroll(e.deltaY)) { e.preventDefault(); return; }
      e.preventDefault();
      const d = e.deltaY || e.deltaX, f = Math.exp(Math.sign(d) * Math.min(Math.abs(d), 120) / 400);
      on.set(zoomed(on.view(), place(e), e.altKey ? 1 : f, e.shiftKey || !on.y ? 1 : f));
    }, { passive: false });
    el.addEventListener('pointerdown', e => {
      down.set(e.pointerId, e);
      from = place(e); moved = false;
      if (e.isTrusted) el.setPointerCapture(e.pointerId);
    });
    const up = e => {
      if (!down.delete(e.pointerId)) return;
      if (e.type === 'pointerup' && !moved && on.click) on.click(place(e), e);
      from = null;
    };
    el.addEventListener('pointerup', up);
    el.addEventListener('pointercancel', up);
    el.addEventListener('pointermove', e => {
      const was = down.get(e.pointerId), at = place(e);
      if (was && down.size === 2) { // a pinch
        const other = [...down.values()].find(p => p.pointerId !== e.pointerId);
        const f = Math.abs(was.clientX - other.clientX) / Math.max(Math.abs(e.clientX - other.clientX), 1);
        on.set(zoomed(on.view(), at, f, 1));
        moved = true;
      } else if (from && (moved || Math.hypot(at.px - from.px, at.py - from.py) > 4)) {
        const v = on.view(), dx = from.x - at.x, dy = on.y ? from.y - at.y : 0;
        on.set({ x0: v.x0 + dx, x1: v.x1 + dx, y0: v.y0 + dy, y1: v.y1 + dy });
        if (on.scroll && !on.y) on.scroll(from.py - at.py), from.py = at.py;
        moved = true;
      }
      if (was) down.set(e.pointerId, e);
      if (on.hover) on.hover(place(e), e);
    });
    el.addEventListener('pointerleave', e => { if (on.hover) on.hover(null, e); });
    el.addEventListener('dblclick', () => on.set(on.whole()));
    el.tabIndex = 0;
    el.addEventListener('keydown', e => {
      const v = on.view(), w = v.x1 - v.x0, h = v.y1 - v.y0, middle = { x: (v.x0 + v.x1) / 2, y: (v.y0 + v.y1) / 2 };
      const pan = (dx, dy) => ({ x0: v.x0 + dx * w, x1: v.x1 + dx * w, y0: v.y0 + dy * h, y1: v.y1 + dy * h });
      const f = { '+': .7, '=': .7, '-': 1 / .7, '_': 1 / .7 }[e.key];
      if (e.ctrlKey || e.metaKey) return;
      if (f) on.set(zoomed(v, middle, f, on.y && !e.shiftKey ? f : 1));
      else if (e.key === 'ArrowLeft' || e.key === 'ArrowRight') on.set(pan(e.key === 'ArrowLeft' ? -.15 : .15, 0));
      else if ((e.key === 'ArrowUp' || e.key === 'ArrowDown') && on.y) on.set(pan(0, e.key === 'ArrowUp' ? .15 : -.15));
      else if ((e.key === 'ArrowUp' || e.key === 'ArrowDown') && on.scroll) on.scroll(e.key === 'ArrowUp' ? -60 : 60);
      else if (e.key === '0' || e.key === 'Home') on.set(on.whole());
      else return;
      e.preventDefault();
    });
  }

  // tip shows a text at the pointer; '' hides it.
  function tip(e, text) {
    const el = $('tip');
    el.hidden = !text;
    if (!text) return;
    el.textContent = text;
    el.style.left = Math.max(Math.min(e.clientX + 14, innerWidth - el.offsetWidth - 8), 4) + 'px';
    el.style.top = Math.max(Math.min(e.clientY + 14, innerHeight - el.offsetHeight - 8), 4) + 'px';
  }
  function options(select, names, chosen) {
    select.replaceChildren(...names.map(([value, text]) => new Option(text, value, false, value === chosen)));
  }

  return { $, root, fail, floats, json, trim, count, bytes, span, ticks, colours, word, rgb, parse, plot, frame, xAxis, yAxis, mark, frames, clamp, zoomed, navigate, tip, options };
})();
