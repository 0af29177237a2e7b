import {
  copyFileSync,
  createReadStream,
  createWriteStream,
  existsSync,
  mkdirSync,
  readdirSync,
  statSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { readExtent, writeExtent } from './extent.js';
import { ForeignFolder, MARKER, USERS_FILE, readMarker, syncFolder } from './folder.js';
import { SegmentLog } from './log.js';
import type { StoredEvent } from './record.js';
import { segmentFiles } from './segments.js';
import { uuidText } from './wire.js';

/** An event as `dump` prints it; `removed` by scavenging. Bytes that are no text are shown as base64. */
export interface DumpedEvent {
  readonly position: number;
  readonly stream: string;
  readonly revision: number | 'tombstone';
  readonly id: string;
  readonly type: string;
  readonly created: string;
  readonly removed: boolean;
  readonly metadata: string;
  readonly data: string;
}

export interface Inspected {
  readonly events: number;
  /** What opening the folder would cut off; of a store that runs, what it is writing at the moment. */
  readonly notices: readonly string[];
}

/**
 * Verifies every checksum of a folder and hands its events to `onEvent` in order, changing nothing; the store may run.
 * Throws `DamagedLog` at the first thing that is not what was written, and `ForeignFolder`.
 */
export function inspectEventStore(folder: string, onEvent?: (event: DumpedEvent) => void): Inspected {
  const notices: string[] = [];
  let events = 0;
  const options = {
    folder,
    salt: saltOf(folder),
    segmentBytes: Infinity,
    onNotice: (notice: string) => void notices.push(notice),
    readOnly: true,
  };
  SegmentLog.open(options, (event) => {
    events += 1;
    onEvent?.(dumped(event));
  }).close();
  return { events, notices };
}

/**
 * Copies the store of `folder` into `target`, a new or empty folder, while it runs or not. The copy opens, and holds all
 * that was acknowledged before the call: the log only grows, and of its last file an unfinished end is cut at opening.
 * The marker comes last, so that a copy that was interrupted is no store. Rejects with `ForeignFolder`.
 */
export async function backupEventStore(folder: string, target: string): Promise<void> {
  saltOf(folder);
  mkdirSync(target, { recursive: true });
  if (readdirSync(target).length > 0) throw new ForeignFolder(`${target} is not empty`);
  const { position } = readExtent(folder);
  // The last file has no bytes while it is being made, and nothing in it is acknowledged.
  const files = segmentFiles(folder, 1)
    .map((file) => ({ file, size: statSync(file).size }))
    .filter(({ size }) => size > 0);
  for (const { file, size } of files) {
    const copy = createWriteStream(join(target, basename(file)), { flush: true });
    await pipeline(createReadStream(file, { end: size - 1 }), copy);
  }
  writeExtent(target, { segments: files.length, position });
  if (existsSync(join(folder, USERS_FILE))) copyFileSync(join(folder, USERS_FILE), join(target, USERS_FILE));
  copyFileSync(join(folder, MARKER), join(target, MARKER));
  syncFolder(target);
}

function saltOf(folder: string): number {
  const marker = readMarker(folder);
  if (!marker) throw new ForeignFolder(`${folder} holds no event store`);
  return marker.salt;
}

const text = (bytes: Buffer): string => {
  const value = bytes.toString('utf8');
  return Buffer.from(value).equals(bytes) ? value : bytes.toString('base64');
};

const dumped = (event: StoredEvent): DumpedEvent => ({
  position: event.position,
  stream: event.stream,
  revision: event.tombstone ? 'tombstone' : event.revision,
  id: uuidText(event.bytes.subarray(event.idAt, event.idAt + 16)),
  type: event.type,
  created: new Date(event.created).toISOString(),
  removed: event.gone,
  metadata: text(event.bytes.subarray(event.metadataAt, event.dataAt)),
  data: text(event.data),
});
