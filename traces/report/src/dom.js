// Small helpers: elements, numbers, definitions of metrics.

/** h('p', {class: 'soft'}, 'text', child) */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.filter((c) => c !== null && c !== undefined));
  return element;
}

const formats = new Map();
function format(decimals) {
  if (!formats.has(decimals))
    formats.set(decimals, new Intl.NumberFormat('en-US', { minimumFractionDigits: 0, maximumFractionDigits: decimals }));
  return formats.get(decimals);
}

/** 1234567.25 as "1,234,567.25"; small and large numbers with six digits. */
export function num(value, decimals = 3) {
  if (typeof value !== 'number') return String(value);
  if (value !== 0 && (Math.abs(value) < 10 ** -decimals || Math.abs(value) >= 1e15)) return Number(value.toPrecision(6)).toString();
  return format(decimals).format(value);
}

export const percent = (share) => (share > 0 && share < 0.0005 ? '< 0.1 %' : `${format(1).format(100 * share)} %`);

export function table(columns, rows) {
  return h('div', { class: 'scroll' }, h('table', {},
    h('thead', {}, h('tr', {}, ...columns.map((c) => h('th', {}, c)))),
    h('tbody', {}, ...rows.map((r) => h('tr', {}, ...r.map((v) => h('td', {}, typeof v === 'number' ? num(v) : String(v ?? '')))))),
  ));
}

/** What the metrics shown above mean; `names` are keys of the summary, `more` is [[name, text]]. */
export function definitions(data, names, more = []) {
  const entries = more.map(([name, text]) => [name, '', text]);
  for (const m of data.metrics) if (names.some((n) => m.name === n || m.name.startsWith(n + '.'))) entries.push([m.name, m.unit, m.text]);
  if (entries.length === 0) return null;
  return h('details', { class: 'definitions' }, h('summary', {}, 'What these numbers mean'),
    h('dl', {}, ...entries.flatMap(([name, unit, text]) => [h('dt', {}, unit ? `${name} [${unit}]` : name), h('dd', {}, text)])));
}
