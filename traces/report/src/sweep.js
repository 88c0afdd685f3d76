// The sections of a sweep: curves over a swept key against the theoretical peak, and the table of its points.
import { chart, colourOf } from './charts.js';
import { definitions, h, num, table } from './dom.js';

const at = (summary, path) => path.split('.').reduce((v, k) => v?.[k], summary);
const bound = (s) => Math.max(...['compute_ns', 'memory_ns', 'tcm_ns', 'dispatch_ns'].map((k) => s.bounds?.[k] ?? 0));
const moved = (s) => (at(s, 'dma.read_bytes') ?? 0) + (at(s, 'dma.write_bytes') ?? 0);
const flops = (s) => 2 * (at(s, 'engines.gemm.macs_useful') ?? 0);

/** What can be drawn: its value, and the best that the bounds allow. */
const measures = {
  'latency [ns]': { value: (s) => s.latency_ns, peak: bound, what: 'latency_ns; dashed: the largest lower bound' },
  'bandwidth [GB/s]': { value: (s) => moved(s) / s.latency_ns, peak: (s) => (s.bounds?.memory_ns ? moved(s) / s.bounds.memory_ns : null),
    what: '(dma.read_bytes + dma.write_bytes) / latency; dashed: the same bytes in bounds.memory_ns' },
  'performance [GFLOP/s]': { value: (s) => flops(s) / s.latency_ns, peak: (s) => (s.bounds?.compute_ns ? flops(s) / s.bounds.compute_ns : null),
    what: '2 x macs_useful / latency; dashed: the same work in bounds.compute_ns' },
  'latency / bound': { value: (s) => s.bounds?.ratio, peak: () => 1, what: 'bounds.ratio; dashed: 1, the bound itself' },
  'dispatch [cycles]': { value: (s) => at(s, 'dispatch.cycles_max_pe'), peak: () => null, what: 'dispatch.cycles_max_pe' },
  'GEMM utilisation': { value: (s) => at(s, 'engines.gemm.utilization'), peak: () => 1, what: 'engines.gemm.utilization; dashed: 1' },
};

export function overview(data) {
  return h('section', { id: 'overview' }, h('h1', {}, data.title), h('p', { class: 'sentence' }, data.sentence), table(['what was run', ''], data.setup));
}

