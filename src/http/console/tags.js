// The tags: a page of them at a time, with what this node holds of each.

/** What ids of a tag were gone when, to measure its rate from one answer to the next. */
const seen = new Map();
const SEEN_MAX = 1000;
/** A rate is measured over so long at least, and old measures fade over about as many. */
const MEASURE_MS_MIN = 800;

/** How fast a tag is used, and how long what is held lasts: measured once for each answer about it. */
const pace = (tag) => (tag.pace ??= paceOf(tag));

/** Before the second answer the node's own average counts. */
function paceOf(tag) {
  const buffer = tag.buffer;
  const taken = buffer ? buffer.handed_out : tag.taken_here;
  if (taken === null) return { rate: null, lastsS: null, grabS: null, waiting: 0 };
  const now = Date.now();
  const gone = Number(taken);
  const key = `${tag.tag}/${buffer ? 'held' : 'taken'}`;
  let known = seen.get(key);
  if (!known || gone < known.gone) {
    known = { gone, at: now, rate: buffer ? buffer.rate : 0 };
    seen.set(key, known);
    if (seen.size > SEEN_MAX) seen.delete(seen.keys().next().value);
  } else if (now - known.at >= MEASURE_MS_MIN) {
    const measured = ((gone - known.gone) * 1000) / (now - known.at);
    const far = measured > known.rate * 3 || measured < known.rate / 3;
    const rate = far ? measured : known.rate * 0.6 + measured * 0.4;
    Object.assign(known, { gone, at: now, rate: rate < 0.005 ? 0 : rate });
  }
  const { rate } = known;
  if (!buffer) return { rate, lastsS: null, grabS: null, waiting: 0 };
  const lastsS = rate > 0 ? Number(buffer.held) / rate : null;
  const grabS = rate > 0 ? Number(buffer.ids_to_grab) / rate : null;
  return { rate, lastsS, grabS, waiting: buffer.waiting };
}

/** What no node has reserved of a tag, or of its latest period; `null` for a sequence and a register, which count by key. */
function leftOf(tag) {
  if (tag.kind === 'sequence' || tag.kind === 'register') return null;
  const end = tag.digits ? 9n * 10n ** BigInt(tag.digits - 1) + 1n : 2n ** 63n;
  const ids = end > BigInt(tag.max_id) ? end - BigInt(tag.max_id) : 0n;
  return { ids, part: ids === end - 1n ? 1 : Number(ids) / Number(end) };
}

/** How many more keys the registers may have, all of them together. */
function keysLeft(page) {
  const [keys, max] = [Number(page.register_keys), Number(page.register_keys_max)];
  return { ids: Math.max(0, max - keys), part: Math.max(0, max - keys) / max };
}

const KINDS = { sequence: 'A counter for each key', register: 'Numbers without a gap, each given to a key for good' };

/** What is unusual about a tag, in a word or two each. */
function marks(tag) {
  const words = [];
  if (tag.frozen) words.push(['frozen', 'No ids of it until that is changed', 'warn']);
  if (tag.buffer?.exhausted || leftOf(tag)?.part === 0) words.push(['exhausted', 'All of its ids are reserved', 'bad']);
  if (tag.order === 'strict') words.push(['strict', 'Its ids rise over the whole cluster']);
  if (tag.kind && tag.kind !== 'segment') words.push([tag.kind, KINDS[tag.kind] ?? 'Its kind']);
  if (tag.period) words.push([tag.period, `Begins at 1 each ${tag.period}${tag.time_zone ? `, ${tag.time_zone}` : ''}`]);
  if (tag.digits) words.push([`${tag.digits} digits`, 'In an order that cannot be guessed']);
  if (tag.format) words.push([tag.format, 'What clients get']);
  if (tag.rate_limit) words.push([`≤ ${compact(tag.rate_limit)}/s`, `${grouped(tag.rate_limit)} ids a second on each node`]);
  return words;
}

const left = (span, next) => Number(BigInt(span.end) - BigInt(next));
const size = (span) => Number(BigInt(span.end) - BigInt(span.start));

/** How full the two buffers are, 0 to 1 each; `null` where there is none. */
function levels(buffer) {
  if (!buffer?.current) return [null, null];
  return [left(buffer.current, buffer.next_id) / size(buffer.current), buffer.upcoming ? 1 : 0];
}

