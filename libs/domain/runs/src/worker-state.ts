import { canonicalJson, digestOf, type Json } from '#libs/canonical';
import { refuse, type Refusal } from '#libs/decider';
import { applyPatch, createPatch, type Operation } from 'rfc6902';
import type { RunEvent } from './events.js';
import type { Outcome, RunRefusal, SaveWorkerState } from './commands.js';
import type { Run } from './state.js';

type Saved = Extract<RunEvent, { type: 'WorkerStateSaved' }>['data'];
type Content = Saved['content'];

/** What a worker saved last: the state itself, or where in the payload store it is. */
export interface WorkerState {
  state?: Json;
  payload?: { digest: string; bytes: number };
  /** What the differences since the last whole state take together. */
  differenceBytes?: number;
  label?: string;
  savedAt: string;
}

export function foldWorkerState(
  held: WorkerState | undefined,
  { content, label, savedAt }: Saved,
): WorkerState {
  return { ...folded(held, content), savedAt, ...(label !== undefined && { label }) };
}

function folded(
  held: WorkerState | undefined,
  content: Content,
): Pick<WorkerState, 'state' | 'payload' | 'differenceBytes'> {
  if (content.kind === 'payload') return { payload: { digest: content.digest, bytes: content.bytes } };
  if (content.kind === 'whole') return { state: content.state };
  if (content.kind === 'patch') return { state: mergePatch(held?.state, content.patch) };
  const differenceBytes = (held?.differenceBytes ?? 0) + sizeOf(content.operations);
  return { state: applyDifference(held?.state ?? null, content.operations), differenceBytes };
}

/**
 * What is stored of a state, as small as it can be: its difference from the one before, or the whole where that is no
 * larger than all differences since the last whole, or a reference where it is too large for an event.
 */
export function contentOf(
  { inlineBytes = Infinity, payload }: SaveWorkerState,
  { workerState: held, started }: Run,
  next: Json,
  size: number,
): Content | Refusal<RunRefusal> {
  if (size > inlineBytes) {
    if (payload?.of === digestOf(next))
      return { kind: 'payload', digest: payload.digest, bytes: payload.bytes };
    return refuse('payload-required', 'The state has to be put into the payload store first.', {
      customerId: started.customerId,
      state: next,
    });
  }
  const operations = held?.state === undefined ? undefined : differenceOf(held.state, next);
  if (operations === undefined || (held?.differenceBytes ?? 0) + sizeOf(operations) > size)
    return { kind: 'whole', state: next };
  return { kind: 'difference', operations };
}

/** The payloads that an event cites; they stand there plainly, also in the event as stored. */
export function payloadsCitedBy({ type, data }: RunEvent): readonly string[] {
  if (type === 'RunForked') return data.cites;
  return type === 'WorkerStateSaved' && data.content.kind === 'payload' ? [data.content.digest] : [];
}

export function isContent(content: Content | Exclude<Outcome, unknown[]>): content is Content {
  return 'kind' in content;
}

/** Comparing two lists takes as long as the product of their lengths: so much for all lists of a state together. */
const MOST_COMPARED = 100_000;

/** Names that the library passes over in a pointer, which then leads elsewhere. */
const UNREACHABLE = /\/(__proto__|constructor|prototype)(\/|$)/;

/** A JSON Patch (RFC 6902) from one state to another; undefined where none leads there. */
export function differenceOf(before: Json, after: Json): Json[] | undefined {
  let left = MOST_COMPARED;
  const operations = createPatch(before, after, (from: unknown, to: unknown, pointer) => {
    if (!Array.isArray(from) || !Array.isArray(to)) return undefined;
    left -= from.length * to.length;
    if (left >= 0) return undefined;
    return listDifference(from as Json[], to as Json[], pointer.toString());
  }) as unknown as Json[];
  if (operations.some((each) => UNREACHABLE.test((each as { path: string }).path))) return undefined;
  return leadsTo(before, operations, after) ? operations : undefined;
}

/** The library throws where an operation of its own making meets a scalar in place of a list or an object. */
function leadsTo(before: Json, operations: Json[], after: Json): boolean {
  try {
    return canonicalJson(applyDifference(before, operations)) === canonicalJson(after);
  } catch (error) {
    if (error instanceof TypeError) return false;
    throw error;
  }
}

/** Of long lists: what they begin with in common stays, the rest is replaced. */
function listDifference(from: Json[], to: Json[], path: string): Operation[] {
  const end = Math.min(from.length, to.length);
  let same = 0;
  while (same < end && canonicalJson(from[same]) === canonicalJson(to[same])) same += 1;
  const removed = from.slice(same).map((): Operation => ({ op: 'remove', path: `${path}/${same}` }));
  const added = to.slice(same).map((value): Operation => ({ op: 'add', path: `${path}/-`, value }));
  return removed.length + added.length < to.length
    ? [...removed, ...added]
    : [{ op: 'replace', path, value: to }];
}

/** The state that a difference leads to; the one given stays as it is. */
export function applyDifference(state: Json, operations: Json): Json {
  const copy = structuredClone(state);
  applyPatch(copy, operations as unknown as Operation[]);
  return copy;
}

function sizeOf(value: Json): number {
  return JSON.stringify(value).length;
}

/** RFC 7396. */
export function mergePatch(target: Json | undefined, patch: Json): Json {
  if (!isObject(patch)) return patch;
  const merged = new Map(isObject(target) ? Object.entries(target) : []);
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) merged.delete(key);
    else merged.set(key, mergePatch(merged.get(key), value));
  }
  return Object.fromEntries(merged);
}

function isObject(value: Json | undefined): value is { [key: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
