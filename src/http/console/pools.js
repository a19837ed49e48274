// Pools of worker ids for programs: how many of each are leased, and by whom.

/** Leases that the dialog shows; /v1/pools/{pool} has pages of them. */
const HOLDERS_SHOWN_MAX = 200;

const pools = {
  /** The pool whose leases are shown. */
  open: null,

  takeAll(all) {
    show($('pools'), all.length > 0);
    fill($('pools-rows'), all, (pool) => pool.pool, () => {
      const row = rowOf('pool', 'number', 'number', 'number');
      const button = element('button', 'link');
      button.type = 'button';
      button.addEventListener('click', () => this.openPool(row.dataset.key));
      row.children[0].append(button);
      return row;
    }, (row, pool) => {
      const [name, leased, taken, ends] = row.children;
      write(name.firstElementChild, pool.pool, pool.pool);
      write(leased, `${grouped(pool.leased)} of ${grouped(pool.size)}`, `worker ids ${pool.workers}`);
      leased.classList.toggle('warn', pool.leased + pool.taken >= pool.size);
      write(taken, pool.taken ? grouped(pool.taken) : '–');
      write(ends, pool.first_end_ms ? until(pool.first_end_ms) : '–', pool.first_end_ms ? exactTime(Number(pool.first_end_ms)) : '');
    });
  },

  openPool(name) {
    this.open = name;
    write($('pool-title'), name);
    write($('pool-about'), '…');
    $('holders-rows').replaceChildren();
    show($('pool-fault'), false);
    show($('holders-empty'), false);
    $('pool-dialog').showModal();
    rounds.now(sources.holders);
  },

  path() {
    return this.open === null ? null : `/v1/pools/${encodeURIComponent(this.open)}?limit=${HOLDERS_SHOWN_MAX}`;
  },

  take(page) {
    const taken = page.taken.length ? `, ${grouped(page.taken.length)} in use without a lease` : '';
    const more = page.next === null ? '' : `; the first ${grouped(HOLDERS_SHOWN_MAX)} leases are shown`;
    write($('pool-about'), `Worker ids ${page.workers}${taken}${more}`);
    show($('holders-empty'), page.holders.length === 0);
    fill($('holders-rows'), page.holders, (holder) => holder.worker_id, () => rowOf('', 'holder', 'time', 'number'), (row, holder) => {
      const [id, name, from, ends] = row.children;
      write(id, grouped(holder.worker_id));
      write(name, holder.holder || '–', holder.holder);
      write(from, ago(Number(holder.from_ms)), exactTime(Number(holder.from_ms)));
      write(ends, until(holder.until_ms), exactTime(Number(holder.until_ms)));
    });
  },
};

/** How long it is until a time in Unix milliseconds. */
const until = (ms) => {
  const away = (Number(ms) - nodeNow()) / 1000;
  return away > 0 ? `in ${span(away)}` : `${span(-away)} ago`;
};
