// Headless Chromium over its debugging pipe: no packages needed beside Node.js and the browser.
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const candidates = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
export const chromium = candidates.find((path) => path && existsSync(path));

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export class Browser {
  #next = 1;
  #waiting = new Map();
  #rest = '';
  #session;
  /** What the page complained about: exceptions, console errors, requests that left the file. */
  problems = [];

  static async open({ width = 1280, height = 900 } = {}) {
    const browser = new Browser();
    browser.profile = mkdtempSync(join(tmpdir(), 'kernbench-browser-'));
    browser.process = spawn(chromium, ['--headless', '--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-quic', '--disable-background-networking',
      '--disable-component-update', '--disable-sync', '--disable-dev-shm-usage', '--hide-scrollbars', `--window-size=${width},${height}`,
      `--user-data-dir=${browser.profile}`, '--remote-debugging-pipe', 'about:blank'], { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
    browser.process.stdio[4].on('data', (chunk) => browser.#receive(chunk));
    const { targetId } = await browser.send('Target.createTarget', { url: 'about:blank' });
    browser.#session = (await browser.send('Target.attachToTarget', { targetId, flatten: true })).sessionId;
    for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await browser.send(`${domain}.enable`);
    await browser.send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: false });
    return browser;
  }

  send(method, params = {}) {
    const id = this.#next++;
    const session = /^(Target|Browser)\./.test(method) ? undefined : this.#session;
    this.process.stdio[3].write(JSON.stringify({ id, method, params, sessionId: session }) + '\0');
    return new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject, method }));
  }

  #receive(chunk) {
    this.#rest += chunk.toString('utf8');
    for (let end = this.#rest.indexOf('\0'); end >= 0; end = this.#rest.indexOf('\0')) {
      const message = JSON.parse(this.#rest.slice(0, end));
      this.#rest = this.#rest.slice(end + 1);
      const waiting = this.#waiting.get(message.id);
      if (waiting) {
        this.#waiting.delete(message.id);
        if (message.error) waiting.reject(new Error(`${waiting.method}: ${message.error.message}`));
        else waiting.resolve(message.result);
      } else if (message.method === 'Runtime.exceptionThrown') {
        this.problems.push(message.params.exceptionDetails.exception?.description ?? message.params.exceptionDetails.text);
      } else if (message.method === 'Runtime.consoleAPICalled' && ['error', 'warning', 'assert'].includes(message.params.type)) {
        this.problems.push(`console.${message.params.type}: ${message.params.args.map((a) => a.value ?? a.description).join(' ')}`);
      } else if (message.method === 'Log.entryAdded' && message.params.entry.level === 'error') {
        this.problems.push(message.params.entry.text);
      } else if (message.method === 'Network.requestWillBeSent' && !/^(file|data|about):/.test(message.params.request.url)) {
        this.problems.push(`request to ${message.params.request.url}`);
      }
    }
  }

  async goto(url) {
    await this.send('Page.navigate', { url });
    for (let i = 0; i < 600; ++i) {
      if (await this.evaluate('document.body && document.body.dataset.ready === "true"')) return;
      if (this.problems.length) break;
      await sleep(100);
    }
    throw new Error(`the page did not become ready: ${this.problems.join('; ') || 'no reason given'}`);
  }

  /** Value of an expression in the page. */
  async evaluate(expression) {
    const { result, exceptionDetails } = await this.send('Runtime.evaluate', { expression, returnByValue: true, awaitPromise: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  }

  /** Brings an element into view; its place on the screen. */
  async show(selector) {
    return this.evaluate(`(() => { const e = document.querySelector(${JSON.stringify(selector)}); e.scrollIntoView({ block: 'center' });
      const r = e.getBoundingClientRect(); return { x: r.x, y: r.y, width: r.width, height: r.height }; })()`);
  }

  async click(x, y) {
    await this.send('Input.dispatchMouseEvent', { type: 'mouseMoved', x, y });
    for (const type of ['mousePressed', 'mouseReleased']) await this.send('Input.dispatchMouseEvent', { type, x, y, button: 'left', clickCount: 1 });
    await sleep(150);
  }

  async wheel(x, y, deltaY) {
    await this.send('Input.dispatchMouseEvent', { type: 'mouseMoved', x, y });
    await this.send('Input.dispatchMouseEvent', { type: 'mouseWheel', x, y, deltaX: 0, deltaY });
    await sleep(300);
  }

  /** PNG of the whole page, or of one element. */
  async screenshot(selector) {
    let clip;
    if (selector)
      clip = await this.evaluate(`(() => { const r = document.querySelector(${JSON.stringify(selector)}).getBoundingClientRect();
        return { x: r.x + scrollX, y: r.y + scrollY, width: r.width, height: r.height, scale: 1 }; })()`);
    const { data } = await this.send('Page.captureScreenshot', { format: 'png', captureBeyondViewport: true, clip });
    return Buffer.from(data, 'base64');
  }

  async close() {
    const ended = new Promise((resolve) => this.process.once('exit', resolve));
    const late = setTimeout(() => this.process.kill('SIGKILL'), 10000);
    this.send('Browser.close').catch(() => {});
    await ended;
    clearTimeout(late);
    // Helpers of the browser may still be writing to its profile for a moment.
    for (let i = 0; i < 20; ++i) {
      try {
        rmSync(this.profile, { recursive: true, force: true });
        return;
      } catch {
        await sleep(250);
      }
    }
  }
}
