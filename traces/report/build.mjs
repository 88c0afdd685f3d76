// Bundles src/ and the parts of ECharts that it uses into dist/report.js, one file that needs nothing else:
//
//   npm install && npm run build
//
// The result is committed, so that building kernbench needs neither npm nor a network.
import { build } from 'esbuild';

await build({
  entryPoints: ['src/main.js'],
  bundle: true,
  minify: true,
  format: 'iife',
  target: 'es2020',
  charset: 'utf8',
  loader: { '.css': 'text' },
  legalComments: 'inline',
  banner: { js: '/*! kernbench report. Contains Apache ECharts (Apache-2.0), zrender (BSD-3-Clause) and tslib (0BSD): see traces/report/LICENSES.md */' },
  outfile: 'dist/report.js',
});
