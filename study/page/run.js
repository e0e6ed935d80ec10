// A run, unpacked: columns of events, lanes with their items, and who waited for whom.
async function openRun(d) {
  const c = {};
  await Promise.all(Object.entries(d.columns).map(async ([name, text]) => { c[name] = await canvas.floats(text); }));
  const texts = await canvas.json(d.texts), n = c.kind.length, chunks = new Map();
  const run = { ...d, ...c, n, text: (column, i) => texts[c[column][i]] };

  let item = 0, level = 0;
  run.lanes = d.lanes.map((l, index) => {
    const to = item + l.items, until = level + l.levels, of = name => c[name].subarray(item, to);
    const lane = {
      ...l, index, event: of('itemEvent'), from: of('itemFrom'), to: of('itemTo'), busy: of('itemBusy'), bytes: of('itemBytes'), row: of('itemRow'),
      levelAt: c.levelAt.subarray(level, until), levelBytes: c.levelBytes.subarray(level, until),
    };
    lane.last = Float64Array.from(lane.to); // the latest end so far: where to begin with what is in sight
    for (let i = 1; i < lane.last.length; i++) lane.last[i] = Math.max(lane.last[i], lane.last[i - 1]);
    lane.scale = l.capacity;
    if (l.group === 'Memories') for (const b of lane.levelBytes) lane.scale = Math.max(lane.scale, b);
    item = to; level = until;
    return lane;
  });

  // Where an event is drawn first of all: in the lane of its queue, or its memory.
  run.lane = new Int32Array(n).fill(-1);
  run.item = new Int32Array(n).fill(-1);
  for (const lane of [...run.lanes].sort((a, b) => shown(a) - shown(b))) {
    if (lane.group === 'Critical path') continue;
    for (let i = 0; i < lane.event.length; i++) { run.lane[lane.event[i]] = lane.index; run.item[lane.event[i]] = i; }
  }
  function shown(l) { return ['Links', 'Engines', 'Host', 'Memories', 'Copies', 'Queues'].indexOf(l.group); }

  run.before = listed(n, c.waitEvent, c.waitFor);
  run.behind = listed(n, c.waitFor, c.waitEvent);
  run.uses = listed(n, c.useEvent, c.useEvent.map((_, i) => i));
  run.parts = listed(n, c.partEvent, c.partEvent.map((_, i) => i));
  run.byNumber = new Map();
  run.copyAt = new Map();
  run.evictionAt = new Map();
  for (let i = 0; i < n; i++) {
    const kind = d.kinds[c.kind[i]];
    if (kind === 'command' && !run.byNumber.has(c.number[i])) run.byNumber.set(c.number[i], i);
    if (c.index[i] >= 0) ({ eviction: run.evictionAt, copy: run.copyAt, 'write-back': run.copyAt })[kind]?.set(c.index[i], i);
  }
  run.onPath = i => run.parts(i).reduce((sum, p) => sum + c.partTo[p] - c.partFrom[p], 0);
  run.total = d.buffers.reduce((sum, b) => sum + b.size, 0);

  // row is what --json says of an event.
  run.row = async i => {
    const k = Math.floor(i / d.rowsEach);
    if (!chunks.has(k)) chunks.set(k, canvas.json(d.rows[k]));
    return (await chunks.get(k))[i % d.rowsEach];
  };
  return run;
}

// listed gives for each of n keys the values that go with it.
function listed(n, keys, values) {
  const start = new Int32Array(n + 1), out = new Int32Array(keys.length);
  for (const k of keys) if (k >= 0) start[k + 1]++;
  for (let i = 0; i < n; i++) start[i + 1] += start[i];
  const next = start.slice();
  for (let i = 0; i < keys.length; i++) if (keys[i] >= 0) out[next[keys[i]]++] = values[i];
  return k => [...out.subarray(start[k], start[k + 1])];
}

// firstAfter is the first place of a sorted list that is greater than x.
function firstAfter(list, x) {
  let lo = 0, hi = list.length;
  while (lo < hi) { const mid = (lo + hi) >> 1; if (list[mid] > x) hi = mid; else lo = mid + 1; }
  return lo;
}
