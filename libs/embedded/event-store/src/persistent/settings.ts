import { CallFailed, persistentFailure } from '../errors.js';
import { ALL_STREAM, NAME_LIMIT, streamName } from '../proposed.js';
import { persistent } from '../protocol.js';
import { type Bound, type FilterSpec, boundOf, eventFilter, filterSpec } from '../reads.js';

export type StrategyName = 'RoundRobin' | 'DispatchToSingle' | 'Pinned';

/** Section 6.2; times in milliseconds, `maxSubscriberCount` 0 for any number. */
export interface GroupSettings {
  readonly resolveLinks: boolean;
  readonly extraStatistics: boolean;
  readonly messageTimeout: number;
  readonly maxRetryCount: number;
  readonly checkpointAfter: number;
  readonly minCheckpointCount: number;
  readonly maxCheckpointCount: number;
  readonly maxSubscriberCount: number;
  readonly liveBufferSize: number;
  readonly readBatchSize: number;
  readonly historyBufferSize: number;
  readonly strategy: StrategyName;
}

/** What is kept of a group for ever: who it is and how it works. */
export interface GroupConfig {
  /** `$all` for the whole log. */
  readonly stream: string;
  readonly group: string;
  readonly startFrom: Bound;
  /** The revision or position of the first event it delivers, as `startFrom` meant it when the group was made. */
  readonly begin: number;
  readonly filter?: FilterSpec;
  readonly settings: GroupSettings;
}

type Options =
  InstanceType<typeof persistent.CreateReq.Options> | InstanceType<typeof persistent.UpdateReq.Options>;
type Settings =
  InstanceType<typeof persistent.CreateReq.Settings> | InstanceType<typeof persistent.UpdateReq.Settings>;

const STRATEGIES: readonly StrategyName[] = ['DispatchToSingle', 'RoundRobin', 'Pinned'];
const TICKS_PER_MS = 10_000;
/** The longest time that a timer takes and the protocol's int32 holds: milliseconds, 24.8 days. */
const LONGEST = 2 ** 31 - 1;
/** Events of one group that wait in memory. */
const BUFFER_LIMIT = 4096;
/** Room in the names of a group's own streams for what stands around those of its stream and itself. */
const OWN_NAMES = 64;

export interface Requested {
  readonly stream: string;
  readonly group: string;
  readonly startFrom: Bound;
  readonly filter: FilterSpec | undefined;
  readonly settings: GroupSettings;
}

/** Throws the refusals of section 6.2, and `InvalidRequest`. `lastPosition` is where the log ends. */
export function requested(options: Options, lastPosition: number): Requested {
  const { stream, startFrom } = options.hasAll() ? allTarget(options) : streamTarget(options);
  const group = options.getGroupName();
  const fail = (reason: string): never => {
    throw new CallFailed(persistentFailure('failed', stream, group, reason));
  };
  if (!options.hasAll() && stream === ALL_STREAM) fail('cannot name $all as a stream');
  if (group === '') fail('must have a name');
  if (Buffer.byteLength(stream + group) > NAME_LIMIT - OWN_NAMES) fail('has too long a name');
  const message = options.getSettings();
  if (!message) return fail('has no settings');
  const position = options.getAll()?.getPosition();
  if (position && Number(position.getPreparePosition()) > Number(position.getCommitPosition()))
    fail('must start at a position whose prepare is not beyond its commit');
  if (stream === ALL_STREAM && typeof startFrom === 'number' && startFrom > lastPosition)
    fail('cannot start beyond the end of the log');
  return { stream, group, startFrom, filter: filterIn(options), settings: settingsIn(message, fail) };
}

