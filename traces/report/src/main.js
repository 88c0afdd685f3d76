import css from './style.css';
import { h } from './dom.js';
import * as run from './run.js';
import * as sweep from './sweep.js';

const data = JSON.parse(document.getElementById('data').textContent);
document.head.append(h('style', {}, css));
const sections = (data.kind === 'sweep'
  ? [sweep.overview, sweep.curves, sweep.points]
  : [run.overview, run.bounds, run.path, run.stalls, run.timeline, run.roofline, run.map, run.counters]).map((make) => make(data)).filter(Boolean);
const missing = data.notes.map((n) => h('p', { class: 'soft' }, n));
document.body.append(h('main', {}, ...sections, missing.length ? h('section', { id: 'notes' }, h('h2', {}, 'Not shown'), ...missing) : null));
// Charts measure their element, so they are drawn when all of them are in the page.
for (const section of sections) section.draw?.();
document.body.dataset.ready = 'true';