function tellBars(cell, tag) {
  const [bars, place] = cell.children;
  // Only the leader holds ids of a strict tag, and only by key those of a sequence. Of a register nothing is held.
  const elsewhere = tag.buffer ? null : tag.kind === 'sequence' ? 'by key' : tag.kind === 'register' ? `${grouped(tag.keys)} ${tag.keys === '1' ? 'key' : 'keys'}` : tag.order === 'strict' ? (tag.held_by ? `on node ${tag.held_by}, the leader` : 'on the leader') : null;
  show(bars, !elsewhere);
  show(place, Boolean(elsewhere));
  write(place, elsewhere ?? '');
  const [current, next] = levels(tag.buffer);
  [current, next].forEach((level, at) => {
    const bar = bars.children[at];
    bar.classList.toggle('none', level === null);
    const width = `${Math.round(Math.max(0, Math.min(1, level ?? 0)) * 1000) / 10}%`;
    if (bar.firstElementChild.style.width !== width) bar.firstElementChild.style.width = width;
  });
  const words = current === null ? 'nothing held here' : `${Math.round(current * 100)} % of the current segment left, ${next ? 'the next one held' : tag.buffer.grabbing ? 'the next one on its way' : 'no next one held'}`;
  if (bars.getAttribute('aria-label') !== words) {
    bars.setAttribute('aria-label', words);
    bars.title = words;
  }
}

