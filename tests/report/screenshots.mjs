// Pictures of report pages for the documentation:
//
//   node screenshots.mjs FOLDER PAGE.html=NAME[:SECTION]...
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Browser, chromium } from './browser.mjs';

if (!chromium) {
  console.error('skipped: no Chromium (Debian: chromium; or set CHROMIUM to its path)');
  process.exit(77);
}
const [folder, ...pictures] = process.argv.slice(2);
const browser = await Browser.open({ width: 1280, height: 1000 });
try {
  for (const picture of pictures) {
    const [page, target] = picture.split('=');
    const [name, section] = target.split(':');
    await browser.goto(pathToFileURL(resolve(page)).href);
    writeFileSync(join(folder, `${name}.png`), await browser.screenshot(section ? `#${section}` : undefined));
    console.log(join(folder, `${name}.png`));
  }
} finally {
  await browser.close();
}
if (browser.problems.length) {
  console.error(browser.problems.join('\n'));
  process.exit(1);
}
