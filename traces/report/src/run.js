// The sections of one run.
import { chart, colourOf, colours, echarts } from './charts.js';
import { definitions, h, num, percent, table } from './dom.js';

export function overview(data) {
  return h('section', { id: 'overview' }, h('h1', {}, data.title), h('p', { class: 'sentence' }, data.sentence),
    table(['what was run', ''], data.setup),
    definitions(data, ['latency_ns', 'bounds'], []));
}

export function bounds(data) {
  const s = data.summary;
  if (!s.bounds || !s.latency_ns) return null;
  const names = ['compute', 'memory', 'tcm', 'dispatch'];
  const values = names.map((n) => s.bounds[`${n}_ns`] ?? 0);
  const section = h('section', { id: 'bounds' }, h('h2', {}, 'Latency and its lower bounds'),
    h('p', { class: 'soft' }, `No schedule of this work on this machine can end before the longest of these: ${num(Math.max(...values))} ns. `
      + `The run took ${num(s.latency_ns)} ns, ${num(s.bounds.ratio)} times that.`));
  const element = h('div');
  section.append(element, definitions(data, ['latency_ns', 'bounds']));
  section.draw = () => chart(element, 'bounds', 200, {
    grid: { left: 90, right: 40, top: 10, bottom: 40 },
    tooltip: { valueFormatter: (v) => `${num(v)} ns` },
    xAxis: { type: 'value', name: 'ns', nameLocation: 'middle', nameGap: 26 },
    yAxis: { type: 'category', inverse: true, data: [...names, 'latency'] },
    series: [{ type: 'bar', barWidth: '60%', data: [...values.map((v, i) => ({ value: v, itemStyle: { color: names[i] === s.bounds.bound_by ? '#cf222e' : '#8fa3bd' } })),
      { value: s.latency_ns, itemStyle: { color: '#1f6feb' } }] }],
  });
  return section;
}

/** The chain of operations that decided when the run ended: parts that add up to the latency. */
export function path(data) {
  const p = data.path;
  if (!p) return null;
  const whats = [...new Set(p.parts.map(([what]) => what))];
  const sum = (what) => p.parts.filter(([w]) => w === what).reduce((s, [, , ns]) => s + ns, 0);
  whats.sort((a, b) => sum(b) - sum(a));
  const section = h('section', { id: 'path' }, h('h2', {}, 'What the latency was made of'),
    h('p', { class: 'soft' }, `The critical path, ${num(p.steps)} steps: from the operation that ended last back to whatever ended last before it could start. `
      + `Its parts add up to the latency of ${num(p.latency_ns)} ns. Speeding up what is not on it gains nothing.`));
  const element = h('div');
  const total = p.parts.reduce((s, [, , ns]) => s + ns, 0);
  section.append(element, table(['operation', 'of command', 'ns', 'share', 'steps'],
    [['the latency', '', total, percent(total / p.latency_ns), p.steps], ...p.parts.map(([what, kind, ns, steps]) => [what, kind, ns, percent(ns / p.latency_ns), steps])]),
  definitions(data, [], [
    ['dispatch', 'the cpu issues the commands (fixed cycles and cycles per byte)'],
    ['scheduler', 'acceptance of a command, pe.scheduler.overhead_ns'],
    ['dma_read, dma_write', 'a transfer from issue to its last response, as long as it takes without other traffic'],
    ['... contention', 'what the same transfers took beyond that, because others used the links and channels'],
    ['fetch, store', 'TCM to registers and back'],
    ['in flight', 'a message of a queue, from its send to the write of its slot'],
    ['wait', 'time that no operation covers: a wait for a slot, a credit or a hazard'],
    ['steps', 'operations and gaps of this kind on the path'],
  ]));
  section.draw = () => chart(element, 'path', 110, {
    grid: { left: 12, right: 12, top: 46, bottom: 24 },
    legend: { top: 0, type: 'scroll' },
    tooltip: { formatter: (q) => `${q.seriesName}: ${num(q.value)} ns, ${percent(q.value / p.latency_ns)}` },
    xAxis: { type: 'value', max: p.latency_ns, axisLabel: { formatter: (v) => `${num(v)} ns`, hideOverlap: true, showMaxLabel: false } },
    yAxis: { type: 'category', data: ['latency'], show: false },
    series: whats.map((w, i) => ({ name: w, type: 'bar', stack: 'path', barWidth: '80%', itemStyle: { color: operationColour(w, i) }, data: [sum(w)] })),
  });
  return section;
}

