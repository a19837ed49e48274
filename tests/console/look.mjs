// Looks at the console in Chromium, at real nodes: what it shows, how it is worked by keys, what it costs, and how it
// says that something is wrong. usage: node look.mjs BINARY CHROMIUM DIRECTORY TAGS [quick]

import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { Browser, reads, shownTags } from './browser.mjs';
import { Cluster, eventually, faketime } from './cluster.mjs';

const [binary, executable, directory, tagsText, quick] = process.argv.slice(2);
const TAGS = Number(tagsText);
const LONG = `${'a-rather-long-name/'.repeat(6)}${'x'.repeat(14)}`;
const CHINESE = '订单-退款';
const NO_ANSWER = /ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE/;

const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const tenant = (number) => `tenant-${String(number).padStart(7, '0')}`;

/** Steps of a long look, which a quick one leaves out. */
const longStep = (name, act) => (quick ? null : step(name, act));

async function step(name, act) {
  const from = Date.now();
  await act();
  console.log(`ok  ${((Date.now() - from) / 1000).toFixed(1).padStart(5)} s  ${name}`);
}

/** Tags of every sort, and many of one. */
async function fillCluster(cluster) {
  const make = (tag, more) => cluster.ask(1, '/v1/tags', { method: 'POST', body: { tag, ...more } });
  await make('orders', { step: 5000, description: 'Orders of the shop, all regions' });
  await make('payments', { step: 2000, description: 'Card payments' });
  await make(CHINESE, { description: '退款单' });
  await make(LONG, { description: 'A name of 128 characters, and more of a description than a row has room for. '.repeat(3) });
  await make('frozen-since-march', { frozen: true });
  await make('limited', { rate_limit: 50000 });
  await make('near-the-end', { start: '7123372036854775807', step: 2147483647 });
  const batches = Array.from({ length: Math.ceil(TAGS / 100) }, (_, batch) => batch);
  const importer = async () => {
    for (let batch = batches.shift(); batch !== undefined; batch = batches.shift()) {
      const numbers = Array.from({ length: 100 }, (_, at) => batch * 100 + at);
      await cluster.ask(1, '/v1/import', { method: 'POST', body: { import: 'tenants.sql', tags: numbers.map((number) => ({ tag: tenant(number), max_id: '1' })) } });
    }
  };
  await Promise.all(Array.from({ length: 4 }, importer));
  await cluster.ask(1, '/v1/tags/orders', { method: 'PATCH', body: { step: 10000 } });
}

/** Callers that take ids of some tags until they are told to stop. */
function load(cluster) {
  let going = true;
  const call = async (tag, count, everyMs, id = 1) => {
    while (going) {
      await cluster.ask(id, `/v1/segment/${encodeURIComponent(tag)}?count=${count}`).catch(() => {});
      await wait(everyMs);
    }
  };
  call('orders', 200, 100);
  call('orders', 200, 100, 2);
  call('payments', 30, 200);
  call(CHINESE, 3, 500);
  call('near-the-end', 5000, 300);
  call('limited', 1, 700);
  call(tenant(1), 2, 900);
  return () => { going = false; };
}

async function atAGlance(page) {
  await reads(page, '#tile-health .value', /^(All is well|Degraded)$/);
  await reads(page, '#tile-leader .value', /^Node [123]$/);
  await reads(page, '#tile-next .value', /\S/);
  await reads(page, '#tile-next .note', /^lasts \d+ (s|min|h) at /);
  await reads(page, '#tile-change .value', /^tag\.update orders$/);
  await reads(page, '#tile-change .note', /by anonymous$/);
  await reads(page, '#members-rows tr:nth-child(3) td:nth-child(3)', /^now$/);
  await reads(page, '#tags-note', new RegExp(`^${(TAGS + 7).toLocaleString('en-US')} tags$`));
  await reads(page, '#workers-rows tr:nth-child(1) td:nth-child(2)', /^held$/);
  await reads(page, '#changes-rows tr:nth-child(1)', /step 5,000 → 10,000/);
}

