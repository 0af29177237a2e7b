import { personalFields, unmarkedFields } from '#libs/decider';
import { runEvents } from './events.js';

describe('stored run events', () => {
  it.each(Object.entries(runEvents))('%s marks every text as personal or plain', (_type, schema) => {
    expect(unmarkedFields(schema)).toEqual([]);
  });

  it('seal every free text and what a notice says', () => {
    const sealed = Object.entries(runEvents).flatMap(([type, schema]) =>
      personalFields(schema).map(({ path }) => `${type}.${path.join('.')}`),
    );
    expect(sealed).toEqual(
      expect.arrayContaining([
        'StepStarted.name',
        'StepCompleted.name',
        'StepFailed.name',
        'WorkerStateSaved.label',
        'ApprovalRequested.summary',
        'ApprovalRequested.requires.authority',
      ]),
    );
  });

  it.each([
    ['PhaseEntered', 'phase', runEvents.PhaseEntered.shape.phase],
    ['RunStarted', 'workflow.name', runEvents.RunStarted.shape.workflow.shape.name],
    ['RunStarted', 'workflow.version', runEvents.RunStarted.shape.workflow.shape.version],
    ['LeaseTaken', 'workerId', runEvents.LeaseTaken.shape.workerId],
    ['ApprovalRequested', 'basedOn', runEvents.ApprovalRequested.shape.basedOn.element],
    ['FilingRefused', 'code', runEvents.FilingRefused.shape.code],
  ])('%s holds an identifier in %s, never free text', (_type, _field, schema) => {
    expect(schema.safeParse('intake:2.1_a-b').success).toBe(true);
    for (const text of ['', 'call Ana Ruiz', 'ana@example.org', '-a', 'x'.repeat(129)])
      expect([text, schema.safeParse(text).success]).toEqual([text, false]);
  });
});
