import { hostname } from 'node:os';
import { StoreError } from '../errors.js';
import * as options from '../bson/options.js';
import type { PlainDocument } from '../bson/encode.js';
import type { Engine, Reply, Request } from '../engine.js';
import { find } from '../query/find.js';
import type { Collection } from '../storage/catalogue.js';
import { isDue, slices, type Work } from '../work.js';
import type { Command } from './dispatch.js';
import { setName, version } from './handshake.js';
import { emptyDocument, namespaceOf } from './writes.js';

const started = Date.now();

function serverStatus(engine: Engine): PlainDocument {
  const { rss } = process.memoryUsage();
  return {
    host: hostname(),
    version,
    process: 'waymark-document-store',
    pid: BigInt(process.pid),
    uptime: (Date.now() - started) / 1000,
    uptimeMillis: BigInt(Date.now() - started),
    localTime: new Date(),
    connections: { current: engine.connections },
    mem: { bits: 64, resident: Math.round(rss / 1_048_576) },
    repl: { setName, isWritablePrimary: true },
    slices: { count: BigInt(slices.count), longestMillis: slices.longestMillis },
    storageEngine: { name: 'lmdb', supportsCommittedReads: true, persistent: true },
    ok: 1,
  };
}

interface Size {
  count: number;
  size: number;
}

/** Documents and their bytes, counted one by one: the store keeps no running total. */
function measure(engine: Engine, request: Request, collection: Collection): Promise<Size> {
  return engine.read(request, function* (view): Work<Size> {
    const total = { count: 0, size: 0 };
    for (const document of find(view, collection, emptyDocument)) {
      if (!document || isDue()) yield undefined;
      if (document) {
        total.count++;
        total.size += document.bytes.length;
      }
    }
    return total;
  });
}

function scaleOf(request: Request): number {
  const scale = options.whole(request.command, 'scale', 1) ?? 1;
  return scale;
}

async function collStats(engine: Engine, request: Request): Promise<Reply> {
  const ns = namespaceOf(request);
  const collection = engine.collection(request, ns);
  if (!collection) throw new StoreError(26, `Collection [${ns}] not found.`);
  const scale = scaleOf(request);
  const { count, size } = await measure(engine, request, collection);
  const scaled = (bytes: number): number => Math.floor(bytes / scale);
  const indexSizes = Object.fromEntries(
    collection.indexes.map(({ name, table }) => [name, scaled(engine.storage.bytesOf(table))]),
  );
  const storageSize = scaled(engine.storage.bytesOf(collection.records));
  const totalIndexSize = Object.values(indexSizes).reduce((sum, bytes) => sum + bytes, 0);
  return {
    ns,
    count,
    size: scaled(size),
    ...(count > 0 ? { avgObjSize: Math.floor(size / count) } : {}),
    storageSize,
    nindexes: collection.indexes.length,
    indexSizes,
    totalIndexSize,
    totalSize: storageSize + totalIndexSize,
    capped: false,
    scaleFactor: scale,
    ok: 1,
  };
}

async function dbStats(engine: Engine, request: Request): Promise<Reply> {
  const { database } = request;
  const scale = scaleOf(request);
  const collections = engine.catalogue.all().filter((collection) => collection.database === database);
  const sum = { objects: 0, data: 0, storage: 0, indexes: 0, index: 0 };
  for (const collection of collections) {
    const { count, size } = await measure(engine, request, collection);
    sum.objects += count;
    sum.data += size;
    sum.storage += engine.storage.bytesOf(collection.records);
    sum.indexes += collection.indexes.length;
    sum.index += collection.indexes.reduce((bytes, { table }) => bytes + engine.storage.bytesOf(table), 0);
  }
  return {
    db: database,
    collections: collections.length,
    views: 0,
    objects: sum.objects,
    avgObjSize: sum.objects > 0 ? sum.data / sum.objects : 0,
    dataSize: sum.data / scale,
    storageSize: sum.storage / scale,
    indexes: sum.indexes,
    indexSize: sum.index / scale,
    totalSize: (sum.storage + sum.index) / scale,
    scaleFactor: scale,
    ok: 1,
  };
}

export const statisticsCommands: Readonly<Record<string, Command>> = {
  serverStatus: { fields: '*', needs: 'root', run: serverStatus },
  collStats: { fields: 'scale', needs: 'read', run: collStats },
  dbStats: { fields: 'scale freeStorage', needs: 'read', run: dbStats },
};