async function ratesAreMeasured(page) {
  const row = '#tags-rows tr[data-key=orders]';
  await reads(page, '#tile-traffic .value', /^[\d,.]+( k)?$/);
  await reads(page, '#tile-traffic .note', /^This node .+\/s\. No errors\. 99\u00a0% within (\d+ µs|[\d.]+ ms)\.$/);
  for (const line of ['#traffic-line', '#traffic-own']) {
    await page.waitForFunction((where) => /^[\d.]+,[\d.]+( [\d.]+,[\d.]+)+$/.test(document.querySelector(where).getAttribute('points')), line);
  }
  const { all, nodes } = await page.evaluate(() => {
    const number = (text) => (text === '–' ? null : Number(text.replace(/,|\/s/g, '').replace(' k', 'e3')));
    const nodes = [...document.querySelectorAll('#members-rows tr')].map((row) => number(row.children[3].textContent));
    return { all: number(document.querySelector('#tile-traffic .value').textContent), nodes };
  });
  assert.ok(nodes[0] > 500 && nodes[1] > 300 && nodes[2] === 0, `${nodes}`);
  // The sum, but for what is rounded of each.
  assert.ok(Math.abs(all - nodes[0] - nodes[1]) <= all / 100, `${all} of ${nodes}`);
  // 200 every 100 ms and the time that an answer takes.
  await reads(page, `${row} td:nth-child(3)`, /^(\d{3}|1,\d{3}|2,0\d\d)\/s$/);
  await reads(page, `${row} td:nth-child(4)`, /^\d+ (s|min|h)$/);
  const label = await page.getAttribute(`${row} .two`, 'aria-label');
  assert.match(label, /^\d+ % of the current segment left, (the next one held|no next one held|the next one on its way)$/);
  const [held, width] = await page.$eval(row, (element) => [element.children[5].textContent, element.querySelector('i').style.width]);
  assert.match(held, /^[\d,]+$/);
  assert.match(width, /^\d+(\.\d)?%$/);
  await page.waitForFunction(([where, before]) => document.querySelector(where).children[5].textContent !== before, [row, held]);
}

async function aClockIsOff(page) {
  if (!faketime()) return console.log('SKIPPED: no clock is off, for want of libfaketime');
  await reads(page, '#tile-clocks .value', /^\+(1\.\d s|[89]\d\d ms)$/);
  await reads(page, '#tile-clocks .note', /^Node 3 is ahead\./);
  assert.equal(await page.getAttribute('#tile-clocks', 'data-state'), 'warn');
  await reads(page, '#tile-health .note', /clock of node 3 is off/);
}

async function keysFindAndTurn(page, browser) {
  await page.keyboard.press('/');
  await page.keyboard.type('tenant-00000');
  await page.waitForFunction(() => document.querySelector('#tags-rows tr')?.dataset.key === 'tenant-0000000');
  await browser.shot(page, 'found');
  const searched = new URL(page.asked.filter((request) => request.url.pathname === '/v1/buffers').at(-1).url);
  assert.equal(searched.searchParams.get('prefix') ?? 'tenant-00000', 'tenant-00000');
  await page.keyboard.press('Escape');
  assert.equal(await page.inputValue('#search'), '');
  await page.waitForFunction(() => document.querySelector('#tags-rows tr')?.dataset.key !== 'tenant-0000000');

  const pages = [await shownTags(page)];
  for (let turn = 0; turn < 3; turn += 1) {
    const before = pages.at(-1)[0];
    await page.keyboard.press('n');
    await page.waitForFunction((first) => document.querySelector('#tags-rows tr').dataset.key !== first, before);
    pages.push(await shownTags(page));
  }
  const all = pages.flat();
  assert.equal(all.length, 80);
  assert.deepEqual(all, [...new Set(all)].sort(), 'pages overlap, or are not in the order of names');
  await page.keyboard.press('p');
  await page.waitForFunction((first) => document.querySelector('#tags-rows tr').dataset.key === first, pages[2][0]);
  await page.click('#tags-first');
  await page.waitForFunction((first) => document.querySelector('#tags-rows tr').dataset.key === first, pages[0][0]);

  await page.keyboard.press('/');
  await page.keyboard.type('no such tag');
  await reads(page, '#tags-empty', /^No tag begins with “no such tag”\.$/);
  await page.keyboard.press('Escape');
  await page.keyboard.press('w');
  // No row is shown at first: the search found no tag.
  await page.waitForFunction(() => [...document.querySelectorAll('#tags-rows tr')].length > 0);
  await page.waitForFunction(() => [...document.querySelectorAll('#tags-rows tr')].length < 8);
  const inUse = await shownTags(page);
  assert.ok(inUse.includes('orders') && !inUse.includes('frozen-since-march'), String(inUse));
  await page.keyboard.press('w');
  await page.waitForFunction(() => [...document.querySelectorAll('#tags-rows tr')].length === 20);
}

