// Chromium, and what every page of it is held to.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

// Without the last ones a start looks for hosts that a machine without a network does not reach.
const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync'];
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

export class Browser {
  constructor(chromiumProcess, directory) {
    this.chromium = chromiumProcess;
    this.directory = directory;
    /** What pages complained of, but for what a test expected. */
    this.complaints = [];
  }

  static async start(executablePath, directory) {
    return new Browser(await chromium.launch({ executablePath, args: FLAGS }), directory);
  }

  /** A page of its own context. `allowed` is what its console may say. */
  async open(url, { width = 1440, height = 900, scheme = 'light', allowed = null, context = null } = {}) {
    const own = context ?? await this.chromium.newContext({ viewport: { width, height }, colorScheme: scheme, bypassCSP: false });
    const page = await own.newPage();
    page.allowed = allowed;
    page.asked = [];
    page.on('console', (message) => {
      const isComplaint = ['error', 'warning'].includes(message.type()) && !page.allowed?.test(message.text());
      if (isComplaint) this.complaints.push(`${message.type()}: ${message.text()} (${message.location().url})`);
    });
    page.on('pageerror', (error) => this.complaints.push(`uncaught: ${error.stack}`));
    page.on('request', (request) => page.asked.push({ url: new URL(request.url()), headers: request.headers() }));
    await page.goto(url);
    return page;
  }

  async shot(page, name, options = {}) {
    await page.screenshot({ path: join(this.directory, `${name}.png`), fullPage: true, ...options });
  }

  /** What axe-core finds fault with. It is let in by the debugger, past the policy of the page. */
  async faults(page) {
    await page.evaluate(AXE);
    const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
    return found.violations.map((fault) => `${fault.id} (${fault.impact}): ${fault.nodes.slice(0, 3).map((node) => node.html.slice(0, 120)).join(' | ')}`);
  }

  async close() {
    await this.chromium.close();
  }
}

/** Waits until an element's text is as told. */
export async function reads(page, selector, pattern, timeout = 45000) {
  await page.waitForFunction(([where, source, flags]) => {
    const text = document.querySelector(where)?.textContent ?? '';
    return new RegExp(source, flags).test(text);
  }, [selector, pattern.source, pattern.flags], { timeout, polling: 50 }).catch(async (error) => {
    const text = await page.textContent(selector).catch(() => 'nothing');
    throw new Error(`${selector} reads "${text}", not ${pattern} (${error.message.split('\n')[0]})`);
  });
}

/** The names of the tags on the page, in their order. */
export const shownTags = (page) => page.$$eval('#tags-rows tr', (rows) => rows.map((row) => row.dataset.key));
