// Prints where axe-core is: the checks of accessibility that tests run in pages.
import { createRequire } from 'node:module';

console.log(createRequire(import.meta.url).resolve('axe-core/axe.min.js'));