async function keysReachEverything(page, browser) {
  await page.reload();
  await reads(page, '#tags-note', /tags$/);
  const reached = [];
  for (let presses = 0; presses < 100; presses += 1) {
    await page.keyboard.press('Tab');
    const at = await page.evaluate(() => {
      const focused = document.activeElement;
      if (focused === document.body) return { name: 'the end' };
      const style = getComputedStyle(focused.matches('.choice input') ? focused.nextElementSibling : focused);
      return { name: focused.id || focused.name || focused.className || focused.textContent.trim(), outline: style.outlineStyle };
    });
    if (at.name === 'the end') break;
    assert.notEqual(at.outline, 'none', `${at.name} does not show that it has the focus`);
    reached.push(at.name);
  }
  for (const name of ['skip', 'theme-button', 'search', 'sort', 'size', 'link', 'tags-on', 'decode', 'scroll', 'guarded']) {
    assert.ok(reached.includes(name), `${name} is not reached: ${reached}`);
  }
  await page.focus('#tags-rows tr[data-key=orders] button');
  await page.keyboard.press('Enter');
  await reads(page, '#tag-dialog', /Current segment.*up to.*Created/s);
  await browser.shot(page, 'tag', { fullPage: false });
  await page.keyboard.press('Escape');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'orders', 'the focus is lost');
}

async function idsAreDecoded(page, cluster) {
  const { ids: [id] } = await cluster.ask(1, '/v1/snowflake');
  const parts = await cluster.ask(1, `/v1/snowflake/${id}`);
  await page.keyboard.press('d');
  await page.keyboard.type(`${id.slice(0, 4)} ${id.slice(4)}`);
  await page.keyboard.press('Enter');
  await reads(page, '#decoded-time', new RegExp(`^${parts.time.slice(0, 10)} ${parts.time.slice(11, 19)}`));
  await reads(page, '#decoded-worker', new RegExp(`^${parts.worker_id}$`));
  await page.fill('#decode', 'not an id');
  await page.keyboard.press('Enter');
  await reads(page, '#decode-fault', /^An id is a number/);
  assert.equal(await page.isVisible('#decoded'), false);
  await page.keyboard.press('Escape');
}

async function coloursChange(page) {
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await paper();
  await page.keyboard.press('t');
  await page.keyboard.press('t');
  assert.equal(await page.textContent('#theme-button'), 'Colours: dark');
  assert.notEqual(await paper(), light);
  await page.reload();
  assert.equal(await page.textContent('#theme-button'), 'Colours: dark');
  await page.keyboard.press('t');
  assert.equal(await paper(), light);
}

/** A browser that keeps no data for sites shows the page all the same, and what was chosen lasts as long as that. */
async function aBrowserMayKeepNothing(browser, cluster) {
  const context = await browser.chromium.newContext({ colorScheme: 'light' });
  await context.addInitScript(() => {
    const denied = { get: () => { throw new DOMException('denied', 'SecurityError'); } };
    for (const store of ['localStorage', 'sessionStorage']) Object.defineProperty(window, store, denied);
  });
  const page = await browser.open(cluster.url(1), { context });
  await reads(page, '#theme-button', /^Colours: auto$/);
  await page.click('#theme-button');
  await reads(page, '#theme-button', /^Colours: light$/);
  await page.waitForFunction(() => document.querySelectorAll('#tags-rows tr').length > 0);
  await context.close();
}

