// Named people and things for everyone's specs. A history is the whole list of a stream's events, oldest first.
import { digestOf } from '#libs/canonical';
import { receiptNumberOf, type ClaimCommand, type ClaimEvent } from '#libs/domain/claims';
import { claimIdOf, type LossNotice, type SaltedNotice } from '#libs/domain/losses';
import type { ProfileEvent } from '#libs/domain/profiles';
import type { LeaseShown, Party, RunEvent } from '#libs/domain/runs';
import type { RegisterStaff, StaffEvent, Standing } from '#libs/domain/staff';

type EventNamed<Type extends RunEvent['type']> = Extract<RunEvent, { type: Type }>;

export const people = {
  carol: { sub: 'carol', actFor: [] },
  assistant: { sub: 'intake-assistant', actFor: [] },
  dana: { sub: 'dana', actFor: [] },
  sam: { sub: 'sam', actFor: [] },
} satisfies Record<string, Party>;

/** What the register says of the staff among them. */
export const standings = {
  dana: { roles: ['adjuster'], authorityLimit: { amount: '10000.00', currency: 'USD' } },
  sam: { roles: ['supervisor'] },
} satisfies Record<string, Standing>;

export const tenant = 'acme';
export const runId = '5f0c2a54-6d0e-4c8e-9d3b-3a1f5f1f0a01';
export const customerId = '0b6a3c1e-8a54-4c57-b0f6-7f4f5b9a2c02';
export const draftId = 'collision';
export const approvalId = `${runId}.1`;
export const claimId = claimIdOf(tenant, runId, draftId);
const receiptSeed = digestOf('the seed of the receipt');
export const receiptNumber = receiptNumberOf(receiptSeed);

const nine = Date.parse('2026-03-02T09:00:00.000Z');

/** A time on the day of the examples, so many seconds after nine o'clock. */
export function seconds(after: number): string {
  return new Date(nine + after * 1000).toISOString();
}

export const notice: LossNotice = {
  policyNumber: 'PA-204-5518',
  lossDate: '2026-02-28',
  lossType: 'auto-collision',
  lossLocation: { city: 'Columbus', region: 'OH' },
  description: 'Rear-ended at a red light; bumper and tail lamp broken.',
  estimatedAmount: { amount: '1250.00', currency: 'USD' },
  vehicles: [{ make: 'Saab', model: '92x', year: 2004 }],
  injuries: 0,
};
export const salted: SaltedNotice = { salt: '00112233445566778899aabbccddeeff', notice };
export const changed: SaltedNotice = {
  salt: 'ffeeddccbbaa99887766554433221100',
  notice: { ...notice, estimatedAmount: { amount: '1800.00', currency: 'USD' } },
};
export const digest = digestOf(salted);

/** The lease of the worker `intake-1`, as it is shown with that worker's commands. */
export const lease: LeaseShown = {
  number: 1,
  secretDigest: digestOf('the secret of lease 1'),
  holder: people.assistant.sub,
};
/** The lease that a second worker takes after it. */
export const secondLease: LeaseShown = {
  number: 2,
  secretDigest: digestOf('the secret of lease 2'),
  holder: people.assistant.sub,
};

const runStarted: EventNamed<'RunStarted'> = {
  type: 'RunStarted',
  data: {
    runId,
    originRunId: runId,
    workflow: { name: 'auto-claim-intake', version: '1' },
    customerId,
    input: { channel: 'web' },
    customer: people.carol,
    startedAt: seconds(0),
  },
};

function leaseTaken(shown: LeaseShown, workerId: string, after: number): EventNamed<'LeaseTaken'> {
  const times = { leaseSeconds: 60, takenAt: seconds(after), expiresAt: seconds(after + 60) };
  return { type: 'LeaseTaken', data: { ...shown, workerId, takenOver: false, ...times } };
}

const draftSaved: EventNamed<'DraftSaved'> = {
  type: 'DraftSaved',
  data: { draftId, draftVersion: 1, kind: 'claim', content: salted, digest, savedAt: seconds(20) },
};

const approvalRequested: EventNamed<'ApprovalRequested'> = {
  type: 'ApprovalRequested',
  data: {
    approvalId,
    draftId,
    draftVersion: 1,
    digest,
    summary: 'Rear-end collision, 1250.00 USD estimated.',
    basedOn: [],
    requestedBy: people.assistant,
    requires: { signatures: 1, authority: notice.estimatedAmount },
    executeWithinSeconds: 86_400,
    requestedAt: seconds(30),
    expiresAt: seconds(30 + 3600),
  },
};

