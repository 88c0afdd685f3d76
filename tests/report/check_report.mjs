// Opens report pages in a browser and uses them as a person would:
//
//   node check_report.mjs PAGE.html [SECTION,SECTION...]
//
// SECTIONs are the sections that the page must have (default: those of a run). Exits with 1 when something is not in order.
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Browser, chromium } from './browser.mjs';

if (!chromium) {
  console.error('found no Chromium (Debian: chromium; or set CHROMIUM to its path)');
  process.exit(1);
}
const [page, list = 'overview,bounds,path,stalls,timeline,roofline,map,counters'] = process.argv.slice(2);
const sections = list.split(',');
const failures = [];
const check = (ok, what) => { if (!ok) failures.push(what); };
const zoom = (name, at = 0) => `(() => { const z = kernbenchCharts.${name}.getOption().dataZoom[${at}]; return z.end - z.start; })()`;

const browser = await Browser.open();
try {
  await browser.goto(pathToFileURL(resolve(page)).href);
  const present = await browser.evaluate('[...document.querySelectorAll("section")].map((s) => s.id)');
  for (const s of sections) check(present.includes(s), `section ${s} is missing (there are ${present.join(', ')})`);

  // Every chart has been painted: its canvas has pixels of more than a few colours.
  const charts = await browser.evaluate('Object.keys(window.kernbenchCharts ?? {})');
  check(charts.length > 0, 'no chart was made');
  for (const name of charts) {
    await browser.show(`#chart-${name}`);
    const colours = await browser.evaluate(`(() => { const seen = new Set();
      for (const c of document.querySelectorAll('#chart-${name} canvas')) {
        const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 0) seen.add((d[i] << 16) | (d[i + 1] << 8) | d[i + 2]);
      }
      return seen.size; })()`);
    check(colours > 8, `chart ${name} shows ${colours} colours`);
  }

  if (sections.includes('path')) {
    // The parts add up to the latency, in numbers and in the picture.
    const rows = await browser.evaluate('[...document.querySelectorAll("#path tbody tr")].map((r) => Number(r.children[2].textContent.replaceAll(",", "")))');
    const drawn = await browser.evaluate('kernbenchCharts.path.getOption().series.reduce((n, s) => n + s.data[0], 0)');
    const [latency, ...parts] = rows;
    const sum = parts.reduce((a, b) => a + b, 0);
    check(parts.length > 1 && Math.abs(sum - latency) < 0.01 && Math.abs(drawn - latency) < 0.01, `the critical path adds up to ${sum} in its table and ${drawn} in its picture, not to ${latency}`);
  }
  if (sections.includes('stalls')) {
    const sums = await browser.evaluate('[...document.querySelectorAll("#stalls tbody tr")].map((r) => r.lastElementChild.textContent)');
    check(sums.length > 0 && sums.every((s) => s === '100 %'), `stall stacks add up to ${sums.join(', ')}`);
  }
  if (sections.includes('timeline')) {
    const box = await browser.show('#chart-timeline');
    const before = await browser.evaluate(zoom('timeline'));
    await browser.wheel(box.x + box.width / 2, box.y + 60, -400);
    const after = await browser.evaluate(zoom('timeline'));
    check(after < before, `the wheel did not zoom the timeline (${before} to ${after})`);
    await browser.evaluate('document.getElementById("whole").click()');
    check((await browser.evaluate(zoom('timeline'))) === 100, 'the button did not show the whole run again');

    // The middle of an operation, by the chart's own coordinates; the longest one is the easiest to hit.
    const place = await browser.evaluate(`(() => { const c = kernbenchCharts.timeline, o = c.getOption();
      const d = o.series[0].data.reduce((a, b) => (b[2] - b[1] > a[2] - a[1] ? b : a));
      return c.convertToPixel({ xAxisIndex: 0, yAxisIndex: 0 }, [(d[1] + d[2]) / 2, d[0]]); })()`);
    const chart = await browser.show('#chart-timeline');
    await browser.click(chart.x + place[0], chart.y + place[1]);
    const text = await browser.evaluate('document.getElementById("picked").textContent');
    check(/ ns/.test(text) && !/^Click/.test(text), `a click on an operation says '${text}'`);

    const boxes = await browser.evaluate('document.querySelectorAll("#timeline input[type=checkbox]").length');
    if (boxes > 1) {
      const rows = 'kernbenchCharts.timeline.getOption().yAxis[0].data.length';
      const few = await browser.evaluate(rows);
      await browser.evaluate('document.querySelectorAll("#timeline input[type=checkbox]")[1].click()');
      check((await browser.evaluate(rows)) > few, 'choosing another PE adds no rows');
    }
  }
  if (sections.includes('map')) {
    const box = await browser.show('#chart-map');
    const before = await browser.evaluate(zoom('map'));
    await browser.wheel(box.x + box.width / 2, box.y + box.height / 2, -400);
    check((await browser.evaluate(zoom('map'))) < before, 'the wheel did not zoom the map');
    check(await browser.evaluate('kernbenchCharts.map.getOption().series[0].data.some((l) => l.value[4] > 0)'), 'no link of the map was used');
  }
  if (sections.includes('curves')) {
    const chartOf = 'kernbenchCharts.curves.getOption()';
    // For each quantity: points, and against them the peak, which no point is better than.
    const quantities = await browser.evaluate('[...document.getElementById("sweep-y").options].map((o) => o.value)');
    let peaks = 0;
    for (const [i, quantity] of quantities.entries()) {
      const series = await browser.evaluate(`(() => { const s = document.getElementById('sweep-y'); s.selectedIndex = ${i}; s.dispatchEvent(new Event('change'));
        return ${chartOf}.series.map((x) => ({ name: x.name, points: x.data.map((d) => d.value ?? d) })); })()`);
      const curves = series.filter((s) => !/peak$/.test(s.name));
      check(curves.length > 0 && curves.every((s) => s.points.length > 0), `${quantity}: the curves have no points`);
      // Times and ratios lie above their bound, rates below.
      const above = /latency/.test(quantity);
      for (const c of curves) {
        const peak = series.find((s) => s.name === `${c.name}, peak`);
        if (!peak) continue;
        ++peaks;
        check(c.points.every(([, value], k) => (above ? value >= peak.points[k][1] * (1 - 1e-9) : value <= peak.points[k][1] * (1 + 1e-9))),
          `${quantity}: ${c.name} is better than its peak`);
      }
    }
    check(peaks >= 4, 'no peak stands beside the curves');
    await browser.evaluate("(() => { const s = document.getElementById('sweep-y'); s.selectedIndex = 0; s.dispatchEvent(new Event('change')); })()");

    const box = await browser.show('#chart-curves');
    const before = await browser.evaluate(zoom('curves'));
    await browser.wheel(box.x + box.width / 2, box.y + box.height / 2, -400);
    check((await browser.evaluate(zoom('curves'))) < before, 'the wheel did not zoom the curves');
    await browser.evaluate('document.getElementById("sweep-all").click()');
    check((await browser.evaluate(zoom('curves'))) === 100, 'the button did not show all points again');

    const place = await browser.evaluate(`(() => { const c = kernbenchCharts.curves, p = c.getOption().series[0].data[1];
      return c.convertToPixel({ xAxisIndex: 0, yAxisIndex: 0 }, (p.value ?? p).slice(0, 2)); })()`);
    const chart = await browser.show('#chart-curves');
    await browser.click(chart.x + place[0], chart.y + place[1]);
    const text = await browser.evaluate('document.querySelector("#curves .picked").textContent');
    check(/^point \d+: /.test(text), `a click on a point says '${text}'`);
    const axis = await browser.evaluate(`${chartOf}.yAxis[0].type`);
    await browser.evaluate('document.getElementById("sweep-log").click()');
    check((await browser.evaluate(`${chartOf}.yAxis[0].type`)) === (axis === 'log' ? 'value' : 'log'), 'the choice of axes changes nothing');
  }
  const undefinedMetrics = await browser.evaluate('[...document.querySelectorAll("section")].filter((s) => s.id !== "notes" && s.id !== "overview" && !s.querySelector("dl dt")).map((s) => s.id)');
  check(undefinedMetrics.length === 0, `no definitions stand in ${undefinedMetrics.join(', ')}`);
  const blanks = await browser.evaluate('/undefined|NaN|\\[object/.exec(document.querySelector("main").innerText)?.[0] ?? ""');
  check(blanks === '', `the page says '${blanks}'`);
} catch (error) {
  failures.push(error.message);
}
failures.push(...browser.problems);
await browser.close();
for (const f of failures) console.error(`failed: ${f}`);
console.log(failures.length ? `${page}: ${failures.length} problems` : `${page}: in order`);
process.exit(failures.length ? 1 : 0);
