// While something runs: how it goes, by server-sent events, and its picture, whenever there is a newer one that is wanted.
function follow(page) {
  const { $, root, count, span } = canvas, source = new EventSource('events');
  let have = '0', busy = false, state = null, lost = 0;
  const seconds = s => span(Math.round(s) * 1e9);

  async function picture() {
    busy = true;
    try {
      const got = await fetch('data');
      if (!got.ok) return;
      const data = await got.json();
      if (state.ended) source.close();
      if (!$('panel').hidden) await new Promise(done => { page.closed = done; });
      have = got.headers.get('Godwit-Version');
      await page.show(data);
      root.dataset.version = have;
    } finally { busy = false; }
  }
  function say(text, bad) { $('state').textContent = text; $('state').className = bad ? 'lost' : ''; }
  function told(s) {
    state = s;
    lost += s.missed;
    say([
      s.ended ? s.why || 'It has ended.' : s.paused ? 'paused' : s.stage, s.total > 0 ? `${count(s.done)} of ${count(s.total)}` : s.done ? count(s.done) : '', ...s.facts.map(f => `${f.value} ${f.name}`),
      `${seconds(s.elapsed)} gone`, s.eta >= 0 && !s.ended && !s.paused ? `about ${seconds(s.eta)} left` : '', lost ? `${count(lost)} states were missed` : '',
      s.version !== have && !$('panel').hidden && !s.ended ? 'the picture waits until the panel is closed' : '',
    ].filter(x => x).join(' · '));
    $('done').hidden = s.ended || !(s.total > 0);
    if (s.total > 0) Object.assign($('done'), { max: s.total, value: s.done });
    $('pace').hidden = !s.paces || s.ended;
    $('pause').textContent = s.paused ? 'Go on' : 'Pause';
    $('step').disabled = !s.paused;
    $('clock').textContent = s.paces ? 'virtual time ' + span(s.now, 8) : '';
    tables(s.tables);
    root.dataset.state = JSON.stringify(s);
    if (s.ended && s.version === have) source.close();
    if (s.version !== have && !busy && (s.ended || $('panel').hidden)) return picture();
  }
  function tables(list) {
    const text = JSON.stringify(list), cell = (name, text) => Object.assign(document.createElement(name), { textContent: text });
    const row = (name, cells) => { const tr = document.createElement('tr'); tr.append(...cells.map(c => cell(name, c))); return tr; };
    if ($('tables').dataset.text === text) return;
    $('tables').dataset.text = text;
    $('tables').replaceChildren(...list.filter(t => t.rows).map(t => {
      const table = document.createElement('table'), head = document.createElement('thead'), body = document.createElement('tbody');
      head.append(row('th', t.header));
      body.append(...t.rows.map(r => row('td', r)));
      table.append(cell('caption', t.title), head, body);
      return table;
    }));
  }
  source.onmessage = e => {
    const s = JSON.parse(e.data);
    if (s.ended && busy) setTimeout(() => source.onmessage(e), 50); // the last picture comes behind the one that is under way
    else told(s);
  };
  source.onerror = () => { if (!state?.ended) say('The connection is lost: what ran has gone, or does not answer. This is what it was.', true); };
  const pace = what => fetch('pace', { method: 'POST', body: what });
  $('pause').addEventListener('click', () => pace(state.paused ? 'go' : 'pause'));
  $('step').addEventListener('click', () => pace('step'));
}