const approvalGranted: EventNamed<'ApprovalGranted'> = {
  type: 'ApprovalGranted',
  data: {
    approvalId,
    digest,
    decidedBy: people.dana,
    comment: 'Photos match the description.',
    grantedAt: seconds(600),
    executeBy: seconds(600 + 86_400),
  },
};

const approvalDenied: EventNamed<'ApprovalDenied'> = {
  type: 'ApprovalDenied',
  data: { approvalId, digest, decidedBy: people.dana, comment: 'Reported twice.', deniedAt: seconds(600) },
};

const filingStarted: EventNamed<'FilingStarted'> = {
  type: 'FilingStarted',
  data: { approvalId, draftId, draftVersion: 1, digest, claimId, startedAt: seconds(601) },
};

const receiptNoted: EventNamed<'ReceiptNoted'> = {
  type: 'ReceiptNoted',
  data: { approvalId, draftId, claimId, receiptNumber, filedAt: seconds(602), notedAt: seconds(603) },
};

export const startedRun: RunEvent[] = [runStarted];
export const leasedRun: RunEvent[] = [...startedRun, leaseTaken(lease, 'intake-1', 1)];
export const takenByAnother: RunEvent[] = [...leasedRun, leaseTaken(secondLease, 'intake-2', 120)];
export const draftedRun: RunEvent[] = [...leasedRun, draftSaved];
export const pendingApproval: RunEvent[] = [...draftedRun, approvalRequested];
export const grantedByDana: RunEvent[] = [...pendingApproval, approvalGranted];
export const deniedByDana: RunEvent[] = [...pendingApproval, approvalDenied];
export const filingRun: RunEvent[] = [...grantedByDana, filingStarted];
export const filedRun: RunEvent[] = [...filingRun, receiptNoted];

export const fileClaim: Extract<ClaimCommand, { type: 'FileClaim' }> = {
  type: 'FileClaim',
  tenant,
  claimId,
  customerId,
  origin: {
    runId,
    originRunId: runId,
    draftId,
    draftVersion: 1,
    approvalId,
    digest,
    facts: [],
    decidedBy: [people.dana.sub],
    runRevision: '5',
  },
  content: salted,
  approvedDigest: digest,
  receiptSeed,
  at: seconds(602),
};

const {
  tenant: _tenant,
  type: _type,
  approvedDigest: _digest,
  receiptSeed: _seed,
  at: filedAt,
  ...filed
} = fileClaim;
export const filedClaim: ClaimEvent[] = [{ type: 'ClaimFiled', data: { ...filed, receiptNumber, filedAt } }];

export const registerDana: RegisterStaff = {
  type: 'RegisterStaff',
  sub: people.dana.sub,
  roles: ['adjuster'],
  authorityLimit: { amount: '10000.00', currency: 'USD' },
  active: true,
  registeredBy: people.sam.sub,
  founding: false,
  at: seconds(-60),
};
export const danaRegistered: Extract<StaffEvent, { type: 'StaffRegistered' }> = {
  type: 'StaffRegistered',
  data: {
    sub: people.dana.sub,
    roles: ['adjuster'],
    authorityLimit: { amount: '10000.00', currency: 'USD' },
    active: true,
    registeredBy: people.sam.sub,
    registeredAt: seconds(-60),
  },
};
export const staffChanged: Extract<StaffEvent, { type: 'StaffChanged' }> = {
  type: 'StaffChanged',
  data: {
    sub: people.dana.sub,
    roles: ['adjuster'],
    active: false,
    changedBy: 'sam',
    changedAt: seconds(60),
  },
};
export const proposalId = '7c1d2e3f-4a5b-5c6d-8e7f-901a2b3c4d5e';
const opened: ProfileEvent = { type: 'ProfileOpened', data: { customerId, openedAt: seconds(700) } };
const proposed: ProfileEvent = {
  type: 'PreferenceProposed',
  data: {
    proposalId,
    key: 'contact.channel',
    value: 'sms',
    runId,
    quoteMessageId: 'message-7',
    proposedBy: people.assistant.sub,
    proposedAt: seconds(700),
  },
};
const approved: ProfileEvent = {
  type: 'PreferenceApproved',
  data: { proposalId, key: 'contact.channel', approvedBy: people.carol.sub, approvedAt: seconds(800) },
};
const languageSet: ProfileEvent = {
  type: 'PreferenceSet',
  data: { key: 'contact.language', value: 'en', setBy: people.carol.sub, setAt: seconds(900) },
};

export const proposedProfile: ProfileEvent[] = [opened, proposed];
/** The customer approved contact by text message, and chose a language. */
export const approvedProfile: ProfileEvent[] = [...proposedProfile, approved, languageSet];
