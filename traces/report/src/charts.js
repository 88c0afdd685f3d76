// The parts of ECharts that the report uses, and what its charts share.
import * as echarts from 'echarts/core';
import { BarChart, CustomChart, LineChart, ScatterChart } from 'echarts/charts';
import { DataZoomComponent, GridComponent, LegendComponent, MarkLineComponent, TooltipComponent, VisualMapComponent } from 'echarts/components';
import { CanvasRenderer } from 'echarts/renderers';

echarts.use([BarChart, CustomChart, LineChart, ScatterChart, DataZoomComponent, GridComponent, LegendComponent,
  MarkLineComponent, TooltipComponent, VisualMapComponent, CanvasRenderer]);

export { echarts };

/** Busy is green, idle grey, each cause of a stall has its own colour everywhere. */
export const colours = {
  busy: '#2f9e5b', idle: '#d5dbe3',
  operands_dma: '#1f6feb', operands_fetch: '#58a6ff', operands_gemm: '#8250df', operands_math: '#bf87ff', operands_ipcq: '#d4419a',
  hazard: '#cf222e', buffer: '#e8760a', engine: '#f2b01e', credit: '#8c5a2b', command_queue: '#0b7a75', dispatch: '#57606a',
};
const palette = ['#1f6feb', '#e8760a', '#2f9e5b', '#cf222e', '#8250df', '#0b7a75', '#d4419a', '#8c5a2b', '#57606a', '#f2b01e'];
export const colourOf = (name, index) => colours[name] ?? palette[index % palette.length];

/** A chart in an element of the given height that follows the window's width. Listed in window.kernbenchCharts by name. */
export function chart(element, name, height, option) {
  element.className = 'chart';
  element.style.height = `${height}px`;
  element.id = `chart-${name}`;
  const instance = echarts.init(element, null, { renderer: 'canvas' });
  instance.setOption({ animation: false, textStyle: { fontFamily: 'system-ui, sans-serif' }, ...option });
  window.addEventListener('resize', () => instance.resize());
  (window.kernbenchCharts ??= {})[name] = instance;
  return instance;
}