/** A hidden page asks for nothing; a visible one asks for pages of tags, never for all. */
async function hiddenPagesAskNothing(page) {
  const look = (state) => page.evaluate((visibility) => {
    Object.defineProperty(document, 'visibilityState', { configurable: true, get: () => visibility });
    document.dispatchEvent(new Event('visibilitychange'));
  }, state);
  await look('hidden');
  await wait(300);
  page.asked.length = 0;
  await wait(3500);
  assert.deepEqual(page.asked.map((request) => request.url.pathname), []);
  await look('visible');
  await eventually('the next round', 5, () => page.asked.length > 3);
  for (const { url } of page.asked) {
    assert.ok(!url.pathname.startsWith('/v1/buffers') || Number(url.searchParams.get('limit')) <= 200, url.href);
    assert.equal(url.pathname === '/v1/tags', false, url.href);
  }
}

/** A tag that callers are refused is named where one looks first, and how much is left where one looks next. */
async function tagsInTroubleAreNamed(page, cluster, browser) {
  const make = (tag, more) => cluster.ask(1, '/v1/tags', { method: 'POST', body: { tag, ...more } });
  const take = (path) => cluster.ask(1, path).catch(() => {});
  const state = () => page.getAttribute('#tile-health', 'data-state');
  await reads(page, '#tile-health .note', /^(?!.*(left|frozen))/);
  await page.fill('#search', 'trouble');
  await make('trouble-few', { start: '8716000000000000000' });
  await reads(page, '#tags-rows tr[data-key=trouble-few] td:nth-child(7)', /^5\.\d %$/);
  await reads(page, '#tile-health .value', /^A tag nears its end$/);
  await reads(page, '#tile-health .note', /trouble-few has 5\.\d % of its ids left\.$/);
  assert.equal(await state(), 'warn');
  await make('trouble-cold', { frozen: true });
  await take('/v1/segment/trouble-cold');
  await reads(page, '#tile-health .note', /trouble-cold is frozen, and callers ask for it\./);
  assert.equal(await state(), 'warn');
  await make('trouble-gone', { start: '9223372036854775807' });
  // Its last id goes out. No caller has been refused yet, and a frozen tag matters less.
  await take('/v1/segment/trouble-gone');
  await reads(page, '#tile-health .value', /^A tag is used up$/);
  await reads(page, '#tile-health .note', /trouble-gone has no ids left\.$/);
  assert.equal(await state(), 'bad');
  const red = await page.getAttribute('#tags-rows tr[data-key=trouble-gone] td:nth-child(7)', 'class');
  assert.match(red, /\bbad\b/);
  await take('/v1/segment/trouble-gone?count=5');
  await reads(page, '#tile-health .value', /^A tag is used up$/);
  await reads(page, '#tile-health .note', /trouble-gone is used up, and callers ask for it\./);
  assert.equal(await state(), 'bad');
  await page.click('#tags-rows tr[data-key=trouble-few] button');
  await reads(page, '#tag-dialog', /Left5\.\d %, [\d,]+ ids/);
  await browser.shot(page, 'trouble', { fullPage: false });
  await page.keyboard.press('Escape');
  await make('trouble-ledger', { order: 'strict' });
  await make('trouble-rooms', { kind: 'sequence' });
  let going = true;
  const taking = (async () => {
    while (going) {
      await take('/v1/segment/trouble-ledger?count=3');
      await take('/v1/sequence/trouble-rooms/one');
      await wait(100);
    }
  })();
  for (const tag of ['trouble-ledger', 'trouble-rooms']) {
    await reads(page, `#tags-rows tr[data-key=${tag}] td:nth-child(3)`, /^([1-9]|0\.\d).*\/s$/);
  }
  going = false;
  await taking;
  for (const tag of ['few', 'cold', 'gone', 'ledger', 'rooms']) {
    await cluster.ask(1, `/v1/tags/trouble-${tag}`, { method: 'DELETE' });
  }
  await reads(page, '#tile-health .note', /^(?!.*(left|frozen))/);
  await page.fill('#search', '');
  await cluster.ask(1, '/v1/tags/orders', { method: 'PATCH', body: { step: 5000 } });
  await cluster.ask(1, '/v1/tags/orders', { method: 'PATCH', body: { step: 10000 } });
}

