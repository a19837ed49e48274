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
