// The lanes. What is as wide as a column is drawn by itself; what is narrower, as the share of the column's time that it took.
// Columns are a pixel wide, or as many as it takes to draw no more than mostItems.
const mostItems = 20000;
const tones = {
  command: ['#4c78a8', '#6f5fa8', '#3f8fc4', '#5a6acf', '#3d8f7c', '#8a6fbf'], copy: ['#2a9d8f'], 'write-back': ['#e08e2b'], exchange: ['#b279a2'], eviction: ['#d1495b'],
  leg: ['#8a939e'], mapped: ['#a3a23f'],
};
const reasons = { compute: '#4c78a8', copy: '#2a9d8f', memory: '#e08e2b', host: '#a9b1bb' };

function makeLanes(page) {
  const { $, colours } = canvas, el = $('lanes');
  const rowHeight = 13, chartHeight = 38, headHeight = 21, gap = 5;
  const margin = { left: 150, right: 14, top: 2, bottom: 26 };
  let layout = [], height = 0, painted = null;
  const hidden = new Set();

  const chart = lane => lane.group === 'Links' || lane.group === 'Memories';
  function lay() {
    layout = []; height = 0;
    let group = '';
    for (const lane of page.run?.lanes ?? []) {
      if (hidden.has(lane.group)) continue;
      if (lane.group !== group) {
        layout.push({ head: group = lane.group, y: height, h: headHeight });
        height += headHeight;
      }
      const h = chart(lane) ? chartHeight : lane.rows * rowHeight;
      layout.push({ lane, y: height, h });
      height += h + gap;
    }
    const most = Math.max(Math.min(height, innerHeight * .62 - margin.bottom), 80);
    el.style.height = $('scroll').style.height = Math.round(most + margin.top + margin.bottom) + 'px'; // as high, so that the last lane can be scrolled to
    $('spacer').style.height = Math.max(Math.round(height - most), 0) + 'px';
    margin.left = el.clientWidth < 600 ? 84 : 150;
  }

  // ---- what is drawn ----

  // tonesOf are the numbers in palette of the colours of a lane's items. Commands' are told apart by the first word of their names.
  const toneOf = new Map(), palette = [...new Set([...Object.values(tones).flat(), ...Object.values(reasons)])];
  function tonesOf(lane) {
    const run = page.run, all = tones.command;
    lane.tones ??= Uint8Array.from(lane.event, e => {
      if (lane.group === 'Critical path') return palette.indexOf(reasons[run.text('partReason', e)] || reasons.host);
      const list = tones[run.kinds[run.kind[e]]];
      if (list !== all) return palette.indexOf(list[0]);
      const name = run.text('name', e).replace(/^#\d+ /, '').split(/[ (]/)[0];
      if (!toneOf.has(name)) toneOf.set(name, palette.indexOf(all[toneOf.size % all.length]));
      return toneOf.get(name);
    });
    return lane.tones;
  }

  // spread adds an amount over a time to columns, evenly.
  function spread(columns, steps, v, dt, from, to, amount) {
    const n = columns.length, a = Math.max(from, v.x0), b = Math.min(to, v.x1);
    const first = Math.min(Math.floor((a - v.x0) / dt), n - 1), last = Math.min(Math.floor((b - v.x0) / dt), n - 1);
    if (to <= from) { if (from >= v.x0 && from < v.x1) columns[first] += amount; return; }
    if (b <= a) return;
    const rate = amount / (to - from);
    if (first === last) { columns[first] += rate * (b - a); return; }
    columns[first] += rate * (v.x0 + (first + 1) * dt - a);
    columns[last] += rate * (b - v.x0 - last * dt);
    steps[first + 1] += rate * dt; steps[last] -= rate * dt;
  }
  function settle(columns, steps) {
    for (let i = 0, sum = 0; i < columns.length; i++) { sum += steps[i]; columns[i] += sum; }
    return columns;
  }

  // bars are a lane's items: rects, in pixels of the plot, and the busy time that they stand for.
  function bars(lane, v, W, cw, rects, y) {
    const n = Math.ceil(W / cw), sx = W / (v.x1 - v.x0), dt = cw / sx, shares = [], out = { busy: 0 };
    const { from: begins, to: ends, busy, row: rows } = lane, tone = tonesOf(lane), x0 = v.x0, x1 = v.x1, each = palette.length;
    for (let i = firstAfter(lane.last, x0 - 1); i < begins.length && begins[i] < x1; i++) {
      const from = begins[i], to = ends[i], row = rows[i];
      if (to < x0) continue;
      if ((to - from) * sx >= cw) {
        const a = Math.max(from, x0), b = Math.min(to, x1), full = busy[i] / (to - from);
        if (b <= a) continue;
        out.busy += full * (b - a);
        rects.push({ x: (a - x0) * sx, w: Math.max((b - a) * sx - .5, .5), y: y + row * rowHeight + (1 - full) * (rowHeight - 2), h: full * (rowHeight - 2), colour: palette[tone[i]], lane, i });
        continue;
      }
      const s = shares[row * each + tone[i]] ??= { row, colour: palette[tone[i]], columns: new Float64Array(n), steps: new Float64Array(n + 1), marks: new Uint8Array(n) };
      const c = Math.floor((from - x0) / dt);
      s.marks[c < 0 ? 0 : c >= n ? n - 1 : c] = 1;
      if (to <= from) continue;
      if (c >= 0 && c < n && to <= x0 + (c + 1) * dt && to <= x1) s.columns[c] += busy[i]; // most are in one column
      else spread(s.columns, s.steps, v, dt, from, to, busy[i]);
    }
    for (const s of shares) {
      if (!s) continue;
      settle(s.columns, s.steps);
      for (let c = 0; c < n; c++) {
        if (!s.columns[c] && !s.marks[c]) continue;
        out.busy += s.columns[c];
        const h = Math.max(Math.min(s.columns[c] / dt, 1), .25) * (rowHeight - 2);
        rects.push({ x: c * cw, w: cw, y: y + s.row * rowHeight + rowHeight - 2 - h, h, colour: s.colour });
      }
    }
    return out;
  }

  // area draws a value for each column, those alike as one; a scale of 0 is the greatest of them.
  function area(columns, cw, scale, rects, y, colour) {
    const most = scale || columns.reduce((a, b) => Math.max(a, b), 0) || 1;
    for (let c = 0; c < columns.length;) {
      let k = c + 1;
      while (k < columns.length && columns[k] === columns[c]) k++;
      if (columns[c] > 0) {
        const h = Math.max(Math.min(columns[c] / most, 1) * (chartHeight - 4), 1);
        rects.push({ x: c * cw, w: (k - c) * cw, y: y + chartHeight - h, h, colour });
      }
      c = k;
    }
    return most;
  }
  function flow(lane, v, W, cw, rects, y) {
    const n = Math.ceil(W / cw), dt = cw * (v.x1 - v.x0) / W, columns = new Float64Array(n), steps = new Float64Array(n + 1);
    for (let i = firstAfter(lane.last, v.x0 - 1); i < lane.event.length && lane.from[i] < v.x1; i++)
      if (lane.to[i] >= v.x0) spread(columns, steps, v, dt, lane.from[i], lane.to[i], lane.bytes[i]);
    settle(columns, steps);
    const out = { bytes: columns.reduce((a, b) => a + b, 0) }, rates = columns.map(b => b < 1e-6 ? 0 : b / dt * 1e9);
    out.most = area(rates, cw, lane.capacity, rects, y, '#2a9d8f');
    out.peak = rates.reduce((a, b) => Math.max(a, b), 0);
    return out;
  }
  function held(lane, v, W, cw, rects, y) {
    const n = Math.ceil(W / cw), dt = cw * (v.x1 - v.x0) / W, columns = new Float64Array(n);
    let k = firstAfter(lane.levelAt, v.x0) - 1, now = k >= 0 ? lane.levelBytes[k] : 0;
    for (let c = 0; c < n; c++) {
      columns[c] = now;
      const until = Math.min(v.x0 + (c + 1) * dt, v.x1);
      while (k + 1 < lane.levelAt.length && lane.levelAt[k + 1] < until) { now = lane.levelBytes[++k]; columns[c] = Math.max(columns[c], now); }
    }
    area(columns, cw, lane.scale, rects, y, '#7f8fb0');
    const marks = new Uint8Array(n);
    for (let i = firstAfter(lane.last, v.x0 - 1); i < lane.event.length && lane.from[i] < v.x1; i++)
      if (lane.from[i] >= v.x0) marks[Math.min(Math.floor((lane.from[i] - v.x0) / dt), n - 1)] = 1;
    for (let c = 0; c < n; c++) if (marks[c]) rects.push({ x: c * cw, w: Math.max(cw, 2), y, h: 9, colour: tones.eviction[0] });
    return { peak: columns.reduce((a, b) => Math.max(a, b), 0) };
  }

  // gather is all that is drawn of the lanes in sight.
  function gather(v, W, top, bottom, cw) {
    const rects = [], sums = new Map();
    for (const l of layout) {
      if (!l.lane || l.y + l.h < top || l.y > bottom) continue;
      const how = l.lane.group === 'Links' ? flow : l.lane.group === 'Memories' ? held : bars;
      sums.set(l.lane.index, how(l.lane, v, W, cw, rects, l.y));
      if (rects.length > mostItems) break; // wider columns, then
    }
    return { rects, sums, cw };
  }

  // ---- drawing ----

  function draw() {
    const v = page.view, run = page.run;
    const p = canvas.plot(el, margin), { ctx, left, pw, ph } = p, off = $('scroll').scrollTop, y = at => margin.top + at - off;
    let g;
    for (let cw = 1; ; cw *= 2) if ((g = gather(v, pw, off, off + ph, cw)).rects.length <= mostItems || cw > 64) break;
    painted = g;
    ctx.save();
    ctx.beginPath(); ctx.rect(0, margin.top, p.w, ph); ctx.clip();
    for (const l of layout) if (l.y + l.h >= off && l.y <= off + ph) background(p, l, y(l.y));
    ctx.beginPath(); ctx.rect(left, margin.top, pw, ph); ctx.clip();
    let last = '';
    for (const r of g.rects) {
      if (r.colour !== last) ctx.fillStyle = last = r.colour;
      ctx.fillRect(left + r.x, y(r.y), r.w, r.h);
    }
    ctx.font = '10.5px system-ui, sans-serif'; ctx.textBaseline = 'middle'; ctx.textAlign = 'left'; ctx.fillStyle = '#fff';
    for (const r of g.rects) if (r.lane && r.w > 34 && r.h > 9) ctx.fillText(fit(label(r.lane, r.i), r.w - 6), left + r.x + 3, y(r.y) + r.h / 2 + .5);
    limits(p, g, y);
    path(p, y);
    chosen(p, y);
    ctx.restore();
    canvas.frame(p);
    ctx.font = '12px system-ui, sans-serif';
    canvas.xAxis(p, v, t => canvas.span(t, 6));
    if (page.hover) canvas.mark(p, v, page.hover.x, colours.ink, '', [3, 3]);
    canvas.root.dataset.items = g.rects.length;
  }
  const fit = (text, w) => { const most = Math.floor(w / 5.6); return text.length <= most ? text : most < 3 ? '' : text.slice(0, most - 1) + '…'; };
  function label(lane, i) {
    const run = page.run;
    return lane.group === 'Critical path' ? run.text('partWhat', lane.event[i]) : run.text('name', lane.event[i]);
  }
  function background({ ctx, left, pw, w }, l, y) {
    if (l.head) {
      ctx.fillStyle = colours.shade; ctx.fillRect(0, y, w, l.h - 3);
      ctx.fillStyle = colours.ink; ctx.font = '600 12px system-ui, sans-serif'; ctx.textAlign = 'left'; ctx.textBaseline = 'middle';
      ctx.fillText(l.head, 6, y + l.h / 2 - 1);
      return;
    }
    ctx.fillStyle = colours.line; ctx.fillRect(left, y + l.h + 1.5, pw, 1);
    ctx.fillStyle = colours.soft; ctx.font = '11.5px system-ui, sans-serif'; ctx.textAlign = 'right'; ctx.textBaseline = 'middle';
    const name = fit(l.lane.name, left - 10);
    if (!chart(l.lane)) { ctx.fillText(name, left - 7, y + Math.min(l.h, 16) / 2); return; }
    ctx.fillText(name, left - 7, y + 11);
  }
  // limits says beside each chart what it is drawn against.
  function limits({ ctx, left, pw }, g, y) {
    ctx.save();
    ctx.beginPath(); ctx.rect(0, margin.top, left + pw, el.clientHeight - margin.top - margin.bottom);
    for (const l of layout) {
      const s = l.lane && g.sums.get(l.lane.index);
      if (!s || !chart(l.lane)) continue;
      const most = l.lane.group === 'Links' ? s.most : l.lane.scale, top = y(l.y) + 8;
      if (l.lane.capacity) {
        ctx.strokeStyle = colours.soft; ctx.lineWidth = 1; ctx.setLineDash([4, 3]);
        const at = y(l.y) + l.h - Math.min(l.lane.capacity / most, 1) * (chartHeight - 4);
        ctx.beginPath(); ctx.moveTo(left, at); ctx.lineTo(left + pw, at); ctx.stroke(); ctx.setLineDash([]);
      }
      const unit = b => canvas.bytes(b, 3), of = l.lane.capacity ? ' of ' + (l.lane.group === 'Links' ? rate(l.lane.capacity) : unit(l.lane.capacity)) : '';
      const text = (l.lane.group === 'Links' ? rate(s.peak) : unit(s.peak)) + of;
      ctx.font = '10.5px system-ui, sans-serif'; ctx.textAlign = 'right'; ctx.textBaseline = 'top'; ctx.lineWidth = 3; ctx.lineJoin = 'round';
      ctx.strokeStyle = colours.paper; ctx.strokeText(text, left + pw - 4, top); ctx.fillStyle = colours.soft; ctx.fillText(text, left + pw - 4, top);
    }
    ctx.restore();
  }
  const rate = b => canvas.trim(b / 1e9, 3) + ' GB/s';

  // middle is where an event is drawn: of the canvas, in pixels; null where its lane is not shown.
  function middle(e) {
    const run = page.run, l = layout.find(x => x.lane && x.lane.index === run.lane[e]);
    if (!l) return null;
    const p = el.clientWidth - margin.left - margin.right, v = page.view, x = t => margin.left + (t - v.x0) / (v.x1 - v.x0) * p;
    const i = run.item[e], row = chart(l.lane) ? 0 : l.lane.row[i];
    return { from: x(l.lane.from[i]), to: x(l.lane.to[i]), y: margin.top + l.y + row * rowHeight + (rowHeight - 2) / 2 - $('scroll').scrollTop };
  }

  // path joins the parts of the critical path in sight across the lanes.
  function path({ ctx }, y) {
    const run = page.run, v = page.view, n = run.partFrom.length;
    let i = firstAfter(run.partTo, v.x0), before = null;
    if (firstAfter(run.partFrom, v.x1) - i > 1500) return; // too many to be seen; the lane of the path has them
    ctx.strokeStyle = colours.accent; ctx.lineWidth = 1.5;
    ctx.beginPath();
    for (; i < n && run.partFrom[i] < v.x1; i++) {
      const at = run.partEvent[i] >= 0 ? middle(run.partEvent[i]) : null;
      if (!at) { before = null; continue; }
      const p = el.clientWidth - margin.left - margin.right, x = t => margin.left + (t - v.x0) / (v.x1 - v.x0) * p;
      const from = x(run.partFrom[i]), to = x(run.partTo[i]), low = at.y + rowHeight / 2 - .5;
      if (before) { ctx.moveTo(before.x, before.y); ctx.lineTo(from, low); } else ctx.moveTo(from, low);
      ctx.lineTo(to, low);
      before = { x: to, y: low };
    }
    ctx.stroke();
  }

  // chosen frames the event that was clicked, and draws what it waited for, and what waited for it.
  function chosen({ ctx }, y) {
    const run = page.run, e = page.selected, at = e >= 0 ? middle(e) : null;
    if (!at) return;
    const line = (from, to, colour) => {
      ctx.strokeStyle = colour; ctx.lineWidth = 1.2; ctx.beginPath(); ctx.moveTo(from.to, from.y);
      ctx.bezierCurveTo(from.to + 18, from.y, to.from - 18, to.y, to.from, to.y); ctx.stroke();
    };
    for (const w of run.before(e).slice(0, 100)) { const f = middle(w); if (f) line(f, at, colours.ink); }
    for (const w of run.behind(e).slice(0, 100)) { const t = middle(w); if (t) line(at, t, colours.soft); }
    ctx.strokeStyle = colours.ink; ctx.lineWidth = 2;
    ctx.strokeRect(at.from - 1.5, at.y - rowHeight / 2 - .5, Math.max(at.to - at.from, 2) + 3, rowHeight);
  }

  // ---- finding ----

  // at is what is drawn at a point of the canvas: the events that lie there, the one nearest to it first.
  function at(px, py) {
    const off = $('scroll').scrollTop, yy = py - margin.top + off, l = layout.find(x => x.lane && yy >= x.y && yy <= x.y + x.h + gap);
    if (!l) return { lane: null, items: [] };
    const v = page.view, dt = (v.x1 - v.x0) / (el.clientWidth - margin.left - margin.right), t = v.x0 + (px - margin.left) * dt, lane = l.lane;
    const row = chart(lane) ? -1 : Math.min(Math.floor((yy - l.y) / rowHeight), lane.rows - 1), near = 2.5 * Math.max(painted ? painted.cw : 1, 1) * dt, items = [];
    for (let i = firstAfter(lane.last, t - near); i < lane.event.length && lane.from[i] <= t + near; i++)
      if (lane.to[i] >= t - near && (row < 0 || lane.row[i] === row)) items.push(i);
    const away = i => Math.max(lane.from[i] - t, t - lane.to[i], 0);
    items.sort((a, b) => away(a) - away(b) || (lane.to[a] - lane.from[a]) - (lane.to[b] - lane.from[b]));
    return { lane, t, items };
  }

  // reveal scrolls to an event's lane.
  function reveal(e) {
    const l = layout.find(x => x.lane && x.lane.index === page.run.lane[e]), s = $('scroll'), h = el.clientHeight - margin.bottom;
    if (l && (l.y < s.scrollTop || l.y + l.h > s.scrollTop + h)) s.scrollTop = Math.max(l.y - h / 3, 0);
  }
  function scroll(by) {
    const s = $('scroll'), was = s.scrollTop;
    s.scrollTop += by;
    return s.scrollTop !== was;
  }
  $('scroll').addEventListener('scroll', () => page.redraw());
  addEventListener('resize', lay);

  return { el, margin, lay, draw, at, reveal, scroll, middle, hidden, drawn: () => painted };
}
