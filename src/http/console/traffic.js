// How many ids go out: of this node by its counters, of the cluster by what the log reserves.

/** The picture shows so much of the past, and never less than the second. */
const TRAFFIC_MS = 300000;
const TRAFFIC_MS_MIN = 30000;
const PICTURE = { width: 150, height: 30 };

/** The sum of a counter over all its labels, in a page for Prometheus. */
function counted(page, name) {
  let sum = 0;
  for (const line of page.split('\n')) {
    if (line.startsWith(`${name}{`) || line.startsWith(`${name} `)) sum += Number(line.slice(line.lastIndexOf(' ') + 1));
  }
  return sum;
}

const traffic = {
  /** Counters and when they were read, oldest first. */
  looks: [],

  take(page) {
    const look = { at: Date.now(), ids: counted(page, 'mintleaf_ids_total'), errors: counted(page, 'mintleaf_errors_total'), reserved: counted(page, 'mintleaf_ids_reserved_total') };
    const last = this.looks.at(-1);
    // The node was started again: its counters began at 0.
    if (last && look.ids < last.ids) this.looks = [];
    this.looks.push(look);
    while (look.at - this.looks[0].at > TRAFFIC_MS) this.looks.shift();
    this.tell();
  },

  /** What a counter rose by in a second, from the look `from` to the last one. */
  rate(name, from) {
    const [one, other] = [this.looks.at(from), this.looks.at(-1)];
    return ((other[name] - one[name]) * 1000) / (other.at - one.at);
  },

  tell() {
    if (this.looks.length < 2) return tile('traffic', 'good', '…', 'Counting.');
    const errors = this.rate('errors', -2);
    const seconds = (this.looks.at(-1).at - this.looks[0].at) / 1000;
    const wrong = errors > 0 ? perSecond(errors).replace('/s', ' errors/s') : 'No errors';
    const all = `All nodes reserved ${perSecond(this.rate('reserved', 0))} in ${span(seconds)}`;
    tile('traffic', 'good', perSecond(this.rate('ids', -2)).replace('/s', ''), `${wrong}. ${all}.`);
    this.draw(seconds);
  },

  draw(seconds) {
    const rates = this.looks.slice(1).map((look, at) => {
      const before = this.looks[at];
      return { at: look.at, rate: ((look.ids - before.ids) * 1000) / (look.at - before.at) };
    });
    const top = Math.max(...rates.map((each) => each.rate), 1) * 1.1;
    const end = this.looks.at(-1).at;
    const shown = Math.max(TRAFFIC_MS_MIN, end - this.looks[0].at);
    const x = (at) => (PICTURE.width * (1 - (end - at) / shown)).toFixed(1);
    const y = (rate) => (PICTURE.height - 1 - (PICTURE.height - 2) * (rate / top)).toFixed(1);
    const line = [`${x(this.looks[0].at)},${y(rates[0].rate)}`, ...rates.map((each) => `${x(each.at)},${y(each.rate)}`)].join(' ');
    $('traffic-line').setAttribute('points', line);
    $('traffic-picture').setAttribute('aria-label', `Ids a second in the last ${span(seconds)}, up to ${perSecond(top / 1.1)}`);
  },
};
