import type { Json } from '#libs/canonical';
import type { Cited, RunEvent } from '#libs/domain/runs';
import type { EventStore, StoredEvent } from '#libs/event-store';
import { InvalidCursor } from '#libs/projecting';
import type { Paging } from '../routes.js';

export interface TimelineEntry {
  readonly revision: string;
  readonly at: string;
  readonly type: string;
  /** Who caused it. */
  readonly by: string;
  readonly text: string;
  /** Of a step: the messages that it cites. Whether their texts are still there is told in a timeline alone. */
  readonly cites?: readonly (Cited & { readonly status?: 'kept' | 'deleted' | 'unknown' })[];
}

export interface TimelinePage {
  readonly items: TimelineEntry[];
  readonly nextCursor: string | null;
}

type DataOf<Type extends RunEvent['type']> = Extract<RunEvent, { type: Type }>['data'];
type Words = { [Type in RunEvent['type']]: (data: DataOf<Type>) => string };

/** Each event in words. Only what is not personal is told, so that nothing has to be opened. */
const words: Words = {
  RunStarted: ({ workflow }) => `The run started, in the workflow ${workflow.name} ${workflow.version}.`,
  RunForked: ({ forkedFrom: { runId, revision } }) =>
    `The run began as a fork of the run ${runId} at revision ${revision}.`,
  LeaseTaken: ({ workerId, number, takenOver }) =>
    `${workerId} ${takenOver ? 'took the run over' : 'resumed the run'} (lease ${number}).`,
  PhaseEntered: ({ phase }) => `The run entered the phase ${phase}.`,
  StepStarted: ({ stepId }) => `The step ${stepId} started.`,
  StepCompleted: ({ stepId }) => `The step ${stepId} was completed.`,
  StepFailed: ({ stepId }) => `The step ${stepId} failed.`,
  DraftSaved: ({ draftId, draftVersion }) => `Version ${draftVersion} of the draft ${draftId} was saved.`,
  FactsRecorded: ({ facts }) => `The worker recorded ${namesOf(facts)}.`,
  FactsRechecked: ({ on, unchanged, changed, unavailable }) => {
    const found = [
      unchanged.length > 0 && `unchanged ${unchanged.join(', ')}`,
      changed.length > 0 && `changed ${namesOf(changed)}`,
      unavailable.length > 0 && `unavailable ${unavailable.join(', ')}`,
    ].filter((part) => part !== false);
    const why = on.kind === 'resume' ? 'to resume the run' : 'to execute the approval';
    return `Facts were looked up again ${why}: ${found.join('; ')}.`;
  },
  ApprovalRequested: ({ draftId, draftVersion, requestedBy, expiresAt }) =>
    `${requestedBy.sub} asked for an approval of version ${draftVersion} of the draft ${draftId}, until ${expiresAt}.`,
  ApprovalDelegated: ({ delegatedBy, to, endsAt }) =>
    `${delegatedBy.sub} let ${to} decide the approval on their authority, until ${endsAt}.`,
  ApprovalEndorsed: ({ decidedBy }) => `${decidedBy.sub} gave the first of two signatures for the approval.`,
  ApprovalGranted: ({ decidedBy }) => `${decidedBy.sub} granted the approval.`,
  ApprovalDenied: ({ decidedBy }) => `${decidedBy.sub} denied the approval.`,
  ApprovalWithdrawn: ({ withdrawnBy, because }) =>
    because === 'run-ended'
      ? 'The approval was withdrawn, since the run ended.'
      : `${withdrawnBy.sub} withdrew the approval.`,
  ApprovalInvalidated: ({ cause }) =>
    cause.kind === 'draft-changed'
      ? `The approval became invalid: the draft has a version ${cause.draftVersion} since.`
      : cause.kind === 'facts-changed'
        ? `The approval became invalid: ${namesOf(cause.facts)} changed.`
        : `The approval became invalid: ${cause.sub} may no longer decide it.`,
  WorkerStateSaved: () => 'The worker saved its state.',
  FilingStarted: ({ draftId }) => `Filing a claim from the draft ${draftId} started.`,
  ReceiptNoted: ({ receiptNumber }) => `The claim was filed; its receipt is ${receiptNumber}.`,
  FilingRefused: ({ code }) => `The claim was not filed: ${code}.`,
  RunCompleted: () => 'The run was completed.',
  RunFailed: () => 'The run failed.',
  RunCancelled: () => 'The run was cancelled.',
};

function namesOf(facts: readonly { name: string }[]): string {
  return facts.map(({ name }) => name).join(', ');
}

/** A page of a run's events, oldest first; the cursor is the revision that the next page begins with. */
export async function timelineFrom(
  store: EventStore,
  stream: string,
  { limit, cursor = '0' }: Paging,
): Promise<TimelinePage> {
  if (!/^\d{1,18}$/.test(cursor)) throw new InvalidCursor('not a cursor that this list gave out');
  const from = BigInt(cursor);
  const items: TimelineEntry[] = [];
  for await (const event of store.read(stream, { from, to: from + BigInt(limit) }))
    items.push(entryOf(event));
  const next = items.length > limit ? items.pop() : undefined;
  return { items, nextCursor: next?.revision ?? null };
}

/** Also of an event that is not as Waymark writes it: what it lacks is left empty, and its words are its type. */
export function entryOf({ type, revision, metadata, data }: StoredEvent): TimelineEntry {
  const { recordedAt = '', actor } = metadata as Partial<typeof metadata>;
  return {
    revision: revision.toString(),
    at: recordedAt,
    type,
    by: actor?.sub ?? '',
    text: told(type, data),
    ...(type.startsWith('Step') &&
      Array.isArray(data['cites']) && { cites: data['cites'] as unknown as Cited[] }),
  };
}

function told(type: string, data: StoredEvent['data']): string {
  if (!Object.hasOwn(words, type)) return type;
  const tell = words[type as RunEvent['type']] as (data: Record<string, Json>) => string;
  try {
    return tell(data);
  } catch (error) {
    if (error instanceof TypeError) return type;
    throw error;
  }
}