/** Where every engine's time went: stacks that add up to 100 %. */
export function stalls(data) {
  if (!data.accounts.length) return null;
  const causes = [];
  for (const a of data.accounts) for (const [name] of a.parts) if (!causes.includes(name)) causes.push(name);
  causes.sort((a, b) => (a === 'busy' ? -1 : b === 'busy' ? 1 : a === 'idle' ? 1 : b === 'idle' ? -1 : 0));
  const share = (a, cause) => (a.parts.find(([n]) => n === cause)?.[1] ?? 0) / a.total;
  const section = h('section', { id: 'stalls' }, h('h2', {}, 'Where the time of each engine went'),
    h('p', { class: 'soft' }, 'Each bar is the time of one kind of engine over all PEs of the run: working (busy), waiting with work to do (by cause), '
      + 'and without work (idle). The parts add up to 100 %.'));
  const element = h('div');
  section.append(element, table(['engine', ...causes.map((c) => c.replace('_', ' ')), 'sum'], data.accounts.map((a) =>
    [a.engine, ...causes.map((c) => (share(a, c) ? percent(share(a, c)) : '')), percent(causes.reduce((sum, c) => sum + share(a, c), 0))])),
  definitions(data, ['engines.*.busy_ns', 'engines.*.stall_ns', 'engines.*.idle_ns', 'engines.*.utilization']));
  section.draw = () => chart(element, 'stalls', 70 + 30 * data.accounts.length, {
    grid: { left: 90, right: 30, top: 46, bottom: 24 },
    legend: { top: 0, type: 'scroll' },
    tooltip: { trigger: 'item', formatter: (p) => `${p.name}: ${p.seriesName} ${num(p.value, 2)} %` },
    xAxis: { type: 'value', max: 100, axisLabel: { formatter: '{value} %' } },
    yAxis: { type: 'category', inverse: true, data: data.accounts.map((a) => a.engine) },
    series: causes.map((c, i) => ({ name: c, type: 'bar', stack: 'time', barWidth: '70%', itemStyle: { color: colourOf(c, i) },
      data: data.accounts.map((a) => 100 * share(a, c)) })),
  });
  return section;
}

const operationColours = {
  dma_read: '#1f6feb', dma_write: '#0b7a75', fetch: '#58a6ff', store: '#54c7bd', gemm: '#2f9e5b', math: '#8250df',
  send: '#d4419a', recv: '#e8760a', slot_write: '#f2b01e', credit: '#8c5a2b', command: '#57606a', command_done: '#a9b4c2',
};

/** Contention is the operation's colour, lighter. */
function operationColour(what, index) {
  const own = { dispatch: '#57606a', scheduler: '#a9b4c2', 'in flight': '#d4419a', wait: '#d5dbe3' };
  const name = what.replace(' contention', '');
  const colour = own[name] ?? operationColours[name] ?? colourOf('', index);
  return name === what ? colour : `${colour}80`;
}