/** Addresses, which lead to the other consoles, and who changed what are there on narrow screens, too. */
async function narrowScreensShowAddresses(page, width) {
  const seen = (selector) => page.isVisible(selector);
  assert.ok(await seen('#members-rows tr:nth-child(2) td a'), `${width} pixels: no address of a member`);
  if (width > 520) assert.ok(await seen('#changes-rows tr:first-child td:nth-child(5)'), `${width} pixels: no before and after`);
}

/** Registers with their keys and pools with their leases, and that registers are nearly full, and full. */
async function registersAndPoolsAreShown(browser) {
  const cluster = await Cluster.start(binary, 1, { flagsOf: () => ['--register-keys-max', '20'] });
  try {
    const post = (path, body) => cluster.ask(1, path, { method: 'POST', body });
    await post('/v1/tags', { tag: 'invoices', kind: 'register', period: 'year' });
    const register = async (from, to) => {
      for (let key = from; key < to; key += 1) await post(`/v1/register/invoices/order-${key}`);
    };
    await register(0, 3);
    await cluster.ask(1, '/v1/pools/shop', { method: 'PUT', body: { workers: '0-3', taken: [3] } });
    const page = await browser.open(cluster.url(1));
    const row = '#tags-rows tr[data-key=invoices]';
    await reads(page, `${row} td:nth-child(2)`, /^3 keys$/);
    await reads(page, `${row} td:nth-child(7)`, /^85 %$/);
    await reads(page, '#pools-rows tr', /^shop0 of 41–$/);
    for (const holder of ['shop-7', 'shop-8 <b>']) await post('/v1/pools/shop/leases', { seconds: 600, holder });
    await page.click('#pools-rows button');
    await reads(page, '#pool-about', /^Worker ids 0-3, 1 in use without a lease$/);
    await reads(page, '#holders-rows', /^0shop-7just nowin (10 min|600 s)1shop-8 <b>just nowin (10 min|600 s)$/);
    assert.deepEqual(await browser.faults(page), []);
    await browser.shot(page, 'pool', { fullPage: false });
    await page.keyboard.press('Escape');
    await reads(page, '#pools-rows tr', /^shop2 of 41in \d+ (min|s)$/);
    await reads(page, '#tile-health .value', /^All is well$/);
    await register(3, 19);
    await reads(page, '#tile-health .value', /^Registers fill up$/);
    await reads(page, '#tile-health .note', /Registers have 5\.0 % of their keys left/);
    await register(19, 20);
    await reads(page, '#tile-health .value', /^Registers are full$/);
    assert.equal(await page.getAttribute('#tile-health', 'data-state'), 'bad');
    await page.click(`${row} button`);
    await reads(page, '#tag-dialog', /Keys20, each with its number; all registers have 20 of 20/);
    await page.keyboard.press('Escape');
    assert.deepEqual(await browser.faults(page), []);
    await browser.shot(page, 'registers');
    await page.context().close();
  } finally {
    cluster.stop();
  }
}

async function looksRightEverywhere(browser, cluster) {
  for (const scheme of ['light', 'dark']) {
    for (const [width, height] of [[360, 740], [768, 1024], [1440, 900]]) {
      if (quick && (width === 360) !== (scheme === 'dark')) continue;
      if (quick && width === 768) continue;
      const page = await browser.open(cluster.url(1), { width, height, scheme });
      await atAGlance(page);
      await wait(2500);
      const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(over <= 0, `${width} pixels: the page is ${over} pixels too wide`);
      await narrowScreensShowAddresses(page, width);
      if (width !== 768) assert.deepEqual(await browser.faults(page), [], `${scheme}, ${width} pixels`);
      await browser.shot(page, `console-${width}-${scheme}`);
      if (width === 1440) await browser.shot(page, `console-${scheme}`, { fullPage: false });
      await page.context().close();
    }
  }
}

