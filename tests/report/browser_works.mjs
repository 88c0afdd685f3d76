// Exits with 0 when there is a Chromium that opens a page.
import { Browser, chromium } from './browser.mjs';

if (!chromium) process.exit(1);
setTimeout(() => process.exit(1), 30000);
const browser = await Browser.open();
const works = (await browser.evaluate('6 * 7')) === 42;
await browser.close();
process.exit(works ? 0 : 1);