/** Engines of some PEs over time; wheel and slider zoom, a click tells what an operation was. */
export function timeline(data) {
  const t = data.timeline;
  if (!t) return null;
  const chosen = new Set(t.pes.slice(0, 1).map((p) => p.name));
  const picked = h('div', { class: 'picked', id: 'picked' }, 'Click an operation to see what it was. The wheel zooms, dragging moves.');
  const element = h('div');
  const boxes = t.pes.map((p) => h('label', {}, h('input', { type: 'checkbox', value: p.name, checked: chosen.has(p.name),
    onchange: (e) => { if (e.target.checked) chosen.add(p.name); else chosen.delete(p.name); draw(); } }), ` ${p.name}`));
  const section = h('section', { id: 'timeline' }, h('h2', {}, 'Timeline'),
    h('p', { class: 'soft' }, `What the engines of these PEs did over ${num(t.end_ns)} ns.`
      + (t.merged ? ' Operations that follow one another closely are drawn as one block that says how many they are; the op log has them all.' : '')),
    h('div', { class: 'controls' }, ...boxes, h('button', { id: 'whole', onclick: () => instance.dispatchAction({ type: 'dataZoom', start: 0, end: 100 }) }, 'whole run')),
    element, h('div', { class: 'chips' }, ...t.names.map((n) => h('span', {}, h('i', { style: `background: ${operationColours[n] ?? '#57606a'}` }), n))), picked,
    definitions(data, [], [
      ['row', 'an engine of a PE, as in the names of the op log'],
      ['block', 'one finished operation of that engine, from its start to its end; colours are kinds of operations'],
      ['command', 'number of the command in its PE, in the order of issue'],
      ['tile', 'place m, n, k of the operation in the tile loop of a GEMM'],
    ]));
  let instance = null;

  function draw() {
    const rows = t.pes.filter((p) => chosen.has(p.name)).flatMap((p) => p.rows.map((r) => ({ label: `${p.name} ${r.engine}`, ops: r.ops })));
    const items = rows.flatMap((r, row) => r.ops.map((o) => [row, o[0] / 1000, (o[0] + o[1]) / 1000, o[2], o[3], o[4] ?? null, o[5] ?? 1]));
    const height = 90 + 24 * Math.max(1, rows.length);
    element.style.height = `${height}px`;
    instance.resize();
    instance.setOption({
      grid: { left: 190, right: 30, top: 10, bottom: 74 },
      legend: { show: false },
      tooltip: { formatter: (p) => describe(p.data, rows) },
      dataZoom: [{ type: 'inside', filterMode: 'weakFilter', zoomOnMouseWheel: true, moveOnMouseMove: true },
        { type: 'slider', filterMode: 'weakFilter', height: 22, bottom: 10, labelFormatter: (v) => `${num(v, 1)} ns` }],
      xAxis: { type: 'value', min: 0, max: t.end_ns, name: 'ns', nameLocation: 'middle', nameGap: 24, axisLabel: { hideOverlap: true } },
      yAxis: { type: 'category', inverse: true, data: rows.map((r) => r.label), axisLabel: { fontSize: 11 } },
      series: [{ type: 'custom', renderItem: block, encode: { x: [1, 2], y: 0 }, data: items, clip: true, progressive: 4000 }],
    }, { replaceMerge: ['series', 'yAxis'] });
  }

  function block(params, api) {
    const row = api.value(0);
    const from = api.coord([api.value(1), row]), to = api.coord([api.value(2), row]);
    const height = api.size([0, 1])[1] * 0.72;
    const shape = echarts.graphic.clipRectByRect(
      { x: from[0], y: from[1] - height / 2, width: Math.max(to[0] - from[0], 0.7), height },
      { x: params.coordSys.x, y: params.coordSys.y, width: params.coordSys.width, height: params.coordSys.height });
    return shape && { type: 'rect', shape, style: { fill: operationColours[t.names[api.value(3)]] ?? '#57606a' } };
  }

  function describe(d, rows) {
    const what = d[6] > 1 ? `${num(d[6])} operations, the first ${t.names[d[3]]}` : t.names[d[3]];
    return `${rows[d[0]].label}: ${what}\n${num(d[1])} .. ${num(d[2])} ns (${num(d[2] - d[1])} ns)`
      + (d[4] >= 0 ? `\ncommand ${d[4]}` : '') + (d[5] ? `, tile m ${d[5][0]}, n ${d[5][1]}, k ${d[5][2]}` : '');
  }

  section.draw = () => {
    instance = chart(element, 'timeline', 300, { tooltip: { extraCssText: 'white-space: pre-line' } });
    instance.on('click', (p) => {
      const rows = t.pes.filter((q) => chosen.has(q.name)).flatMap((q) => q.rows.map((r) => ({ label: `${q.name} ${r.engine}` })));
      picked.textContent = describe(p.data, rows);
    });
    draw();
  };
  return section;
}

