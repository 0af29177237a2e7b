import { StoreError } from '../errors.js';
import type { Documents } from '../storage/cursors.js';
import { isDue } from '../work.js';
import type { Found } from './find.js';

export function* asDocuments(found: Found): Documents {
  for (const document of found) yield document?.bytes;
}

export function* asFound(documents: Documents): Found {
  for (const bytes of documents) yield bytes && { record: 0, bytes };
}

export function* mapped(input: Documents, change: (document: Buffer) => Buffer): Documents {
  for (const document of input) yield document && change(document);
}

/** Bytes of documents one stage may hold. */
const maximumHeld = 100 * 1024 * 1024;

/** All documents at once, for a stage that needs them; its own turns are the input's. */
export function* held(input: Documents, stage: string): Generator<undefined, Buffer[], void> {
  const kept: Buffer[] = [];
  let bytes = 0;
  for (const document of input) {
    if (!document || isDue()) yield undefined;
    if (!document) continue;
    kept.push(document);
    bytes += document.length;
    if (bytes > maximumHeld) throw new StoreError(146, `${stage} holds at most ${maximumHeld} bytes`);
  }
  return kept;
}

/** Documents that are there already. */
export function* given(documents: readonly Buffer[]): Documents {
  for (const document of documents) {
    yield document;
    if (isDue()) yield undefined;
  }
}