const tags = {
  prefix: '',
  sort: 'name',
  size: 20,
  /** Where the pages before this one began. */
  before: [],
  after: null,
  next: null,
  page: null,
  open: null,

  path() {
    const query = new URLSearchParams({ consistency: 'stale', limit: this.size });
    if (this.prefix) query.set('prefix', this.prefix);
    if (this.sort === 'need') query.set('sort', 'need');
    else if (this.after !== null) query.set('after', this.after);
    return `/v1/buffers?${query}`;
  },

  ask() {
    rounds.now(sources.tags);
  },

  turnTo(change) {
    Object.assign(this, { before: [], after: null }, change);
    this.ask();
  },

  on() {
    if (this.sort !== 'name' || this.next === null) return;
    this.before.push(this.after);
    this.after = this.next;
    this.next = null;
    this.ask();
  },

  back() {
    if (!this.before.length) return;
    this.after = this.before.pop();
    this.ask();
  },

  take(page) {
    this.page = page;
    this.next = page.next;
    write($('tags-note'), page.total === 1 ? '1 tag' : `${grouped(page.total)} tags`);
    fill($('tags-rows'), page.tags, (tag) => tag.tag, () => this.newRow(), (row, tag) => this.tellRow(row, tag));
    this.tellPager(page);
    this.tellEmpty(page);
    if (this.open) this.tellOpen(page.tags.find((tag) => tag.tag === this.open));
  },

  newRow() {
    const row = rowOf('name', 'bars', 'number slim', 'number', 'number mid', 'number slim', 'number', 'number mid', 'number wide');
    const button = element('button', 'link');
    button.type = 'button';
    button.addEventListener('click', () => this.openTag(row.dataset.key));
    row.children[0].append(element('div', 'what', button, element('span', 'marks'), element('span', 'about')));
    const bar = () => element('span', 'bar', element('i', ''));
    const bars = element('span', 'two', bar(), bar());
    bars.setAttribute('role', 'img');
    row.children[1].append(bars, element('span', 'quiet'));
    return row;
  },

  tellRow(row, tag) {
    const [name, bars, rate, lasts, grab, held, left, mark, step] = row.children;
    const [button, badges, about] = name.firstElementChild.children;
    write(button, tag.tag, tag.tag);
    fill(badges, marks(tag), ([word]) => word, () => element('span', 'mark'), (badge, [word, title, state]) => {
      write(badge, word, title);
      badge.dataset.state = state ?? '';
    });
    write(about, tag.description ?? '', tag.description ?? '');
    tellBars(bars, tag);
    const { buffer } = tag;
    const { rate: perS, lastsS, grabS, waiting } = pace(tag);
    const here = !buffer && tag.taken_here !== null;
    write(rate, buffer || here ? perSecond(perS) : '', here ? 'To callers of this node' : '');
    rate.classList.toggle('rest', !perS);
    const state = waiting ? `${compact(waiting)} wait` : lastsS !== null ? span(lastsS) : '';
    write(lasts, state, waiting ? 'Callers wait for ids now' : '');
    lasts.classList.toggle('bad', waiting > 0);
    const soon = buffer?.grabbing ? 'now' : grabS === null ? '' : span(grabS);
    write(grab, soon, buffer ? `after ${grouped(buffer.ids_to_grab)} more ids` : '');
    write(held, buffer ? grouped(buffer.held) : '');
    const keys = tag.kind === 'register' ? keysLeft(this.page) : null;
    const rest = keys ?? leftOf(tag);
    const what = keys ? 'more keys in all registers' : 'ids';
    write(left, rest ? share(rest.part) : '–', rest ? `${grouped(rest.ids)} ${what}` : 'Each key counts by itself');
    left.classList.toggle('warn', Boolean(rest) && rest.part > 0 && rest.part < LEFT_WARN);
    left.classList.toggle('bad', rest?.part === 0);
    left.classList.toggle('rest', !rest || rest.part >= LEFT_WARN);
    write(mark, rest ? grouped(tag.max_id) : '–');
    write(step, tag.step ? grouped(tag.step) : '–');
    row.classList.toggle('quiet', !buffer && !here);
  },

  tellPager(page) {
    const first = this.before.length === 0;
    show($('tags-pager'), this.sort === 'name' && (!first || page.next !== null));
    $('tags-first').disabled = first;
    $('tags-back').disabled = first;
    $('tags-on').disabled = page.next === null;
    const from = page.tags[0]?.tag;
    const to = page.tags.at(-1)?.tag;
    write($('tags-where'), from ? `Page ${this.before.length + 1}: ${shortened(from)} to ${shortened(to)}` : `Page ${this.before.length + 1}`);
  },

  tellEmpty(page) {
    const empty = $('tags-empty');
    show(empty, page.tags.length === 0);
    if (page.tags.length) return;
    if (this.sort === 'need') write(empty, this.prefix ? `No tag that begins with “${this.prefix}” is in use on this node.` : 'No tag is in use on this node.');
    else if (this.prefix) write(empty, `No tag begins with “${this.prefix}”.`);
    else if (page.total === 0) empty.replaceChildren('No tags yet. Make the first one: ', element('code', '', 'mintleaf tag create orders'));
    else write(empty, 'No tags on this page.');
  },

  openTag(name) {
    this.open = name;
    this.tellOpen(this.page.tags.find((tag) => tag.tag === name));
    $('tag-dialog').showModal();
  },

  tellOpen(tag) {
    if (!tag) return;
    const { buffer } = tag;
    const pacing = pace(tag);
    const rest = leftOf(tag);
    const reach = (segment) => (segment ? `${grouped(segment.start)} up to ${grouped(BigInt(segment.end) - 1n)}` : 'none');
    write($('tag-title'), tag.tag);
    write($('tag-about'), tag.description ?? '');
    const facts = [
      ['max_id', tag.kind !== 'sequence' && grouped(tag.max_id)],
      ['Left', rest && `${share(rest.part)}, ${grouped(rest.ids)} ids`],
      ['Keys', tag.keys && `${grouped(tag.keys)}, each with its number; all registers have ${grouped(this.page.register_keys)} of ${grouped(this.page.register_keys_max)}`],
      ['Step', tag.step && grouped(tag.step)],
      ['Held by', tag.held_by && `node ${tag.held_by}, the leader, alone`],
      ['Period held', buffer?.period],
      ['Next id here', buffer ? (buffer.next_id ? grouped(buffer.next_id) : 'none held yet') : tag.kind === 'sequence' ? 'held by keys' : tag.kind !== 'register' && 'none held here'],
      ['Current segment', buffer && reach(buffer.current)],
      ['Next segment', buffer && reach(buffer.upcoming)],
      ['Held', buffer && grouped(buffer.held)],
      ['Handed out here', buffer && grouped(buffer.handed_out)],
      ['Taken here', !buffer && tag.taken_here && grouped(tag.taken_here)],
      ['Rate', pacing.rate !== null && `${perSecond(pacing.rate)}${buffer ? '' : ', callers of this node'}`],
      ['Lasts', pacing.lastsS !== null && span(pacing.lastsS)],
      ['Next grab', buffer && `after ${grouped(buffer.ids_to_grab)} ids`],
      ['Callers that wait', buffer && buffer.waiting > 0 && grouped(buffer.waiting)],
      ['Rate limit', tag.rate_limit && `${grouped(tag.rate_limit)}/s on each node`],
      ['Frozen', tag.frozen && 'yes'],
      ['Order', tag.order], ['Kind', tag.kind], ['Period', tag.period], ['Time zone', tag.time_zone],
      ['Format', tag.format], ['Digits', tag.digits && String(tag.digits)],
      ['Created', tag.created_at && exactTime(Date.parse(tag.created_at))],
      ['Changed', tag.updated_at && exactTime(Date.parse(tag.updated_at))],
    ].filter(([, value]) => value);
    fill($('tag-facts'), facts, ([name]) => name, () => element('div', '', element('dt', ''), element('dd', '')), (row, [name, value]) => {
      write(row.firstElementChild, name);
      write(row.lastElementChild, String(value));
    });
  },
};

const shortened = (name) => ([...name].length > 28 ? `${[...name].slice(0, 27).join('')}…` : name);