async function aLostNodeIsNamed(page, cluster, browser) {
  cluster.signal(3, 'SIGKILL');
  await reads(page, '#tile-health .value', /^Degraded$/);
  await reads(page, '#tile-health .note', /^Lost: node 3 for \d+ s\.$/);
  await reads(page, '#members-rows tr:nth-child(3) td:nth-child(3)', /ago$/);
  await eventually('its worker id to be shown as one that is not in use', 15, () => page.evaluate(() => {
    const row = [...document.querySelectorAll('#workers-rows tr')].find((row) => row.children[2].textContent === 'node 3');
    return row?.querySelector('.state').dataset.state === 'rest';
  }));
  await browser.shot(page, 'lost');
}

async function aLostQuorumIsToldAndWaitersAreSeen(page, cluster, browser) {
  cluster.signal(2, 'SIGKILL');
  await reads(page, '#tile-leader .value', /^None$/);
  await reads(page, '#tile-health .value', /^No quorum$/);
  await reads(page, '#tile-health .note', /^1 of 3 voters reached, 2 needed\.$/);
  await page.focus('#help-button');
  await page.keyboard.press('Enter');
  await reads(page, '#help-dialog', /missing: node 2 for \d+ s, node 3 for \d+ s.*Start the missing nodes with their data directories/s);
  await browser.shot(page, 'no-quorum-help', { fullPage: false });
  await page.keyboard.press('Escape');
  let waits = true;
  const caller = (async () => {
    while (waits) await cluster.ask(1, '/v1/segment/limited?count=40000&format=ranges').catch(() => {});
  })();
  await reads(page, '#tile-next .note', /^(A caller waits|\d callers wait) for ids now\.$/);
  await reads(page, '#tile-next .value', /^limited$/);
  await browser.shot(page, 'no-quorum');
  waits = false;
  await caller;
}

async function aSilentNodeIsToldAndComesBack(page, cluster, browser) {
  page.allowed = NO_ANSWER;
  cluster.signal(1, 'SIGKILL');
  await reads(page, '#notice-text', /^Node 1 does not answer since \d\d:\d\d:\d\d\./);
  await reads(page, '#tile-health .value', /^No answer$/);
  await browser.shot(page, 'silent');
  page.asked.length = 0;
  await wait(4500);
  assert.ok(page.asked.length <= 2 * 9, `${page.asked.length} requests in 4.5 s to a node that does not answer`);
  [1, 2, 3].forEach((id) => cluster.startNode(id));
  await eventually('node 1', 30, async () => (await fetch(`${cluster.url(1)}/readyz`)).ok);
  // The page asks by itself too, and then the button is gone.
  await page.$eval('#notice-button', (button) => button.click());
  await reads(page, '#pulse', /^Live$/);
  assert.equal(await page.isVisible('#notice'), false);
  page.allowed = null;
}

