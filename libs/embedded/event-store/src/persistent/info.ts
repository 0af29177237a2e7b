import { persistent } from '../protocol.js';
import type { GroupClient } from './consumer.js';
import type { Group } from './group.js';
import { placeText, startText } from './settings.js';

type Info = InstanceType<typeof persistent.SubscriptionInfo>;
type Connection = InstanceType<typeof persistent.SubscriptionInfo.ConnectionInfo>;
type Measurement = InstanceType<typeof persistent.SubscriptionInfo.Measurement>;

const perSecond = (items: number, since: number): number =>
  Math.round((items * 1000) / Math.max(1, Date.now() - since));

/** What a group is and how it is doing, section 6.7. */
export function infoOf(group: Group): Info {
  const { config, source, clients } = group;
  const { checkpoints, fresh, retries, sent } = group;
  const { settings } = config;
  const place = (value: number | undefined): string =>
    value === undefined || value < 0 ? '' : placeText(config.stream, value);
  const live = source.atEnd;
  return new persistent.SubscriptionInfo()
    .setEventSource(config.stream)
    .setGroupName(config.group)
    .setStatus(live ? 'Live' : 'Behind')
    .setConnectionsList(clients.map((client) => connectionOf(client, settings.extraStatistics)))
    .setAveragePerSecond(perSecond(group.totalItems, group.startedAt))
    .setTotalItems(String(group.totalItems))
    .setCountSinceLastMeasurement(String(group.totalItems))
    .setLastCheckpointedEventPosition(place(checkpoints.written))
    .setLastKnownEventPosition(place(source.last))
    .setResolveLinkTos(settings.resolveLinks)
    .setStartFrom(startText(config))
    .setMessageTimeoutMilliseconds(settings.messageTimeout)
    .setExtraStatistics(settings.extraStatistics)
    .setMaxRetryCount(settings.maxRetryCount)
    .setLiveBufferSize(settings.liveBufferSize)
    .setBufferSize(settings.historyBufferSize)
    .setReadBatchSize(settings.readBatchSize)
    .setCheckPointAfterMilliseconds(settings.checkpointAfter)
    .setMinCheckPointCount(settings.minCheckpointCount)
    .setMaxCheckPointCount(settings.maxCheckpointCount)
    .setReadBufferCount(live ? 0 : fresh.length)
    .setLiveBufferCount(String(live ? fresh.length : 0))
    .setRetryBufferCount(retries.length)
    .setTotalInFlightMessages(clients.reduce((sum, { inFlight }) => sum + inFlight.size, 0))
    .setOutstandingMessagesCount(sent.size)
    .setNamedConsumerStrategy(settings.strategy)
    .setMaxSubscriberCount(settings.maxSubscriberCount)
    .setParkedMessageCount(String(group.parked.count));
}

function connectionOf(client: GroupClient, measured: boolean): Connection {
  const { peer, inFlight, slots, totalItems } = client;
  return new persistent.SubscriptionInfo.ConnectionInfo()
    .setFrom(peer.from)
    .setUsername(peer.username)
    .setConnectionName(peer.connectionName)
    .setAverageItemsPerSecond(perSecond(totalItems, client.connectedAt))
    .setTotalItems(String(totalItems))
    .setCountSinceLastMeasurement(String(totalItems))
    .setAvailableSlots(slots - inFlight.size)
    .setInFlightMessages(inFlight.size)
    .setObservedMeasurementsList(measured ? measurements(client.measured) : []);
}

const QUANTILES: readonly (readonly [string, number])[] = [
  ['Fastest', 0],
  ['Quintile 1', 0.2],
  ['Quintile 2', 0.4],
  ['Quintile 3', 0.6],
  ['Quintile 4', 0.8],
  ['Quintile 5', 1],
  ['Median', 0.5],
  ['90%', 0.9],
  ['95%', 0.95],
  ['99%', 0.99],
  ['99.5%', 0.995],
  ['99.9%', 0.999],
  ['Highest', 1],
];

/** Of the milliseconds from delivery to acknowledgement. */
function measurements(values: readonly number[]): Measurement[] {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (quantile: number): number =>
    sorted[Math.min(sorted.length - 1, Math.floor(quantile * sorted.length))] ?? 0;
  const mean = sorted.reduce((sum, value) => sum + value, 0) / Math.max(1, sorted.length);
  const named: (readonly [string, number])[] = [
    ['Mean', mean],
    ...QUANTILES.map(([name, quantile]) => [name, at(quantile)] as const),
  ];
  return named.map(([key, value]) =>
    new persistent.SubscriptionInfo.Measurement().setKey(key).setValue(String(Math.round(value))),
  );
}
