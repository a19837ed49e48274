// The page comes to life: colours, keys, forms, and the first round.

const THEME_KEY = 'mintleaf-theme';
const themeStore = browserStore('localStorage');
const THEMES = ['auto', 'light', 'dark'];
const THEME_WORDS = { auto: 'as the system has them', light: 'on light', dark: 'on dark' };

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  const button = $('theme-button');
  if (!button) return;
  write(button, `Colours: ${theme}`, `Colours ${THEME_WORDS[theme]}; press to change`);
}

function nextTheme() {
  const now = document.documentElement.dataset.theme;
  const theme = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
  themeStore.setItem(THEME_KEY, theme);
  setTheme(theme);
}

function storedTheme() {
  const theme = themeStore.getItem(THEME_KEY);
  return THEMES.includes(theme) ? theme : 'auto';
}

function openToken() {
  if (document.querySelector('dialog[open]')) return;
  $('token').value = '';
  $('token-dialog').showModal();
}

const sources = {};

/** Says in a part of the page why the node does not show it; `null` once it does. */
const inPart = (id) => (error) => {
  const fault = $(`${id}-fault`);
  if (error) write(fault, `${error.status === 403 ? 'Not with this token' : 'Refused'}: ${error.message}`);
  show(fault, error !== null);
};

const inTile = (id) => (error) => {
  if (error) tile(id, 'warn', 'Unknown', error.status === 403 ? 'This token may not see it.' : error.message);
};

function listen() {
  const on = (id, event, act) => $(id).addEventListener(event, act);
  on('theme-button', 'click', nextTheme);
  on('token-button', 'click', openToken);
  on('token-cancel', 'click', () => $('token-dialog').close());
  const useToken = (text) => {
    token.set(text);
    $('token-dialog').close();
    for (const source of rounds.sources) source.dueAt = 0;
    rounds.now();
  };
  on('token-clear', 'click', () => useToken(''));
  on('token-form', 'submit', (event) => {
    event.preventDefault();
    useToken($('token').value.trim());
  });
  on('notice-button', 'click', () => (rounds.wantsToken ? openToken() : rounds.now()));
  on('help-button', 'click', () => $('help-dialog').showModal());
  on('help-close', 'click', () => $('help-dialog').close());
  on('tag-close', 'click', () => $('tag-dialog').close());
  on('tag-dialog', 'close', () => { tags.open = null; });
  on('pool-close', 'click', () => $('pool-dialog').close());
  on('pool-dialog', 'close', () => { pools.open = null; });

  let typing;
  on('search', 'input', () => {
    clearTimeout(typing);
    typing = setTimeout(() => tags.turnTo({ prefix: $('search').value }), 200);
  });
  on('tags-form', 'submit', (event) => event.preventDefault());
  for (const choice of document.getElementsByName('sort')) {
    choice.addEventListener('change', () => tags.turnTo({ sort: choice.value }));
  }
  on('size', 'change', () => tags.turnTo({ size: Number($('size').value) }));
  on('tags-first', 'click', () => tags.turnTo({}));
  on('tags-back', 'click', () => tags.back());
  on('tags-on', 'click', () => tags.on());
  on('decode-form', 'submit', (event) => {
    event.preventDefault();
    decode($('decode').value);
  });
  on('changes-newest', 'click', () => changes.turnTo(null));
  on('changes-older', 'click', () => changes.turnTo(changes.next));
  document.addEventListener('keydown', onKey);
  document.addEventListener('visibilitychange', () => {
    if (document.visibilityState === 'hidden') rounds.stop();
    else rounds.now();
  });
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
  const field = event.target.closest('input[type=search], input:not([type=radio]), select');
  if (field) {
    if (event.key !== 'Escape') return;
    if (field.id === 'search' && field.value) {
      field.value = '';
      tags.turnTo({ prefix: '' });
    }
    field.blur();
    return;
  }
  const keys = {
    '/': () => { $('search').focus(); $('search').select(); },
    n: () => tags.on(),
    p: () => tags.back(),
    w: () => document.querySelector(`input[name=sort][value=${tags.sort === 'name' ? 'need' : 'name'}]`).click(),
    d: () => { $('decode').focus(); $('decode').select(); },
    t: nextTheme,
  };
  if (!Object.hasOwn(keys, event.key)) return;
  event.preventDefault();
  keys[event.key]();
}

function start() {
  setTheme(storedTheme());
  token.tell();
  tags.sort = document.querySelector('input[name=sort]:checked').value;
  tags.size = Number($('size').value);
  tags.prefix = $('search').value;
  listen();
  const source = (path, everyMs, take, refused, more) => new Source({ path, everyMs, take, refused, ...more });
  const stale = 'consistency=stale';
  Object.assign(sources, {
    ready: source(() => '/readyz', 2000, (body) => overview.takeReady(body), () => {}, { fine: [503] }),
    cluster: source(() => '/v1/cluster?counts=true', 2000, (body) => overview.takeCluster(body), inPart('members')),
    times: source(() => '/metrics', 4000, (page) => traffic.takeTimes(page), (error) => { if (error) traffic.within = null; }, { text: true }),
    need: source(() => `/v1/buffers?${stale}&sort=need&limit=5`, 2000, (body) => overview.takeNeed(body), (error) => overview.refuseNeed(error)),
    last: source(() => `/v1/audit?${stale}&sort=newest&limit=1`, 4000, (body) => overview.takeLastChange(body.entries[0]), inTile('change')),
    tags: source(() => tags.path(), 2000, (body) => tags.take(body), inPart('tags')),
    workers: source(() => '/v1/workers', 10000, takeWorkers, inPart('workers')),
    holders: source(() => pools.path(), 2000, (body) => pools.take(body), inPart('pool')),
    changes: source(() => changes.path(), 4000, (body) => changes.take(body), inPart('changes')),
  });
  rounds.sources = Object.values(sources);
  rounds.now();
}

document.documentElement.dataset.theme = storedTheme();
document.addEventListener('DOMContentLoaded', start);