async function tokensOpenTheDoor(browser) {
  const entry = (name, role, tags) => `[[token]]\nname = "${name}"\nhash = "sha256:${createHash('sha256').update(`${name}-${'0'.repeat(32)}`).digest('hex')}"\nrole = "${role}"\n${tags ? `tags = ["${tags}"]\n` : ''}`;
  const shown = (name) => `${name}-${'0'.repeat(32)}`;
  const authFile = join(directory, 'auth.toml');
  writeFileSync(authFile, entry('ops', 'admin') + entry('eyes', 'read') + entry('few', 'read', 'pay*'));
  const secretFile = join(directory, 'secret');
  writeFileSync(secretFile, '0'.repeat(64));
  chmodSync(authFile, 0o600);
  chmodSync(secretFile, 0o600);
  const flags = ['--auth-file', authFile, '--cluster-secret-file', secretFile];
  const cluster = await Cluster.start(binary, 1, { flagsOf: () => flags });
  try {
    const page = await browser.open(cluster.url(1), { allowed: /status of 40[13]/ });
    await reads(page, '#notice-text', /shows its data only to those who have a token/);
    await reads(page, '#tile-health .value', /^Ready$/);
    assert.equal(await page.getAttribute('#tile-health', 'data-state'), 'good');
    assert.equal(await page.isVisible('#token-dialog'), true);
    await browser.shot(page, 'locked');
    await page.keyboard.type('wrong');
    await page.keyboard.press('Enter');
    await reads(page, '#notice-text', /does not know the token/);
    const enter = async (name) => {
      if (!await page.isVisible('#token-dialog')) await page.click('#token-button');
      await page.fill('#token', shown(name));
      await page.keyboard.press('Enter');
    };
    await enter('few');
    await reads(page, '#tags-fault', /^Not with this token: /);
    await reads(page, '#tile-health .note', /How the tags are is not shown to this token\.$/);
    await reads(page, '#members-rows tr:nth-child(1) td:nth-child(2)', /^leader$/);
    await browser.shot(page, 'confined');
    await enter('eyes');
    await reads(page, '#tags-empty', /^No tags yet\./);
    await reads(page, '#changes-empty', /^No changes yet\.$/);
    await reads(page, '#tile-next .value', /^None$/);
    page.allowed = null;
    await browser.shot(page, 'empty');
    await cluster.ask(1, '/v1/tags', { method: 'POST', token: shown('ops'), body: { tag: '<img src=x onerror=alert(1)>', description: '<b>bold</b>' } });
    await reads(page, '#tags-rows tr td', /^<img src=x onerror=alert\(1\)><b>bold<\/b>$/);
    await reads(page, '#tile-change .note', /by ops$/);
    await page.reload();
    await reads(page, '#tile-change .note', /by ops$/);
    assert.ok(page.asked.every(({ url }) => !url.href.includes(shown('eyes'))), 'a token stood in an address');
    assert.ok(page.asked.some(({ headers }) => headers.authorization === `Bearer ${shown('eyes')}`));
    const other = await browser.open(cluster.url(1), { context: page.context(), allowed: /status of 401/ });
    await reads(other, '#notice-text', /shows its data only to those who have a token/);
    await page.click('#token-button');
    page.allowed = /status of 401/;
    await page.click('#token-clear');
    await reads(page, '#notice-text', /shows its data only to those who have a token/);
    assert.equal(await page.evaluate(() => sessionStorage.length), 0);
    await page.context().close();
  } finally {
    cluster.stop();
  }
}

async function main() {
  mkdirSync(directory, { recursive: true });
  const browser = await Browser.start(executable, directory);
  const cluster = await Cluster.start(binary, 3, { clockOf: (id) => (id === 3 && faketime() ? '+1s' : null) });
  let unload = () => {};
  try {
    await step(`three nodes with ${TAGS + 7} tags`, () => fillCluster(cluster));
    unload = load(cluster);
    const page = await browser.open(cluster.url(1));
    await step('what matters is seen at once', () => atAGlance(page));
    await step('rates and buffers are live', () => ratesAreMeasured(page));
    await step('a clock that is off is named', () => aClockIsOff(page));
    await step('keys find tags and turn pages', () => keysFindAndTurn(page, browser));
    await step('keys reach everything, and show where they are', () => keysReachEverything(page, browser));
    await longStep('ids are decoded', () => idsAreDecoded(page, cluster));
    await longStep('colours change, and are kept', () => coloursChange(page));
    await step('a browser that keeps nothing shows the page', () => aBrowserMayKeepNothing(browser, cluster));
    await step('a hidden page asks for nothing', () => hiddenPagesAskNothing(page));
    await step('tags in trouble are named, and strict ones counted', () => tagsInTroubleAreNamed(page, cluster, browser));
    await step('every width, light and dark, nothing for axe to find', () => looksRightEverywhere(browser, cluster));
    await step('registers and pools show what they have given', () => registersAndPoolsAreShown(browser));
    await longStep('a token opens what is guarded', () => tokensOpenTheDoor(browser));
    await step('a lost node is named', () => aLostNodeIsNamed(page, cluster, browser));
    await longStep('a lost quorum is told, and who waits', () => aLostQuorumIsToldAndWaitersAreSeen(page, cluster, browser));
    await longStep('a silent node is told, and comes back', () => aSilentNodeIsToldAndComesBack(page, cluster, browser));
    assert.deepEqual(browser.complaints, []);
  } finally {
    unload();
    await browser.close();
    cluster.stop();
  }
}

main().then(() => {
  console.log(`the console looks right; screenshots are in ${directory}`);
  process.exit(0);
}, (error) => {
  console.error(`FAILED: ${error.stack}`);
  process.exit(1);
});
