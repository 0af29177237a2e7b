import { persistent, shared } from '../protocol.js';
import { requested } from './settings.js';

type Settings = InstanceType<typeof persistent.CreateReq.Settings>;

const settingsOf = (change: (settings: Settings) => void) => {
  const settings = new persistent.CreateReq.Settings()
    .setConsumerStrategy('RoundRobin')
    .setMessageTimeoutMs(30_000)
    .setCheckpointAfterMs(2000)
    .setReadBatchSize(20)
    .setHistoryBufferSize(500);
  change(settings);
  const stream = new shared.StreamIdentifier().setStreamName(new Uint8Array(Buffer.from('work')));
  const options = new persistent.CreateReq.Options()
    .setStreamIdentifier(stream)
    .setGroupName('g')
    .setSettings(settings);
  return requested(options, 0).settings;
};

const DAY = 24n * 3_600_000n * 10_000n;

it.each([
  [5n, 0],
  [5000n, 1],
  [15_000n, 2],
  [24n * DAY, 2_073_600_000],
  [30n * DAY, 2_147_483_647],
  [9_223_372_036_854_775_807n, 2_147_483_647],
])('%d ticks are %d ms, whole and no longer than a timer takes', (ticks, milliseconds) => {
  const { messageTimeout, checkpointAfter } = settingsOf((settings) =>
    settings.setMessageTimeoutTicks(String(ticks)).setCheckpointAfterTicks(String(ticks)),
  );
  expect([messageTimeout, checkpointAfter]).toEqual([milliseconds, milliseconds]);
});

it.each<[string, (settings: Settings) => void]>([
  ['cannot have messageTimeout below 0 (it is -0.0001)', (settings) => settings.setMessageTimeoutTicks('-1')],
  ['cannot have checkpointAfter below 0 (it is -1)', (settings) => settings.setCheckpointAfterMs(-1)],
  [
    'cannot have readBatchSize above 4096 (it is 4097)',
    (settings) => settings.setReadBatchSize(4097).setHistoryBufferSize(5000),
  ],
  [
    'cannot have historyBufferSize above 4096 (it is 2147483647)',
    (settings) => settings.setHistoryBufferSize(2_147_483_647),
  ],
])('refuses: %s', (reason, change) => {
  expect(() => settingsOf(change)).toThrow(`Subscription group g on stream work ${reason}.`);
});

it('takes the largest buffer there is', () => {
  const { readBatchSize, historyBufferSize } = settingsOf((settings) =>
    settings.setReadBatchSize(4095).setHistoryBufferSize(4096),
  );
  expect([readBatchSize, historyBufferSize]).toEqual([4095, 4096]);
});
