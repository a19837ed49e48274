// Worker ids, the decoder, and what administrators did.

const WORKERS_SHOWN_MAX = 12;

function takeWorkers(view) {
  pools.takeAll(view.pools);
  const order = { held: 0, expired: 1, released: 2 };
  const all = [...view.workers].sort((one, other) => order[one.state] - order[other.state] || one.worker_id - other.worker_id);
  const shown = all.slice(0, WORKERS_SHOWN_MAX);
  const held = all.filter((worker) => worker.state === 'held').length;
  write($('workers-note'), `${grouped(held)} of ${grouped(view.worker_ids)} held · ${view.layout} · windows up to ${span(view.window_ms_max / 1000)}`, `pool ${view.pool}, epoch ${exactTime(view.epoch_ms)}`);
  fill($('workers-rows'), shown, (worker) => worker.worker_id, () => {
    const row = rowOf('', '', '', 'number');
    row.children[1].append(element('span', 'state'));
    return row;
  }, (row, worker) => {
    const [id, state, node, ends] = row.children;
    write(id, grouped(worker.worker_id));
    const isLost = overview.cluster?.nodes.some((node) => node.id === worker.node_id && !node.reachable);
    state.firstElementChild.dataset.state = worker.state === 'held' && !isLost ? 'good' : 'rest';
    const grant = worker.boot ? `grant ${worker.boot}` : '';
    write(state.firstElementChild, worker.state, isLost ? `${grant}, of a node that cannot be reached` : grant);
    write(node, `node ${worker.node_id}`);
    write(ends, until(worker.fence_ms), exactTime(worker.fence_ms));
    row.classList.toggle('quiet', worker.state !== 'held');
  });
  show($('workers-more'), all.length > shown.length);
  write($('workers-more'), `and ${grouped(all.length - shown.length)} more, which /v1/workers lists`);
}

async function decode(text) {
  const fault = $('decode-fault');
  const id = text.replace(/[\s,_']/g, '');
  const wrong = (why) => {
    show($('decoded'), false);
    write(fault, why);
    show(fault, true);
  };
  if (!/^[0-9]{1,19}$/.test(id)) return wrong('An id is a number of up to 19 digits.');
  try {
    const parts = await ask(`/v1/snowflake/${id}`);
    show(fault, false);
    write($('decoded-time'), `${exactTime(parts.timestamp_ms)}, ${ago(parts.timestamp_ms).replace(/^>/, 'more than ')}`);
    write($('decoded-worker'), grouped(parts.worker_id));
    write($('decoded-sequence'), grouped(parts.sequence));
    show($('decoded'), true);
  } catch (error) {
    wrong(error instanceof Refusal ? `Refused: ${error.message}` : `${nodeName()} does not answer.`);
  }
}

/** What a change changed, as `step 1,000 → 5,000`. */
function difference({ before, after }) {
  const value = (of) => (of === null || of === undefined || of === '' ? 'none' : /^\d+$/.test(String(of)) ? grouped(of) : String(of));
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])];
  const parts = names.map((name) => {
    const [was, is] = [before?.[name], after?.[name]];
    if (before && after && name in before && name in after) return was === is ? null : `${name} ${value(was)} → ${value(is)}`;
    return is === null || was === null || is === '' || was === '' || is === false || was === false ? null : `${name} ${value(is ?? was)}`;
  });
  return parts.filter(Boolean).join(', ');
}

const changes = {
  /** Where the page begins that is shown; `null` for the newest. */
  after: null,
  next: null,

  path() {
    const query = new URLSearchParams({ consistency: 'stale', sort: 'newest', limit: 10 });
    if (this.after !== null) query.set('after', this.after);
    return `/v1/audit?${query}`;
  },

  take(page) {
    this.next = page.next;
    fill($('changes-rows'), page.entries, (entry) => entry.index, () => rowOf('time', 'action', 'target', 'slim', 'slim quiet diff'), (row, entry) => {
      const [time, action, target, actor, diff] = row.children;
      const at = Date.parse(entry.time);
      write(time, ago(at), exactTime(at));
      write(action, entry.action, `entry ${entry.index}`);
      write(target, entry.target, entry.target);
      write(actor, entry.actor);
      write(diff, difference(entry), difference(entry));
    });
    show($('changes-empty'), page.entries.length === 0);
    show($('changes-pager'), this.after !== null || page.next !== null);
    $('changes-newest').disabled = this.after === null;
    $('changes-older').disabled = page.next === null;
  },

  turnTo(after) {
    this.after = after;
    rounds.now(sources.changes);
  },
};
