// The page: which run, which view, and what was clicked.
(() => {
  const { $, root, count, bytes, span } = canvas;
  let data = JSON.parse($('data').textContent);
  const page = { run: null, view: null, rows: null, selected: -1, bytes: -1, hover: null };
  page.redraw = canvas.frames(() => {
    if (!page.run || !page.view) return false;
    page.lanes.draw();
    page.held.draw();
  });
  page.lanes = makeLanes(page);
  page.held = makeHeld(page);

  const whole = () => ({ x0: page.run.first, x1: page.run.until, y0: 0, y1: Math.max(page.run.total, 1) });
  function look(v) {
    const w = whole(), c = canvas.clamp({ y0: page.rows.y0, y1: page.rows.y1, ...v }, w, { x: Math.min(20, w.x1 - w.x0), y: Math.min(8, w.y1) });
    page.view = { x0: c.x0, x1: c.x1, y0: 0, y1: 1 };
    page.rows = { y0: c.y0, y1: c.y1 };
    page.redraw();
  }

  // ---- what is said ----

  const element = (name, props, ...children) => { const e = Object.assign(document.createElement(name), props); e.append(...children); return e; };
  const go = (text, to) => element('button', { type: 'button', textContent: text, onclick: to });
  const memory = m => page.run.memories[m] ?? '';
  const title = e => page.run.text('name', e) || page.run.kinds[page.run.kind[e]];
  const short = e => { const t = title(e), n = page.run.number[e], k = page.run.kinds[page.run.kind[e]]; return k === 'command' ? (t.startsWith('#') ? t : '#' + n + ' ' + t) : k + ': ' + t; };
  const toEvent = e => go(short(e), () => select(e, true));
  const place = (buffer, off, size) => {
    const b = page.run.buffers[buffer];
    return !b ? 'bytes of no buffer' : off === 0 && size === b.size ? `${b.name} (${bytes(size)})` : `${b.name}[${count(off)}, ${count(off + size)})`;
  };

  function section(title, list, most = 30) {
    if (!list.length) return [];
    const items = list.slice(0, most).map(x => element('li', {}, x));
    if (list.length > most) items.push(element('li', {}, `and ${count(list.length - most)} more`));
    return [element('h3', { textContent: title }), element('ul', {}, ...items)];
  }
  function fields(pairs) {
    return element('dl', {}, ...pairs.flatMap(([key, value, name]) => {
      const dd = element('dd', {}, ...[value].flat());
      dd.dataset.key = key;
      return [element('dt', { textContent: name ?? key.replaceAll('_', ' ') }), dd];
    }));
  }

  // value is a field of a row of --json, in full; lists of what there is are ways to it.
  function value(key, v) {
    const run = page.run;
    if (Array.isArray(v)) {
      const to = { copies: i => run.copyAt.get(i), evictions: i => run.evictionAt.get(i), written_by: i => run.byNumber.get(i) }[key];
      return v.flatMap((x, i) => {
        const e = to && to(x), text = String(x);
        return [...(i ? [', '] : []), e >= 0 ? go(text, () => select(e, true)) : text];
      });
    }
    if (typeof v !== 'number') return String(v);
    if (key === 'command' && run.byNumber.has(v)) return go(count(v), () => select(run.byNumber.get(v), true));
    const exact = Number.isInteger(v) ? v.toLocaleString('en-US') : String(v);
    if (/_ns$/.test(key)) return v >= 1000 ? `${exact} (${span(v)})` : exact;
    if (/bytes|dropped|written_back|offset|planned|ride_along/.test(key) && v >= 1024) return `${exact} (${bytes(v)})`;
    return exact;
  }
  function rowFields(row, before = '') {
    return Object.entries(row).flatMap(([key, v]) => v && typeof v === 'object' && !Array.isArray(v) ? rowFields(v, before + key + '.') : [[before + key, value(key, v), (before + key).replaceAll('_', ' ')]]);
  }

  let wanted = 0;
  async function select(e, show) {
    const run = page.run, mine = ++wanted;
    page.selected = e; page.bytes = -1;
    if (show) reveal(e);
    page.redraw();
    const row = await run.row(e);
    if (mine !== wanted) return;
    const kind = run.kinds[run.kind[e]], critical = run.onPath(e), out = [element('h2', { textContent: short(e) })];
    out.push(fields([
      ['kind', kind], ['lane', run.lane[e] >= 0 ? run.lanes[run.lane[e]].name : ''], ['start', span(run.start[e], 8), 'from'], ['end', span(run.end[e], 8), 'to'],
      ['took', span(run.end[e] - run.start[e])], ['after', span(run.start[e] - run.queued[e]), 'after its call'],
      ...(critical ? [['critical', span(critical), 'on the critical path']] : []),
      ...(run.failed[e] ? [['error', run.text('failed', e)]] : []),
    ]));
    if (row) out.push(element('h3', { textContent: run.count[e] > 1 ? 'Folded' : 'In full' }), fields(rowFields(row)));
    out.push(...section('Uses', run.uses(e).map(u => go(`${['reads', 'reads and writes', 'writes'][run.useMode[u]]} ${place(run.useBuffer[u], run.useOffset[u], run.useSize[u])} on ${memory(run.useMemory[u])}`,
      () => selectBytes(page.held.at(Math.max(run.start[e] - 1, run.first), run.buffers[run.useBuffer[u]].at + run.useOffset[u]), true)))));
    out.push(...section('Waited for', run.before(e).map(toEvent)));
    out.push(...section('What waited for it', run.behind(e).map(toEvent)));
    out.push(...section('On the critical path', run.parts(e).map(p => `${span(run.partTo[p] - run.partFrom[p])} from ${span(run.partFrom[p], 8)}, after ${run.text('partAfter', p)}`
      + (run.partShared[p] ? `; ${span(run.partShared[p])} of it since others were on its links` : ''))));
    say(out);
    root.dataset.selected = e;
  }

  // selectBytes says of bytes that are latest for a time: whose they are, who had them, where they went, who used them.
  function selectBytes(h, show) {
    const run = page.run;
    if (h < 0) return say([element('h2', { textContent: 'Nobody has written these bytes by then' })]);
    wanted++;
    page.bytes = h; page.selected = -1;
    const b = run.heldBuffer[h], from = run.heldFrom[h], to = run.heldTo[h], lo = run.heldOffset[h], hi = lo + run.heldSize[h], writer = run.heldWriter[h];
    if (show) look({ x0: Math.min(page.view.x0, from), x1: Math.max(page.view.x1, Math.min(to, from + (page.view.x1 - page.view.x0))) });
    const holders = run.sets[run.heldSet[h]].map(memory).join(', ') || 'nobody: they are lost';
    const arrive = [], read = [];
    for (let e = 0; e < run.n; e++) {
      const k = run.kinds[run.kind[e]];
      if ((k === 'copy' || k === 'write-back') && run.buffer[e] === b && run.offset[e] < hi && run.offset[e] + run.size[e] > lo && run.end[e] >= from && run.start[e] <= to) arrive.push(e);
    }
    let next = -1;
    for (let u = 0; u < run.useEvent.length; u++) {
      if (run.useBuffer[u] !== b || run.useOffset[u] >= hi || run.useOffset[u] + run.useSize[u] <= lo) continue;
      const e = run.useEvent[u], at = run.start[e];
      if (e !== writer && run.useMode[u] !== 2 && at >= from && at <= to) read.push(e);
      if (e !== writer && run.useMode[u] !== 0 && run.end[e] >= to && (next < 0 || run.end[e] < run.end[next])) next = e;
    }
    say([
      element('h2', { textContent: place(b, lo, hi - lo) }),
      fields([
        ['bytes', `${count(hi - lo)} (${bytes(hi - lo)})`], ['holders', holders, 'latest on'], ['writer', writer >= 0 ? toEvent(writer) : writer < -1 ? 'a command that is not kept' : 'nobody: the initial content', 'written by'],
        ['from', span(from, 8)], ['to', span(to, 8)], ...(next >= 0 && to < run.until ? [['next', toEvent(next), 'written next by']] : []),
      ]),
      ...section('Copied meanwhile by', arrive.map(e => go(`${span(run.end[e], 8)}: ${short(e)}`, () => select(e, true)))),
      ...section('Read meanwhile by', [...new Set(read)].map(toEvent)),
    ]);
    root.dataset.held = h;
    page.redraw();
  }

  function selectPart(p) {
    const run = page.run;
    if (run.partEvent[p] >= 0) return select(run.partEvent[p], false);
    wanted++;
    page.selected = page.bytes = -1;
    say([element('h2', { textContent: run.text('partWhat', p) }), fields([['reason', run.text('partReason', p)], ['after', run.text('partAfter', p)],
      ['from', span(run.partFrom[p], 8)], ['to', span(run.partTo[p], 8)], ['took', span(run.partTo[p] - run.partFrom[p])]])]);
    page.redraw();
  }
  function say(content) {
    $('panel').hidden = false;
    $('said').replaceChildren(...content);
    page.lanes.lay();
    page.redraw();
  }
  function close() {
    $('panel').hidden = true;
    page.selected = page.bytes = -1; wanted++;
    page.lanes.lay();
    page.redraw();
    page.closed?.();
  }

  // reveal moves the view so that an event is in sight.
  function reveal(e) {
    const run = page.run, v = page.view, a = run.start[e], b = run.end[e], w = v.x1 - v.x0;
    if (b < v.x0 || a > v.x1 || b - a > w) {
      const half = Math.max(w / 2, (b - a) * .75);
      look({ x0: (a + b) / 2 - half, x1: (a + b) / 2 + half });
    }
    page.lanes.reveal(e);
  }

  // ---- pointers and keys ----

  function clicked(at) {
    const found = page.lanes.at(at.px, at.py);
    if (!found.lane || !found.items.length || !at.inside) return close();
    if (found.lane.group === 'Critical path') return selectPart(found.lane.event[found.items[0]]);
    const e = found.lane.event[found.items[0]];
    return select(e, false).then(() => {
      const others = [...new Set(found.items.map(i => found.lane.event[i]))].filter(x => x !== e);
      if (page.selected === e) $('said').append(...section('Also here', others.map(x => { const b = toEvent(x); b.dataset.event = x; return b; }), 20));
    });
  }
  function hovered(at, e) {
    page.hover = at && at.fx >= 0 && at.fx <= 1 ? at : null;
    let text = '';
    if (at && at.inside) {
      const found = page.lanes.at(at.px, at.py), run = page.run, lane = found.lane;
      if (lane) {
        text = lane.name + (found.items.length ? '' : '\n' + span(at.x, 8));
        if (found.items.length) {
          const i = found.items[0], x = lane.event[i];
          text += '\n' + (lane.group === 'Critical path' ? `${run.text('partWhat', x)}\n${run.text('partReason', x)}` : short(x)) + `\n${span(lane.from[i], 8)}, for ${span(lane.to[i] - lane.from[i])}`;
          if (found.items.length > 1) text += `\nand ${count(found.items.length - 1)} more here`;
        }
        if (lane.group === 'Memories') { const k = firstAfter(lane.levelAt, at.x) - 1; text += `\nholds ${bytes(k >= 0 ? lane.levelBytes[k] : 0)}`; }
      }
    }
    canvas.tip(e, text);
    page.redraw();
  }
  function hoveredBytes(at, e) {
    page.hover = at && at.fx >= 0 && at.fx <= 1 ? at : null;
    const h = at && at.inside ? page.held.at(at.x, at.y) : -1, run = page.run;
    let text = '';
    if (h >= 0) {
      const w = run.heldWriter[h];
      text = `${place(run.heldBuffer[h], run.heldOffset[h], run.heldSize[h])}\nlatest on ${run.sets[run.heldSet[h]].map(memory).join(', ') || 'nobody'}\nby ${w >= 0 ? short(w) : w < -1 ? 'a command that is not kept' : 'its creation'}\n${span(run.heldFrom[h], 8)} to ${span(run.heldTo[h], 8)}`;
    }
    canvas.tip(e, text);
    page.redraw();
  }
  canvas.navigate(page.lanes.el, { margin: page.lanes.margin, view: () => page.view, whole, set: v => look({ x0: v.x0, x1: v.x1 }), hover: hovered, click: clicked, scroll: page.lanes.scroll });
  canvas.navigate(page.held.el, {
    margin: page.held.margin, y: true, view: () => ({ ...page.view, ...page.rows }), whole, set: look, hover: hoveredBytes, click: at => at.inside && selectBytes(page.held.at(at.x, at.y)),
  });
  // step goes to the event after, or before, the one that was selected, in its lane.
  function step(by) {
    const run = page.run, e = page.selected;
    if (e < 0) return middle(page.lanes.el);
    const lane = run.lanes[run.lane[e]], i = run.item[e] + by;
    if (i >= 0 && i < lane.event.length) select(lane.event[i], true);
  }
  function middle(el) {
    const b = el.getBoundingClientRect();
    if (el === page.held.el) return selectBytes(page.held.at((page.view.x0 + page.view.x1) / 2, (page.rows.y0 + page.rows.y1) / 2));
    const run = page.run, t = (page.view.x0 + page.view.x1) / 2, near = i => Math.max(run.start[i] - t, t - run.end[i], 0);
    let best = -1;
    for (let i = 0; i < run.n; i++) if (run.kinds[run.kind[i]] === 'command' && (best < 0 || near(i) < near(best))) best = i;
    if (best >= 0) select(best, true);
  }
  for (const el of [page.lanes.el, page.held.el]) el.addEventListener('keydown', e => {
    if (e.key === 'Enter') middle(el);
    else if (e.key === 'PageDown' || e.key === ']') step(1);
    else if (e.key === 'PageUp' || e.key === '[') step(-1);
    else return;
    e.preventDefault();
  });
  addEventListener('keydown', e => { if (e.key === 'Escape') close(); });

  // ---- controls ----

  function find(text) {
    const run = page.run, number = /^#?(\d+)$/.exec(text.trim());
    if (number && run.byNumber.has(+number[1])) return select(run.byNumber.get(+number[1]), true);
    const want = text.trim().toLowerCase();
    for (let k = 1; want && k <= run.n; k++) {
      const i = (Math.max(page.selected, -1) + k) % run.n;
      if (short(i).toLowerCase().includes(want)) return select(i, true);
    }
    say([element('h2', { textContent: 'Nothing is called ' + text })]);
  }
  const legend = (id, list) => $(id).replaceChildren(...list.map(([colour, name]) => {
    const i = element('i'); i.style.background = colour;
    return element('span', {}, i, name);
  }));
  async function choose(k, view) {
    root.dataset.ready = '';
    const run = await openRun(data[k]);
    Object.assign(page, { run, selected: -1, bytes: -1, rows: { y0: 0, y1: Math.max(run.total, 1) } });
    $('lead').textContent = [`by the clock of ${run.clock}: ${span(run.until - run.first)}`, ...run.figures.map(f => `${f.Name} ${f.Value}`)].join(' · ');
    const folded = run.fold ? [`${count(run.folded)} events: what a lane has of one kind within ${span(run.fold)} is drawn as one.`] : [];
    $('notes').replaceChildren(...[...folded, ...run.notes].map(n => element('li', { textContent: n })));
    const groups = [...new Set(run.lanes.map(l => l.group))];
    $('groups').replaceChildren(...groups.map(g => {
      const box = element('input', { type: 'checkbox', checked: !page.lanes.hidden.has(g) });
      box.addEventListener('change', () => { box.checked ? page.lanes.hidden.delete(g) : page.lanes.hidden.add(g); page.lanes.lay(); page.redraw(); });
      return element('label', {}, box, ' ' + g);
    }));
    const used = new Set(run.kind);
    legend('kinds', run.kinds.map((name, i) => [i, name]).filter(([i, name]) => used.has(i) && name !== 'command').map(([, name]) => [tones[name][0], name]).concat([['linear-gradient(90deg, ' + tones.command.slice(0, 4).join(',') + ')', 'command, a colour for each kernel or kind']], run.partFrom.length ? [['var(--accent)', 'on the critical path']] : []));
    const many = run.sets.some(s => s.length > 1);
    legend('sets', [...new Set(run.sets.flat())].sort((a, b) => a - b).slice(0, 24).map(m => [page.held.tone(m), memory(m)]).concat(many ? [['repeating-linear-gradient(45deg, #4c78a8 0 3px, #e0812b 3px 6px)', 'several']] : [],
      run.sets.some(s => !s.length) ? [['rgb(120,20,30)', 'lost']] : []));
    $('panel').hidden = true;
    page.lanes.lay();
    look(view ?? whole());
  }
  // show shows other data. Who saw all sees all of it, who saw the end goes on with it, who looks elsewhere stays there.
  page.show = now => {
    const was = page.run, v = page.view, k = was ? Math.max(now.findIndex(r => r.title === was.title), 0) : 0;
    data = now;
    canvas.options($('run'), data.map((r, i) => [String(i), r.title]), String(k));
    $('runs').hidden = data.length < 2;
    for (const id of ['controls', 'stage']) $(id).hidden = !data.length;
    if (!data.length) return;
    if (!was || v.x0 <= was.first && v.x1 >= was.until) return choose(k);
    const by = v.x1 >= was.until ? now[k].until - was.until : 0;
    return choose(k, { x0: v.x0 + by, x1: v.x1 + by });
  };
  $('run').addEventListener('change', e => choose(+e.target.value));
  $('whole').addEventListener('click', () => look(whole()));
  $('close').addEventListener('click', close);
  $('find').addEventListener('submit', e => { e.preventDefault(); find($('query').value); });
  window.page = page; // for tests, and for who looks closer
  Object.assign(page, { look, select, selectBytes, clicked, reveal });

  const asWanted = new URLSearchParams(location.hash.slice(1)); // #run=1&x0=…&x1=…&event=…
  if ($('live')) {
    page.show(data);
    follow(page);
  } else page.show(data).then(() => asWanted.has('run') && choose(+asWanted.get('run'))).then(() => {
    if (asWanted.has('x0')) look({ x0: +asWanted.get('x0'), x1: +asWanted.get('x1') });
    if (asWanted.has('find')) find(asWanted.get('find'));
  });
})();
