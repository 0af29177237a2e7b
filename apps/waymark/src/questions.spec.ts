import { once } from 'node:events';
import { MessageChannel } from 'node:worker_threads';
import { ReadModelUnavailable } from '#libs/projecting';
import { answerOn, Questions } from './questions.js';

let channel: MessageChannel;
beforeEach(() => {
  channel = new MessageChannel();
});
afterEach(async () => {
  const closed = once(channel.port1, 'close');
  channel.port1.close();
  await closed;
});

describe('questions to a thread', () => {
  it('are answered each with its own, and one that fails there fails here and no other', async () => {
    answerOn(channel.port2, async (question: string) => {
      if (question === 'away') throw new ReadModelUnavailable('the document store does not answer');
      if (question === 'broken') throw new TypeError('no such projection');
      return question === 'unsendable' ? () => undefined : `${question}!`;
    });
    const questions = new Questions<string>(channel.port1);
    const asked = ['away', 'broken', 'unsendable', 'well'].map((each) => questions.ask(each));
    expect(await Promise.allSettled(asked)).toMatchObject([
      { reason: { name: 'ReadModelUnavailable', message: 'the document store does not answer' } },
      { reason: { name: 'Error', message: 'no such projection' } },
      { reason: { name: 'Error', message: expect.stringContaining('could not be cloned') as string } },
      { value: 'well!' },
    ]);
  });

  it('fail once the thread is gone, those that wait and those asked later', async () => {
    const questions = new Questions<string>(channel.port1);
    const waiting = questions.ask('anything');
    questions.end();
    await expect(waiting).rejects.toThrow(ReadModelUnavailable);
    await expect(questions.ask('more')).rejects.toThrow(ReadModelUnavailable);
  });
});