/** Performance over arithmetic intensity, under the roofs of compute and memory. */
export function roofline(data) {
  const r = data.roofline;
  if (!r) return null;
  const section = h('section', { id: 'roofline' }, h('h2', {}, 'Roofline'),
    h('p', { class: 'soft' }, `${r.pes} PEs: peak ${num(r.peak_gflops)} GFLOP/s, memory ${num(r.memory_gbs)} GB/s; the roofs meet at ${num(r.peak_gflops / r.memory_gbs)} FLOP/byte. `
      + `The run did ${num(r.gflops)} GFLOP/s (${percent(r.gflops / r.peak_gflops)} of the peak) at ${num(r.intensity)} FLOP/byte. `
      + (r.padded_gflops < r.peak_gflops ? `Of the slots of the MAC array that were occupied, ${percent(r.padded_gflops / r.peak_gflops)} did useful work and the rest padded ragged edges, which lowers the ceiling to ${num(r.padded_gflops)} GFLOP/s.`
        : 'Every slot of the MAC array that was occupied did useful work, so the padded ceiling is the peak.')));
  const element = h('div');
  section.append(element, definitions(data, ['engines.gemm.macs_useful', 'engines.gemm.macs_padded'], [
    ['GFLOP/s', '2 x macs_useful / latency'],
    ['FLOP/byte', '2 x macs_useful / (dma.read_bytes + dma.write_bytes)'],
    ['peak', '2 x MAC-array slots per cycle for the dtype x clock x PEs of the run'],
    ['padded ceiling', 'peak x macs_useful / macs_padded: what these shapes can reach at most on this array'],
    ['memory roof', 'bandwidth of the HBM slices of the PEs of the run, or of the PE DMA links where these are slower'],
  ]));
  const ridge = r.peak_gflops / r.memory_gbs;
  const low = Math.min(ridge, r.intensity) / 8, high = Math.max(ridge, r.intensity) * 8;
  const roof = (peak) => [[low, low * r.memory_gbs], [peak / r.memory_gbs, peak], [high, peak]];
  section.draw = () => chart(element, 'roofline', 380, {
    grid: { left: 80, right: 30, top: 40, bottom: 50 },
    legend: { top: 0 },
    tooltip: { formatter: (p) => `${p.seriesName}<br>${num(p.value[0])} FLOP/byte, ${num(p.value[1])} GFLOP/s` },
    xAxis: { type: 'log', name: 'FLOP/byte', nameLocation: 'middle', nameGap: 28, min: low, max: high, axisLabel: { formatter: (v) => num(v), showMinLabel: false, showMaxLabel: false } },
    yAxis: { type: 'log', name: 'GFLOP/s', min: Math.min(low * r.memory_gbs, r.gflops) / 2, axisLabel: { formatter: (v) => num(v), showMinLabel: false } },
    series: [
      { name: 'peak and memory', type: 'line', symbol: 'none', data: roof(r.peak_gflops), lineStyle: { color: '#1c2430', width: 2 }, itemStyle: { color: '#1c2430' } },
      { name: 'padded ceiling', type: 'line', symbol: 'none', data: roof(r.padded_gflops), lineStyle: { color: '#e8760a', type: 'dashed', width: 2 }, itemStyle: { color: '#e8760a' } },
      { name: 'this run', type: 'scatter', symbolSize: 14, data: [[r.intensity, r.gflops]], itemStyle: { color: '#1f6feb' } },
    ],
  });
  return section;
}

const scale = ['#e1e7ef', '#fed976', '#fd8d3c', '#e31a1c', '#800026'];

