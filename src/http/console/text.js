'use strict';

// Numbers, times and elements: what the other parts write with.

const $ = (id) => document.getElementById(id);

/** A store of the browser; one that lasts as long as the page where the browser keeps no data for sites. */
function browserStore(name) {
  try {
    return window[name];
  } catch {
    const texts = new Map();
    return {
      getItem: (key) => texts.get(key) ?? null,
      setItem: (key, text) => { texts.set(key, text); },
      removeItem: (key) => { texts.delete(key); },
    };
  }
}

/** A decimal integer of any length, with its thousands apart. */
const grouped = (digits) => String(digits).replace(/\B(?=(\d{3})+(?!\d))/g, ',');

/** A number of ids in as many characters as a column has. */
function compact(number) {
  const steps = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']];
  for (const [size, letter] of steps) {
    if (number >= size * 9.995) return `${(number / size).toPrecision(3)} ${letter}`;
  }
  return grouped(Math.round(number));
}

/** Ids a second; `null` while it is not known. */
function perSecond(rate) {
  if (rate === null) return '–';
  if (rate === 0) return '0/s';
  if (rate < 0.01) return '<0.01/s';
  if (rate < 9.95) return `${rate.toPrecision(2).replace(/\.0$/, '')}/s`;
  return `${compact(rate)}/s`;
}

/** A share from 0 to 1 in as many digits as matter. */
function share(part) {
  const percent = part * 100;
  if (percent === 0) return '0 %';
  if (percent < 0.1) return '<0.1 %';
  if (percent < 9.95) return `${percent.toFixed(1)} %`;
  return `${percent < 99.5 ? Math.round(percent) : percent < 100 ? '>99' : 100} %`;
}

/** A time in its largest unit: `44 s`, `12 min`, `3 h`, `5 d`. */
function span(seconds) {
  if (seconds < 1) return '<1 s';
  if (seconds < 99.5) return `${Math.round(seconds)} s`;
  if (seconds < 99.5 * 60) return `${Math.round(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.round(seconds / 3600)} h`;
  if (seconds < 999.5 * 86400) return `${grouped(Math.round(seconds / 86400))} d`;
  return '>2 years';
}

/** How far the clock of this browser is behind the node's. */
let behindMs = 0;
const nodeNow = () => Date.now() + behindMs;
const ago = (ms) => {
  const seconds = (nodeNow() - ms) / 1000;
  return seconds < 2 ? 'just now' : `${span(seconds)} ago`;
};
const exactTime = (ms) => new Date(ms).toISOString().replace('T', ' ').replace('Z', ' UTC');
const clockTime = (ms) => new Date(ms).toTimeString().slice(0, 8);

/** A time of some milliseconds, or a dash where it is not known. */
function lately(ms) {
  return ms === null || ms === undefined ? '–' : `${ms < 10 ? ms.toFixed(1) : grouped(Math.round(ms))} ms`;
}

/** Milliseconds of a clock, with their sign. */
function offset(ms) {
  const sign = ms > 0 ? '+' : ms < 0 ? '−' : '±';
  const size = Math.abs(ms);
  const text = size < 1000 ? `${size} ms` : size < 10000 ? `${(size / 1000).toFixed(1)} s` : span(size / 1000);
  return sign + text;
}

/** A new element with a class and children, which are elements or text. */
function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

/** Changes the text of an element if it is another, so that nothing moves that stays as it is. */
function write(target, text, title) {
  if (target.textContent !== text) target.textContent = text;
  if (title !== undefined && target.title !== title) target.title = title;
}

function show(target, visible) {
  if (target.hidden === visible) target.hidden = !visible;
}

/** Makes the rows of a table those of `items`. A row stays the element that it was, with its focus. */
function fill(body, items, keyOf, make, update) {
  const before = new Map([...body.children].map((row) => [row.dataset.key, row]));
  items.forEach((item, at) => {
    const key = String(keyOf(item));
    const row = before.get(key) ?? make(item);
    row.dataset.key = key;
    before.delete(key);
    update(row, item);
    if (body.children[at] !== row) body.insertBefore(row, body.children[at] ?? null);
  });
  for (const row of before.values()) row.remove();
}

/** A row with one cell for each of these classes. */
const rowOf = (...classes) => element('tr', '', ...classes.map((name) => element('td', name)));
