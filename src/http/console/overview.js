// What is to be seen first: the tiles, and the members.

/** Clocks that are further apart are worth a look; at the default of --max-clock-skew they are trouble. */
const CLOCK_WARN_MS = 500;
/** Syncs that take so long make every change slow. */
const SYNC_WARN_MS = 100;
const CLOCK_BAD_MS = 2000;
/** A smaller share of a tag's ids left is worth a look, here as in the log. */
const LEFT_WARN = 0.1;

const nodeName = () => (overview.cluster ? `Node ${overview.cluster.node_id}` : 'The node');

function tile(id, state, value, note, title = '') {
  const at = $(`tile-${id}`);
  at.dataset.state = state;
  write(at.querySelector('.value'), value, title);
  write(at.querySelector('.note'), note);
}

const list = (numbers) => numbers.join(', ').replace(/, ([^,]*)$/, ' and $1');

const overview = {
  cluster: null,
  leader: null,
  ready: null,
  refused: [],
  nearestEnd: null,
  /** Whether the token is not one for all tags. */
  tagsHidden: false,
  /** Tags of the last pages that are near their end: the node names only the nearest of all. */
  nearHere: [],
  /** Share of the keys that registers may have and have not; all of them share one bound. */
  keysLeft: 1,

  takeCluster(cluster) {
    this.cluster = cluster;
    // A node without a quorum may go on naming a leader that is gone.
    const named = cluster.nodes.find((node) => node.id === cluster.leader_id);
    this.leader = named?.reachable ? named : null;
    this.clocks = clocksOf(cluster.nodes);
    const own = cluster.nodes.find((node) => node.id === cluster.node_id);
    document.title = `Node ${cluster.node_id} · Mintleaf`;
    write($('whoami'), `node ${cluster.node_id}${own?.version ? ` · ${own.version}` : ''}`, cluster.cluster_id ? `cluster ${cluster.cluster_id}` : '');
    const id = cluster.cluster_id ? `cluster ${cluster.cluster_id.slice(0, 8)} · ` : '';
    write($('members-note'), `${id}term ${grouped(cluster.term)} · level ${cluster.level}`, cluster.cluster_id ?? '');
    this.tellLeader();
    this.tellClocks();
    traffic.take(cluster);
    this.tellMembers();
    this.tellHealth();
  },

  takeReady(ready) {
    this.ready = ready;
    this.tellHealth();
  },

  tellHealth() {
    const { cluster, ready } = this;
    if (!ready) return;
    const lost = this.tellWayOut(ready.reasons);
    const troubles = lost ? [lost] : ready.reasons.map((reason) => sentence(reason));
    let state = ready.ready ? (troubles.length ? 'warn' : 'good') : 'bad';
    if (cluster) {
      const lost = cluster.nodes.filter((node) => !node.reachable);
      if (lost.length) {
        const since = lost.map((node) => (node.last_heard_ms ? `node ${node.id} for ${span((nodeNow() - node.last_heard_ms) / 1000)}` : `node ${node.id} since this node started`));
        if (!troubles.length) troubles.push(`Lost: ${list(since)}.`);
        if (state === 'good') state = 'warn';
      }
      // While the voters change, a quorum is a majority of those before and of those after.
      for (const voters of cluster.voters) {
        const heard = cluster.nodes.filter((node) => voters.includes(node.id) && node.reachable).length;
        const enough = Math.floor(voters.length / 2) + 1;
        if (heard < enough && !ready.reasons.some((reason) => reason.startsWith('no_quorum'))) {
          troubles.push(`${heard} of ${voters.length} voters can be reached and ${enough} are needed.`);
        }
      }
      if (!this.leader) state = 'bad';
      const off = this.clocks.filter((clock) => Math.abs(clock.ms) >= CLOCK_WARN_MS);
      if (off.length) {
        if (state === 'good') state = 'warn';
        if (!troubles.length) troubles.push(`The clock of ${list(off.map((clock) => `node ${clock.id}`))} is off.`);
      }
    }
    let word = !ready.ready ? 'Not ready' : { good: 'All is well', warn: 'Degraded', bad: lost ? 'No quorum' : 'No leader' }[state];
    const tag = this.troubleOfTags();
    if (tag && !lost) {
      troubles.push(...tag.notes);
      if (state !== 'bad') [state, word] = [tag.state, tag.word];
    }
    const nodes = cluster?.nodes.length ?? 0;
    const calm = nodes > 1 ? `${nodes} nodes, all of them heard.` : 'This node hands out ids.';
    const hidden = this.tagsHidden ? 'How the tags are is not shown to this token.' : '';
    tile('health', state, word, [troubles.join(' ') || calm, hidden].filter(Boolean).join(' '));
  },

  /** A lost quorum in a line, for the tile; all of it, and the way out, are behind a button. */
  tellWayOut(reasons) {
    const lost = reasons.find((reason) => reason.startsWith('no_quorum'));
    show($('help-button'), Boolean(lost));
    if (lost) write($('help-reason'), wholeSentence(lost));
    else if ($('help-dialog').open) $('help-dialog').close();
    const counts = lost?.match(/(\d+ of \d+) voters can be reached and (\d+) are needed/);
    return counts ? `${counts[1]} voters reached, ${counts[2]} needed.` : lost && sentence(lost);
  },

  /** Tags that callers are refused, and the one that is nearest to its end; `null` where all are well. */
  troubleOfTags() {
    const names = (code) => this.refused.filter((each) => each.code === code).map((each) => shortened(each.tag));
    const [exhausted, frozen] = [names('exhausted'), names('frozen')];
    const nearest = this.nearestEnd ? [this.nearestEnd] : [];
    const unnamed = [...nearest, ...this.nearHere].filter((each) => !this.refused.some((refused) => refused.tag === each.tag));
    const near = unnamed.find((each) => each.left <= 0) ?? unnamed[0];
    const one = (of, text, texts) => (of.length === 1 ? text : texts);
    const notes = [];
    if (exhausted.length) notes.push(`${list(exhausted)} ${one(exhausted, 'is', 'are')} used up, and callers ask for ${one(exhausted, 'it', 'them')}.`);
    if (frozen.length) notes.push(`${list(frozen)} ${one(frozen, 'is', 'are')} frozen, and callers ask for ${one(frozen, 'it', 'them')}.`);
    const full = this.keysLeft < LEFT_WARN;
    if (full) notes.push(`Registers have ${this.keysLeft > 0 ? share(this.keysLeft) : 'none'} of their keys left (--register-keys-max).`);
    if (near) notes.push(`${shortened(near.tag)} has ${near.left > 0 ? `${share(near.left)} of its ids` : 'no ids'} left.`);
    if (exhausted.length) return { state: 'bad', word: one(exhausted, 'A tag is used up', 'Tags are used up'), notes };
    if (near?.left <= 0) return { state: 'bad', word: 'A tag is used up', notes };
    if (full && this.keysLeft <= 0) return { state: 'bad', word: 'Registers are full', notes };
    if (frozen.length) return { state: 'warn', word: 'Frozen, but in use', notes };
    if (full) return { state: 'warn', word: 'Registers fill up', notes };
    return near ? { state: 'warn', word: 'A tag nears its end', notes } : null;
  },

  tellLeader() {
    const { leader_id: last, node_id: own } = this.cluster;
    const { leader } = this;
    if (leader) tile('leader', 'good', `Node ${leader.id}`, leader.id === own ? 'This node itself.' : leader.http);
    else tile('leader', 'bad', 'None', last ? `Node ${last} led, and is lost.` : 'Nothing can be reserved.');
  },

  tellClocks() {
    const { clocks } = this;
    if (clocks.length < 2) return tile('clocks', 'good', 'One clock', 'There is no other to compare it with.');
    const worst = clocks.reduce((one, other) => (Math.abs(other.ms) > Math.abs(one.ms) ? other : one));
    const size = Math.abs(worst.ms);
    const state = size >= CLOCK_BAD_MS ? 'bad' : size >= CLOCK_WARN_MS ? 'warn' : 'good';
    const unknown = this.cluster.nodes.length - clocks.length;
    const silent = unknown ? ` ${unknown} did not say.` : '';
    if (state === 'good') tile('clocks', state, `Within ${size < 1 ? 1 : size} ms`, `${clocks.length} clocks agree.${silent}`);
    else tile('clocks', state, offset(worst.ms), `Node ${worst.id} is ${worst.ms > 0 ? 'ahead' : 'behind'}. No id repeats for that.${silent}`);
  },

  tellMembers() {
    const { nodes, leader_id: leader, node_id: own } = this.cluster;
    const head = nodes.find((node) => node.id === leader)?.last_log_index ?? null;
    fill($('members-rows'), nodes, (node) => node.id, () => {
      const row = rowOf('', '', '', 'number slim', 'number slim', 'number slim', 'number far', 'number far', 'slim', 'slim', 'address', 'wide quiet');
      row.children[0].append(element('strong', ''), ' ', element('span', 'quiet'));
      row.children[1].append(element('span', 'role'));
      row.children[2].append(element('span', 'state'));
      row.children[10].append(element('a', ''));
      return row;
    }, (row, node) => {
      const [name, role, heard, ids, lag, clock, trip, sync, version, zone, http, raft] = row.children;
      write(name.firstElementChild, String(node.id));
      write(name.lastElementChild, node.id === own ? 'this one' : '');
      write(role.firstElementChild, node.role);
      role.firstElementChild.dataset.role = node.role;
      heard.firstElementChild.dataset.state = node.reachable ? 'good' : 'bad';
      write(heard.firstElementChild, node.reachable ? 'now' : node.last_heard_ms ? ago(node.last_heard_ms) : 'never', node.last_heard_ms ? exactTime(node.last_heard_ms) : '');
      const counted = traffic.rates.get(node.id);
      write(ids, perSecond(counted?.ids ?? null), counted?.errors ? perSecond(counted.errors).replace('/s', ' errors/s') : '');
      this.tellLag(lag, node, head);
      const known = this.clocks.find((each) => each.id === node.id);
      write(clock, known ? offset(known.ms) : '–', known ? '' : 'It did not say lately');
      clock.classList.toggle('warn', Math.abs(known?.ms ?? 0) >= CLOCK_WARN_MS);
      write(trip, lately(node.rtt_ms), node.id === own ? 'this node asks itself nothing' : 'median of the last round trips from this node');
      write(sync, lately(node.sync_ms), 'what a sync of its disk takes lately');
      sync.classList.toggle('warn', (node.sync_ms ?? 0) >= SYNC_WARN_MS);
      write(version, node.version ?? '–', node.level_max ? `supports level ${node.level_max}` : '');
      write(zone, node.zone ?? '–');
      const link = http.firstElementChild;
      write(link, node.http || '–', node.id === own ? '' : 'To the console of this node');
      const address = node.http && node.id !== own ? `${location.protocol}//${node.http}/` : null;
      if (address && link.href !== address) link.href = address;
      else if (!address) link.removeAttribute('href');
      write(raft, node.raft || '–');
    });
  },

  /** Only the leader knows what the others have; every node knows what it has applied itself. */
  tellLag(cell, node, head) {
    const { node_id: own, leader_id: leader } = this.cluster;
    if (own === leader && head !== null && node.matched_index !== null) {
      write(cell, grouped(Math.max(0, head - node.matched_index)), `has ${grouped(node.matched_index)} of ${grouped(head)} entries`);
    } else if (node.id === own && node.last_log_index !== null) {
      write(cell, grouped(node.last_log_index - (node.last_applied_index ?? 0)), `has applied ${grouped(node.last_applied_index ?? 0)} of ${grouped(node.last_log_index)} entries`);
    } else write(cell, '–', leader ? `node ${leader}, the leader, knows` : '');
  },

  refuseNeed(error) {
    this.tagsHidden = error !== null;
    if (this.tagsHidden) [this.refused, this.nearestEnd, this.nearHere, this.keysLeft] = [[], null, [], 1];
    inTile('next')(error);
    this.tellHealth();
  },

  noteNear(shown) {
    const all = [...shown, ...(tags.page?.tags ?? [])].map((tag) => ({ tag: tag.tag, left: leftOf(tag)?.part ?? 1 }));
    this.nearHere = all.filter((each) => each.left < LEFT_WARN).sort((one, other) => one.left - other.left);
  },

  /** The tag that waits soonest, of those that are in use. */
  takeNeed(page) {
    this.refused = page.refused;
    this.nearestEnd = page.nearest_end;
    this.keysLeft = keysLeft(page).part;
    this.noteNear(page.tags);
    this.tellHealth();
    const first = page.tags.map((each) => ({ name: each.tag, tag: each, ...pace(each) }))
      .sort((one, other) => (other.waiting > 0) - (one.waiting > 0) || (one.lastsS ?? Infinity) - (other.lastsS ?? Infinity))[0];
    if (!first) return tile('next', 'good', 'None', 'No tag is in use on this node.');
    if (first.waiting) return tile('next', 'bad', first.name, first.waiting === 1 ? 'A caller waits for ids now.' : `${grouped(first.waiting)} callers wait for ids now.`, first.name);
    const soon = first.lastsS !== null && first.lastsS < 60 && !this.leader;
    const lasts = first.lastsS === null ? 'Nothing is taken of it now.' : `lasts ${span(first.lastsS)} at ${perSecond(first.rate)}`;
    tile('next', soon ? 'warn' : 'good', first.name, lasts, first.name);
  },

  takeLastChange(entry) {
    if (!entry) return tile('change', 'good', 'None', 'No changes yet.');
    tile('change', 'good', `${entry.action} ${entry.target}`, `${ago(Date.parse(entry.time))}, by ${entry.actor}`, `${entry.action} ${entry.target}`);
  },

  silent() {
    tile('health', 'bad', 'No answer', `${nodeName()} does not answer.`);
  },

  locked() {
    const { ready } = this;
    show($('help-button'), false);
    tile('health', ready ? (ready.ready ? 'good' : 'bad') : '', ready ? (ready.ready ? 'Ready' : 'Not ready') : 'Unknown', 'A token shows more.');
  },
};

/** How far each clock that is known is from the middle of them all. */
function clocksOf(nodes) {
  const known = nodes.filter((node) => node.clock_offset_ms !== null).map((node) => ({ id: node.id, ms: node.clock_offset_ms }));
  const sorted = known.map((clock) => clock.ms).sort((one, other) => one - other);
  const middle = sorted[Math.floor((sorted.length - 1) / 2)] ?? 0;
  return known.map((clock) => ({ id: clock.id, ms: clock.ms - middle }));
}

/** The first clause of `code: a clause; another` as a sentence. */
const sentence = (reason) => wholeSentence(reason.replace(/;.*/, ''));

function wholeSentence(reason) {
  const text = reason.replace(/^[a-z_]+: /, '');
  return `${text[0].toUpperCase()}${text.slice(1)}.`;
}
