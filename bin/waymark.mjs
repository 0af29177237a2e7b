#!/usr/bin/env node
import { build } from './build.mjs';

try {
  build();
} catch (error) {
  console.error(`waymark: ${error instanceof Error ? error.message : error}`);
  process.exit(1);
}
await import('../dist/apps/waymark/src/main.js');
