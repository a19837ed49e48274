// How many ids go out a second: of each node by what it has counted, of the cluster by their sum.

/** The picture shows so much of the past, and never less than the second. */
const TRAFFIC_MS = 300000;
const TRAFFIC_MS_MIN = 30000;
const PICTURE = { width: 150, height: 30 };

const traffic = {
  /** What each node had counted, and when it said so. */
  counted: new Map(),
  /** Ids and errors a second of each node that said so just now. */
  rates: new Map(),
  /** Ids a second of all nodes and of this one, and when they were measured, oldest first. */
  looks: [],
  /** How long requests took, as of the last look that told. */
  times: null,
  /** Within how many seconds this node answered 99 % of the latest requests for ids; `null` while that is not known. */
  within: null,

  take(cluster) {
    const at = Date.now();
    this.rates = new Map(cluster.nodes.map((node) => [node.id, this.rateOf(node, at)]).filter(([, rate]) => rate));
    if (this.rates.size === 0) return tile('traffic', 'good', '…', 'Counting.');
    const sum = (name) => [...this.rates.values()].reduce((total, rate) => total + rate[name], 0);
    const own = this.rates.get(cluster.node_id)?.ids ?? 0;
    const look = { at, all: sum('ids'), own };
    // What is measured first was so since the first answer.
    if (this.looks.length === 0) this.looks.push({ ...look, at: at - ROUND_MS });
    this.looks.push(look);
    while (at - this.looks[0].at > TRAFFIC_MS) this.looks.shift();
    const errors = sum('errors');
    const silent = cluster.nodes.filter((node) => !node.counts).map((node) => node.id);
    const notes = [
      cluster.nodes.length > 1 ? `This node ${perSecond(own)}.` : '',
      errors > 0 ? `${perSecond(errors).replace('/s', ' errors/s')}.` : 'No errors.',
      this.within === null ? '' : `99\u00a0% within ${quickly(this.within)}.`,
      silent.length ? `Without node ${list(silent)}.` : '',
    ];
    tile('traffic', 'good', perSecond(sum('ids')).replace('/s', ''), notes.filter(Boolean).join(' '));
    this.draw(cluster.nodes.length > 1);
  },

  /** What a node counted in a second since it last said so; `null` when it does not say now, or did not before. */
  rateOf(node, at) {
    if (!node.counts) return null;
    const before = this.counted.get(node.id);
    const now = { at, ids: Number(node.counts.ids), errors: Number(node.counts.errors) };
    this.counted.set(node.id, now);
    // A node that was started again counts from 0.
    if (!before || before.at >= at || now.ids < before.ids || now.errors < before.errors) return null;
    const perS = (name) => ((now[name] - before[name]) * 1000) / (at - before.at);
    return { ids: perS('ids'), errors: perS('errors') };
  },

  takeTimes(page) {
    const now = timesIn(page);
    const within = this.times && answeredWithin(this.times, now);
    // Few requests are measured. Where none was, the next look covers this time as well.
    if (this.times && within === null && now.all > this.times.all) return;
    this.times = now;
    this.within = within;
  },

  draw(hasOthers) {
    const { looks } = this;
    const top = Math.max(...looks.map((look) => look.all), 1) * 1.1;
    const [first, end] = [looks[0].at, looks.at(-1).at];
    const shown = Math.max(TRAFFIC_MS_MIN, end - first);
    const x = (at) => (PICTURE.width * (1 - (end - at) / shown)).toFixed(1);
    const y = (rate) => (PICTURE.height - 1 - (PICTURE.height - 2) * (rate / top)).toFixed(1);
    const line = (of) => looks.map((look) => `${x(look.at)},${y(look[of])}`).join(' ');
    $('traffic-line').setAttribute('points', line('all'));
    $('traffic-own').setAttribute('points', hasOthers ? line('own') : '');
    const words = hasOthers ? 'Ids a second of all nodes, and of this one below' : 'Ids a second';
    $('traffic-picture').setAttribute('aria-label', `${words}, in the last ${span((end - first) / 1000)}, up to ${perSecond(top / 1.1)}`);
  },
};

/** What a page of metrics says of requests for ids: how many there were, and how many took at most so many seconds. */
function timesIn(page) {
  const times = { all: 0, request: new Map(), burst: new Map() };
  for (const [, name, labels, digits] of page.matchAll(/^mintleaf_(\w+)\{(.*)\} (\d+)$/gm)) {
    if (labels.includes('mode="admin"')) continue;
    if (/^(http_requests|resp_commands)_total$/.test(name)) times.all += Number(digits);
    const of = times[/^(request|burst)_seconds_bucket$/.exec(name)?.[1]];
    const bound = Number(/le="([^"]+)"/.exec(labels)?.[1].replace('+Inf', 'Infinity'));
    of?.set(bound, (of.get(bound) ?? 0) + Number(digits));
  }
  return times;
}

/**
 * Within how many seconds 99 % of the requests between two looks were answered; `null` where none was measured. Those that
 * were answered from what is held are measured in samples: they took as long as these.
 */
function answeredWithin(before, now) {
  const since = (name) => [...now[name]].map(([bound, count]) => [bound, count - (before[name].get(bound) ?? 0)]);
  const upTo = (counts, bound) => counts.findLast(([each]) => each <= bound)?.[1] ?? 0;
  const [waited, sampled] = [since('request'), since('burst')];
  const [waits, samples] = [waited, sampled].map((counts) => upTo(counts, Infinity));
  // A node that was started again counts from 0.
  if (now.all < before.all || waits < 0 || samples < 0) return null;
  const held = Math.max(0, now.all - before.all - waits);
  if (waits + held === 0 || waits + samples === 0) return null;
  const bounds = (samples ? [...waited, ...sampled] : waited).map(([bound]) => bound).sort((one, other) => one - other);
  const heldUpTo = (bound) => (samples ? (held * upTo(sampled, bound)) / samples : held);
  return bounds.find((bound) => upTo(waited, bound) + heldUpTo(bound) >= 0.99 * (waits + held));
}

/** A short time in seconds; what took longer than all bounds took more than a second. */
function quickly(seconds) {
  if (seconds === Infinity) return 'more than 1 s';
  return seconds < 0.001 ? `${Math.round(seconds * 1e6)} µs` : lately(seconds * 1000);
}
