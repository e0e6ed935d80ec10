// All buffers' bytes, one above the other, over time, coloured by who holds the latest content. A pixel shows who holds
// the byte in its middle at the time in its middle; bytes that several memories hold are striped in their colours.
function makeHeld(page) {
  const { $, colours } = canvas, el = $('held');
  const margin = { left: 150, right: 14, top: 20, bottom: 26 };
  let key = '', painted = null, image = null, ids = null;

  const hues = [null, '#4c78a8', '#e0812b', '#54a24b', '#b279a2', '#c9b037', '#2a9d8f', '#d1495b', '#7a6fd0', '#8c6d4f', '#5fb3e0'];
  function tone(m) {
    if (m === 0) return '#8a939e';
    if (m < hues.length) return hues[m];
    const h = m * 137.508 % 360, f = n => { const k = (n + h / 30) % 12; return Math.round(255 * (.52 - .3 * Math.max(-1, Math.min(k - 3, 9 - k, 1)))); };
    return '#' + [f(0), f(8), f(4)].map(x => x.toString(16).padStart(2, '0')).join('');
  }

  function paint(W, H, v) {
    const run = page.run, px = new Uint32Array(W * H).fill(canvas.word(canvas.parse(colours.paper))), sx = W / (v.x1 - v.x0), sy = H / (v.y1 - v.y0);
    const stripes = run.sets.map(s => s.length ? s.map(m => canvas.word(canvas.parse(tone(m)))) : [canvas.word([120, 20, 30])]);
    ids = new Int32Array(W * H).fill(-1);
    for (let i = 0; i < run.heldFrom.length; i++) {
      if (run.heldTo[i] <= v.x0 || run.heldFrom[i] >= v.x1) continue;
      const a = run.buffers[run.heldBuffer[i]].at + run.heldOffset[i], b = a + run.heldSize[i];
      if (b <= v.y0 || a >= v.y1) continue;
      const l = Math.max(Math.ceil((run.heldFrom[i] - v.x0) * sx - .5), 0), r = Math.min(Math.ceil((run.heldTo[i] - v.x0) * sx - .5), W);
      const hi = Math.max(Math.ceil(H - (b - v.y0) * sy - .5), 0), lo = Math.min(Math.ceil(H - (a - v.y0) * sy - .5), H);
      const set = run.heldSet[i], words = stripes[set];
      for (let y = hi; y < lo && l < r; y++) {
        ids.fill(set, y * W + l, y * W + r);
        if (words.length === 1) px.fill(words[0], y * W + l, y * W + r);
        else for (let x = l; x < r; x++) px[y * W + x] = words[((x + y) >> 2) % words.length];
      }
    }
    image = new ImageData(new Uint8ClampedArray(px.buffer), W, H);
  }

  function draw() {
    margin.left = page.lanes.margin.left;
    const p = canvas.plot(el, margin), v = { ...page.view, ...page.rows }, run = page.run;
    const W = Math.max(Math.round(p.pw * p.dpr), 1), H = Math.max(Math.round(p.ph * p.dpr), 1), now = [W, H, v.x0, v.x1, v.y0, v.y1, colours.paper].join();
    if (now !== key || painted !== run) { paint(W, H, v); key = now; painted = run; }
    p.ctx.putImageData(image, Math.round(p.left * p.dpr), Math.round(p.top * p.dpr));
    canvas.frame(p);
    p.ctx.font = '600 12px system-ui, sans-serif'; p.ctx.textAlign = 'left'; p.ctx.textBaseline = 'alphabetic'; p.ctx.fillStyle = colours.ink;
    p.ctx.fillText(el.clientWidth < 600 ? 'Who holds the latest' : 'Who holds the latest content: all buffers, ' + canvas.bytes(run.total), 6, 13);
    names(p, v);
    p.ctx.font = '12px system-ui, sans-serif';
    canvas.xAxis(p, v, t => canvas.span(t, 6));
    chosen(p, v);
    if (page.hover) canvas.mark(p, v, page.hover.x, colours.ink, '', [3, 3]);
  }
  // names says which buffers there are, where there is room.
  function names({ ctx, left, top, pw, ph }, v) {
    const y = b => top + ph - (b - v.y0) / (v.y1 - v.y0) * ph;
    ctx.font = '11.5px system-ui, sans-serif'; ctx.textAlign = 'right'; ctx.textBaseline = 'middle';
    let free = Infinity;
    for (const b of page.run.buffers) {
      if (b.at + b.size <= v.y0 || b.at >= v.y1) continue;
      const lo = Math.min(y(b.at), top + ph), hi = Math.max(y(b.at + b.size), top), at = (lo + hi) / 2;
      if (lo - hi > 14) { ctx.fillStyle = colours.line; ctx.globalAlpha = .7; ctx.fillRect(left, Math.round(hi) - .5, pw, 1); ctx.globalAlpha = 1; }
      if (at > free - 12) continue;
      free = at;
      ctx.fillStyle = colours.soft;
      ctx.fillText(b.name.length * 6 > left - 12 ? b.name.slice(0, Math.floor((left - 16) / 6)) + '…' : b.name, left - 8, at);
    }
  }
  function chosen({ ctx, left, top, pw, ph }, v) {
    const run = page.run, h = page.bytes;
    if (h < 0) return;
    const x = t => left + Math.min(Math.max((t - v.x0) / (v.x1 - v.x0), 0), 1) * pw, y = b => top + ph - Math.min(Math.max((b - v.y0) / (v.y1 - v.y0), 0), 1) * ph;
    const a = run.buffers[run.heldBuffer[h]].at + run.heldOffset[h], b = a + run.heldSize[h];
    ctx.strokeStyle = colours.ink; ctx.lineWidth = 2;
    ctx.strokeRect(x(run.heldFrom[h]), y(b), Math.max(x(run.heldTo[h]) - x(run.heldFrom[h]), 2), Math.max(y(a) - y(b), 2));
  }

  // at is who held a byte at a time: an index, or -1.
  function at(t, byte) {
    const run = page.run;
    for (let i = 0; i < run.heldFrom.length && run.heldFrom[i] <= t; i++) {
      const a = run.buffers[run.heldBuffer[i]].at + run.heldOffset[i];
      if (run.heldTo[i] > t && a <= byte && byte < a + run.heldSize[i]) return i;
    }
    return -1;
  }
  return { el, margin, draw, at, tone, drawn: () => ({ ids, W: image.width, H: image.height }) };
}