/** Older clients, and the one in use, name the stream in the options and the revision in the settings. */
function streamTarget(options: Options): Pick<Requested, 'stream' | 'startFrom'> {
  const inner = options.getStream();
  const identifier = (inner ?? options).getStreamIdentifier();
  const name = identifier?.getStreamName_asU8() ?? new Uint8Array();
  if (name.length === 0)
    throw new CallFailed(persistentFailure('failed', '', options.getGroupName(), 'must name a stream'));
  const stream = streamName(name);
  if (inner) return { stream, startFrom: boundOf(inner, () => inner.getRevision()) };
  const revision = Number(options.getSettings()?.getRevision() ?? 0);
  if (revision === 0) return { stream, startFrom: 'start' };
  return { stream, startFrom: revision > Number.MAX_SAFE_INTEGER ? 'end' : revision };
}

function allTarget(options: Options): Pick<Requested, 'stream' | 'startFrom'> {
  const all = options.getAll()!;
  return { stream: ALL_STREAM, startFrom: boundOf(all, () => all.getPosition()?.getCommitPosition()) };
}

function filterIn(options: Options): FilterSpec | undefined {
  const all = options.getAll();
  const filter = all && 'getFilter' in all ? all.getFilter() : undefined;
  if (!filter) return undefined;
  const spec = filterSpec(filter);
  eventFilter(spec);
  return spec;
}

function settingsIn(message: Settings, fail: (reason: string) => never): GroupSettings {
  const named = 'getConsumerStrategy' in message ? message.getConsumerStrategy() : '';
  const strategy = named === '' ? STRATEGIES[message.getNamedConsumerStrategy()] : named;
  const isKnown = (name: string | undefined): name is StrategyName => STRATEGIES.some((one) => one === name);
  if (!isKnown(strategy)) return fail(`cannot use the consumer strategy ${strategy}`);
  const settings: GroupSettings = {
    resolveLinks: message.getResolveLinks(),
    extraStatistics: message.getExtraStatistics(),
    messageTimeout: message.hasMessageTimeoutTicks()
      ? Number(message.getMessageTimeoutTicks()) / TICKS_PER_MS
      : message.getMessageTimeoutMs(),
    maxRetryCount: message.getMaxRetryCount(),
    checkpointAfter: message.hasCheckpointAfterTicks()
      ? Number(message.getCheckpointAfterTicks()) / TICKS_PER_MS
      : message.getCheckpointAfterMs(),
    minCheckpointCount: message.getMinCheckpointCount(),
    maxCheckpointCount: message.getMaxCheckpointCount(),
    maxSubscriberCount: message.getMaxSubscriberCount(),
    liveBufferSize: message.getLiveBufferSize(),
    readBatchSize: message.getReadBatchSize(),
    historyBufferSize: message.getHistoryBufferSize(),
    strategy,
  };
  for (const [name, value] of Object.entries(settings))
    if (typeof value === 'number' && value < 0) fail(`cannot have ${name} below 0 (it is ${value})`);
  for (const name of ['readBatchSize', 'historyBufferSize'] as const)
    if (settings[name] > BUFFER_LIMIT)
      fail(`cannot have ${name} above ${BUFFER_LIMIT} (it is ${settings[name]})`);
  if (settings.readBatchSize >= settings.historyBufferSize)
    fail(
      `must read batches (${settings.readBatchSize}) smaller than its buffer (${settings.historyBufferSize})`,
    );
  if (settings.readBatchSize === 0) fail('must read at least one event at once');
  return withWholeTimes(settings);
}

/** The settings with both times as whole milliseconds that a timer takes: ticks may be finer, and longer. */
export function withWholeTimes(settings: GroupSettings): GroupSettings {
  const whole = (time: number): number => Math.min(LONGEST, Math.round(time));
  const { messageTimeout, checkpointAfter } = settings;
  return { ...settings, messageTimeout: whole(messageTimeout), checkpointAfter: whole(checkpointAfter) };
}

/** How the protocol writes a place in the source (section 6.7): a revision, or a position. */
export const placeText = (stream: string, place: number): string =>
  stream === ALL_STREAM ? `C:${place}/P:${place}` : String(place);

export const startText = ({ stream, startFrom }: Pick<GroupConfig, 'stream' | 'startFrom'>): string =>
  placeText(stream, startFrom === 'start' ? 0 : startFrom === 'end' ? -1 : startFrom);