export function curves(data) {
  const { keys, points } = data.sweep;
  const done = points.filter((p) => p.summary);
  if (!done.length || !keys.length) return null;
  const numeric = keys.filter((k) => done.some((p) => typeof p.settings[k] === 'number') && done.every((p) => p.settings[k] === undefined || typeof p.settings[k] === 'number'));
  const spread = (k) => new Set(done.map((p) => p.settings[k])).size;
  const state = { x: [...(numeric.length ? numeric : keys)].sort((a, b) => spread(b) - spread(a))[0], y: Object.keys(measures)[0], log: false };
  // Values over more than a decade are easier to read on logarithmic axes.
  const values = done.map((p) => p.settings[state.x]).filter((v) => typeof v === 'number');
  state.log = values.length > 0 && Math.min(...values) > 0 && Math.max(...values) > 10 * Math.min(...values);
  const element = h('div');
  const what = h('p', { class: 'soft' });
  const picked = h('div', { class: 'picked' }, 'Click a point to see its settings. The wheel zooms, dragging moves.');
  const choose = (name, options, key) => h('label', {}, `${name} `, h('select', { id: `sweep-${key}`, onchange: (e) => { state[key] = e.target.value; draw(); } },
    ...options.map((o) => h('option', { value: o, selected: o === state[key] }, o))));
  const section = h('section', { id: 'curves' }, h('h2', {}, 'Curves against the theoretical peak'),
    h('div', { class: 'controls' }, choose('over', keys, 'x'), choose('show', Object.keys(measures), 'y'),
      h('label', {}, h('input', { type: 'checkbox', id: 'sweep-log', checked: state.log, onchange: (e) => { state.log = e.target.checked; draw(); } }), ' logarithmic axes'),
      h('button', { id: 'sweep-all', onclick: () => [0, 1].forEach((i) => instance.dispatchAction({ type: 'dataZoom', dataZoomIndex: i, start: 0, end: 100 })) }, 'all points')),
    element, picked, what, definitions(data, ['latency_ns', 'bounds', 'dma', 'engines.gemm.macs_useful', 'engines.*.utilization', 'dispatch.cycles_max_pe']));
  let instance = null;

  function draw() {
    const measure = measures[state.y];
    const others = keys.filter((k) => k !== state.x);
    const groups = new Map();
    for (const p of done) {
      const x = p.settings[state.x];
      if (x === undefined) continue;
      const label = others.filter((k) => p.settings[k] !== undefined).map((k) => `${k}=${p.settings[k]}`).join(' ') || 'all points';
      if (!groups.has(label)) groups.set(label, []);
      groups.get(label).push([x, measure.value(p.summary), measure.peak(p.summary), p.index]);
    }
    const category = !numeric.includes(state.x);
    const few = groups.size <= 12;
    const series = [];
    // Many groups are a cloud, not curves.
    if (!few) groups.set('', [...groups.values()].flat());
    for (const [i, [label, list]] of [...groups.entries()].filter(([l]) => few || l === '').entries()) {
      list.sort((a, b) => (typeof a[0] === 'number' ? a[0] - b[0] : String(a[0]).localeCompare(String(b[0]))));
      const color = colourOf('', i);
      series.push({ name: few ? label : 'points', type: few ? 'line' : 'scatter', symbolSize: 7, showAllSymbol: true, data: list.filter((r) => r[1] !== undefined).map((r) => [category ? String(r[0]) : r[0], r[1], r[3]]), itemStyle: { color }, lineStyle: { color } });
      if (list.some((r) => r[2]))
        series.push({ name: few ? `${label}, peak` : 'peak', type: few ? 'line' : 'scatter', symbol: few ? 'none' : 'emptyCircle', symbolSize: 5, data: list.filter((r) => r[2]).map((r) => [category ? String(r[0]) : r[0], r[2], r[3]]),
          itemStyle: { color, opacity: 0.6 }, lineStyle: { color, type: 'dashed', opacity: 0.8 } });
    }
    what.textContent = `${state.y}: ${measure.what}.`;
    instance.setOption({
      animation: false,
      textStyle: { fontFamily: 'system-ui, sans-serif' },
      grid: { left: 90, right: 30, top: 60, bottom: 80 },
      legend: { top: 0, type: 'scroll', data: series.map((s) => s.name).filter((n) => !n.endsWith(', peak')) },
      tooltip: { formatter: (p) => `${p.seriesName}<br>${state.x} ${num(p.value[0])}: ${num(p.value[1])}<br>point ${p.value[2]}` },
      dataZoom: [{ type: 'inside' }, { type: 'slider', height: 20, bottom: 8 }],
      xAxis: { type: category ? 'category' : state.log ? 'log' : 'value', name: state.x, nameLocation: 'middle', nameGap: 26, scale: true, ...(state.log && !category ? { min: 'dataMin', max: 'dataMax' } : {}) },
      yAxis: { type: state.log ? 'log' : 'value', name: state.y, scale: state.log },
      series,
    }, { notMerge: true });
  }
  section.draw = () => {
    instance = chart(element, 'curves', 440, {});
    instance.on('click', (p) => {
      const point = points[p.value[2]];
      picked.textContent = `point ${point.index}: ${keys.filter((k) => point.settings[k] !== undefined).map((k) => `${k} ${point.settings[k]}`).join(', ')}; `
        + `${num(point.summary.latency_ns)} ns, bound by ${point.summary.bounds?.bound_by ?? 'nothing'} (${num(point.summary.bounds?.ratio ?? 0)} x the bound)`;
    });
    draw();
  };
  return section;
}

export function points(data) {
  const { keys, points: list } = data.sweep;
  const rows = list.map((p) => [p.index, p.status, ...keys.map((k) => p.settings[k] ?? ''), p.summary?.latency_ns ?? '', p.summary?.bounds?.bound_by ?? '',
    p.summary?.bounds?.ratio ?? '', p.error]);
  return h('section', { id: 'points' }, h('h2', {}, 'Points'), table(['point', 'status', ...keys, 'latency ns', 'bound by', 'latency / bound', 'error'], rows),
    definitions(data, ['latency_ns', 'bounds.bound_by', 'bounds.ratio'], [['status', 'done; wrong_result: numerics outside their tolerance; bad_input, model_error, io_error: the run ended with exit code 2, 3, 4; killed: by a signal; missing: not run']]));
}