/** The machine as a map: links coloured by use, memories by the use of their channels. */
export function map(data) {
  const m = data.map;
  if (!m) return null;
  const kinds = { router: 'routers', pe: 'PEs', hbm: 'HBM slices', ucie: 'UCIe connections', other: 'IO, SRAM, m_cpu' };
  const symbols = { router: ['circle', 5, '#8fa3bd'], pe: ['roundRect', 8, '#2f9e5b'], ucie: ['diamond', 7, '#8250df'], other: ['triangle', 8, '#57606a'] };
  const section = h('section', { id: 'map' }, h('h2', {}, 'Use of links and memories'),
    h('p', { class: 'soft' }, `Each line is one direction of a link; it runs to the right of its way. Wheel and drag zoom and move. The busiest: ${m.busiest}.`));
  const element = h('div');
  const picked = h('div', { class: 'picked' }, 'Click a link or a memory to see what it carried.');
  section.append(element, picked, table(['link or channel', 'GB/s', 'bytes', 'busy ns', 'use'],
    m.top.map((l) => [l.name, l.bw_gbs, l.bytes, l.busy_ns, percent(l.use)])), definitions(data, [], [
    ['use', 'time in which the link or channel was occupied / kernel time, between 0 and 1'],
    ['bytes', 'bytes carried over it in the launches of the run, flits rounded up to 32 bytes'],
    ['HBM slice', 'coloured by the mean use of its pseudo channels'],
  ]));
  const [width, depth] = m.size;
  // Used links lie above the others.
  m.links.sort((a, b) => a[4] - b[4]);

  function link(params, api) {
    const from = api.coord([api.value(0), api.value(1)]), to = api.coord([api.value(2), api.value(3)]);
    return { type: 'line', shape: { x1: from[0], y1: from[1], x2: to[0], y2: to[1] }, style: { stroke: api.visual('color'), lineWidth: api.value(4) > 0 ? 3 : 1.5 } };
  }
  section.draw = () => {
    const pixels = element.clientWidth || 1160;
    const instance = chart(element, 'map', Math.min(760, Math.max(420, (pixels * depth) / width)), {
      grid: { left: 10, right: 10, top: 40, bottom: 50 },
      legend: { top: 0 },
      tooltip: { formatter: (p) => p.data.text ?? p.data.name ?? '' },
      // Links and memories keep their use in the same dimension.
      visualMap: { type: 'continuous', min: 0, max: 1, seriesIndex: [0, 1], dimension: 4, orient: 'horizontal', left: 'center', bottom: 0,
        inRange: { color: scale }, text: ['in use 100 % of the time', '0 %'] },
      dataZoom: [{ type: 'inside', xAxisIndex: 0, filterMode: 'none' }, { type: 'inside', yAxisIndex: 0, filterMode: 'none' }],
      xAxis: { type: 'value', min: -1.5, max: width - 1.5, show: false },
      yAxis: { type: 'value', min: -1.5, max: depth - 1.5, inverse: true, show: false },
      series: [
        { name: 'links', type: 'custom', clip: true, renderItem: link, encode: { x: [0, 2], y: [1, 3] }, itemStyle: { color: scale[0] },
          data: m.links.map((l) => ({ value: l.slice(0, 5), text: `${l[5]}: ${num(l[6])} bytes at ${num(l[7])} GB/s, use ${percent(l[4])}` })) },
        { name: kinds.hbm, type: 'scatter', symbol: 'rect', symbolSize: 9, itemStyle: { color: scale[2], borderColor: '#57606a', borderWidth: 0.8, opacity: 1 },
          data: m.nodes.filter((n) => n[2] === 'hbm').map((n) => ({ value: [n[0], n[1], 0, 0, n[4] ?? 0], text: `${n[3]}: mean use of its channels ${percent(n[4] ?? 0)}` })) },
        ...Object.entries(symbols).map(([kind, [symbol, size, color]]) => ({ name: kinds[kind], type: 'scatter', symbol, symbolSize: size, itemStyle: { color },
          data: m.nodes.filter((n) => n[2] === kind).map((n) => ({ value: [n[0], n[1]], text: n[3] })) })),
      ],
    });
    instance.on('click', (p) => { if (p.data?.text) picked.textContent = p.data.text; });
  };
  return section;
}

export function counters(data) {
  const s = data.summary;
  const rows = [];
  const add = (prefix, value) => {
    if (value && typeof value === 'object' && !Array.isArray(value)) for (const [k, v] of Object.entries(value)) add(`${prefix}.${k}`, v);
    else if (value !== null && !Array.isArray(value)) rows.push([prefix, value]);
  };
  for (const group of ['dispatch', 'dma', 'ipcq', 'numerics', 'sim']) add(group, s[group]);
  for (const k of ['macs_useful', 'macs_padded']) add(`engines.gemm.${k}`, s.engines?.gemm?.[k]);
  add('wall_s', s.wall_s);
  const section = h('section', { id: 'counters' }, h('h2', {}, 'Counters'), table(['metric', 'value'], rows.filter(([, v]) => v !== undefined)),
    definitions(data, ['dispatch', 'dma', 'ipcq', 'numerics', 'sim', 'wall_s', 'engines.gemm.macs_useful', 'engines.gemm.macs_padded']));
  const tables = Object.entries(s.tables ?? {}).filter(([, r]) => Array.isArray(r) && r.length);
  for (const [name, list] of tables) {
    const columns = Object.keys(list[0]);
    section.append(h('h2', {}, name), table(columns, list.map((r) => columns.map((c) => r[c]))));
  }
  return section;
}

export { colours };
