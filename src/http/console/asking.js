// Asking the node: with a token, within a deadline, as long as somebody looks.

const ROUND_MS = 2000;
const ROUND_MS_MAX = 30000;
const ANSWER_MS_MAX = 8000;
const TOKEN_KEY = 'mintleaf-token';
const tokenStore = browserStore('sessionStorage');

/** What the node refused: a problem of RFC 9457. */
class Refusal extends Error {
  constructor(status, problem) {
    super(problem?.detail ?? `status ${status}`);
    this.status = status;
  }
}

const token = {
  get: () => tokenStore.getItem(TOKEN_KEY),
  set(text) {
    if (text) tokenStore.setItem(TOKEN_KEY, text);
    else tokenStore.removeItem(TOKEN_KEY);
    this.tell();
  },
  tell() {
    const set = Boolean(this.get());
    // A link shows no token.
    document.body.classList.toggle('keyed', set);
    write($('token-button'), set ? 'Change the token' : 'Enter a token');
    show($('token-clear'), set);
    // A node without an auth file wants none.
    show($('token-button'), set || rounds.wantsToken);
  },
};

/** Asks for JSON, or a text. A status in `fine` besides 200 is an answer, too. */
async function ask(path, { signal, fine = [], text = false } = {}) {
  const headers = { Accept: text ? 'text/plain' : 'application/json' };
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  const deadline = AbortSignal.timeout(ANSWER_MS_MAX);
  const signals = signal ? AbortSignal.any([signal, deadline]) : deadline;
  const answer = await fetch(path, { headers, signal: signals, cache: 'no-store', credentials: 'omit' });
  const date = Date.parse(answer.headers.get('date') ?? '');
  // A date has whole seconds: less than two of difference says nothing.
  if (Number.isFinite(date)) behindMs = Math.abs(date - Date.now()) < 2000 ? 0 : date - Date.now();
  if (answer.ok && text) return answer.text();
  const body = await answer.json().catch(() => null);
  if (answer.ok || fine.includes(answer.status)) return body;
  throw new Refusal(answer.status, body);
}

/** One thing that is asked for again and again: where, how often, and what is done with the answer. */
class Source {
  constructor({ path, everyMs, fine, text, take, refused }) {
    Object.assign(this, { path, everyMs, fine, text, take, refused, dueAt: 0, asked: null });
  }

  /** Answers whether the node did. */
  async round(signal) {
    if (Date.now() < this.dueAt) return false;
    const path = this.path();
    // Nothing is to be asked now.
    if (path === null) return false;
    this.asked = path;
    try {
      const body = await ask(path, { signal, fine: this.fine, text: this.text });
      // Meanwhile another page may have been asked for.
      if (this.asked !== path) return true;
      this.dueAt = Date.now() + this.everyMs - ROUND_MS / 4;
      this.refused(null);
      this.take(body);
      return true;
    } catch (error) {
      if (!(error instanceof Refusal) || error.status === 401) throw error;
      this.dueAt = Date.now() + this.everyMs;
      this.refused(error);
      return true;
    }
  }
}

/** The rounds: one after the other while the page is looked at, fewer while the node does not answer. */
const rounds = {
  sources: [],
  timer: null,
  running: null,
  failures: 0,
  silentSince: null,
  wantsToken: false,

  /** Asks now for what is due, or for this one source even if it is not. */
  async now(source) {
    if (source) source.dueAt = 0;
    clearTimeout(this.timer);
    this.running?.abort();
    if (document.visibilityState === 'hidden') return;
    const running = new AbortController();
    this.running = running;
    const done = await Promise.allSettled(this.sources.map((each) => each.round(running.signal)));
    if (running.signal.aborted) return;
    this.running = null;
    const answered = done.some((each) => each.value === true);
    this.judge(done.filter((each) => each.status === 'rejected').map((each) => each.reason), answered);
    const pause = Math.min(ROUND_MS_MAX, ROUND_MS * 2 ** Math.min(this.failures, 4));
    this.timer = setTimeout(() => this.now(), pause);
  },

  stop() {
    clearTimeout(this.timer);
    this.running?.abort();
    this.running = null;
  },

  /** One answer that is late is asked for again; a node is silent when none comes. */
  judge(errors, answered) {
    const refused = errors.find((error) => error instanceof Refusal);
    const silent = !refused && !answered && errors.length > 0;
    this.failures = refused || silent ? this.failures + 1 : 0;
    this.silentSince = silent ? this.silentSince ?? Date.now() : null;
    const wanted = this.wantsToken;
    this.wantsToken = Boolean(refused);
    token.tell();
    document.body.classList.toggle('stale', silent);
    document.body.classList.toggle('locked', this.wantsToken);
    const pulse = $('pulse');
    pulse.dataset.state = silent ? 'bad' : refused ? 'warn' : 'good';
    write(pulse, silent ? 'No answer' : refused ? 'Locked' : 'Live');
    show($('notice'), silent || this.wantsToken);
    if (silent) {
      const pause = Math.min(ROUND_MS_MAX, ROUND_MS * 2 ** Math.min(this.failures, 4)) / 1000;
      write($('notice-text'), `${nodeName()} does not answer since ${clockTime(this.silentSince)}. What is shown is from before. It is asked again every ${pause} s.`);
      write($('notice-button'), 'Try now');
      overview.silent();
    } else if (this.wantsToken) {
      write($('notice-text'), token.get() ? 'This node does not know the token, or no longer.' : 'This node shows its data only to those who have a token.');
      write($('notice-button'), 'Enter a token');
      overview.locked();
      if (!wanted) openToken();
    }
  },
};
