// The tags: a page of them at a time, with what this node holds of each.

/** What ids of a tag were gone when, to measure its rate from one answer to the next. */
const seen = new Map();
const SEEN_MAX = 1000;
/** A rate is measured over so long at least, and old measures fade over about as many. */
const MEASURE_MS_MIN = 800;

/** How fast a tag is used, and how long what is held lasts. Before the second answer the node's own average counts. */
function pace(tag) {
  const buffer = tag.buffer;
  if (!buffer) return { rate: null, lastsS: null, grabS: null, waiting: 0 };
  const now = Date.now();
  const gone = Number(buffer.handed_out);
  let known = seen.get(tag.tag);
  if (!known || gone < known.gone) {
    known = { gone, at: now, rate: buffer.rate };
    seen.set(tag.tag, known);
    if (seen.size > SEEN_MAX) seen.delete(seen.keys().next().value);
  } else if (now - known.at >= MEASURE_MS_MIN) {
    const measured = ((gone - known.gone) * 1000) / (now - known.at);
    const far = measured > known.rate * 3 || measured < known.rate / 3;
    const rate = far ? measured : known.rate * 0.6 + measured * 0.4;
    Object.assign(known, { gone, at: now, rate: rate < 0.005 ? 0 : rate });
  }
  const { rate } = known;
  const lastsS = rate > 0 ? Number(buffer.held) / rate : null;
  const grabS = rate > 0 ? Number(buffer.ids_to_grab) / rate : null;
  return { rate, lastsS, grabS, waiting: buffer.waiting };
}

/** What is unusual about a tag, in a word or two each. */
function marks(tag) {
  const words = [];
  if (tag.frozen) words.push(['frozen', 'No ids of it until that is changed']);
  if (tag.buffer?.exhausted) words.push(['exhausted', 'All of its ids are reserved']);
  if (tag.order === 'strict') words.push(['strict', 'Its ids rise over the whole cluster']);
  if (tag.kind && tag.kind !== 'segment') words.push([tag.kind, tag.kind === 'sequence' ? 'A counter for each key' : 'Its kind']);
  if (tag.period) words.push([tag.period, `Begins at 1 each ${tag.period}${tag.time_zone ? `, ${tag.time_zone}` : ''}`]);
  if (tag.digits) words.push([`${tag.digits} digits`, 'In an order that nobody can guess']);
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
  const bars = cell.firstElementChild;
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
    const row = rowOf('name', 'bars', 'number slim', 'number', 'number mid', 'number slim', 'number mid', 'number wide');
    const button = element('button', 'link');
    button.type = 'button';
    button.addEventListener('click', () => this.openTag(row.dataset.key));
    row.children[0].append(element('div', 'what', button, element('span', 'marks'), element('span', 'about')));
    const bar = () => element('span', 'bar', element('i', ''));
    const bars = element('span', 'two', bar(), bar());
    bars.setAttribute('role', 'img');
    row.children[1].append(bars);
    return row;
  },

  tellRow(row, tag) {
    const [name, bars, rate, lasts, grab, held, mark, step] = row.children;
    const [button, badges, about] = name.firstElementChild.children;
    write(button, tag.tag, tag.tag);
    fill(badges, marks(tag), ([word]) => word, () => element('span', 'mark'), (badge, [word, title]) => write(badge, word, title));
    write(about, tag.description ?? '', tag.description ?? '');
    tellBars(bars, tag);
    const { buffer } = tag;
    const { rate: perS, lastsS, grabS, waiting } = pace(tag);
    write(rate, buffer ? perSecond(perS) : '');
    rate.classList.toggle('rest', !perS);
    const state = waiting ? `${compact(waiting)} wait` : lastsS !== null ? span(lastsS) : '';
    write(lasts, state, waiting ? 'Callers wait for ids now' : '');
    lasts.classList.toggle('bad', waiting > 0);
    const soon = buffer?.grabbing ? 'now' : grabS === null ? '' : span(grabS);
    write(grab, soon, buffer ? `after ${grouped(buffer.ids_to_grab)} more ids` : '');
    write(held, buffer ? grouped(buffer.held) : '');
    write(mark, tag.max_id ? grouped(tag.max_id) : '–');
    write(step, tag.step ? grouped(tag.step) : '–');
    row.classList.toggle('quiet', !buffer);
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
    const reach = (segment) => (segment ? `${grouped(segment.start)} up to ${grouped(BigInt(segment.end) - 1n)}` : 'none');
    write($('tag-title'), tag.tag);
    write($('tag-about'), tag.description ?? '');
    const facts = [
      ['max_id', tag.max_id && grouped(tag.max_id)],
      ['Step', tag.step && grouped(tag.step)],
      ['Held by', tag.held_by && `node ${tag.held_by}, the leader, alone`],
      ['Period held', buffer?.period],
      ['Next id here', buffer ? (buffer.next_id ? grouped(buffer.next_id) : 'none held yet') : tag.kind === 'sequence' ? 'held by keys' : 'none held here'],
      ['Current segment', buffer && reach(buffer.current)],
      ['Next segment', buffer && reach(buffer.upcoming)],
      ['Held', buffer && grouped(buffer.held)],
      ['Handed out here', buffer && grouped(buffer.handed_out)],
      ['Rate', buffer && perSecond(pacing.rate)],
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
